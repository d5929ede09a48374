/* SPDX-License-Identifier: MIT */
/*
 * Sending. Short messages go at once, with their data (eager); long ones, and
 * all beyond the window of unexpected data, are announced (RTS) and wait for
 * the receiver, who either takes the data out of this process's memory by
 * itself and says so (FIN), or asks for it in fragments (CTS).
 *
 * Whatever finds no room waits in the peer's queues in order; progress tries
 * again. Envelopes get their sequence number when they really leave.
 */
#include "engine/internal.h"

void tb_peer_stall(struct tb_engine *e, struct tb_peer *p)
{
    e->busy = true;
    if (p->stalled)
        return;
    p->stalled = true;
    p->next_stalled = e->stalled;
    e->stalled = p;
}

/* Sends a packet without data, now or as soon as there is room. */
tb_err tb_post_small(struct tb_engine *e, struct tb_peer *p, void *packet,
                     size_t bytes)
{
    struct tb_slot slot;
    if (tb_list_empty(&p->outbox)) {
        tb_err err = tb_route_reserve(p->route, TB_CONTROL, bytes, &slot);
        if (TB_LIKELY(!err)) {
            memcpy(slot.data, packet, bytes);
            tb_route_commit(p->route, &slot, bytes);
            return TB_OK;
        }
        if (err != TB_ERR_AGAIN)
            return err;
    }
    struct tb_parcel *parcel = tb_pool_get(&e->parcels);
    if (!parcel)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a control packet");
    parcel->bytes = (uint32_t)bytes;
    memcpy(parcel->packet, packet, bytes);
    tb_list_append(&p->outbox, &parcel->link);
    tb_peer_stall(e, p);
    return TB_OK;
}

void tb_send_fin(struct tb_engine *e, struct tb_peer *p, uint32_t id)
{
    struct tb_fin k = {.id = id};
    tb_base_fill(e, p, &k.base, TB_PACKET_FIN, 0);
    tb_post_small(e, p, &k, sizeof k);
}

static bool fits_window(const struct tb_engine *e, const struct tb_peer *p,
                        int64_t bytes)
{
    return p->used - p->credited + tb_units(bytes) <= e->window;
}

static void fill_envelope(struct tb_engine *e, struct tb_peer *p,
                          struct tb_envelope *k, enum tb_packet_kind kind,
                          const struct tb_req *req)
{
    tb_base_fill(e, p, &k->base, kind, (uint32_t)p->seq++);
    p->bytes_out += (uint64_t)req->bytes;
    k->context = req->context;
    k->source = req->source;
    k->tag = req->tag;
}

/* The data with the envelope. A synchronous send waits for FIN all the same. */
static tb_err offer_eager(struct tb_engine *e, struct tb_peer *p,
                          struct tb_req *req)
{
    bool sync = req->mode == TB_SEND_SYNC;
    size_t head = sync ? sizeof(struct tb_sync) : sizeof(struct tb_envelope);
    struct tb_slot slot;
    if (sync)
        TB_TRY(tb_req_number(req));
    TB_TRY(tb_route_reserve(p->route, TB_CONTROL, head + (size_t)req->bytes,
                            &slot));
    req->seq = (uint32_t)p->seq;
    fill_envelope(e, p, slot.data, TB_PACKET_EAGER, req);
    if (sync) {
        struct tb_sync *k = slot.data;
        k->envelope.base.flags = TB_FLAG_SYNC;
        k->from = req->id;
        k->spare = 0;
    }
    tb_req_read(req, 0, (char *)slot.data + head, req->bytes);
    p->used += tb_units(req->bytes);
    tb_route_commit(p->route, &slot, head + (size_t)req->bytes);
    if (sync)
        req->state = TB_STATE_OFFERED;
    else
        tb_req_done(req);
    return TB_OK;
}

static tb_err offer_rts(struct tb_engine *e, struct tb_peer *p,
                        struct tb_req *req)
{
    struct tb_slot slot;
    TB_TRY(tb_req_number(req));
    TB_TRY(
        tb_route_reserve(p->route, TB_CONTROL, sizeof(struct tb_rts), &slot));
    struct tb_rts *k = slot.data;
    req->seq = (uint32_t)p->seq;
    fill_envelope(e, p, &k->envelope, TB_PACKET_RTS, req);
    k->bytes = (uint64_t)req->bytes;
    k->address = req->layout ? 0 : (uintptr_t)req->buf;
    k->from = req->id;
    k->spare = 0;
    req->state = TB_STATE_OFFERED;
    tb_route_commit(p->route, &slot, sizeof *k);
    return TB_OK;
}

static tb_err offer(struct tb_engine *e, struct tb_peer *p, struct tb_req *req)
{
    if (req->bytes <= (int64_t)p->eager_max && fits_window(e, p, req->bytes))
        return offer_eager(e, p, req);
    return offer_rts(e, p, req);
}

/*
 * The usual case, without a request: a short message with room for it. Kept
 * apart because it is the hot path of all small communication.
 */
static tb_err send_now(struct tb_engine *e, struct tb_peer *p,
                       const struct tb_send_args *a, int64_t bytes)
{
    struct tb_slot slot;
    size_t total = sizeof(struct tb_envelope) + (size_t)bytes;
    TB_TRY(tb_route_reserve(p->route, TB_CONTROL, total, &slot));
    struct tb_envelope *k = slot.data;
    tb_base_fill(e, p, &k->base, TB_PACKET_EAGER, (uint32_t)p->seq++);
    p->bytes_out += (uint64_t)bytes;
    k->context = a->context->name;
    k->source = a->source;
    k->tag = a->tag;
    if (TB_UNLIKELY(!bytes))
        ; /* there may be no buffer at all */
    else if (TB_LIKELY(a->layout->dense))
        memcpy(k + 1, tb_layout_at(a->layout, a->buf), (size_t)bytes);
    else
        tb_layout_pack(a->layout, a->buf, 0, k + 1, bytes);
    p->used += tb_units(bytes);
    tb_route_commit(p->route, &slot, total);
    return TB_OK;
}

/* The request of a send that is over, and could only be cancelled yet. */
static tb_err sent_request(struct tb_engine *e, struct tb_peer *p,
                           int64_t bytes, struct tb_req **out)
{
    struct tb_req *req = tb_req_new(e, TB_REQ_SEND);
    if (!req)
        return TB_ERR_NO_MEM;
    req->peer = p->endpoint;
    req->seq = (uint32_t)p->seq - 1;
    req->result.bytes = bytes;
    req->done = true;
    *out = req;
    return TB_OK;
}

static tb_err send_request(struct tb_engine *e, struct tb_peer *p,
                           const struct tb_send_args *a, struct tb_req **out)
{
    struct tb_req *req = tb_req_new(e, TB_REQ_SEND);
    if (!req)
        return TB_ERR_NO_MEM;
    tb_err err = tb_req_describe(req, a->buf, a->layout, a->count);
    if (err) {
        req->done = true;
        tb_req_free(req);
        return err;
    }
    req->context = a->context->name;
    req->peer = p->endpoint;
    req->source = a->source;
    req->tag = a->tag;
    req->mode = (uint8_t)a->mode;
    req->result.bytes = req->bytes;
    err = TB_ERR_AGAIN;
    if (tb_list_empty(&p->sends))
        err = offer(e, p, req);
    if (err == TB_ERR_AGAIN) {
        req->state = TB_STATE_QUEUED;
        tb_list_append(&p->sends, &req->link);
        tb_peer_stall(e, p);
    } else if (err) {
        req->done = true;
        tb_req_free(req);
        return err;
    }
    *out = req;
    return TB_OK;
}

tb_err tb_engine_send(struct tb_engine *e, const struct tb_send_args *a,
                      bool quick, struct tb_req **out)
{
    struct tb_peer *p = tb_peer_of(e, a->context->peers[a->dest]);
    int64_t bytes;
    TB_TRY(tb_stream_bytes(a->layout, a->count, &bytes));
    if (TB_UNLIKELY(!p))
        return TB_ERR_NO_MEM;
    if (TB_UNLIKELY(p->lost))
        return tb_fatal(e);
    if (TB_LIKELY(a->mode != TB_SEND_SYNC && bytes <= (int64_t)p->eager_max &&
                  tb_list_empty(&p->sends) && fits_window(e, p, bytes))) {
        tb_err err = send_now(e, p, a, bytes);
        if (TB_LIKELY(!err))
            return quick ? (*out = NULL, TB_OK)
                         : sent_request(e, p, bytes, out);
        if (err != TB_ERR_AGAIN)
            return err;
    }
    if (TB_UNLIKELY(e->asleep))
        tb_net_wake(e->net);
    return send_request(e, p, a, out);
}

/* Tries again what found no room, oldest first. */
void tb_peer_flush(struct tb_engine *e, struct tb_peer *p)
{
    while (!tb_list_empty(&p->outbox)) {
        struct tb_parcel *parcel =
            TB_CONTAINER(p->outbox.next, struct tb_parcel, link);
        struct tb_slot slot;
        if (tb_route_reserve(p->route, TB_CONTROL, parcel->bytes, &slot))
            return;
        memcpy(slot.data, parcel->packet, parcel->bytes);
        tb_route_commit(p->route, &slot, parcel->bytes);
        tb_list_remove(&parcel->link);
        tb_pool_put(&e->parcels, parcel);
    }
    while (!tb_list_empty(&p->sends)) {
        struct tb_req *req = TB_CONTAINER(p->sends.next, struct tb_req, link);
        /* Off the queue first: completion may free the request. */
        tb_list_remove(&req->link);
        tb_err err = offer(e, p, req);
        if (err == TB_ERR_AGAIN) {
            tb_list_append(p->sends.next, &req->link); /* first again */
            return;
        }
        if (err)
            tb_req_failed(req, err);
    }
}

/* ------------------------------------------------------------- fragments */

/* Puts out what fits; true when the stream is finished or made headway. */
bool tb_stream_push(struct tb_engine *e, struct tb_req *req)
{
    struct tb_peer *p = tb_peer_of(e, req->peer);
    bool moved = false;
    while (req->moved < req->expect) {
        struct tb_slot slot;
        int64_t n = req->expect - req->moved;
        size_t total = tb_limits_fit(&p->route->limits,
                                     sizeof(struct tb_data) + (size_t)n);
        n = (int64_t)(total - sizeof(struct tb_data));
        if (tb_route_reserve(p->route, TB_BULK, total, &slot))
            return moved;
        struct tb_data *k = slot.data;
        tb_base_fill(e, p, &k->base, TB_PACKET_DATA, 0);
        k->id = req->remote_id;
        k->spare = 0;
        k->offset = (uint64_t)req->moved;
        tb_req_read(req, req->moved, k + 1, n);
        req->moved += n;
        tb_route_commit(p->route, &slot, sizeof *k + (size_t)n);
        moved = true;
    }
    tb_list_remove(&req->link);
    tb_req_unnumber(req);
    tb_req_done(req);
    return true;
}

void tb_handle_cts(struct tb_engine *e, const struct tb_cts *k)
{
    struct tb_req *req = tb_req_by_number(e, k->id);
    if (!req || req->state != TB_STATE_OFFERED || k->offset > k->end ||
        k->end > (uint64_t)req->bytes) {
        tb_log(TB_LOG_WARN,
               "dropped a request for data from endpoint %d: it "
               "names no open message",
               k->base.hop.origin);
        return;
    }
    req->moved = (int64_t)k->offset;
    req->expect = (int64_t)k->end;
    req->remote_id = k->from;
    req->state = TB_STATE_STREAM;
    tb_list_append(&e->streams, &req->link);
    e->busy = true;
}

void tb_handle_fin(struct tb_engine *e, const struct tb_fin *k)
{
    struct tb_req *req = tb_req_by_number(e, k->id);
    if (!req || req->state != TB_STATE_OFFERED)
        return;
    tb_req_unnumber(req);
    tb_req_done(req);
}
