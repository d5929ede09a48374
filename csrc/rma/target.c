/* SPDX-License-Identifier: MIT */
/*
 * Serving: what others ask of this process's memory. Nothing that they say is
 * believed before it was checked.
 */
#include "rma/inside.h"

#include <string.h>

/* -------------------------------------------------------------- completion */

/* When nothing of an origin's is on its way any more: what waited for that. */
static void settle(struct tb_rma *r, int origin)
{
    struct tb_rma_origin *o = &r->origins[origin];
    if (o->open)
        return;
    r->completed += o->completes;
    o->completes = 0;
    if (o->unlocks) {
        o->unlocks = false;
        tb_rma_lock_give_back(r, origin);
    }
    for (; o->dones; o->dones--) {
        tb_err err = tb_rma_answer(r, origin, TB_RMA_DONE, o->err);
        o->err = TB_OK;
        if (err)
            tb_engine_fail(r->engine, err);
    }
}

/* The request that held up the others has been carried out. */
static void go_on(struct tb_rma *r, int origin)
{
    r->origins[origin].busy = false;
    tb_rma_wake(r);
}

static void note_error(struct tb_rma_origin *o, tb_err err)
{
    if (err && !o->err)
        o->err = err;
}

static void closed(struct tb_rma_transfer *t)
{
    struct tb_rma_origin *o = &t->rma->origins[t->peer];
    note_error(o, t->err);
    o->open--;
    settle(t->rma, t->peer);
}

/* A transfer that the origin's requests to finish wait for; NULL: no memory,
 * and the job cannot go on. */
static struct tb_rma_transfer *open_transfer(struct tb_rma *r, int origin,
                                             int64_t room)
{
    struct tb_rma_transfer *t = tb_rma_transfer_new(r, origin, room);
    if (!t) {
        tb_engine_fail(r->engine, TB_ERR_NO_MEM);
        return NULL;
    }
    t->done = closed;
    r->origins[origin].open++;
    return t;
}

/* ------------------------------------------------------------------ places */

/* A request with what belongs to it, found sound. */
struct order {
    struct tb_rma *rma;
    int origin;
    struct tb_rma_head head;
    struct tb_rma_place place;
    struct tb_type *type;
    struct tb_op *op;
    const char *data; /* behind the groups */
    int64_t data_bytes;
};

/* What comes to a target does not overlap there, so that it is no longer than
 * the memory it is for; and all that is there is wanted, or nothing. */
static bool has_right_length(const struct order *w)
{
    const struct tb_rma_place *p = &w->place;
    int64_t bytes = w->head.bytes, stream, low, high;
    if (bytes < 1 || p->count < 1 ||
        __builtin_mul_overflow(p->count, p->layout->size, &stream) ||
        !tb_rma_reach(p->layout, p->count, &low, &high))
        return false;
    if (w->head.kind == TB_RMA_GET)
        return bytes == stream;
    return bytes <= stream && bytes <= high - low;
}

static tb_err find_place(struct order *w, const struct tb_rma_group *groups)
{
    const struct tb_rma_head *h = &w->head;
    w->place.layout = &tb_layout_byte;
    if (h->groups)
        TB_TRY(tb_rma_layout(groups, h->groups, h->extent, &w->place.layout));
    w->place.count = h->groups ? h->count : h->bytes;
    w->place.mutex = w->rma->targets[w->rma->rank].mutex;
    if (!has_right_length(w))
        return tb_fail(TB_ERR_RMA_RANGE, "the operation is longer than the "
                                         "memory that it describes");
    return tb_rma_locate(w->rma, h->at, w->place.layout, w->place.count,
                         &w->place.at);
}

/* The type and the operation of an accumulate; the table knows both. */
static tb_err find_op(struct order *w)
{
    const struct tb_rma_head *h = &w->head;
    w->type = h->type < TB_HANDLE_PREDEFINED
                  ? tb_handle_find(h->type, TB_KIND_TYPE)
                  : NULL;
    w->op =
        h->op < TB_HANDLE_PREDEFINED ? tb_handle_find(h->op, TB_KIND_OP) : NULL;
    if (!w->type || w->type->layout->size < 1 ||
        h->bytes % w->type->layout->size)
        return tb_fail(TB_ERR_PROTOCOL, "a request names no datatype");
    if (h->kind == TB_RMA_SWAP)
        return TB_OK;
    if (!w->op)
        return tb_fail(TB_ERR_PROTOCOL, "a request names no operation");
    if (w->op->which == (int)(uintptr_t)MPI_REPLACE ||
        w->op->which == (int)(uintptr_t)MPI_NO_OP)
        return TB_OK;
    return tb_op_check(w->op, w->type);
}

/* ------------------------------------------------------------- data coming */

static void put(struct order *w)
{
    struct tb_rma_transfer *t;
    if (!(w->head.flags & TB_RMA_SEPARATE)) {
        tb_rma_store(&w->place, w->data, w->head.bytes);
        return;
    }
    t = open_transfer(w->rma, w->origin, 0);
    if (!t)
        return;
    t->layout = tb_layout_ref(w->place.layout);
    tb_rma_transfer_recv(t, w->place.at, t->layout, w->place.count,
                         tb_rma_data_tag(w->head.number, false));
}

/* Data for memory that this process does not have: received and dropped. */
static void turn_away(struct tb_rma *r, int origin, const struct tb_rma_head *h,
                      tb_err err)
{
    struct tb_rma_transfer *t;
    bool coming = h->flags & TB_RMA_SEPARATE;
    bool going = h->kind == TB_RMA_GET || h->kind == TB_RMA_SWAP ||
                 h->flags & TB_RMA_FETCH;
    note_error(&r->origins[origin], err);
    if (coming && (t = open_transfer(r, origin, 0)))
        tb_rma_transfer_recv(t, NULL, &tb_layout_byte, 0,
                             tb_rma_data_tag(h->number, false));
    if (going && (t = open_transfer(r, origin, 0)))
        tb_rma_transfer_send(t, NULL, &tb_layout_byte, 0,
                             tb_rma_data_tag(h->number, true));
}

/* -------------------------------------------------------------- data going */

static void get(struct order *w)
{
    struct tb_rma_transfer *t = open_transfer(w->rma, w->origin, 0);
    if (!t)
        return;
    t->layout = tb_layout_ref(w->place.layout);
    tb_rma_transfer_send(t, w->place.at, t->layout, w->place.count,
                         tb_rma_data_tag(w->head.number, true));
}

/* ------------------------------------------------------------- accumulates */

static void accumulate(struct order *w, const void *in)
{
    const struct tb_rma_head *h = &w->head;
    struct tb_rma_transfer *t;
    if (!(h->flags & TB_RMA_FETCH)) {
        tb_rma_accumulate(&w->place, w->type, w->op, in, NULL, h->bytes);
        return;
    }
    t = open_transfer(w->rma, w->origin, h->bytes);
    if (!t)
        return;
    tb_rma_accumulate(&w->place, w->type, w->op, in, t->room, h->bytes);
    tb_rma_transfer_send(t, t->room, &tb_layout_byte, h->bytes,
                         tb_rma_data_tag(h->number, true));
}

static void swap(struct order *w)
{
    const struct tb_rma_head *h = &w->head;
    struct tb_rma_transfer *t = open_transfer(w->rma, w->origin, h->bytes);
    if (!t)
        return;
    tb_rma_swap(&w->place, w->data, w->data + h->bytes, t->room, h->bytes);
    tb_rma_transfer_send(t, t->room, &tb_layout_byte, h->bytes,
                         tb_rma_data_tag(h->number, true));
}

/* The data of a long accumulate are here; its order is in t->more. */
static void apply_long(struct tb_rma_transfer *t)
{
    struct order *w = t->more;
    if (t->err)
        note_error(&t->rma->origins[t->peer], t->err);
    else
        accumulate(w, t->room);
    closed(t);
    go_on(t->rma, t->peer);
}

/* Those of this origin that follow wait, since they might be accumulates. */
static void accumulate_long(const struct order *w)
{
    const struct tb_rma_head *h = &w->head;
    struct order *kept = tb_alloc(sizeof *kept);
    struct tb_rma_transfer *t = open_transfer(w->rma, w->origin, h->bytes);
    if (!t || !kept) {
        tb_free(kept);
        tb_engine_fail(w->rma->engine, TB_ERR_NO_MEM);
        return;
    }
    *kept = *w;
    t->more = kept;
    t->done = apply_long;
    t->layout = tb_layout_ref(w->place.layout);
    t->bytes = h->bytes;
    w->rma->origins[w->origin].busy = true;
    tb_rma_transfer_recv(t, t->room, &tb_layout_byte, h->bytes,
                         tb_rma_data_tag(h->number, false));
}

/* ----------------------------------------------------------------- requests */

/* Whether the data that the request says it carries are there. */
static bool is_whole(const struct order *w)
{
    const struct tb_rma_head *h = &w->head;
    switch (h->kind) {
    case TB_RMA_PUT:
        return h->flags & TB_RMA_SEPARATE || w->data_bytes == h->bytes;
    case TB_RMA_ACC:
        return h->flags & TB_RMA_SEPARATE || w->data_bytes == h->bytes ||
               (w->op && w->op->which == (int)(uintptr_t)MPI_NO_OP);
    case TB_RMA_SWAP:
        return w->data_bytes == 2 * h->bytes;
    default:
        return true;
    }
}

static tb_err find_all(struct order *w, const struct tb_rma_group *groups)
{
    TB_TRY(find_place(w, groups));
    if (w->head.kind == TB_RMA_ACC || w->head.kind == TB_RMA_SWAP)
        TB_TRY(find_op(w));
    if (!is_whole(w))
        return tb_fail(TB_ERR_PROTOCOL, "a request lacks its data");
    return TB_OK;
}

static void access(struct order *w, const struct tb_rma_group *groups)
{
    tb_err err = find_all(w, groups);
    if (err)
        turn_away(w->rma, w->origin, &w->head, err);
    else if (w->head.kind == TB_RMA_PUT)
        put(w);
    else if (w->head.kind == TB_RMA_GET)
        get(w);
    else if (w->head.kind == TB_RMA_SWAP)
        swap(w);
    else if (w->head.flags & TB_RMA_SEPARATE)
        accumulate_long(w);
    else
        accumulate(w, w->data);
    if (w->place.layout)
        tb_layout_unref(w->place.layout);
}

static void synchronise(struct tb_rma *r, int origin,
                        const struct tb_rma_head *h)
{
    struct tb_rma_origin *o = &r->origins[origin];
    if (h->kind == TB_RMA_LOCK) {
        if (o->has != TB_RMA_UNLOCKED || o->unlocks)
            tb_engine_fail(r->engine, TB_ERR_PROTOCOL);
        else
            tb_rma_lock_ask(r, origin, h->flags & TB_RMA_EXCLUSIVE,
                            h->flags & TB_RMA_TELL);
        return;
    }
    o->dones += h->kind == TB_RMA_UNLOCK || h->kind == TB_RMA_FLUSH;
    o->completes += h->kind == TB_RMA_COMPLETE;
    o->unlocks |= h->kind == TB_RMA_UNLOCK;
    settle(r, origin);
}

static void perform(struct tb_rma *r, int origin, const void *data,
                    int64_t bytes)
{
    struct order w = {.rma = r, .origin = origin};
    const char *behind = (const char *)data + sizeof w.head;
    int64_t rest = bytes - (int64_t)sizeof w.head;
    if (rest >= 0)
        memcpy(&w.head, data, sizeof w.head);
    if (rest < 0 || w.head.kind < TB_RMA_PUT || w.head.kind > TB_RMA_COMPLETE ||
        rest / (int64_t)sizeof(struct tb_rma_group) < w.head.groups) {
        tb_fail_say("rank %d sent a malformed request to a window", origin);
        tb_engine_fail(r->engine, TB_ERR_PROTOCOL);
        return;
    }
    if (w.head.kind >= TB_RMA_LOCK) {
        synchronise(r, origin, &w.head);
        return;
    }
    int64_t described = w.head.groups * (int64_t)sizeof(struct tb_rma_group);
    w.data = behind + described;
    w.data_bytes = rest - described;
    access(&w, (const struct tb_rma_group *)(const void *)behind);
}

/* ------------------------------------------------------------------ answers */

static void hear(struct tb_rma *r, int target, const void *data, int64_t bytes)
{
    struct tb_rma_target *t = &r->targets[target];
    struct tb_rma_answer a;
    if (bytes != sizeof a) {
        tb_fail_say("rank %d sent a malformed answer to a window", target);
        tb_engine_fail(r->engine, TB_ERR_PROTOCOL);
        return;
    }
    memcpy(&a, data, sizeof a);
    if (a.kind == TB_RMA_GRANTED) {
        t->granted = true;
    } else if (a.kind == TB_RMA_POSTED) {
        t->posts++;
    } else if (a.kind == TB_RMA_DONE) {
        t->answered++;
        if (a.err > 0 && a.err < TB_ERR_LIMIT && !t->err)
            t->err = a.err;
    }
}

/* ------------------------------------------------------------------ serving */

static bool on_message(struct tb_service *s, int source, int tag,
                       const void *data, int64_t bytes)
{
    struct tb_rma *r = TB_CONTAINER(s, struct tb_rma, service);
    const struct tb_rma_origin *o = &r->origins[source];
    if (tag == TB_RMA_ANSWER) {
        hear(r, source, data, bytes);
        return true;
    }
    if (o->busy || o->kept)
        return false;
    perform(r, source, data, bytes);
    return true;
}

static void on_fetched(struct tb_rma_transfer *t)
{
    struct tb_rma_origin *o = &t->rma->origins[t->peer];
    if (t->err) {
        tb_engine_fail(t->rma->engine, t->err);
        return;
    }
    o->busy = false;
    perform(t->rma, t->peer, t->room, t->bytes);
    if (!o->busy)
        tb_rma_wake(t->rma);
}

static void on_fetched_answer(struct tb_rma_transfer *t)
{
    if (!t->err)
        hear(t->rma, t->peer, t->room, t->bytes);
}

/* A request, or an answer, that did not come with its envelope. */
static void fetch(struct tb_rma *r, int source, struct tb_arrival *a,
                  int64_t bytes, int tag)
{
    struct tb_rma_transfer *t = NULL;
    if (bytes <= TB_RMA_REQUEST_MOST)
        t = tb_rma_transfer_new(r, source, bytes);
    if (!t) {
        tb_fail_say("rank %d sent a request of %lld bytes to a window", source,
                    (long long)bytes);
        tb_engine_fail(r->engine, TB_ERR_NO_MEM);
        return;
    }
    t->done = tag == TB_RMA_ANSWER ? on_fetched_answer : on_fetched;
    t->bytes = bytes;
    tb_rma_transfer_arrival(t, a);
}

/* What waited of one origin, until something holds it up. */
static void serve_kept(struct tb_rma *r, int source)
{
    struct tb_rma_origin *o = &r->origins[source];
    while (o->kept && !o->busy) {
        const void *data;
        int64_t bytes;
        struct tb_arrival *a =
            tb_context_take(r->ops, source, TB_RMA_REQUEST, &data, &bytes);
        o->kept--;
        if (!a)
            continue;
        if (!data) {
            o->busy = true;
            fetch(r, source, a, bytes, TB_RMA_REQUEST);
            continue;
        }
        perform(r, source, data, bytes);
        tb_arrival_drop(r->engine, a);
    }
}

static void run(struct tb_task *task)
{
    struct tb_rma *r = TB_CONTAINER(task, struct tb_rma, serving);
    for (int i = 0; i < r->n; i++)
        serve_kept(r, i);
}

void tb_rma_wake(struct tb_rma *r)
{
    tb_engine_post(r->engine, &r->serving);
}

static void on_kept(struct tb_service *s, int source, int tag)
{
    struct tb_rma *r = TB_CONTAINER(s, struct tb_rma, service);
    if (tag == TB_RMA_ANSWER) {
        const void *data;
        int64_t bytes;
        struct tb_arrival *a =
            tb_context_take(r->ops, source, tag, &data, &bytes);
        if (a)
            fetch(r, source, a, bytes, tag);
        return;
    }
    r->origins[source].kept++;
    if (!r->origins[source].busy)
        tb_rma_wake(r);
}

void tb_rma_serve(struct tb_rma *r)
{
    r->service.message = on_message;
    r->service.kept = on_kept;
    r->serving.run = run;
    tb_context_serve(r->ops, &r->service);
}
