/* SPDX-License-Identifier: MIT */
/*
 * Starting operations: on memory that is mapped here at once, on other memory
 * by a request to the target.
 */
#include "rma/inside.h"

#include <string.h>

#include "mpi/request.h"

/* --------------------------------------------------------------- transfers */

struct tb_rma_transfer *tb_rma_transfer_new(struct tb_rma *r, int peer,
                                            int64_t room)
{
    struct tb_rma_transfer *t = tb_alloc(sizeof *t + (size_t)room);
    if (!t) {
        tb_fail_say("no memory for %lld bytes of a window's traffic",
                    (long long)room);
        return NULL;
    }
    memset(t, 0, sizeof *t);
    t->rma = r;
    t->peer = peer;
    return t;
}

static void finish(struct tb_rma_transfer *t)
{
    t->done(t);
    tb_layout_unref(t->layout);
    tb_free(t->more);
    tb_free(t);
}

static void on_done(struct tb_req *req)
{
    struct tb_rma_transfer *t = req->owner;
    t->err = req->result.err;
    if (req->kind == TB_REQ_RECV && !t->err && req->result.bytes < t->bytes)
        t->err = TB_ERR_RMA_RANGE;
    req->on_done = NULL;
    tb_req_free(req);
    finish(t);
}

static void follow(struct tb_rma_transfer *t, struct tb_req *req, tb_err err)
{
    if (err || !req) {
        t->err = err;
        finish(t);
        return;
    }
    req->owner = t;
    if (req->done)
        on_done(req);
    else
        req->on_done = on_done;
}

static void send_on(struct tb_rma_transfer *t, struct tb_context *context,
                    const void *buf, struct tb_layout *layout, int64_t count,
                    int tag)
{
    struct tb_send_args args = {.context = context,
                                .buf = buf,
                                .layout = layout,
                                .count = count,
                                .dest = t->peer,
                                .source = t->rma->rank,
                                .tag = tag};
    struct tb_req *req = NULL;
    tb_err err = tb_engine_send(t->rma->engine, &args, true, &req);
    follow(t, req, err);
}

void tb_rma_transfer_send(struct tb_rma_transfer *t, const void *buf,
                          struct tb_layout *layout, int64_t count, int tag)
{
    send_on(t, t->rma->comm->p2p, buf, layout, count, tag);
}

void tb_rma_transfer_recv(struct tb_rma_transfer *t, void *buf,
                          struct tb_layout *layout, int64_t count, int tag)
{
    struct tb_recv_args args = {.context = t->rma->comm->p2p,
                                .buf = buf,
                                .layout = layout,
                                .count = count,
                                .source = t->peer,
                                .tag = tag};
    struct tb_req *req = NULL;
    tb_err err = tb_engine_recv(t->rma->engine, &args, &req);
    follow(t, req, err);
}

void tb_rma_transfer_arrival(struct tb_rma_transfer *t, struct tb_arrival *a)
{
    struct tb_req *req = NULL;
    tb_err err = tb_engine_recv_arrival(t->rma->engine, a, t->room,
                                        &tb_layout_byte, t->bytes, &req);
    follow(t, req, err);
}

/* What cannot be sent any more has no receiver: waits fail for that reason. */
static void sent(struct tb_rma_transfer *t)
{
    (void)t;
}

/* A message of synchronisation, which nobody here waits for. */
static tb_err tell(struct tb_rma *r, int dest, const void *what, size_t bytes,
                   enum tb_rma_tag tag)
{
    struct tb_rma_transfer *t = tb_rma_transfer_new(r, dest, (int64_t)bytes);
    if (!t)
        return TB_ERR_NO_MEM;
    memcpy(t->room, what, bytes);
    t->done = sent;
    send_on(t, r->ops, t->room, &tb_layout_byte, (int64_t)bytes, tag);
    return TB_OK;
}

tb_err tb_rma_answer(struct tb_rma *r, int dest, enum tb_rma_answer_kind kind,
                     tb_err why)
{
    const struct tb_rma_answer a = {.kind = kind, .err = why};
    return tell(r, dest, &a, sizeof a, TB_RMA_ANSWER);
}

tb_err tb_rma_say(struct tb_rma *r, int target, enum tb_rma_kind kind,
                  unsigned flags)
{
    const struct tb_rma_head h = {.kind = (uint8_t)kind,
                                  .flags = (uint8_t)flags};
    return tell(r, target, &h, sizeof h, TB_RMA_REQUEST);
}

/* ------------------------------------------------------------- measurements */

/* What has been found out about a call. */
struct plan {
    struct tb_rma_call *call;
    struct tb_rma_target *target;
    int64_t bytes;  /* of the stream */
    int64_t at;     /* as in struct tb_rma_head */
    bool no_origin; /* MPI_NO_OP: nothing goes there */
    struct tb_req *user;
};

static struct tb_rma_place place_of(const struct tb_rma_side *s)
{
    return (struct tb_rma_place){.at = (char *)(uintptr_t)s->buf,
                                 .layout = s->type->layout,
                                 .count = s->count};
}

static tb_err fits(const char *what, int64_t bytes, int64_t room)
{
    if (bytes <= room)
        return TB_OK;
    return tb_fail(TB_ERR_TRUNCATE, "%s has room for %lld bytes of %lld", what,
                   (long long)room, (long long)bytes);
}

/* How long the stream is, and whether all sides have room for it. */
static tb_err measure(struct plan *p)
{
    const struct tb_rma_call *c = p->call;
    int64_t here = 0, there, back;
    bool fetches = c->flags & TB_RMA_FETCH || c->kind == TB_RMA_SWAP;
    TB_TRY(tb_type_stream(c->type, c->count, &there));
    if (!p->no_origin)
        TB_TRY(tb_type_stream(c->origin.type, c->origin.count, &here));
    if (c->kind == TB_RMA_GET) {
        p->bytes = there;
        return fits("the origin buffer", there, here);
    }
    p->bytes = p->no_origin ? there : here;
    TB_TRY(fits("the target buffer", p->bytes, there));
    if (!fetches)
        return TB_OK;
    TB_TRY(tb_type_stream(c->result.type, c->result.count, &back));
    return fits("the result buffer", p->bytes, back);
}

static tb_err outside(const struct tb_rma_call *c, int64_t size)
{
    return tb_fail(TB_ERR_RMA_RANGE,
                   "displacement %lld with %lld elements is not within the "
                   "%lld bytes of rank %d's window",
                   (long long)c->disp, (long long)c->count, (long long)size,
                   c->rank);
}

/* Where the target's memory is. Of a dynamic window only the target knows
 * whether there is any. */
static tb_err locate(struct plan *p)
{
    const struct tb_rma_call *c = p->call;
    const struct tb_rma_target *t = p->target;
    bool dynamic = c->rma->memory.flavor == MPI_WIN_FLAVOR_DYNAMIC;
    int64_t low, high;
    if (!dynamic && c->disp < 0)
        return tb_fail(TB_ERR_DISP, "the target displacement is %lld",
                       (long long)c->disp);
    if (dynamic) {
        char *ignored;
        p->at = c->disp;
        return c->rank == c->rma->rank
                   ? tb_rma_locate(c->rma, p->at, c->type->layout, c->count,
                                   &ignored)
                   : TB_OK;
    }
    if (!tb_rma_reach(c->type->layout, c->count, &low, &high) ||
        __builtin_mul_overflow(c->disp, t->unit, &p->at) ||
        __builtin_add_overflow(p->at, low, &low) ||
        __builtin_add_overflow(p->at, high, &high) || low < 0 || high > t->size)
        return outside(c, t->size);
    return TB_OK;
}

/* ------------------------------------------------------------------ direct */

/* The side's data in one piece: in place, or in *made, which is to be freed. */
static tb_err gather(const struct tb_rma_side *s, int64_t bytes, void **made,
                     void **out)
{
    struct tb_rma_place place = place_of(s);
    *out = tb_layout_at(place.layout, place.at);
    if (tb_layout_is_run(place.layout, place.count))
        return TB_OK;
    *out = *made = tb_alloc((size_t)bytes);
    if (!*made)
        return tb_fail(TB_ERR_NO_MEM,
                       "no memory for %lld bytes of an "
                       "accumulate",
                       (long long)bytes);
    return TB_OK;
}

static tb_err accumulate_here(const struct plan *p,
                              const struct tb_rma_place *there)
{
    const struct tb_rma_call *c = p->call;
    struct tb_rma_place result, origin;
    void *made = NULL, *made_old = NULL, *in = NULL, *old = NULL;
    tb_err err = TB_OK;
    if (!p->no_origin)
        err = gather(&c->origin, p->bytes, &made, &in);
    if (!err && c->flags & TB_RMA_FETCH)
        err = gather(&c->result, p->bytes, &made_old, &old);
    if (!err && made) {
        origin = place_of(&c->origin);
        tb_rma_load(&origin, made, p->bytes);
    }
    if (!err)
        tb_rma_accumulate(there, c->element, c->op, in, old, p->bytes);
    if (!err && made_old) {
        result = place_of(&c->result);
        tb_rma_store(&result, made_old, p->bytes);
    }
    tb_free(made);
    tb_free(made_old);
    return err;
}

static tb_err run_here(const struct plan *p)
{
    const struct tb_rma_call *c = p->call;
    struct tb_rma_place origin,
        there = {
            .at = (char *)((uintptr_t)p->target->base + (uintptr_t)p->at),
            .layout = c->type->layout,
            .count = c->count,
            .mutex = p->target->mutex,
        };
    switch (c->kind) {
    case TB_RMA_PUT:
        origin = place_of(&c->origin);
        tb_rma_copy(&origin, &there, p->bytes);
        return TB_OK;
    case TB_RMA_GET:
        origin = place_of(&c->origin);
        tb_rma_copy(&there, &origin, p->bytes);
        return TB_OK;
    case TB_RMA_SWAP:
        tb_rma_swap(&there, c->origin.buf, c->compare,
                    (void *)(uintptr_t)c->result.buf, p->bytes);
        return TB_OK;
    default:
        return accumulate_here(p, &there);
    }
}

/* ---------------------------------------------------------------- requests */

static void arrived(struct tb_rma_transfer *t)
{
    struct tb_rma_target *target = &t->rma->targets[t->peer];
    target->pending--;
    if (t->err && !target->err)
        target->err = t->err;
    if (t->user)
        tb_req_finish(t->user, t->err);
}

static struct tb_rma_transfer *data_transfer(struct plan *p)
{
    struct tb_rma_transfer *t =
        tb_rma_transfer_new(p->call->rma, p->call->rank, 0);
    if (!t)
        return NULL;
    t->done = arrived;
    p->target->pending++;
    return t;
}

/* Where the answer goes; before it is asked for. */
static tb_err expect_data(struct plan *p, uint32_t number)
{
    const struct tb_rma_call *c = p->call;
    const struct tb_rma_side *s =
        c->kind == TB_RMA_GET ? &c->origin : &c->result;
    struct tb_rma_transfer *t = data_transfer(p);
    if (!t)
        return TB_ERR_NO_MEM;
    t->bytes = p->bytes;
    t->user = p->user;
    p->user = NULL;
    t->layout = tb_layout_ref(s->type->layout);
    tb_rma_transfer_recv(t, (void *)(uintptr_t)s->buf, t->layout, s->count,
                         tb_rma_data_tag(number, true));
    return TB_OK;
}

static tb_err send_data(struct plan *p, uint32_t number)
{
    const struct tb_rma_side *s = &p->call->origin;
    struct tb_rma_transfer *t = data_transfer(p);
    if (!t)
        return TB_ERR_NO_MEM;
    t->user = p->user;
    p->user = NULL;
    t->layout = tb_layout_ref(s->type->layout);
    tb_rma_transfer_send(t, s->buf, t->layout, s->count,
                         tb_rma_data_tag(number, false));
    return TB_OK;
}

static void fill_head(const struct plan *p, struct tb_rma_head *h)
{
    const struct tb_rma_call *c = p->call;
    h->kind = (uint8_t)c->kind;
    h->flags = (uint8_t)c->flags;
    h->number = p->target->number++;
    h->at = p->at;
    h->count = c->count;
    h->bytes = p->bytes;
    h->extent = c->type->layout->extent;
    if (c->element)
        h->type = (uint16_t)c->element->obj.handle;
    if (c->op)
        h->op = (uint16_t)c->op->obj.handle;
    if (tb_layout_is_run(c->type->layout, c->count))
        h->at += c->type->layout->first;
    else
        h->groups = (uint32_t)tb_rma_describe(c->type->layout, NULL, 0);
}

/* Bytes of data that go with the request. */
static int64_t inline_bytes(const struct plan *p)
{
    const struct tb_rma_call *c = p->call;
    if (c->kind == TB_RMA_SWAP)
        return 2 * p->bytes;
    if (c->kind == TB_RMA_GET || p->no_origin || p->bytes > TB_RMA_INLINE)
        return 0;
    return p->bytes;
}

static void fill_request(const struct plan *p, struct tb_rma_transfer *t,
                         const struct tb_rma_head *h, int64_t data)
{
    const struct tb_rma_call *c = p->call;
    struct tb_rma_place origin;
    char *at = (char *)t->room + sizeof *h;
    memcpy(t->room, h, sizeof *h);
    tb_rma_describe(c->type->layout, (struct tb_rma_group *)(void *)at,
                    h->groups);
    at += h->groups * sizeof(struct tb_rma_group);
    if (c->kind == TB_RMA_SWAP) {
        memcpy(at, c->origin.buf, (size_t)p->bytes);
        memcpy(at + p->bytes, c->compare, (size_t)p->bytes);
    } else if (data) {
        origin = place_of(&c->origin);
        tb_rma_load(&origin, at, data);
    }
}

static void went(struct tb_rma_transfer *t)
{
    t->rma->unsent--;
}

static bool has_room(void *arg)
{
    return ((const struct tb_rma_wait *)arg)->rma->unsent < TB_RMA_UNSENT_MOST;
}

static tb_err ask(struct plan *p)
{
    const struct tb_rma_call *c = p->call;
    struct tb_rma_head h = {0};
    struct tb_rma_transfer *t;
    int64_t data = inline_bytes(p);
    bool sends = c->kind == TB_RMA_PUT || c->kind == TB_RMA_ACC;
    bool separate = sends && !p->no_origin && !data;
    fill_head(p, &h);
    h.flags |= separate ? TB_RMA_SEPARATE : 0;
    int64_t room = h.groups * (int64_t)sizeof(struct tb_rma_group) + data;
    if (room > TB_RMA_REQUEST_MOST - (int64_t)sizeof h)
        return tb_fail(TB_ERR_TYPE,
                       "the target datatype has %u blocks of "
                       "different lengths or distances: use "
                       "smaller ones, one after the other",
                       h.groups);
    t = tb_rma_transfer_new(c->rma, c->rank, (int64_t)sizeof h + room);
    if (!t)
        return TB_ERR_NO_MEM;
    t->done = went;
    fill_request(p, t, &h, data);
    if (c->kind == TB_RMA_GET || c->kind == TB_RMA_SWAP ||
        c->flags & TB_RMA_FETCH) {
        tb_err err = expect_data(p, h.number);
        if (err) {
            tb_free(t);
            return err;
        }
    }
    if (c->kind != TB_RMA_GET ||
        c->rma->memory.flavor == MPI_WIN_FLAVOR_DYNAMIC)
        p->target->dirty = true;
    c->rma->unsent++;
    send_on(t, c->rma->ops, t->room, &tb_layout_byte, (int64_t)sizeof h + room,
            TB_RMA_REQUEST);
    return separate ? send_data(p, h.number) : TB_OK;
}

/* ------------------------------------------------------------------- start */

static const struct tb_more_ops user_ops = {0};
/* So that one that the program frees early is freed when it is done. */
static struct tb_more user_more = {.ops = &user_ops};

static tb_err ask_for_user(struct plan *p)
{
    struct tb_req **out = p->call->request;
    if (!out)
        return ask(p);
    TB_TRY(tb_req_task(p->call->rma->engine, &p->user));
    *out = p->user;
    p->user->more = &user_more;
    tb_err err = ask(p);
    if (err)
        tb_req_free(*out);
    else if (p->user)
        tb_req_finish(p->user, TB_OK); /* the data have been copied */
    return err;
}

static tb_err done_at_once(const struct tb_rma_call *c)
{
    return c->request ? tb_req_complete(c->request) : TB_OK;
}

tb_err tb_rma_start(struct tb_rma_call *c)
{
    struct plan p = {.call = c};
    TB_TRY(tb_rma_check_rank(c->rma, c->rank));
    if (c->rank == MPI_PROC_NULL)
        return done_at_once(c);
    p.target = &c->rma->targets[c->rank];
    p.no_origin = c->op && c->op->which == (int)(uintptr_t)MPI_NO_OP;
    TB_TRY(measure(&p));
    TB_TRY(tb_rma_ready(c->rma, c->rank));
    if (p.bytes == 0)
        return done_at_once(c);
    TB_TRY(locate(&p));
    if (!p.target->direct) {
        if (TB_UNLIKELY(c->rma->unsent >= TB_RMA_UNSENT_MOST))
            TB_TRY(tb_rma_wait_until(has_room, c->rma, c->rank));
        return ask_for_user(&p);
    }
    TB_TRY(run_here(&p));
    return done_at_once(c);
}
