/* SPDX-License-Identifier: MIT */
/*
 * Timers and sockets of the rdma transport: who is alive, and what should be
 * asked. Four things look alike from afar, and are told apart:
 *
 *   peer dead     its management socket ends or breaks
 *   cable dead    a ping on its wire has had no answer for TBMPI_CABLE_TIMEOUT,
 *                 nothing has come over its queue pairs since, and a ping on
 *                 the management socket sent clearly later was answered: the
 *                 peer reads its wires before it answers there
 *   peer stopped  no answer anywhere: reported after STOPPED_NS
 *   computing     the same, where a rank owns the verbs and makes no calls
 *
 * Where a program passes on the wires, as tbmpirun does between emulated Macs,
 * a silent wire may be that program's silence. It is asked by itself, and while
 * it does not answer the time of no wire counts.
 */
#include "net/rdma_port.h"

#include <stdio.h>

#define WATCH_NS 1000000     /* between two looks at the sockets … */
#define WATCH_HASTY_NS 50000 /* … while queue pairs are being agreed on */
#define LIVENESS_NS 20000000 /* between two looks at who is alive */
#define PING_NS 250000000    /* between two pings */
#define LATER_NS 300000000   /* a later ping, that is */
#define HOLE_RUN 4 /* transmissions lost in a row, over the cable's timeout */
#define ENDED_NS 300000000  /* a wire has ended: time for the reason to come */
#define STUCK_NS 1000000000 /* a SEND has not left for so long */
#define HOPELESS_NS 3000000000u
#define HOPELESS_TRIES 200
#define STOPPED_NS 10000000000 /* a silence worth a word */

/* ---------------------------------------------------------------- messages */

static void on_probe(struct tb_rdma_cable *c, const void *data, size_t bytes)
{
    struct tb_report report;
    struct tb_probe m;
    int lane;

    if (bytes != sizeof(m))
        return;
    memcpy(&m, data, sizeof(m));
    if (m.class >= TB_CLASSES || c->lane[m.class].state != TB_LANE_POSTED)
        return;
    lane = tb_lane_index(c, (enum tb_class)m.class);
    /* First what has arrived, then what has not. */
    while (tb_rdma_drain(c, (enum tb_class)m.class))
        continue;
    if (!tb_flow_probed(&c->link->flow, lane, m.epoch, m.settled))
        return;
    tb_flow_report(&c->link->flow, lane, &report);
    tb_post_send(&c->wire, TB_WIRE_REPORT, &report, sizeof(report));
}

static void on_report(struct tb_rdma_cable *c, const void *data, size_t bytes)
{
    struct tb_report report;

    if (bytes != sizeof(report))
        return;
    memcpy(&report, data, sizeof(report));
    if (report.lane / TB_CLASSES == c->position)
        tb_flow_learn(&c->link->flow, &report);
}

static void on_wire(struct tb_rdma_cable *c, unsigned kind, const void *data,
                    size_t bytes)
{
    c->heard_at = c->port->now;
    if (!c->greeted && kind != TB_WIRE_HELLO) {
        tb_rdma_kill(c, false, "its socket does not begin with a hello");
        return;
    }
    switch (kind) {
    case TB_WIRE_HELLO:
        tb_rdma_on_hello(c, NULL, data, bytes);
        break;
    case TB_WIRE_PING:
        tb_post_send(&c->wire, TB_WIRE_PONG, data, bytes);
        break;
    case TB_WIRE_PONG:
        c->asked_at = 0;
        break;
    case TB_WIRE_CARD:
        tb_rdma_on_card(c, data, bytes);
        break;
    case TB_WIRE_CLOSED:
        tb_rdma_on_closed(c, data, bytes);
        break;
    case TB_WIRE_READY:
        tb_rdma_on_ready(c, data, bytes);
        break;
    case TB_WIRE_PROBE:
        on_probe(c, data, bytes);
        break;
    case TB_WIRE_REPORT:
        on_report(c, data, bytes);
        break;
    default:
        tb_rdma_kill(c, false, "its socket carries nonsense");
        break;
    }
}

static void on_pong(struct tb_rdma_peer *h, const void *data, size_t bytes)
{
    struct tb_ping ping;

    if (bytes != sizeof(ping))
        return;
    memcpy(&ping, data, sizeof(ping));
    h->answered = TB_MAX(h->answered, ping.stamp);
    h->asked_at = 0;
    if (h->silent && h->port->more.silent)
        h->port->more.silent(h->port->more.ctx, h->peer, 0);
    h->silent = false;
}

static void on_mgmt(struct tb_rdma_peer *h, unsigned kind, const void *data,
                    size_t bytes)
{
    struct tb_port *port = h->port;

    if (!h->greeted && kind != TB_WIRE_HELLO) {
        tb_rdma_bury(h, "its socket does not begin with a hello");
        return;
    }
    switch (kind) {
    case TB_WIRE_HELLO:
        tb_rdma_on_hello(NULL, h, data, bytes);
        break;
    case TB_WIRE_PING:
        tb_post_send(&h->post, TB_WIRE_PONG, data, bytes);
        break;
    case TB_WIRE_PONG:
        on_pong(h, data, bytes);
        break;
    case TB_MGMT_DOWN:
        tb_rdma_on_down(h, data, bytes);
        break;
    case TB_MGMT_BYE:
        h->left = true;
        break;
    case TB_MGMT_TELL:
        if (port->more.told && !port->closing)
            port->more.told(port->more.ctx, h->peer, data, bytes);
        break;
    default:
        tb_rdma_bury(h, "its socket carries nonsense");
        break;
    }
}

/* Wires first: an answer on a management socket says that they were read. */
static void read_sockets(struct tb_port *port)
{
    const void *data;
    unsigned kind;
    size_t bytes;

    for (int i = 0; i < port->n_cables; i++) {
        struct tb_rdma_cable *c = &port->cables[i];
        while ((data = tb_post_next(&c->wire, &kind, &bytes)))
            on_wire(c, kind, data, bytes);
        tb_post_flush(&c->wire);
        if (c->wire.ended && !c->ended_at)
            c->ended_at = port->now;
    }
    while (tb_post_next(&port->relay, &kind, &bytes))
        port->relay_asked_at = 0;
    tb_post_flush(&port->relay);
    for (int i = 0; i < port->n_peers; i++) {
        struct tb_rdma_peer *h = &port->peers[i];
        while ((data = tb_post_next(&h->post, &kind, &bytes)))
            on_mgmt(h, kind, data, bytes);
        tb_post_flush(&h->post);
        if (h->post.ended && !h->gone)
            tb_rdma_bury(h, h->left ? "it has left"
                                    : "the process at the other end has ended");
    }
}

/* ---------------------------------------------------------------- liveness */

static void ping(struct tb_port *port, struct tb_post *post, uint64_t *asked_at,
                 uint64_t *pinged_at)
{
    struct tb_ping m = {port->now};

    if (port->now - *pinged_at < PING_NS)
        return;
    if (tb_post_send(post, TB_WIRE_PING, &m, sizeof(m)))
        return;
    *pinged_at = port->now;
    if (!*asked_at)
        *asked_at = port->now;
}

/* Whoever passes on the wires is asked as they are. */
static void look_after_relay(struct tb_port *port)
{
    if (port->relay.fd < 0 || port->relay.ended)
        return;
    ping(port, &port->relay, &port->relay_asked_at, &port->relay_pinged_at);
    if (port->relay_asked_at && port->now - port->relay_asked_at >= LATER_NS)
        port->relay_late_at = port->now;
}

/* A wire is silent: the queue pairs themselves should say something. The other
 * end, whose wire is silent too, does the same. */
static void knock(struct tb_rdma_cable *c)
{
    uint64_t now = c->port->now;

    if (c->asked_at && now - c->asked_at >= PING_NS &&
        now - c->knocked_at >= PING_NS && tb_rdma_report_on(c))
        c->knocked_at = now;
}

/* True when SENDs on some lane have left and not arrived for too long, whatever
 * the wire says. */
static bool is_hole(struct tb_rdma_cable *c)
{
    uint64_t now = c->port->now;
    bool lost = false;

    for (int i = 0; i < TB_CLASSES; i++)
        lost |= c->link->flow.lane[tb_lane_index(c, i)].lost_run >= HOLE_RUN;
    if (!lost)
        c->hole_at = 0;
    else if (!c->hole_at)
        c->hole_at = now;
    return lost && now - c->hole_at >= (uint64_t)c->port->config->cable_timeout;
}

static void look_after_cable(struct tb_rdma_cable *c)
{
    struct tb_port *port = c->port;
    uint64_t now = port->now, since;
    uint64_t most = (uint64_t)port->config->cable_timeout;

    if (c->state == TB_CABLE_DEAD)
        return;
    if (c->heard) {
        c->heard = false;
        c->heard_at = now;
    }
    ping(port, &c->wire, &c->asked_at, &c->pinged_at);
    knock(c);
    since = TB_MAX(c->asked_at, c->heard_at);
    since = TB_MAX(since, port->relay_late_at);
    if (c->ended_at && now - c->ended_at >= ENDED_NS)
        tb_rdma_kill(c, false, "its socket was closed");
    else if (is_hole(c))
        tb_rdma_kill(c, false, "its SENDs leave and do not arrive");
    else if (c->asked_at && now - since >= most &&
             c->link->host->answered >= since + LATER_NS)
        tb_rdma_kill(c, false,
                     "no answer for %.1f s though the peer lives: is the cable "
                     "in at both ends?",
                     (double)(now - since) / 1e9);
}

static void look_after_peer(struct tb_rdma_peer *h)
{
    struct tb_port *port = h->port;
    uint64_t silence, most = (uint64_t)port->config->stopped_timeout;
    char why[TB_WHY_BYTES];

    if (h->gone)
        return;
    ping(port, &h->post, &h->asked_at, &h->pinged_at);
    silence = h->asked_at ? port->now - h->asked_at : 0;
    if (silence >= STOPPED_NS && !h->silent && !h->left) {
        h->silent = true;
        tb_log(
            TB_LOG_WARN,
            "no word from %s for %.0f s: its process is stopped, or computes "
            "without calling MPI; waiting",
            h->name, (double)silence / 1e9);
        if (port->more.silent)
            port->more.silent(port->more.ctx, h->peer, silence);
    }
    if (most && silence >= most) {
        snprintf(why, sizeof(why),
                 "no word for %.1f s, longer than TBMPI_STOPPED_TIMEOUT",
                 (double)silence / 1e9);
        tb_rdma_bury(h, why);
    }
}

/* --------------------------------------------------------------- the lanes */

/* SENDs that have credit and do not leave: the device has lost count. */
static void look_for_stuck(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_rdma_lane *l = tb_lane_of(c, class);
    const struct tb_lane *flow = &c->link->flow.lane[tb_lane_index(c, class)];
    uint64_t now = c->port->now;

    if (flow->sent == flow->done || flow->done != l->stuck_done ||
        !l->stuck_at) {
        l->stuck_at = now;
        l->stuck_done = flow->done;
    } else if (now - l->stuck_at >= STUCK_NS && c->heard_at >= l->stuck_at) {
        tb_rdma_break(c, class, "SENDs do not leave");
    }
}

static void look_after_lane(struct tb_rdma_cable *c, enum tb_class class)
{
    struct tb_port *port = c->port;
    struct tb_probe m = {.class = (uint32_t) class,
                         .epoch = c->lane[class].epoch};

    if (c->lane[class].state != TB_LANE_POSTED)
        return;
    look_for_stuck(c, class);
    if (tb_flow_probe_due(&c->link->flow, tb_lane_index(c, class), port->now,
                          (uint64_t)port->config->rdma_probe, &m.settled)) {
        tb_post_send(&c->wire, TB_WIRE_PROBE, &m, sizeof(m));
        port->count.probes++;
    }
}

/* Reports that no lane has credit for go by socket. */
static void report_by_socket(struct tb_link *link)
{
    struct tb_flow *f = &link->flow;

    if (!link->reports_late_at || link->port->now - link->reports_late_at <
                                      (uint64_t)link->port->config->rdma_probe)
        return;
    link->reports_late_at = 0;
    for (uint32_t left = f->owing; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct tb_report report;
        tb_flow_report(f, lane, &report);
        tb_post_send(&link->cables[lane / TB_CLASSES]->wire, TB_WIRE_REPORT,
                     &report, sizeof(report));
    }
}

static const struct tb_parcel *oldest_parcel(const struct tb_flow *f)
{
    const struct tb_parcel *oldest = NULL;

    for (uint32_t i = 0; i < TB_FLOW_WINDOW && f->live; i++) {
        const struct tb_parcel *p = &f->parcels[i];
        if (p->live && !p->acked &&
            (!oldest || (int32_t)(oldest->born - p->born) > 0))
            oldest = p;
    }
    return oldest;
}

/* A packet that is sent again and again and never taken over was damaged
 * before it came to this link: no cable can help. */
static void look_for_hopeless(struct tb_link *link)
{
    const struct tb_parcel *p;
    uint64_t now = link->port->now;

    if (now < link->hopeless_at)
        return;
    link->hopeless_at = now + HOPELESS_NS;
    p = oldest_parcel(&link->flow);
    if (p && p->born == link->hopeless_born &&
        p->tries >= link->hopeless_tries + HOPELESS_TRIES) {
        for (int i = 0; i < link->n; i++)
            tb_rdma_kill(link->cables[i], false,
                         "a packet always arrives damaged: the memory of %s "
                         "may be faulty",
                         link->port->name);
        return;
    }
    link->hopeless_born = p ? p->born : 0;
    link->hopeless_tries = p ? p->tries : 0;
}

static void look_after_link(struct tb_link *link)
{
    struct tb_port *port = link->port;
    bool over = true;

    tb_flow_tick(&link->flow, port->now, (uint64_t)port->config->rdma_settle);
    report_by_socket(link);
    look_for_hopeless(link);
    for (int i = 0; i < link->n; i++) {
        struct tb_rdma_cable *c = link->cables[i];
        for (int k = 0; k < TB_CLASSES; k++)
            look_after_lane(c, k);
        over = over && c->state == TB_CABLE_DEAD && c->settled;
    }
    if (over && !link->lost)
        tb_rdma_end_link(link, link->host->gone ? TB_ERR_LOST : TB_ERR_SYSTEM);
}

static void mend_lanes(struct tb_port *port)
{
    port->alarm = false;
    for (int i = 0; i < port->n_cables; i++) {
        struct tb_rdma_cable *c = &port->cables[i];
        for (int k = 0; k < TB_CLASSES; k++) {
            if (c->lane[k].broken && c->state != TB_CABLE_DEAD)
                tb_rdma_mend(c, k);
        }
    }
}

/* Whether some lane waits for its peer. */
static bool is_hasty(const struct tb_port *port)
{
    for (int i = 0; i < port->n_cables; i++) {
        const struct tb_rdma_cable *c = &port->cables[i];
        for (int k = 0; k < TB_CLASSES && c->state != TB_CABLE_DEAD; k++) {
            if (c->lane[k].state != TB_LANE_POSTED || !c->lane[k].peer_ready)
                return true;
        }
    }
    return false;
}

void tb_rdma_watch(struct tb_port *port)
{
    port->now = tb_now();
    if (port->alarm)
        mend_lanes(port);
    read_sockets(port);
    if (!port->started)
        tb_rdma_start(port);
    for (int i = 0; i < port->n_links; i++)
        look_after_link(&port->links[i]);
    if (port->now >= port->liveness_at) {
        port->liveness_at = port->now + LIVENESS_NS;
        look_after_relay(port);
        for (int i = 0; i < port->n_cables; i++)
            look_after_cable(&port->cables[i]);
        for (int i = 0; i < port->n_peers; i++)
            look_after_peer(&port->peers[i]);
    }
    port->hasty = is_hasty(port);
    port->watch_at = port->now + (port->hasty ? WATCH_HASTY_NS : WATCH_NS);
}
