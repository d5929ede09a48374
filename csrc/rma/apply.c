/* SPDX-License-Identifier: MIT */
/*
 * What operations do to a target's memory. Data come and go packed: streams in
 * the order of the type map, without gaps.
 */
#include "rma/inside.h"

#include <string.h>
#include <unistd.h>

#define PIECE 2048 /* bytes that lie on the stack at a time */

/* ------------------------------------------------------------------- mutex */

/* Held for as long as one accumulate takes. Who holds it may be killed: then
 * the job is about to end, and what he left half done matters no more. */
void tb_rma_mutex_lock(struct tb_rma_mutex *m)
{
    uint32_t self = (uint32_t)getpid(), owner = 0;
    if (!m)
        return;
    /* Acquires what the last owner has written. */
    for (unsigned tries = 1; !atomic_compare_exchange_weak_explicit(
             &m->owner, &owner, self, memory_order_acquire,
             memory_order_relaxed);
         tries++) {
        if (tries % 64)
            tb_relax();
        else
            tb_yield();
        if (tries % 65536 || !tb_process_gone(owner))
            owner = 0;
    }
}

void tb_rma_mutex_unlock(struct tb_rma_mutex *m)
{
    if (m)
        atomic_store_explicit(&m->owner, 0, memory_order_release);
}

/* ----------------------------------------------------------------- copying */

void tb_rma_store(const struct tb_rma_place *p, const void *in, int64_t bytes)
{
    if (tb_layout_is_run(p->layout, p->count))
        memcpy(tb_layout_at(p->layout, p->at), in, (size_t)bytes);
    else
        tb_layout_unpack(p->layout, p->at, 0, in, bytes);
}

void tb_rma_load(const struct tb_rma_place *p, void *out, int64_t bytes)
{
    if (tb_layout_is_run(p->layout, p->count))
        memcpy(out, tb_layout_at(p->layout, p->at), (size_t)bytes);
    else
        tb_layout_pack(p->layout, p->at, 0, out, bytes);
}

void tb_rma_copy(const struct tb_rma_place *from, const struct tb_rma_place *to,
                 int64_t bytes)
{
    char piece[PIECE];
    if (tb_layout_is_run(to->layout, to->count)) {
        tb_rma_load(from, tb_layout_at(to->layout, to->at), bytes);
        return;
    }
    if (tb_layout_is_run(from->layout, from->count)) {
        tb_rma_store(to, tb_layout_at(from->layout, from->at), bytes);
        return;
    }
    for (int64_t at = 0; at < bytes;) {
        int64_t n = TB_MIN(bytes - at, PIECE);
        tb_layout_pack(from->layout, from->at, at, piece, n);
        tb_layout_unpack(to->layout, to->at, at, piece, n);
        at += n;
    }
}

/* --------------------------------------------------------------- reductions */

/* A few elements at a time. Pairs have gaps in memory and none in the stream:
 * they are spread out for the reduction. */
static void reduce_pieces(const struct tb_rma_place *p, struct tb_type *type,
                          struct tb_op *op, const char *in, int64_t bytes)
{
    const struct tb_layout *l = type->layout;
    _Alignas(16) char packed[PIECE], spread[PIECE], values[PIECE];
    int64_t most = PIECE / TB_MAX(l->extent, l->size);
    bool gaps = l->size != l->extent;

    for (int64_t at = 0; at < bytes;) {
        int64_t n = TB_MIN(most, (bytes - at) / l->size);
        int64_t size = n * l->size;
        if (n == 0)
            return;
        tb_layout_pack(p->layout, p->at, at, packed, size);
        if (gaps) {
            tb_layout_unpack(l, spread, 0, packed, size);
            tb_layout_unpack(l, values, 0, in + at, size);
            tb_op_apply(op, values, spread, n, type);
            tb_layout_pack(l, spread, 0, packed, size);
        } else {
            tb_op_apply(op, in + at, packed, n, type);
        }
        tb_layout_unpack(p->layout, p->at, at, packed, size);
        at += size;
    }
}

static void reduce(const struct tb_rma_place *p, struct tb_type *type,
                   struct tb_op *op, const void *in, int64_t bytes)
{
    if (op->which == (int)(uintptr_t)MPI_NO_OP)
        return;
    if (op->which == (int)(uintptr_t)MPI_REPLACE)
        tb_rma_store(p, in, bytes);
    else if (type->layout->dense && tb_layout_is_run(p->layout, p->count))
        tb_op_apply(op, in, tb_layout_at(p->layout, p->at),
                    bytes / type->layout->size, type);
    else
        reduce_pieces(p, type, op, in, bytes);
}

void tb_rma_accumulate(const struct tb_rma_place *p, struct tb_type *type,
                       struct tb_op *op, const void *in, void *old,
                       int64_t bytes)
{
    tb_rma_mutex_lock(p->mutex);
    if (old)
        tb_rma_load(p, old, bytes);
    reduce(p, type, op, in, bytes);
    tb_rma_mutex_unlock(p->mutex);
}

void tb_rma_swap(const struct tb_rma_place *p, const void *value,
                 const void *compare, void *old, int64_t bytes)
{
    tb_rma_mutex_lock(p->mutex);
    tb_rma_load(p, old, bytes);
    if (!memcmp(old, compare, (size_t)bytes))
        tb_rma_store(p, value, bytes);
    tb_rma_mutex_unlock(p->mutex);
}
