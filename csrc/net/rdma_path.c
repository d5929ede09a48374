/* SPDX-License-Identifier: MIT */
/* The data path of the rdma transport. No system call is made here. */
#include "net/rdma_port.h"

#define DRAIN_BUDGET 64 /* completions a lane and poll: it is bounded */
#define BUSY_POLLS 8    /* polls between two looks at the clock */
#define IDLE_POLLS 4
#define DAMAGED_MOST 32 /* arrivals in a row: no chance, the cable is bad */
#define LENGTH_GRAIN 64
#define RESTLESS_TRIES 3
#define REST_NS 200000

/* What a completion was of: its work request's id. */
#define ID_SLOT 0xffffffffu
#define ID_RECEIVE ((uint64_t)1 << 32)
#define ID_REPORTS ((uint64_t)1 << 33)

void tb_rdma_break(struct tb_rdma_cable *c, enum tb_class class,
                   const char *why)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);

    if (!l->broken)
        l->why = why;
    l->broken = true;
    c->port->alarm = true;
    c->link->flow.lane[tb_lane_index(c, class)].ready = false;
}

/* ----------------------------------------------------------------- sending */

/* How much of a slot to send: as many frames as its RECV has, and no more
 * bytes than that takes. */
static uint32_t wire_bytes(const struct tb_port *port, enum tb_class class,
                           size_t packet)
{
    size_t frames = tb_class_frames(class);
    size_t least = (frames - 1) * TB_FRAME + LENGTH_GRAIN;
    size_t most = frames * TB_FRAME;

    if (port->config->rdma_whole)
        return (uint32_t)most;
    packet = tb_round_up(packet + TB_SLOT_HEAD, LENGTH_GRAIN);
    return (uint32_t)TB_MIN(TB_MAX(packet, least), most);
}

/* Hands the slot of a header that is filled to the device. */
static bool send_slot(struct tb_link *link, int lane, uint32_t slot,
                      uint64_t id)
{
    struct tb_port *port = link->port;
    enum tb_class class = (enum tb_class)(lane % TB_CLASSES);
    struct tb_rdma_cable *c = link->cables[lane / TB_CLASSES];
    struct tb_header *h = tb_regpool_at(port->pool, slot);

    if (tb_qp_send(&c->lane[class].qp, id, h,
                   wire_bytes(port, class, h->seal.bytes),
                   tb_regpool_key(port->pool, &c->regions, slot))) {
        tb_flow_unpost(&link->flow, lane);
        tb_rdma_break(c, class, "a SEND was refused");
        return false;
    }
    port->count.sends++;
    return true;
}

static void post(struct tb_link *link, int lane, uint32_t parcel)
{
    uint32_t slot = link->flow.parcels[parcel].slot;

    tb_flow_post(&link->flow, lane, parcel,
                 tb_regpool_at(link->port->pool, slot));
    (void)send_slot(link, lane, slot, slot);
}

/* Whether the first packet that waits should wait a little longer: one that
 * was sent in vain several times is likely to be early, at a neighbour that has
 * no slot to hold it. */
static bool should_rest(const struct tb_link *link, enum tb_class class)
{
    const struct tb_flow *f = &link->flow;

    return f->parcels[f->waiting[class].first].tries >= RESTLESS_TRIES &&
           link->port->now < link->rest_until;
}

/* What waits goes before what is new. */
static void flush(struct tb_link *link)
{
    struct tb_flow *f = &link->flow;
    bool restless = false;

    for (int c = 0; c < TB_CLASSES; c++) {
        while (tb_flow_waits(f, c) && !should_rest(link, c)) {
            int lane = tb_flow_choose(f, c);
            uint32_t parcel;
            if (lane < 0)
                break;
            parcel = tb_flow_next(f, c);
            restless |= f->parcels[parcel].tries >= RESTLESS_TRIES;
            post(link, lane, parcel);
        }
    }
    if (restless)
        link->rest_until = link->port->now + REST_NS;
}

/* The lane for one more packet, or why there is none. */
static tb_err find_lane(struct tb_link *link, enum tb_channel ch,
                        enum tb_class class, int *lane)
{
    struct tb_flow *f = &link->flow;

    if (TB_UNLIKELY(link->lost || link->host->left))
        return TB_ERR_LOST;
    *lane = -1;
    if (TB_LIKELY(!tb_flow_waits(f, class) && tb_flow_accepts(f, ch)))
        *lane = tb_flow_choose(f, class);
    if (TB_LIKELY(*lane >= 0))
        return TB_OK;
    link->starved = true;
    link->starved_ch = ch;
    link->starved_class = class;
    return TB_ERR_AGAIN;
}

/* Packets to send leave some slots free: without them an early packet could
 * not be held. */
static bool may_take(const struct tb_port *port, enum tb_class class)
{
    return port->pool->n[class] > port->spare[class];
}

tb_err tb_rdma_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                       struct tb_slot *out)
{
    struct tb_regpool *pool = link->port->pool;
    enum tb_class class = tb_class_of(max);
    uint32_t slot;
    int lane;

    TB_TRY(find_lane(link, ch, class, &lane));
    if (TB_UNLIKELY(!may_take(link->port, class))) {
        link->starved = true;
        link->starved_ch = ch;
        link->starved_class = class;
        return TB_ERR_AGAIN;
    }
    slot = tb_regpool_take(pool, class);
    out->data = tb_slot_data(tb_regpool_at(pool, slot));
    out->room = tb_class_room(class);
    out->cookie = slot | (uint64_t)ch << 32;
    return TB_OK;
}

/* Accepts a sealed slot, and sends it if a lane has room. */
static void accept(struct tb_link *link, enum tb_channel ch, uint32_t slot,
                   bool lent)
{
    struct tb_flow *f = &link->flow;
    enum tb_class class = tb_regpool_class(&link->port->pool->plan, slot);
    uint32_t parcel = tb_flow_add(f, ch, class, slot, lent);
    int lane = tb_flow_waits(f, class) ? -1 : tb_flow_choose(f, class);

    if (TB_LIKELY(lane >= 0))
        post(link, lane, parcel);
    else
        tb_flow_wait(f, parcel);
}

/* A packet that turned out short moves to a slot of its size: the wire is
 * dearer than the copy. */
static uint32_t shrink(struct tb_regpool *pool, uint32_t slot, size_t bytes)
{
    enum tb_class class = tb_class_of(bytes);
    uint32_t other;

    if (TB_LIKELY(class == tb_regpool_class(&pool->plan, slot)))
        return slot;
    other = tb_regpool_take(pool, class);
    if (other == TB_SLOT_NONE)
        return slot;
    memcpy(tb_slot_data(tb_regpool_at(pool, other)),
           tb_slot_data(tb_regpool_at(pool, slot)), bytes);
    tb_regpool_give(pool, slot);
    return other;
}

void tb_rdma_commit(struct tb_link *link, const struct tb_slot *lent,
                    size_t bytes)
{
    struct tb_regpool *pool = link->port->pool;
    uint32_t slot = (uint32_t)lent->cookie;

    if (TB_UNLIKELY(!bytes)) {
        tb_regpool_give(pool, slot);
        return;
    }
    slot = shrink(pool, slot, bytes);
    tb_slot_seal(tb_regpool_at(pool, slot), bytes);
    accept(link, (enum tb_channel)(lent->cookie >> 32), slot, false);
    link->port->busy = true;
}

tb_err tb_rdma_send(struct tb_link *link, enum tb_channel ch, uint32_t slot,
                    size_t bytes)
{
    struct tb_regpool *pool = link->port->pool;
    int lane;

    (void)bytes; /* stands in the seal */
    TB_TRY(find_lane(link, ch, tb_regpool_class(&pool->plan, slot), &lane));
    accept(link, ch, slot, true);
    link->port->busy = true;
    return TB_OK;
}

void tb_rdma_done(void *ctx, const struct tb_parcel *parcel)
{
    struct tb_link *link = ctx;
    struct tb_port *port = link->port;

    if (parcel->lent && port->more.sent)
        port->more.sent(port->more.ctx, parcel->slot);
    else
        tb_regpool_give(port->pool, parcel->slot);
}

bool tb_rdma_report_on(struct tb_rdma_cable *c)
{
    struct tb_link *link = c->link;
    struct tb_regpool *pool = c->port->pool;
    struct tb_rdma_lane *l = tb_lane_of(c, TB_SMALL);
    int lane = tb_lane_index(c, TB_SMALL);
    uint32_t slot;

    if (tb_lane_space(&link->flow.lane[lane]) <= 0 ||
        l->reports == TB_REPORTS_MOST)
        return false;
    slot = tb_regpool_take(pool, TB_SMALL);
    if (slot == TB_SLOT_NONE)
        return false;
    tb_flow_post_reports(&link->flow, lane, tb_regpool_at(pool, slot));
    if (!send_slot(link, lane, slot, slot | ID_REPORTS)) {
        tb_regpool_give(pool, slot);
        return false;
    }
    l->report[l->reports++] = slot;
    c->port->count.acks++;
    return true;
}

/* On the first cable that has the credit. */
static bool send_reports(struct tb_link *link)
{
    for (int i = 0; i < link->n; i++) {
        if (tb_rdma_report_on(link->cables[i]))
            return true;
    }
    return false;
}

/* --------------------------------------------------------------- receiving */

static bool post_receive(struct tb_rdma_cable *c, enum tb_class class,
                         uint32_t slot)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    struct tb_regpool *pool = c->port->pool;

    if (tb_qp_receive(&l->qp, slot | ID_RECEIVE, tb_regpool_at(pool, slot),
                      tb_class_frames(class) * TB_FRAME,
                      tb_regpool_key(pool, &c->regions, slot))) {
        tb_regpool_give(pool, slot);
        tb_rdma_break(c, class, "a receive was refused");
        return false;
    }
    l->slot[(l->first + l->posted++) % TB_LANE_WINDOW] = slot;
    return true;
}

static void repost(struct tb_rdma_cable *c, enum tb_class class, uint32_t slot)
{
    if (post_receive(c, class, slot))
        tb_flow_posted(&c->link->flow, tb_lane_index(c, class));
}

/* Another slot in the place of one that was kept. */
static void replace(struct tb_rdma_cable *c, enum tb_class class)
{
    uint32_t slot = tb_regpool_take(c->port->pool, class);

    if (TB_UNLIKELY(slot == TB_SLOT_NONE))
        c->port->hungry = true;
    else
        repost(c, class, slot);
}

void tb_rdma_top_up(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    struct tb_lane *flow = &c->link->flow.lane[tb_lane_index(c, class)];

    while (l->state == TB_LANE_POSTED && !l->broken &&
           l->posted < (uint32_t)l->depth) {
        uint32_t slot = tb_regpool_take(c->port->pool, class);
        if (slot == TB_SLOT_NONE) {
            c->port->hungry = true;
            return;
        }
        if (flow->open)
            repost(c, class, slot);
        else
            post_receive(c, class, slot);
    }
}

void tb_rdma_deliver(struct tb_link *link, uint32_t slot)
{
    struct tb_port *port = link->port;
    const struct tb_header *h = tb_regpool_at(port->pool, slot);

    port->current = slot;
    port->kept = false;
    if (TB_UNLIKELY(port->closing))
        return;
    port->count.packets++;
    port->up->packet(port->up->ctx, link->peer, (enum tb_channel)h->kind,
                     (const char *)h + TB_SLOT_HEAD, h->seal.bytes);
}

static void on_receive(struct tb_rdma_cable *c, enum tb_class class,
                       const struct tb_ibv_wc *wc, int *packets)
{
    struct tb_port *port = c->port;
    struct tb_link *link = c->link;
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    uint32_t slot = l->slot[l->first % TB_LANE_WINDOW], held;
    const struct tb_header *h = tb_regpool_at(port->pool, slot);
    bool intact;

    l->first++;
    l->posted--;
    c->heard = true;
    port->count.receives++;
    intact = tb_header_intact(h, wc->byte_len) &&
             tb_slot_intact(h, tb_class_room(class));
    l->damaged = intact ? 0 : l->damaged + 1;
    if (TB_UNLIKELY(l->damaged == DAMAGED_MOST))
        tb_rdma_break(c, class, "all that arrives is damaged");
    switch (tb_flow_arrive(&link->flow, tb_lane_index(c, class), h, intact,
                           slot, port->pool->n[class] > 0)) {
    case TB_ARRIVAL_TAKE:
        tb_rdma_deliver(link, slot);
        ++*packets;
        if (TB_UNLIKELY(port->kept))
            replace(c, class);
        else
            repost(c, class, slot);
        break;
    case TB_ARRIVAL_HOLD:
        replace(c, class);
        return;
    case TB_ARRIVAL_DROP:
        repost(c, class, slot);
        return;
    }
    while (TB_UNLIKELY((held = tb_flow_turn(&link->flow)) != TB_SLOT_NONE)) {
        tb_rdma_deliver(link, held);
        ++*packets;
        if (!port->kept)
            tb_regpool_give(port->pool, held);
    }
}

static void end_report(struct tb_rdma_cable *c, struct tb_rdma_lane *l,
                       uint32_t slot)
{
    int i = 0;

    while (i < l->reports && l->report[i] != slot)
        i++;
    if (i == l->reports)
        return;
    l->report[i] = l->report[--l->reports];
    tb_regpool_give(c->port->pool, slot);
}

/* A receive that failed: its slot is free, and the next one is the first. */
static void forget_receive(struct tb_rdma_cable *c, struct tb_rdma_lane *l,
                           uint32_t slot)
{
    if (!l->posted || l->slot[l->first % TB_LANE_WINDOW] != slot)
        return;
    l->first++;
    l->posted--;
    tb_regpool_give(c->port->pool, slot);
}

/* One completion. What cannot be believed breaks the lane. */
static void on_completion(struct tb_rdma_cable *c, enum tb_class class,
                          const struct tb_ibv_wc *wc, int *packets)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    uint32_t slot = wc->wr_id & ID_SLOT;

    if (TB_UNLIKELY(wc->status != TB_IBV_WC_SUCCESS)) {
        if (wc->wr_id & ID_RECEIVE)
            forget_receive(c, l, slot);
        tb_rdma_break(c, class, tb_wc_text((int)wc->status));
    } else if (wc->wr_id & ID_RECEIVE) {
        if (l->posted && slot == l->slot[l->first % TB_LANE_WINDOW])
            on_receive(c, class, wc, packets);
        else
            tb_rdma_break(c, class, "receives completed out of order");
    } else {
        tb_flow_completed(&c->link->flow, tb_lane_index(c, class));
        if (TB_UNLIKELY(wc->wr_id & ID_REPORTS))
            end_report(c, l, slot);
    }
}

/* True when there is a completion to handle. */
static bool fetch(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);

    if (TB_UNLIKELY(l->wc_next < l->wc_n))
        return true;
    l->wc_next = 0;
    l->wc_n = tb_qp_poll(&l->qp, TB_WC_BATCH, l->wc);
    if (TB_UNLIKELY(l->wc_n < 0)) {
        l->wc_n = 0;
        tb_rdma_break(c, class, "polling failed");
    }
    return l->wc_n > 0;
}

int tb_rdma_drain(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    int packets = 0;

    for (int i = 0; i < DRAIN_BUDGET && fetch(c, class); i++)
        on_completion(c, class, &l->wc[l->wc_next++], &packets);
    return packets;
}

/* ----------------------------------------------------------------- polling */

static void feed(struct tb_port *port)
{
    port->hungry = false;
    for (int i = 0; i < port->n_cables; i++) {
        for (int c = 0; c < TB_CLASSES; c++)
            tb_rdma_top_up(&port->cables[i], c);
    }
}

/* Sends what waits, and reports that should not wait. */
static void serve(struct tb_port *port, struct tb_link *link, bool idle)
{
    struct tb_flow *f = &link->flow;

    flush(link);
    if (!f->owing || !(idle || f->hurry))
        return;
    if (!tb_flow_reports_due(f, port->now, (uint64_t)port->config->rdma_ack))
        return;
    if (send_reports(link))
        link->reports_late_at = 0;
    else if (!link->reports_late_at)
        link->reports_late_at = port->now;
}

int tb_rdma_poll(struct tb_port *port)
{
    int n = 0;

    for (int i = 0; i < port->n_cables; i++) {
        struct tb_rdma_cable *c = &port->cables[i];
        for (int k = 0; k < TB_CLASSES; k++) {
            if (TB_LIKELY(c->lane[k].state == TB_LANE_POSTED))
                n += tb_rdma_drain(c, k);
        }
    }
    if (++port->polls % (n ? BUSY_POLLS : IDLE_POLLS) == 0)
        port->now = tb_now();
    for (int i = 0; i < port->n_links; i++)
        serve(port, &port->links[i], !n);
    if (TB_UNLIKELY(port->hungry))
        feed(port);
    if (TB_UNLIKELY(port->alarm || port->now >= port->watch_at))
        tb_rdma_watch(port);
    port->busy |= n > 0;
    return n;
}

/* Whether a reserve that said AGAIN would succeed now. Told once. */
static bool relieved(struct tb_link *link)
{
    int lane;
    tb_err err;

    if (!link->starved)
        return false;
    err = find_lane(link, link->starved_ch, link->starved_class, &lane);
    link->starved = err == TB_ERR_AGAIN ||
                    (!err && !may_take(link->port, link->starved_class));
    return !link->starved;
}

bool tb_rdma_pending(struct tb_port *port)
{
    if (port->alarm || tb_now() >= port->watch_at)
        return true;
    for (int i = 0; i < port->n_cables; i++) {
        struct tb_rdma_cable *c = &port->cables[i];
        for (int k = 0; k < TB_CLASSES; k++) {
            if (c->lane[k].state == TB_LANE_POSTED && fetch(c, k))
                return true;
        }
    }
    for (int i = 0; i < port->n_links; i++) {
        if (relieved(&port->links[i]))
            return true;
    }
    return false;
}
