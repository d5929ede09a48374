/* SPDX-License-Identifier: MIT */
#include "coll/direct.h"

#include <string.h>

#include "mpi/world.h"

/* Looks before the general way of waiting, where every rank has a processor. */
#define SPINS 200

#define WHAT_SHIFT 56 /* bytes below, kind above */

enum stage { BEGIN, LOOK, END };

/* ------------------------------------------------- who posts what for whom */

static bool roots_alone_post(const struct tb_call *c)
{
    return c->kind == TB_COLL_BCAST || c->kind == TB_COLL_SCATTER;
}

static bool roots_alone_look(const struct tb_call *c)
{
    return c->kind == TB_COLL_GATHER || c->kind == TB_COLL_REDUCE;
}

bool tb_direct_posts(const struct tb_call *c)
{
    bool is_root = c->root == c->comm->rank;
    return !(roots_alone_post(c) ? !is_root : roots_alone_look(c) && is_root);
}

uint64_t tb_direct_sources(const struct tb_call *c)
{
    uint64_t me = (uint64_t)1 << c->comm->rank;
    uint64_t all = (me << 1) - 1;
    if (c->kind != TB_COLL_SCAN && c->kind != TB_COLL_EXSCAN)
        all = c->comm->size < 64 ? ((uint64_t)1 << c->comm->size) - 1 : ~0ull;
    if (roots_alone_post(c))
        all = (uint64_t)1 << c->root;
    else if (roots_alone_look(c) && c->root != c->comm->rank)
        all = 0;
    return all & ~me;
}

static bool has_plain_elements(const struct tb_layout *l)
{
    return l->dense && l->size == l->extent;
}

static int64_t bytes_of(const struct tb_blocks *b)
{
    return b->layout ? b->count * b->layout->size : 0;
}

int64_t tb_direct_bytes(const struct tb_call *c)
{
    bool is_root = c->root == c->comm->rank;
    switch (c->kind) {
    case TB_COLL_BARRIER:
        return 0;
    case TB_COLL_BCAST:
    case TB_COLL_ALLGATHER:
        return bytes_of(&c->recv);
    case TB_COLL_ALLTOALL:
        return bytes_of(&c->recv) * c->comm->size;
    case TB_COLL_GATHER:
        return bytes_of(is_root ? &c->recv : &c->send);
    case TB_COLL_SCATTER:
        return bytes_of(is_root ? &c->send : &c->recv) * c->comm->size;
    case TB_COLL_REDUCE:
    case TB_COLL_ALLREDUCE:
    case TB_COLL_SCAN:
    case TB_COLL_EXSCAN:
        return has_plain_elements(c->type->layout) ? bytes_of(&c->recv) : -1;
    default:
        return -1;
    }
}

void tb_direct_mismatch(struct tb_direct *d, int i, uint64_t what)
{
    uint64_t bytes = what & (((uint64_t)1 << WHAT_SHIFT) - 1);
    int kind = (int)(what >> WHAT_SHIFT) - 1;
    if (d->err)
        return;
    if (kind == (int)d->call->kind)
        d->err = tb_fail(
            what > d->what ? TB_ERR_TRUNCATE : TB_ERR_NOT_SAME,
            "rank %d gave %llu bytes where %llu are expected: counts and "
            "datatypes must agree between ranks",
            i, (unsigned long long)bytes,
            (unsigned long long)d->bytes);
    else
        d->err = tb_fail(TB_ERR_NOT_SAME,
                         "rank %d is in %s meanwhile: all ranks must call the "
                         "same collective operations in the same order",
                         i, tb_coll_name((enum tb_coll_kind)kind));
}

/* ----------------------------------------------------------------- by slots */

static void pack(struct tb_part from, void *to)
{
    tb_layout_pack(from.layout, from.buf, 0, to, tb_part_bytes(from));
}

static void unpack(const void *from, struct tb_part to)
{
    tb_layout_unpack(to.layout, to.buf, 0, from, tb_part_bytes(to));
}

/* Writes what this rank posts. */
static void fill(const struct tb_call *c, void *block)
{
    int n = c->comm->size;
    switch (c->kind) {
    case TB_COLL_BARRIER:
        break;
    case TB_COLL_BCAST:
        pack(tb_block(&c->recv, 0), block);
        break;
    case TB_COLL_ALLGATHER:
        pack(c->in_place ? tb_block(&c->recv, c->comm->rank)
                         : tb_block(&c->send, 0),
             block);
        break;
    case TB_COLL_ALLTOALL:
        pack(tb_block_range(c->in_place ? &c->recv : &c->send, 0, n), block);
        break;
    case TB_COLL_SCATTER:
        pack(tb_block_range(&c->send, 0, n), block);
        break;
    default:
        pack(tb_block(&c->send, 0), block);
    }
}

/* Copies what rank i has posted for this one. */
static void take(const struct tb_call *c, int i, const void *block)
{
    int rank = c->comm->rank;
    if (c->kind == TB_COLL_BARRIER)
        return;
    struct tb_part to = tb_block(
        &c->recv, c->kind == TB_COLL_BCAST || c->kind == TB_COLL_SCATTER ? 0
                                                                         : i);
    if (c->kind == TB_COLL_ALLTOALL || c->kind == TB_COLL_SCATTER)
        block = (const char *)block + rank * tb_part_bytes(to);
    unpack(block, to);
}

tb_err tb_direct_copy_own(const struct tb_call *c)
{
    int rank = c->comm->rank;
    bool is_root = rank == c->root;
    if (c->in_place)
        return TB_OK;
    if (c->kind == TB_COLL_ALLGATHER || (c->kind == TB_COLL_GATHER && is_root))
        return tb_part_copy(tb_block(&c->send, 0), tb_block(&c->recv, rank));
    if (c->kind == TB_COLL_ALLTOALL)
        return tb_part_copy(tb_block(&c->send, rank),
                            tb_block(&c->recv, rank));
    if (c->kind == TB_COLL_SCATTER && is_root)
        return tb_part_copy(tb_block(&c->send, rank), tb_block(&c->recv, 0));
    return TB_OK;
}

/* The address by which elements at `data` go as a buffer. */
static void *as_buffer(const struct tb_call *c, const void *data)
{
    return tb_at(data, -c->type->layout->first);
}

/* Rank i's contribution. This rank's own is at hand, unless the result takes
 * its place. */
static const void *contribution(struct tb_direct *d, int i)
{
    const struct tb_call *c = d->call;
    uint64_t what = 0;
    if (i == d->lane->rank && !(c->in_place && tb_direct_posts(c)))
        return c->send.base;
    const void *data = tb_lane_look(d->lane, i, d->turn,
                                    (size_t)d->bytes, &what);
    if (TB_UNLIKELY(what != d->what))
        tb_direct_mismatch(d, i, what);
    return as_buffer(c, data);
}

/* Combines the contributions of ranks 0 to `last`, from the last one down: that
 * keeps their order, and gives all ranks the same bits. */
static void reduce_to(struct tb_direct *d, int last)
{
    const struct tb_call *c = d->call;
    int64_t count = c->recv.count;
    bool own_there = c->in_place && !tb_direct_posts(c);
    void *out = c->recv.base;
    const void *from = contribution(d, last);
    if (own_there && last != d->lane->rank) {
        /* Reduce in place at the root: its contribution is in the way. */
        d->scratch[0] = tb_scratch_get((size_t)bytes_of(&c->recv));
        if (!d->scratch[0]) {
            d->err = tb_fail(TB_ERR_NO_MEM, "no memory for a reduction");
            return;
        }
        memcpy(d->scratch[0]->data, tb_layout_at(c->type->layout, out),
               (size_t)bytes_of(&c->recv));
    }
    if (from != out && !d->err)
        memcpy(tb_layout_at(c->type->layout, out),
               tb_layout_at(c->type->layout, from),
               (size_t)bytes_of(&c->recv));
    for (int i = last - 1; i >= 0 && !d->err; i--) {
        const void *in = contribution(d, i);
        if (own_there && i == d->lane->rank)
            in = as_buffer(c, d->scratch[0]->data);
        if (!d->err)
            tb_op_apply(c->op, in, out, count, c->type);
    }
}

static bool is_reduction(const struct tb_call *c)
{
    return c->kind >= TB_COLL_REDUCE;
}

static void reduce(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    int rank = d->lane->rank;
    if (c->recv.count == 0)
        return;
    if (c->kind == TB_COLL_ALLREDUCE ||
        (c->kind == TB_COLL_REDUCE && rank == c->root))
        reduce_to(d, d->lane->n - 1);
    else if (c->kind == TB_COLL_SCAN)
        reduce_to(d, rank);
    else if (c->kind == TB_COLL_EXSCAN && rank > 0)
        reduce_to(d, rank - 1);
}

static bool begin_slots(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    size_t bytes = (size_t)d->bytes;
    if (tb_direct_posts(c)) {
        void *block = tb_lane_block(d->lane, d->turn, bytes);
        if (!block)
            return false;
        if (bytes)
            fill(c, block);
        tb_lane_post(d->lane, d->turn, d->what, bytes);
    }
    if (!is_reduction(c))
        d->err = tb_direct_copy_own(c);
    d->pending = tb_direct_sources(c);
    return true;
}

/* Looks for posts, and takes them as they come; those that are combined wait
 * for each other, since their order counts. */
static bool look_at_slots(struct tb_direct *d)
{
    const struct tb_call *c = d->call;
    size_t bytes = (size_t)d->bytes;
    uint64_t what;
    for (uint64_t left = d->pending; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const void *block =
            tb_lane_look(d->lane, i, d->turn, bytes, &what);
        if (!block)
            continue;
        d->pending &= ~((uint64_t)1 << i);
        if (TB_UNLIKELY(what != d->what))
            tb_direct_mismatch(d, i, what);
        else if (!is_reduction(c))
            take(c, i, block);
    }
    return !d->pending;
}

static bool advance_slots(struct tb_direct *d)
{
    if (d->stage == BEGIN) {
        if (!begin_slots(d))
            return false;
        d->stage = LOOK;
    }
    if (!look_at_slots(d))
        return false;
    if (is_reduction(d->call))
        reduce(d);
    tb_lane_finish(d->lane, d->turn);
    return true;
}

/* ------------------------------------------------------------------ running */

void tb_direct_init(struct tb_direct *d, const struct tb_call *call,
                    enum tb_direct_how how)
{
    struct tb_lane *lane = tb_lane_of(call->comm);
    d->call = call;
    d->lane = lane;
    d->turn = lane->next;
    d->bytes = tb_direct_bytes(call);
    d->what = (uint64_t)(call->kind + 1) << WHAT_SHIFT | (uint64_t)d->bytes;
    d->how = (uint8_t)how;
    d->stage = BEGIN;
    d->done = false;
    d->err = TB_OK;
    d->scratch[0] = d->scratch[1] = NULL;
    d->on_done = NULL;
    lane->next += how == TB_DIRECT_PULL && is_reduction(call) ? 2 : 1;
}

bool tb_direct_advance(struct tb_direct *d)
{
    if (d->stage == BEGIN && d->lane->finished != d->turn - 1)
        return false; /* an earlier one of this rank is still under way */
    d->done = d->how == TB_DIRECT_SLOTS ? advance_slots(d) : tb_pull_advance(d);
    for (int i = 0; d->done && i < 2; i++)
        if (d->scratch[i])
            tb_scratch_put(d->scratch[i]);
    return d->done;
}

static bool on_watch(struct tb_watch *w)
{
    struct tb_direct *d = TB_CONTAINER(w, struct tb_direct, watch);
    if (!tb_direct_advance(d))
        return false;
    if (d->on_done)
        d->on_done(d);
    return true;
}

void tb_direct_watch(struct tb_direct *d)
{
    d->watch.poll = on_watch;
    tb_engine_watch(tb_world.engine, &d->watch);
}

static bool is_done(void *arg)
{
    return ((const struct tb_direct *)arg)->done;
}

/* Whether it ended while looking. */
static bool spin(struct tb_direct *d)
{
    if (tb_world.threaded || tb_net_crowded(tb_engine_net(tb_world.engine)))
        return false;
    for (int i = 0; i < SPINS; i++) {
        tb_relax();
        if (tb_direct_advance(d))
            return true;
    }
    return false;
}

tb_err tb_direct_run(struct tb_direct *d)
{
    if (tb_direct_advance(d) || spin(d))
        return d->err;
    tb_direct_watch(d);
    tb_err err = tb_engine_wait_until(tb_world.engine, is_done, d);
    if (!d->done)
        tb_list_remove(&d->watch.link);
    return err ? err : d->err;
}
