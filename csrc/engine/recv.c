/* SPDX-License-Identifier: MIT */
/*
 * Receiving: envelopes in their order, eager data, pulls, fragments.
 */
#include "engine/internal.h"

/* ------------------------------------------------------------- arrivals */

static struct tb_arrival *arrival_new(struct tb_engine *e, const void *data,
                                      size_t bytes)
{
    struct tb_arrival *a = tb_pool_get(&e->arrivals);
    if (!a)
        return NULL;
    memset(a, 0, offsetof(struct tb_arrival, room));
    tb_list_init(&a->link);
    tb_list_init(&a->in_order);
    a->data = bytes <= sizeof a->room ? a->room : tb_alloc(bytes);
    if (!a->data) {
        tb_pool_put(&e->arrivals, a);
        return NULL;
    }
    if (bytes)
        memcpy(a->data, data, bytes);
    return a;
}

/* Tells the sender now and then how much of its window is free again, when
 * there is no traffic that carries it along. */
static void return_units(struct tb_engine *e, struct tb_peer *p, uint32_t units)
{
    p->consumed += units;
    if (TB_LIKELY(p->consumed - p->reported < e->window / 4))
        return;
    struct tb_base k;
    tb_base_fill(e, p, &k, TB_PACKET_CREDIT, 0);
    tb_post_small(e, p, &k, sizeof k);
}

void tb_arrival_free(struct tb_engine *e, struct tb_arrival *a)
{
    if (a->units)
        return_units(e, tb_peer_of(e, a->peer), a->units);
    if (a->data != a->room)
        tb_free(a->data);
    tb_pool_put(&e->arrivals, a);
}

/* -------------------------------------------------------- a match is made */

static void set_result(struct tb_req *req, int source, int tag, int64_t bytes)
{
    req->result.source = source;
    req->result.tag = tag;
    req->result.sent = bytes;
    req->expect = bytes;
    if (TB_UNLIKELY(bytes > req->bytes)) {
        req->result.err = TB_ERR_TRUNCATE;
        req->expect = req->bytes;
    }
    req->result.bytes = req->expect;
}

static void take_eager(struct tb_req *req, const void *data)
{
    if (req->expect)
        tb_req_write(req, 0, data, req->expect);
    tb_req_done(req);
}

/* Asks the sender for what is still missing. */
static void ask_fragments(struct tb_engine *e, struct tb_req *req)
{
    struct tb_peer *p = tb_peer_of(e, req->peer);
    struct tb_cts k = {.id = req->remote_id,
                       .offset = (uint64_t)req->moved,
                       .end = (uint64_t)req->expect};
    tb_err err = tb_req_number(req);
    if (!err) {
        k.from = req->id;
        req->state = TB_STATE_FILL;
        tb_base_fill(e, p, &k.base, TB_PACKET_CTS, 0);
        err = tb_post_small(e, p, &k, sizeof k);
    }
    if (err)
        tb_req_failed(req, err);
}

/* Whether the receiver copies the data by itself: the sender's lie in one run,
 * and this side's runs are long enough for a system call each. */
static bool worth_pulling(const struct tb_peer *p, const struct tb_req *req)
{
    if ((size_t)req->expect < p->pull_min)
        return false;
    return !req->layout ||
           tb_layout_mean_run(req->layout) >= (int64_t)p->pull_min;
}

static void take_rts(struct tb_engine *e, struct tb_req *req, int peer,
                     uint32_t remote_id, uint64_t address)
{
    struct tb_peer *p = tb_peer_of(e, peer);
    req->peer = peer;
    req->remote_id = remote_id;
    req->remote_address = address;
    req->moved = 0;
    if (req->expect == 0) {
        tb_send_fin(e, p, remote_id);
        tb_req_done(req);
    } else if (address && worth_pulling(p, req)) {
        req->state = TB_STATE_PULL;
        tb_list_append(&e->pulls, &req->link);
        e->busy = true;
    } else {
        ask_fragments(e, req);
    }
}

static void take_arrival(struct tb_engine *e, struct tb_arrival *a,
                         struct tb_req *req)
{
    struct tb_peer *p = tb_peer_of(e, a->peer);
    set_result(req, a->source, a->tag, a->bytes);
    if (a->rts) {
        take_rts(e, req, a->peer, a->remote_id, a->address);
    } else {
        if (a->sync)
            tb_send_fin(e, p, a->remote_id);
        take_eager(req, a->data);
    }
    tb_arrival_free(e, a);
}

/* ---------------------------------------------------------------- packets */

/* What an envelope says, whichever of its three forms it has. */
struct reading {
    const void *data;
    int64_t bytes;
    uint64_t address;
    uint32_t remote_id;
    bool rts, sync;
};

static bool read_envelope(const struct tb_envelope *k, size_t bytes,
                          struct reading *r)
{
    *r = (struct reading){0};
    if (k->base.kind == TB_PACKET_RTS) {
        const struct tb_rts *rts = (const struct tb_rts *)k;
        if (bytes != sizeof *rts || rts->bytes > INT64_MAX)
            return false;
        r->rts = true;
        r->bytes = (int64_t)rts->bytes;
        r->address = rts->address;
        r->remote_id = rts->from;
        return true;
    }
    r->sync = k->base.flags & TB_FLAG_SYNC;
    size_t head = r->sync ? sizeof(struct tb_sync) : sizeof *k;
    if (bytes < head)
        return false;
    if (r->sync)
        r->remote_id = ((const struct tb_sync *)k)->from;
    r->data = (const char *)k + head;
    r->bytes = (int64_t)(bytes - head);
    return true;
}

static void keep(struct tb_engine *e, struct tb_context *c,
                 const struct tb_envelope *k, const struct reading *r)
{
    struct tb_arrival *a =
        arrival_new(e, r->data, r->rts ? 0 : (size_t)r->bytes);
    if (!c)
        c = tb_context_hold(e, k->context);
    if (!a || !c) {
        /* The message is lost to us, and with it the promise of MPI. */
        tb_log(TB_LOG_ERROR, "no memory to keep a message of %lld bytes",
               (long long)r->bytes);
        e->fatal = TB_ERR_NO_MEM;
        if (a)
            tb_arrival_free(e, a);
        return;
    }
    a->peer = k->base.hop.origin;
    a->source = k->source;
    a->tag = k->tag;
    a->seq = k->base.seq;
    a->bytes = r->bytes;
    a->rts = r->rts;
    a->sync = r->sync;
    a->address = r->address;
    a->remote_id = r->remote_id;
    a->units = r->rts ? 0 : tb_units(r->bytes);
    tb_match_keep(c, a);
}

/* To the service of the context, or kept for it. */
static void serve(struct tb_engine *e, struct tb_context *c,
                  const struct tb_envelope *k, const struct reading *r)
{
    struct tb_service *s = c->service;
    struct tb_peer *p = tb_peer_of(e, k->base.hop.origin);
    if ((unsigned)k->source >= (unsigned)c->n ||
        c->peers[k->source] != p->endpoint) {
        tb_log(TB_LOG_ERROR, "endpoint %d sent in the name of rank %d",
               p->endpoint, k->source);
        e->fatal = TB_ERR_PROTOCOL;
        return;
    }
    if (!r->rts && s->message(s, k->source, k->tag, r->data, r->bytes)) {
        return_units(e, p, tb_units(r->bytes));
        if (r->sync)
            tb_send_fin(e, p, r->remote_id);
        return;
    }
    keep(e, c, k, r);
    s->kept(s, k->source, k->tag);
}

static void accept_envelope(struct tb_engine *e, struct tb_peer *p,
                            const struct tb_envelope *k, size_t bytes)
{
    struct reading r;
    p->expect++;
    if (!read_envelope(k, bytes, &r)) {
        tb_log(TB_LOG_ERROR, "endpoint %d sent a malformed envelope",
               p->endpoint);
        e->fatal = TB_ERR_PROTOCOL;
        return;
    }
    p->bytes_in += (uint64_t)r.bytes;
    struct tb_context *c = tb_context_find(e, k->context);
    struct tb_req *req = NULL;
    if (TB_LIKELY(c && c->open)) {
        if (TB_UNLIKELY(c->service != NULL)) {
            serve(e, c, k, &r);
            return;
        }
        req = tb_match_arrive(c, k->source, k->tag);
    }
    if (!req) {
        keep(e, c, k, &r);
        return;
    }
    set_result(req, k->source, k->tag, r.bytes);
    if (r.rts) {
        take_rts(e, req, p->endpoint, r.remote_id, r.address);
        return;
    }
    return_units(e, p, tb_units(r.bytes));
    if (r.sync)
        tb_send_fin(e, p, r.remote_id);
    take_eager(req, r.data);
}

/* An envelope ahead of its turn: another path was quicker. Kept whole. */
static void park(struct tb_engine *e, struct tb_peer *p,
                 const struct tb_envelope *k, size_t bytes)
{
    struct tb_arrival *a = arrival_new(e, k, bytes);
    if (!a) {
        e->fatal = TB_ERR_NO_MEM;
        return;
    }
    a->seq = k->base.seq;
    a->packet_bytes = (uint32_t)bytes;
    tb_list_append(&p->early, &a->link);
}

static void unpark(struct tb_engine *e, struct tb_peer *p)
{
    for (struct tb_list *l = p->early.next; l != &p->early;) {
        struct tb_arrival *a = TB_CONTAINER(l, struct tb_arrival, link);
        l = l->next;
        if (a->seq != (uint32_t)p->expect)
            continue;
        tb_list_remove(&a->link);
        accept_envelope(e, p, a->data, a->packet_bytes);
        tb_arrival_free(e, a);
        l = p->early.next;
    }
}

void tb_handle_envelope(struct tb_engine *e, const struct tb_envelope *k,
                        size_t bytes)
{
    struct tb_peer *p = tb_peer_of(e, k->base.hop.origin);
    if (TB_UNLIKELY(!p))
        return;
    if (TB_UNLIKELY(k->base.seq != (uint32_t)p->expect)) {
        park(e, p, k, bytes);
        return;
    }
    accept_envelope(e, p, k, bytes);
    if (TB_UNLIKELY(!tb_list_empty(&p->early)))
        unpark(e, p);
}

void tb_handle_data(struct tb_engine *e, const struct tb_data *k, size_t bytes)
{
    struct tb_req *req = tb_req_by_number(e, k->id);
    int64_t n = (int64_t)(bytes - sizeof *k);
    if (!req || req->state != TB_STATE_FILL ||
        k->offset > (uint64_t)req->expect ||
        (uint64_t)n > (uint64_t)req->expect - k->offset) {
        tb_log(TB_LOG_WARN,
               "dropped a fragment from endpoint %d: it names no open receive",
               k->base.hop.origin);
        return;
    }
    tb_req_write(req, (int64_t)k->offset, k + 1, n);
    req->moved += n;
    if (req->moved < req->expect)
        return;
    tb_req_unnumber(req);
    tb_req_done(req);
}

/* ------------------------------------------------------------------ pulls */

/* Copies the next piece of a message out of the sender's memory. What the
 * system refuses, now or in the middle, comes as fragments instead. */
void tb_pull_some(struct tb_engine *e, struct tb_req *req)
{
    int64_t budget = TB_PULL_CHUNK;
    while (budget > 0 && req->moved < req->expect) {
        void *to = req->buf + req->moved;
        int64_t n = TB_MIN(req->expect - req->moved, budget);
        size_t done = 0;
        if (req->layout)
            n = tb_layout_run(req->layout, req->buf, req->moved, req->moved + n,
                              &to);
        tb_err err = tb_route_pull(tb_net_route(e->net, req->peer),
                                   req->remote_address + (uint64_t)req->moved,
                                   to, (size_t)n, &done);
        req->moved += (int64_t)done;
        if (err) {
            tb_list_remove(&req->link);
            ask_fragments(e, req);
            return;
        }
        budget -= n;
    }
    if (req->moved < req->expect)
        return;
    tb_list_remove(&req->link);
    tb_send_fin(e, tb_peer_of(e, req->peer), req->remote_id);
    tb_req_done(req);
}

/* ---------------------------------------------------------------- the API */

static tb_err recv_request(struct tb_engine *e, void *buf,
                           struct tb_layout *layout, int64_t count,
                           struct tb_req **out)
{
    struct tb_req *req = tb_req_new(e, TB_REQ_RECV);
    if (!req)
        return TB_ERR_NO_MEM;
    req->peer = -1;
    *out = req;
    tb_err err = tb_req_describe(req, buf, layout, count);
    if (err) {
        req->done = true;
        tb_req_free(req);
    }
    return err;
}

tb_err tb_engine_recv(struct tb_engine *e, const struct tb_recv_args *a,
                      struct tb_req **out)
{
    struct tb_req *req;
    TB_TRY(recv_request(e, a->buf, a->layout, a->count, &req));
    req->context = a->context->name;
    req->source = a->source;
    req->tag = a->tag;
    *out = req;
    struct tb_arrival *found = tb_match_look(a->context, a->source, a->tag);
    if (!found) {
        tb_match_post(a->context, req);
        return TB_OK;
    }
    tb_match_take(found);
    take_arrival(e, found, req);
    if (TB_UNLIKELY(e->asleep && !req->done))
        tb_net_wake(e->net);
    return TB_OK;
}

static void describe_arrival(const struct tb_arrival *a, struct tb_result *r)
{
    *r = (struct tb_result){
        .source = a->source, .tag = a->tag, .bytes = a->bytes};
}

tb_err tb_engine_probe(struct tb_engine *e, struct tb_context *c, int source,
                       int tag, bool *found, struct tb_result *result)
{
    struct tb_arrival *a = tb_match_look(c, source, tag);
    if (!a) {
        tb_engine_poll(e);
        a = tb_match_look(c, source, tag);
    }
    *found = a != NULL;
    if (a)
        describe_arrival(a, result);
    return tb_fatal(e);
}

tb_err tb_engine_mprobe(struct tb_engine *e, struct tb_context *c, int source,
                        int tag, struct tb_arrival **found,
                        struct tb_result *result)
{
    bool is_there;
    *found = NULL;
    TB_TRY(tb_engine_probe(e, c, source, tag, &is_there, result));
    if (!is_there)
        return TB_OK;
    *found = tb_match_look(c, source, tag);
    tb_match_take(*found);
    return TB_OK;
}

tb_err tb_engine_recv_arrival(struct tb_engine *e, struct tb_arrival *a,
                              void *buf, struct tb_layout *layout,
                              int64_t count, struct tb_req **out)
{
    struct tb_req *req;
    TB_TRY(recv_request(e, buf, layout, count, &req));
    req->source = a->source;
    req->tag = a->tag;
    *out = req;
    take_arrival(e, a, req);
    return TB_OK;
}

/* ---------------------------------------------------------------- serving */

void tb_context_serve(struct tb_context *c, struct tb_service *s)
{
    c->service = s;
    for (struct tb_list *l = c->arrivals.next; l != &c->arrivals;) {
        struct tb_arrival *a = TB_CONTAINER(l, struct tb_arrival, in_order);
        l = l->next; /* it may be taken out */
        s->kept(s, a->source, a->tag);
    }
}

struct tb_arrival *tb_context_take(struct tb_context *c, int source, int tag,
                                   const void **data, int64_t *bytes)
{
    struct tb_arrival *a = tb_match_look(c, source, tag);
    if (!a)
        return NULL;
    tb_match_take(a);
    *data = a->rts ? NULL : a->data;
    *bytes = a->bytes;
    return a;
}

void tb_arrival_drop(struct tb_engine *e, struct tb_arrival *a)
{
    if (a->sync)
        tb_send_fin(e, tb_peer_of(e, a->peer), a->remote_id);
    tb_arrival_free(e, a);
}
