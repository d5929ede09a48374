/* SPDX-License-Identifier: MIT */
/*
 * Requests: their pool, their numbers on the wire, how they end.
 *
 * A number is generation and slot of a table, so that a late packet for a
 * request that is gone finds nothing instead of another request.
 */
#include "engine/internal.h"

#define SLOT_BITS 20
#define SLOT_MAX ((1u << SLOT_BITS) - 1)
#define NO_SLOT UINT32_MAX

struct tb_req *tb_req_new(struct tb_engine *e, enum tb_req_kind kind)
{
    struct tb_req *r = tb_pool_get(&e->requests);
    if (TB_UNLIKELY(!r)) {
        tb_fail_say("no memory for a request");
        return NULL;
    }
    tb_list_init(&r->link);
    r->engine = e;
    r->kind = kind;
    r->done = false;
    r->result = (struct tb_result){0};
    r->on_done = NULL;
    r->owner = NULL;
    r->handle = 0;
    r->more = NULL;
    r->comm = NULL;
    r->layout = NULL;
    r->moved = 0;
    r->id = 0;
    r->remote_id = 0;
    r->state = TB_STATE_IDLE;
    return r;
}

tb_err tb_req_describe(struct tb_req *req, const void *buf,
                       struct tb_layout *layout, int64_t count)
{
    TB_TRY(tb_stream_bytes(layout, count, &req->bytes));
    if (TB_LIKELY(layout->dense)) {
        req->buf = tb_layout_at(layout, buf);
        req->layout = NULL;
    } else {
        req->buf = (char *)(uintptr_t)buf;
        req->layout = tb_layout_ref(layout);
    }
    return TB_OK;
}

/* ---------------------------------------------------- numbers on the wire */

static tb_err grow_slots(struct tb_engine *e)
{
    uint32_t n = e->slots_n ? e->slots_n * 2 : 64;
    if (n > SLOT_MAX)
        return tb_fail(TB_ERR_OTHER,
                       "more than %u long messages are open at once; complete "
                       "some of them first",
                       SLOT_MAX);
    struct tb_slotted *slots = tb_realloc(e->slots, n * sizeof *slots);
    if (!slots)
        return tb_fail(TB_ERR_NO_MEM, "no memory for open messages");
    for (uint32_t i = e->slots_n; i < n; i++)
        slots[i] = (struct tb_slotted){
            .generation = 1, .next_free = i + 1 < n ? i + 1 : NO_SLOT};
    e->slots_free = e->slots_n;
    e->slots = slots;
    e->slots_n = n;
    return TB_OK;
}

tb_err tb_req_number(struct tb_req *req)
{
    struct tb_engine *e = req->engine;
    if (req->id)
        return TB_OK;
    if (e->slots_free == NO_SLOT || !e->slots_n)
        TB_TRY(grow_slots(e));
    uint32_t i = e->slots_free;
    struct tb_slotted *s = &e->slots[i];
    e->slots_free = s->next_free;
    s->req = req;
    req->id = (s->generation << SLOT_BITS) | i;
    return TB_OK;
}

void tb_req_unnumber(struct tb_req *req)
{
    struct tb_engine *e = req->engine;
    if (!req->id)
        return;
    uint32_t i = req->id & SLOT_MAX;
    struct tb_slotted *s = &e->slots[i];
    s->req = NULL;
    s->generation = (s->generation + 1) & (UINT32_MAX >> SLOT_BITS);
    s->generation += s->generation == 0; /* a number is never 0 */
    s->next_free = e->slots_free;
    e->slots_free = i;
    req->id = 0;
}

struct tb_req *tb_req_by_number(struct tb_engine *e, uint32_t id)
{
    uint32_t i = id & SLOT_MAX;
    if (i >= e->slots_n || e->slots[i].generation != id >> SLOT_BITS)
        return NULL;
    return e->slots[i].req;
}

/* ------------------------------------------------------------- completion */

static void release(struct tb_req *req)
{
    if (req->layout)
        tb_layout_unref(req->layout);
    tb_req_unnumber(req);
    tb_pool_put(&req->engine->requests, req);
}

tb_err tb_result_error(const struct tb_result *r)
{
    if (r->err == TB_ERR_TRUNCATE && r->sent > r->bytes)
        return tb_fail(r->err,
                       "the message from rank %d with tag %d has %lld bytes, "
                       "the receive buffer %lld",
                       r->source, r->tag, (long long)r->sent,
                       (long long)r->bytes);
    return r->err;
}

static void drop_when_done(struct tb_req *req)
{
    release(req);
}

void tb_req_done(struct tb_req *req)
{
    req->state = TB_STATE_IDLE;
    req->done = true;
    if (req->on_done)
        req->on_done(req);
}

void tb_req_failed(struct tb_req *req, tb_err err)
{
    tb_list_remove(&req->link);
    req->result.err = err;
    tb_req_done(req);
}

tb_err tb_req_task(struct tb_engine *e, struct tb_req **out)
{
    struct tb_req *r = tb_req_new(e, TB_REQ_TASK);
    if (!r)
        return TB_ERR_NO_MEM;
    r->result.source = TB_ANY_SOURCE;
    r->result.tag = TB_ANY_TAG;
    *out = r;
    return TB_OK;
}

void tb_req_finish(struct tb_req *req, tb_err err)
{
    req->result.err = err;
    tb_req_done(req);
}

void tb_req_free(struct tb_req *req)
{
    if (req->done || req->kind == TB_REQ_TASK) {
        release(req);
        return;
    }
    req->on_done = drop_when_done;
}

/* ----------------------------------------------------------------- cancel */

/* Asks the receiver for the envelope; an eager send that was finished already
 * is open again until the answer comes. */
static tb_err ask_back(struct tb_req *req)
{
    struct tb_engine *e = req->engine;
    struct tb_peer *p = tb_peer_of(e, req->peer);
    TB_TRY(tb_req_number(req));
    struct tb_cancel k = {.from = req->id};
    tb_base_fill(e, p, &k.base, TB_PACKET_CANCEL, req->seq);
    TB_TRY(tb_post_small(e, p, &k, sizeof k));
    req->done = false;
    return TB_OK;
}

tb_err tb_engine_cancel(struct tb_req *req)
{
    if (req->kind == TB_REQ_RECV) {
        if (req->state != TB_STATE_POSTED)
            return TB_OK;
    } else if (req->kind == TB_REQ_SEND) {
        if (req->state == TB_STATE_STREAM)
            return TB_OK;
        if (req->state != TB_STATE_QUEUED)
            return ask_back(req);
    } else {
        return TB_OK;
    }
    tb_list_remove(&req->link);
    req->result.cancelled = true;
    req->result.bytes = 0;
    tb_req_done(req);
    return TB_OK;
}

void tb_handle_cancel(struct tb_engine *e, const struct tb_cancel *k)
{
    struct tb_peer *p = tb_peer_of(e, k->base.hop.origin);
    struct tb_arrival *a = tb_match_by_seq(e, p->endpoint, k->base.seq);
    struct tb_cancel answer = {.from = k->from};
    if (a) {
        tb_match_take(a);
        tb_arrival_free(e, a);
    }
    tb_base_fill(e, p, &answer.base, TB_PACKET_RECALL, k->base.seq);
    answer.base.flags = a ? TB_FLAG_OK : 0;
    tb_post_small(e, p, &answer, sizeof answer);
}

void tb_handle_recall(struct tb_engine *e, const struct tb_cancel *k)
{
    struct tb_req *req = tb_req_by_number(e, k->from);
    if (!req || req->done)
        return;
    if (k->base.flags & TB_FLAG_OK) {
        req->result.cancelled = true;
        tb_req_done(req);
    } else if (req->state == TB_STATE_IDLE) {
        tb_req_done(req); /* it had been finished before it was asked back */
    }
}
