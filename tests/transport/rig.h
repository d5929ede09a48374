/* SPDX-License-Identifier: MIT */
/*
 * What the transport tests share: ends of links on any transport, in one
 * process or in several, and packets whose content can be checked.
 */
#ifndef TB_TRANSPORT_RIG_H
#define TB_TRANSPORT_RIG_H

#include "net/segment.h"
#include "net/tcp.h"
#include "net/transport.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/macs.h"
#include "transport/sockets.h"
#include "unit/check.h"

#define RIG_MOST 16 /* places */

/* A job's memory on one machine. */
struct rig {
    const struct tb_transport *via;
    struct tb_config config;
    int places;
    int local[RIG_MOST];
    void *segment;
    size_t bytes;
    struct tb_segment_plan plan;
    struct macs macs; /* where `via` is rdma: the places are Macs */
    int socket[RIG_MOST][RIG_MOST]; /* where it is tcp: of one place to another;
                                       -1: none, or a port's */
    struct tb_rdma_sink more;
    const char *build; /* NULL: this one */
};

/* One process's end: a port, and what arrived there. */
struct end {
    struct rig *rig;
    int place;
    struct tb_port *port;
    struct tb_sink sink;
    struct tb_bell *bell;
    struct tb_bell own_bell;
    struct tb_link *links[RIG_MOST];
    struct tb_limits limits; /* of every link */
    struct mac mac;
    int ear[2];          /* a pipe, where `via` is tcp */
    struct end *partner; /* polled along: the same thread drives both */
    /* Arrivals. */
    long packets, bulk, returned, losts;
    uint64_t next[RIG_MOST]; /* number of the next CONTROL packet from there */
    uint64_t back[RIG_MOST]; /* number of the next one handed back */
    unsigned char *seen;     /* by number, of BULK packets; NULL: not counted */
    tb_err lost_why;
    int lost_peer;
    void (*also)(struct end *e, int from, const void *data, size_t bytes);
};

static inline bool rig_is_remote(const struct rig *r)
{
    return r->via == &tb_transport_rdma;
}

static inline bool rig_is_tcp(const struct rig *r)
{
    return r->via == &tb_transport_tcp;
}

/* Whether packets take their time, and need their sender to arrive. */
static inline bool rig_is_slow(const struct rig *r)
{
    return rig_is_remote(r) || rig_is_tcp(r);
}

/* Every packet: who sent it and its number; then bytes that follow from both.
 * Shorter ones carry the leading part. */
struct stamp {
    uint32_t from;
    uint32_t bytes;
    uint64_t number;
};

static inline unsigned char body_byte(uint64_t number, size_t at)
{
    return (unsigned char)(number * 31 + at * 7 + (at >> 8));
}

static inline void write_packet(void *to, int from, uint64_t number,
                                size_t bytes)
{
    struct stamp s = {(uint32_t)from, (uint32_t)bytes, number};
    unsigned char *p = to;

    for (size_t i = sizeof(s); i < bytes; i++)
        p[i] = body_byte(number, i);
    memcpy(to, &s, TB_MIN(bytes, sizeof(s)));
}

/* Returns the number; checks everything else. Needs a whole stamp. */
static inline uint64_t check_packet(int from, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    struct stamp s;

    CHECK(bytes >= sizeof(s));
    CHECK_EQ((uintptr_t)data % 8, 0);
    memcpy(&s, data, sizeof(s));
    CHECK_EQ(s.from, from);
    CHECK_EQ(s.bytes, bytes);
    for (size_t i = sizeof(s); i < bytes; i++) {
        if (p[i] != body_byte(s.number, i))
            CHECK_EQ(p[i], body_byte(s.number, i));
    }
    return s.number;
}

static inline void rig_packet(void *ctx, int from, enum tb_channel ch,
                              const void *data, size_t bytes)
{
    struct end *e = ctx;
    uint64_t number = check_packet(from, data, bytes);

    if (ch == TB_CONTROL) {
        CHECK_EQ(number, e->next[from]);
        e->next[from]++;
    } else {
        e->bulk++;
        if (e->seen) {
            CHECK(!e->seen[number]);
            e->seen[number] = 1;
        }
    }
    e->packets++;
    if (e->also)
        e->also(e, from, data, bytes);
}

static inline void rig_returned(void *ctx, int to, enum tb_channel ch,
                                const void *data, size_t bytes)
{
    struct end *e = ctx;
    uint64_t number = check_packet(e->place, data, bytes);

    CHECK_EQ(e->losts, 0);
    if (ch == TB_CONTROL) {
        if (!e->returned)
            e->back[to] = number;
        /* On several cables the neighbour may have taken one in between. */
        CHECK(rig_is_remote(e->rig) ? number >= e->back[to]
                                    : number == e->back[to]);
        e->back[to] = number + 1;
    }
    e->returned++;
}

static inline void rig_lost(void *ctx, int peer, tb_err why)
{
    struct end *e = ctx;

    e->losts++;
    e->lost_peer = peer;
    e->lost_why = why;
}

/* As rig_init, with Macs joined by `each` cables on a fabric with these
 * settings. */
static inline void rig_init_macs(struct rig *r, int places, int each,
                                 const char *settings)
{
    memset(r, 0, sizeof(*r));
    r->via = &tb_transport_rdma;
    r->places = places;
    CHECK_EQ(tb_config_load(&r->config), TB_OK);
    macs_init(&r->macs, places, each, settings);
}

/* Of all sockets keep those of one place: in a process that is only that. */
static inline void rig_keep(struct rig *r, int place)
{
    for (int i = 0; rig_is_tcp(r) && i < r->places; i++) {
        for (int k = 0; i != place && k < r->places; k++) {
            if (r->socket[i][k] >= 0)
                close(r->socket[i][k]);
            r->socket[i][k] = -1;
        }
    }
}

/* Before the same places are opened for the first or another time. */
static inline void rig_connect(struct rig *r)
{
    if (!rig_is_tcp(r))
        return;
    for (int i = 0; i < r->places; i++) {
        r->socket[i][i] = -1;
        for (int k = 0; k < i; k++)
            socket_pair(&r->socket[i][k], &r->socket[k][i]);
    }
}

static inline void rig_init(struct rig *r, const struct tb_transport *via,
                            int places, int64_t ring)
{
    if (via == &tb_transport_rdma) {
        rig_init_macs(r, places, 1, "");
        return;
    }
    memset(r, 0, sizeof(*r));
    r->via = via;
    r->places = places;
    CHECK_EQ(tb_config_load(&r->config), TB_OK);
    r->config.ring = ring;
    if (rig_is_tcp(r) && ring)
        r->config.tcp_ring = ring;
    for (int i = 0; i < places; i++)
        r->local[i] = i;
    r->bytes = (size_t)places * TB_SEGMENT_PER_RANK;
    r->segment = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(r->segment != MAP_FAILED);
    CHECK_EQ(tb_segment_plan(&r->plan, places, r->bytes, (size_t)ring), TB_OK);
    rig_connect(r);
}

static inline void rig_fini(struct rig *r)
{
    if (rig_is_remote(r))
        macs_fini(&r->macs);
    else
        munmap(r->segment, r->bytes);
    rig_keep(r, -1);
}

static inline tb_err end_open_mac(struct end *e, struct tb_port_args *args)
{
    struct macs *m = &e->rig->macs;
    tb_err err = mac_init(&e->mac, m, e->place, MACS_POOL);

    e->bell = args->bell = &e->own_bell;
    args->rdma = &e->mac.args;
    e->mac.args.more = e->rig->more;
    e->mac.args.more.ctx = e;
    if (e->rig->build)
        e->mac.args.build = e->rig->build;
    if (!err)
        err = e->rig->via->open(&e->port, args);
    if (err)
        mac_fini(&e->mac);
    else
        mac_opened(m, e->place);
    return err;
}

static inline tb_err end_open_tcp(struct end *e, struct tb_port_args *args)
{
    struct tb_tcp_args tcp = {.socket = e->rig->socket[e->place],
                              .build = "a build"};
    tb_err err;

    CHECK(!pipe(e->ear));
    CHECK(!fcntl(e->ear[0], F_SETFL, O_NONBLOCK));
    tcp.ear = e->ear[0];
    args->tcp = &tcp;
    args->local_ranks = 1;
    args->bell = e->bell = &e->own_bell;
    if (e->rig->build)
        tcp.build = e->rig->build;
    err = tb_bell_pipe(e->bell, e->ear[1]);
    if (!err)
        err = e->rig->via->open(&e->port, args);
    if (err) {
        tb_bell_forget(e->bell);
        close(e->ear[0]);
        close(e->ear[1]);
        return err;
    }
    for (int i = 0; i < e->rig->places; i++)
        e->rig->socket[e->place][i] = -1;
    return TB_OK;
}

static inline tb_err end_open(struct end *e, struct rig *r, int place)
{
    struct tb_port_args args = {
        .config = &r->config,
        .up = &e->sink,
        .self = place,
        .endpoints = r->places,
        .segment = r->segment,
        .segment_bytes = r->bytes,
        .local_rank = place,
        .local_ranks = r->places,
        .local = r->local,
    };
    struct tb_note *note;

    memset(e, 0, sizeof(*e));
    e->rig = r;
    e->place = place;
    e->sink = (struct tb_sink){e, rig_packet, rig_returned, rig_lost};
    if (rig_is_remote(r))
        return end_open_mac(e, &args);
    if (rig_is_tcp(r))
        return end_open_tcp(e, &args);
    note = tb_segment_note(r->segment, &r->plan, place);
    e->bell = &tb_segment_rank(r->segment, &r->plan, place)->bell;
    if (r->places == 1)
        e->bell = &e->own_bell;
    args.bell = e->bell;
    note->pid = (uint32_t)getpid();
    note->state = TB_STATE_RUNNING;
    return r->via->open(&e->port, &args);
}

/* Opens, and connects to everybody it can. */
static inline void end_init(struct end *e, struct rig *r, int place)
{
    CHECK_EQ(end_open(e, r, place), TB_OK);
    for (int i = 0; i < r->places; i++) {
        if (r->places > 1 && i == place)
            continue;
        CHECK_EQ(r->via->connect(e->port, i, &e->links[i]), TB_OK);
        r->via->limits(e->links[i], &e->limits);
    }
}

static inline void end_fini(struct end *e)
{
    if (!rig_is_remote(e->rig))
        tb_segment_note(e->rig->segment, &e->rig->plan, e->place)->state =
            TB_STATE_FINALIZED;
    e->rig->via->close(e->port);
    if (rig_is_tcp(e->rig)) {
        tb_bell_forget(e->bell);
        close(e->ear[0]);
        close(e->ear[1]);
    }
    mac_fini(&e->mac);
}

static inline int end_poll_alone(struct end *e)
{
    if (rig_is_remote(e->rig))
        e->rig->macs.host(e->place); /* whose devices this thread sees */
    return e->rig->via->poll(e->port);
}

/* Where packets take their time they need the sender, too, to arrive. */
static inline int end_poll(struct end *e)
{
    if (rig_is_slow(e->rig) && e->partner)
        end_poll_alone(e->partner);
    return end_poll_alone(e);
}

/* Polls both until each can send to the other: links take time to come up. */
static inline void ends_meet(struct end *a, struct end *b)
{
    struct end *const end[2] = {a, b};

    for (int k = 0; k < 2; k++) {
        struct tb_link *link = end[k]->links[end[!k]->place];
        struct tb_slot slot;
        while (a->rig->via->reserve(link, TB_CONTROL, 1, &slot)) {
            end_poll(a);
            end_poll(b);
            CHECK_EQ(a->losts + b->losts, 0);
        }
        a->rig->via->commit(link, &slot, 0);
    }
}

/* One packet, or the reason why not. */
static inline tb_err try_send(struct end *e, int to, enum tb_channel ch,
                              uint64_t number, size_t bytes)
{
    struct tb_slot slot;
    tb_err err = e->rig->via->reserve(e->links[to], ch, bytes, &slot);

    if (err)
        return err;
    CHECK(slot.room >= bytes);
    CHECK_EQ((uintptr_t)slot.data % 8, 0);
    write_packet(slot.data, e->place, number, bytes);
    e->rig->via->commit(e->links[to], &slot, bytes);
    return TB_OK;
}

/* Waits as net does, without the spinning; false when nobody rang. */
static inline bool end_sleep(struct end *e, uint64_t ns)
{
    uint64_t start = tb_now();
    uint32_t ticket = 0;

    if (rig_is_remote(e->rig)) {
        tb_yield();
        return true;
    }
    if (rig_is_tcp(e->rig))
        tb_bell_arm_pipe(e->bell);
    else
        ticket = tb_bell_arm(e->bell);
    if (!e->rig->via->pending(e->port)) {
        if (rig_is_tcp(e->rig))
            tb_tcp_sleep(e->port, ns);
        else
            tb_bell_sleep(e->bell, ticket, ns);
    }
    tb_bell_disarm(e->bell);
    return tb_now() - start < ns;
}

/* Sends, and polls while there is no room. */
static inline void send_packet(struct end *e, int to, enum tb_channel ch,
                               uint64_t number, size_t bytes)
{
    tb_err err;

    while ((err = try_send(e, to, ch, number, bytes)) == TB_ERR_AGAIN) {
        if (!end_poll(e))
            tb_yield();
    }
    CHECK_EQ(err, TB_OK);
}

static inline void await_packets(struct end *e, long n)
{
    while (e->packets < n) {
        if (!end_poll(e))
            tb_yield();
    }
}

/* A repeatable sequence of numbers (Marsaglia's xorshift). */
static inline uint32_t draw(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static inline size_t draw_bytes(uint32_t *state, size_t most)
{
    uint32_t r = draw(state);

    if (r % 4)
        most = TB_MIN(most, 200u);
    return sizeof(struct stamp) + (r >> 2) % (most - sizeof(struct stamp) + 1);
}

#endif
