/* SPDX-License-Identifier: MIT */
/*
 * A cable's life. Both ends say hello over the wire; once all peers of a
 * machine have answered, each end makes its queue pairs, swaps addresses, and
 * brings them up lane by lane:
 *
 *   RESET   own queue pair in RESET; when the peer's is too (its card, or
 *           CLOSED for this epoch), connect and post all receives:
 *   POSTED  READY is sent; SENDs go as soon as the peer's READY has come
 *
 * A lane that fails goes back to RESET under the next epoch's number and says
 * CLOSED with its last report, which makes the peer do the same. A cable that
 * is closed for good says DOWN over the management network with the last
 * reports of its lanes; when both ends have, the fate of all it carried is
 * known, and what was not taken over goes over the link's other cables or
 * back.
 */
#include "net/rdma_port.h"

#include <stdarg.h>
#include <stdio.h>

#define MINUTE 60000000000u
#define PSN 7
#define LAST_WORDS 64 /* rounds of completions taken in from a failed lane */

/* ------------------------------------------------------------------- hello */

static void fill_hello(const struct tb_port *port, int cable,
                       struct tb_hello *h)
{
    memset(h, 0, sizeof(*h));
    h->magic = TB_HELLO_MAGIC;
    h->version = TB_HELLO_VERSION;
    h->order = TB_HELLO_ORDER;
    h->page = TB_PAGE;
    h->frame = TB_FRAME;
    h->pointer = sizeof(void *);
    h->long_double = sizeof(long double);
    h->cable = cable;
    h->endpoint = port->self;
    memcpy(h->build, port->build, sizeof(h->build));
    memcpy(h->name, port->name, sizeof(h->name));
}

void tb_rdma_greet(struct tb_port *port)
{
    struct tb_hello hello;

    for (int i = 0; i < port->n_peers; i++) {
        fill_hello(port, -1, &hello);
        tb_post_send(&port->peers[i].post, TB_WIRE_HELLO, &hello,
                     sizeof(hello));
    }
    for (int i = 0; i < port->n_cables; i++) {
        fill_hello(port, port->cables[i].id, &hello);
        tb_post_send(&port->cables[i].wire, TB_WIRE_HELLO, &hello,
                     sizeof(hello));
    }
}

/* What is wrong with a peer's hello, naming both hosts; "" if nothing. */
static void compare_hello(const struct tb_port *port, const struct tb_hello *h,
                          int cable, int endpoint, char *why)
{
    struct tb_hello own;

    *why = 0;
    fill_hello(port, cable, &own);
    if (h->magic != own.magic || h->version != own.version ||
        h->features != own.features || strcmp(h->build, own.build))
        snprintf(why, TB_WHY_BYTES,
                 "%s and %s run different builds of tbmpi (%s, and %s there): "
                 "install the same one on both",
                 port->name, h->name, own.build, h->build);
    else if (h->order != own.order || h->page != own.page ||
             h->frame != own.frame || h->pointer != own.pointer ||
             h->long_double != own.long_double)
        snprintf(why, TB_WHY_BYTES,
                 "%s and %s are machines of different kinds (byte order, page, "
                 "frame, pointer or long double differ): one job cannot span "
                 "both",
                 port->name, h->name);
    else if (h->cable != cable || h->endpoint != endpoint)
        snprintf(why, TB_WHY_BYTES,
                 "%s, which should be endpoint %d on cable %d, says it is %d "
                 "on %d (%s): find the cables anew",
                 h->name, endpoint, cable, h->endpoint, h->cable, port->name);
}

void tb_rdma_on_hello(struct tb_rdma_cable *c, struct tb_rdma_peer *h,
                      const void *data, size_t bytes)
{
    char why[TB_WHY_BYTES] = "the peer's hello has the wrong length: another "
                             "version of tbmpi?";
    struct tb_hello hello;

    if (bytes == sizeof(hello)) {
        memcpy(&hello, data, sizeof(hello));
        hello.build[sizeof(hello.build) - 1] = 0;
        hello.name[sizeof(hello.name) - 1] = 0;
        if (c)
            compare_hello(c->port, &hello, c->id, c->link->peer, why);
        else
            compare_hello(h->port, &hello, -1, h->peer, why);
    }
    if (c) {
        c->greeted = true;
        if (*why)
            tb_rdma_kill(c, false, "%s", why);
    } else {
        h->greeted = true;
        if (*why)
            tb_rdma_bury(h, why);
    }
}

/* ------------------------------------------------------------- bringing up */

/* Slots of a class to post on each lane: as set, as granted, and as the pool
 * has for all cables, both ways. */
static int depth_of(const struct tb_port *port, enum tb_class class,
                    uint32_t granted)
{
    const int64_t set[TB_CLASSES] = {port->config->rdma_small,
                                     port->config->rdma_middle,
                                     port->config->rdma_large};
    const struct tb_regpool_plan *plan = &port->pool->plan;
    int64_t slots = plan->first[class + 1] - plan->first[class];
    int64_t n = TB_MIN(set[class], TB_LANE_WINDOW);

    n = TB_MIN(n, granted / tb_class_frames(class));
    return (int)TB_MIN(n, slots / (2 * port->n_cables));
}

static tb_err open_lane(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    uint32_t frames = tb_class_frames(class);
    uint32_t want = (uint32_t)TB_LANE_WINDOW * frames;

    want = (uint32_t)depth_of(c->port, class, want) * frames;
    TB_TRY(tb_qp_open(&l->qp, &c->device, TB_MAX(want, 4 * frames)));
    l->depth = depth_of(c->port, class, l->qp.recv_frames);
    l->send_depth = depth_of(c->port, class, l->qp.send_frames);
    if (TB_MIN(l->depth, l->send_depth) < (class == TB_SMALL ? 4 : 1))
        return tb_fail(TB_ERR_ARG,
                       "%s: only %d slots of %u frames: make TBMPI_POOL and "
                       "TBMPI_RDMA_SMALL, _MIDDLE, _LARGE larger",
                       c->device.name, TB_MIN(l->depth, l->send_depth), frames);
    memcpy(l->self.gid, c->gid, sizeof(l->self.gid));
    l->self.number = l->qp.qp->qp_num;
    l->self.lid = c->device.lid;
    l->self.mtu = (uint8_t)c->device.mtu;
    l->epoch = 1;
    l->state = TB_LANE_RESET;
    return TB_OK;
}

static tb_err open_cable(struct tb_rdma_cable *c)
{
    struct tb_card card;

    c->opened = true;
    TB_TRY(tb_device_open(&c->device, c->port->verbs, c->gid, c->device_name));
    TB_TRY(tb_regpool_register(c->port->pool, &c->device, &c->regions));
    memset(&card, 0, sizeof(card));
    for (int i = 0; i < TB_CLASSES; i++) {
        TB_TRY(open_lane(c, i));
        card.qp[i] = c->lane[i].self;
    }
    tb_post_send(&c->wire, TB_WIRE_CARD, &card, sizeof(card));
    return TB_OK;
}

static void agree(struct tb_rdma_cable *c)
{
    bool up = true;

    for (int i = 0; i < TB_CLASSES; i++)
        up = up && c->lane[i].state == TB_LANE_POSTED && c->lane[i].peer_ready;
    if (!up || c->state != TB_CABLE_STARTING)
        return;
    c->state = TB_CABLE_UP;
    tb_log(TB_LOG_INFO, "cable %d up, %s to %s", c->id, c->device.name,
           c->link->name);
    if (c->port->more.cable)
        c->port->more.cable(c->port->more.ctx, c->id, TB_CABLE_UP, "");
}

/* Both queue pairs are in RESET. */
static void connect_lane(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    int lane = tb_lane_index(c, class);
    struct tb_ready ready = {(uint32_t) class, l->epoch, (uint32_t)l->depth};

    l->peer = c->peer_card.qp[class];
    memcpy(l->peer.gid, c->peer_gid, sizeof(l->peer.gid));
    l->self.psn = l->peer.psn = (PSN + l->epoch) & 0xffffff;
    if (tb_qp_connect(&l->qp, &l->self, &l->peer, c->link->name)) {
        tb_rdma_kill(c, false, "%s", tb_fail_note());
        return;
    }
    l->state = TB_LANE_POSTED;
    tb_rdma_top_up(c, class);
    if (l->broken) {
        tb_rdma_kill(c, false, "the device takes no receives");
        return;
    }
    ready.depth = l->posted;
    tb_flow_open(&c->link->flow, lane, l->epoch, (int)l->posted, l->send_depth);
    tb_post_send(&c->wire, TB_WIRE_READY, &ready, sizeof(ready));
    if (l->peer_ready)
        tb_flow_admit(&c->link->flow, lane, l->peer_depth);
    agree(c);
}

/* Connects each lane that can be. */
static void connect_lanes(struct tb_rdma_cable *c)
{
    for (int i = 0; i < TB_CLASSES; i++) {
        struct tb_rdma_lane *l = &c->lane[i];
        if (c->state == TB_CABLE_DEAD || !c->has_card)
            return;
        if (l->state == TB_LANE_RESET && l->peer_reset)
            connect_lane(c, i);
    }
}

void tb_rdma_start(struct tb_port *port)
{
    for (int i = 0; i < port->n_cables; i++) {
        if (port->cables[i].state != TB_CABLE_DEAD && !port->cables[i].greeted)
            return;
    }
    port->started = true;
    for (int i = 0; i < port->n_cables; i++) {
        struct tb_rdma_cable *c = &port->cables[i];
        if (c->state == TB_CABLE_DEAD)
            continue;
        if (open_cable(c))
            tb_rdma_kill(c, false, "%s", tb_fail_note());
        else
            connect_lanes(c);
    }
}

/* The peer's card: its queue pairs exist, and so are in RESET for epoch 1. */
void tb_rdma_on_card(struct tb_rdma_cable *c, const void *data, size_t bytes)
{
    if (bytes != sizeof(c->peer_card) || c->has_card) {
        tb_rdma_kill(c, false, "%s sent a wrong card", c->link->name);
        return;
    }
    memcpy(&c->peer_card, data, sizeof(c->peer_card));
    c->has_card = true;
    for (int i = 0; i < TB_CLASSES; i++)
        c->lane[i].peer_reset = true;
    if (c->opened)
        connect_lanes(c);
}

/* ------------------------------------------------------------------ epochs */

/* Takes in what has still arrived, then closes the lane in the flow. */
static void close_lane(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);

    if (l->state == TB_LANE_POSTED) {
        for (int i = 0; i < LAST_WORDS; i++) {
            if (!tb_rdma_drain(c, class) && !l->wc_n)
                break;
        }
        tb_flow_close(&c->link->flow, tb_lane_index(c, class));
    }
}

/* Gives back what was posted on a queue pair that is no more. */
static void take_back(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);

    while (l->posted) {
        tb_regpool_give(c->port->pool, l->slot[l->first++ % TB_LANE_WINDOW]);
        l->posted--;
    }
    while (l->reports)
        tb_regpool_give(c->port->pool, l->report[--l->reports]);
}

/* Completions of the past epoch, which reset leaves in the queue. */
static void sweep(struct tb_rdma_lane *l)
{
    do {
        l->wc_n = tb_qp_poll(&l->qp, TB_WC_BATCH, l->wc);
    } while (l->wc_n > 0);
    l->wc_n = l->wc_next = 0;
}

/* Queue pair to RESET, ready for `epoch`; tells the peer. */
static void renew(struct tb_rdma_cable *c, enum tb_class class, uint32_t epoch)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    struct tb_closed closed = {.class = (uint32_t) class, .epoch = epoch};

    close_lane(c, class);
    if (tb_qp_reset(&l->qp)) {
        tb_rdma_kill(c, false, "%s", tb_fail_note());
        return;
    }
    sweep(l);
    take_back(c, class);
    l->state = TB_LANE_RESET;
    l->epoch = epoch;
    l->broken = l->peer_ready = l->peer_reset = false;
    l->stuck_at = 0;
    tb_flow_report(&c->link->flow, tb_lane_index(c, class), &closed.last);
    tb_post_send(&c->wire, TB_WIRE_CLOSED, &closed, sizeof(closed));
    c->port->count.epochs++;
    c->port->hasty = true;
}

void tb_rdma_mend(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    uint64_t now = c->port->now;

    if (c->device.dead) {
        tb_rdma_kill(c, false, "the verbs library faulted");
        return;
    }
    if (now - c->minute_at > MINUTE) {
        c->minute_at = now;
        c->epochs = 0;
    }
    tb_log(TB_LOG_INFO, "cable %d to %s: queue pair %d failed: %s", c->id,
           c->link->name, (int)class, l->why);
    if (++c->epochs > c->port->config->rdma_epochs)
        tb_rdma_kill(c, false, "its queue pairs failed %d times in a minute",
                     c->epochs);
    else
        renew(c, class, l->epoch + 1);
}

void tb_rdma_on_closed(struct tb_rdma_cable *c, const void *data, size_t bytes)
{
    struct tb_rdma_lane *l;
    struct tb_closed m;

    if (bytes == sizeof(m))
        memcpy(&m, data, sizeof(m));
    if (bytes != sizeof(m) || m.class >= TB_CLASSES || !c->has_card ||
        !c->opened) {
        tb_rdma_kill(c, false, "%s sent nonsense", c->link->name);
        return;
    }
    l = tb_lane_of(c, (enum tb_class)m.class);
    if ((int32_t)(m.epoch - l->epoch) < 0)
        return;
    if (m.epoch != l->epoch)
        renew(c, (enum tb_class)m.class, m.epoch);
    if (c->state == TB_CABLE_DEAD || l->state != TB_LANE_RESET)
        return;
    tb_flow_settle(&c->link->flow, tb_lane_index(c, (enum tb_class)m.class),
                   &m.last);
    l->peer_reset = true;
    connect_lanes(c);
}

void tb_rdma_on_ready(struct tb_rdma_cable *c, const void *data, size_t bytes)
{
    struct tb_rdma_lane *l;
    struct tb_ready m;

    if (bytes == sizeof(m))
        memcpy(&m, data, sizeof(m));
    if (bytes != sizeof(m) || m.class >= TB_CLASSES || !m.depth ||
        m.depth > TB_LANE_WINDOW) {
        tb_rdma_kill(c, false, "%s sent nonsense", c->link->name);
        return;
    }
    l = tb_lane_of(c, (enum tb_class)m.class);
    if (m.epoch != l->epoch || l->peer_ready || c->state == TB_CABLE_DEAD)
        return;
    l->peer_ready = true;
    l->peer_depth = (int)m.depth;
    if (l->state == TB_LANE_POSTED)
        tb_flow_admit(&c->link->flow, tb_lane_index(c, (enum tb_class)m.class),
                      l->peer_depth);
    agree(c);
}

/* ----------------------------------------------------------------- the end */

/* What the neighbour did not take over goes back, oldest first. */
static void hand_back(struct tb_link *link)
{
    struct tb_port *port = link->port;
    struct tb_parcel p;

    while (tb_flow_reclaim(&link->flow, &p)) {
        const struct tb_header *h = tb_regpool_at(port->pool, p.slot);
        port->current = p.slot;
        port->kept = false;
        if (!port->closing)
            port->up->returned(port->up->ctx, link->peer,
                               (enum tb_channel)p.channel,
                               (const char *)h + TB_SLOT_HEAD, h->seal.bytes);
        if (!port->kept)
            tb_regpool_give(port->pool, p.slot);
    }
}

void tb_rdma_end_link(struct tb_link *link, tb_err why)
{
    struct tb_port *port = link->port;
    uint32_t slot;

    link->lost = true;
    while ((slot = tb_flow_release(&link->flow)) != TB_SLOT_NONE) {
        tb_rdma_deliver(link, slot);
        if (!port->kept)
            tb_regpool_give(port->pool, slot);
    }
    hand_back(link);
    if (link->host->left || port->closing)
        return;
    tb_fail_say("%s", link->last_dead->why);
    port->up->lost(port->up->ctx, link->peer, why);
}

/* The fate of all that a dead cable carried is known, or will never be. */
static void settle_cable(struct tb_rdma_cable *c, bool known)
{
    if (c->settled)
        return;
    c->settled = true;
    for (int i = 0; i < TB_CLASSES; i++)
        tb_flow_settle(&c->link->flow, tb_lane_index(c, i),
                       known ? &c->last[i] : NULL);
}

/* In the order that gives all back: queue pairs, regions, domain, context. */
static void close_verbs(struct tb_rdma_cable *c)
{
    for (int i = 0; i < TB_CLASSES; i++) {
        if (c->lane[i].state != TB_LANE_NONE)
            tb_qp_close(&c->lane[i].qp);
    }
    tb_regpool_unregister(&c->device, &c->regions);
    tb_device_close(&c->device);
    for (int i = 0; i < TB_CLASSES; i++) {
        /* A faulted device might still write to what was posted. */
        if (!c->device.dead)
            take_back(c, i);
        c->lane[i].state = TB_LANE_NONE;
        c->lane[i].broken = false;
    }
}

void tb_rdma_kill(struct tb_rdma_cable *c, bool farewell, const char *fmt, ...)
{
    struct tb_down down = {.cable = c->id, .farewell = farewell};
    struct tb_port *port = c->port;
    char why[TB_WHY_BYTES] = "";
    va_list args;

    if (c->state == TB_CABLE_DEAD)
        return;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    snprintf(c->why, sizeof(c->why), "cable %d (%s of %s to %s): %.240s", c->id,
             c->device.name[0] ? c->device.name : c->device_name, port->name,
             c->link->name, why);
    memcpy(down.why, why, sizeof(down.why));
    c->state = TB_CABLE_DEAD;
    c->link->last_dead = c;
    for (int i = 0; i < TB_CLASSES; i++) {
        close_lane(c, i);
        tb_flow_report(&c->link->flow, tb_lane_index(c, i), &down.last[i]);
    }
    if (c->opened)
        close_verbs(c);
    tb_post_send(&c->link->host->post, TB_MGMT_DOWN, &down, sizeof(down));
    tb_post_close(&c->wire);
    if (c->told_down)
        settle_cable(c, true);
    else if (c->link->host->gone)
        settle_cable(c, false);
    if (farewell)
        return;
    port->count.cables_lost++;
    if (port->more.cable && !port->closing)
        port->more.cable(port->more.ctx, c->id, TB_CABLE_DEAD, c->why);
    else if (!c->link->host->gone && !c->link->host->left &&
             port->self < c->link->peer) /* the other end says the same */
        tb_log(TB_LOG_WARN, "%s", c->why);
}

void tb_rdma_on_down(struct tb_rdma_peer *h, const void *data, size_t bytes)
{
    struct tb_rdma_cable *c = NULL;
    struct tb_down m;

    if (bytes != sizeof(m))
        return;
    memcpy(&m, data, sizeof(m));
    m.why[sizeof(m.why) - 1] = 0;
    for (int i = 0; h->link && i < h->link->n; i++) {
        if (h->link->cables[i]->id == m.cable)
            c = h->link->cables[i];
    }
    if (!c || c->told_down)
        return;
    c->told_down = true;
    memcpy(c->last, m.last, sizeof(c->last));
    if (m.farewell)
        h->left = true;
    if (c->state == TB_CABLE_DEAD)
        settle_cable(c, true);
    else
        tb_rdma_kill(c, m.farewell, "the other end has given it up: %s", m.why);
}

void tb_rdma_bury(struct tb_rdma_peer *h, const char *why)
{
    struct tb_port *port = h->port;
    struct tb_link *link = h->link;

    if (h->gone)
        return;
    h->gone = true;
    if (!h->left && !port->closing) {
        tb_log(TB_LOG_INFO, "%s: %s", h->name, why);
        if (port->more.gone)
            port->more.gone(port->more.ctx, h->peer, why);
    }
    for (int i = 0; link && i < link->n; i++) {
        tb_rdma_kill(link->cables[i], h->left, "%s", why);
        settle_cable(link->cables[i], false);
    }
    if (link && !link->lost)
        tb_rdma_end_link(link, TB_ERR_LOST);
    tb_post_close(&h->post);
}
