/* SPDX-License-Identifier: MIT */
/* The library's own transport, over all cables between the two ends at once:
 * it must work whatever the probes have found. */
#include "net/owner.h"
#include "selftest/station.h"

#include <stdio.h>
#include <stdlib.h>

#define STEP_LEAST_NS 10000000000u /* longest time for each step */
#define STEP_PATIENCE 50           /* or so many times the patience */
#define ROUNDS 200
#define STREAM 400 /* packets of full length */
#define SIZES 3

enum kind { PING = 1, PONG, DATA, LAST, DONE };

struct mark {
    uint32_t kind, bytes;
    uint64_t number;
};

struct run {
    struct tb_station *st;
    struct tb_owner owner;
    struct tb_sink sink;
    struct tb_port *port;
    struct tb_link *link;
    bool lost;
    char why[512];
    uint64_t until;       /* the step's end */
    struct mark came;     /* the last packet */
    struct mark to_send;  /* side 1's answer; kind 0: none */
    uint64_t data, wrong; /* packets */
};

static void on_packet(void *ctx, int from, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct run *r = ctx;

    (void)from, (void)ch;
    if (bytes < sizeof(r->came)) {
        r->wrong++;
        return;
    }
    memcpy(&r->came, data, sizeof(r->came));
    r->wrong += r->came.bytes != bytes ||
                !tb_filled((const char *)data + sizeof(r->came),
                           bytes - sizeof(r->came), (uint32_t)r->came.number);
    r->data += r->came.kind == DATA || r->came.kind == LAST;
    if (r->came.kind == PING)
        r->to_send = (struct mark){PONG, r->came.bytes, r->came.number};
    if (r->came.kind == LAST)
        r->to_send = (struct mark){DONE, sizeof(r->came), r->came.number};
}

static void on_returned(void *ctx, int to, enum tb_channel ch, const void *data,
                        size_t bytes)
{
    (void)ctx, (void)to, (void)ch, (void)data, (void)bytes;
}

static void on_lost(void *ctx, int peer, tb_err why)
{
    struct run *r = ctx;

    (void)peer, (void)why;
    r->lost = true;
    snprintf(r->why, sizeof(r->why), "%s", tb_fail_note());
}

/* ------------------------------------------------------------------- moving */

static void begin_step(struct run *r)
{
    r->until =
        tb_now() + TB_MAX(STEP_PATIENCE * r->st->patience, STEP_LEAST_NS);
}

/* One turn; false: the step is over for want of time, or the link lost. */
static bool turn(struct run *r)
{
    if (!tb_transport_rdma.poll(r->port))
        tb_yield();
    if (!r->lost && tb_now() > r->until) {
        r->lost = true;
        snprintf(r->why, sizeof(r->why), "it takes too long");
    }
    return !r->lost;
}

static bool send_mark(struct run *r, struct mark m)
{
    struct tb_slot slot;
    tb_err err;

    do {
        err = tb_transport_rdma.reserve(r->link, TB_CONTROL, m.bytes, &slot);
    } while (err == TB_ERR_AGAIN && turn(r));
    if (err)
        return false;
    tb_fill((char *)slot.data + sizeof(m), m.bytes - sizeof(m),
            (uint32_t)m.number);
    memcpy(slot.data, &m, sizeof(m));
    tb_transport_rdma.commit(r->link, &slot, m.bytes);
    return true;
}

static bool await_mark(struct run *r, enum kind kind, uint64_t number)
{
    while (r->came.kind != kind || r->came.number != number) {
        if (!turn(r))
            return false;
    }
    return true;
}

/* Half a round trip, the least of many, in us; 0: it failed. */
static double least_half(struct run *r, uint32_t bytes, uint64_t *number)
{
    uint64_t least = UINT64_MAX;

    begin_step(r);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t began = tb_now();
        if (!send_mark(r, (struct mark){PING, bytes, ++*number}) ||
            !await_mark(r, PONG, *number))
            return 0;
        least = TB_MIN(least, tb_now() - began);
    }
    return (double)least / 2e3;
}

/* Bytes a nanosecond, until the other end has said that it has them. */
static double stream(struct run *r, uint32_t bytes, uint64_t *number)
{
    uint64_t began = tb_now();

    begin_step(r);
    for (int i = 0; i < STREAM; i++) {
        enum kind kind = i == STREAM - 1 ? LAST : DATA;
        if (!send_mark(r, (struct mark){kind, bytes, ++*number}))
            return 0;
    }
    if (!await_mark(r, DONE, *number))
        return 0;
    return (double)bytes * STREAM / (double)(tb_now() - began);
}

/* Side 1: answers until side 0 calls. */
static void serve(struct run *r)
{
    while (!tb_called(r->st) && !r->lost) {
        struct mark m = r->to_send;
        begin_step(r);
        if (!turn(r))
            return;
        r->to_send.kind = r->to_send.number == m.number ? 0 : r->to_send.kind;
        if (m.kind)
            send_mark(r, m);
    }
}

/* ------------------------------------------------------------------ opening */

static tb_err open_run(struct run *r)
{
    const struct tb_config *config = r->st->config;
    struct tb_port_args args = {.config = config, .up = &r->sink};
    int self = r->st->plan->self;

    TB_TRY(tb_owner_open(&r->owner, config, r->st->plan, -1,
                         (size_t)config->pool, 0));
    args.self = tb_plan_owner(r->st->plan, self);
    args.endpoints = r->st->plan->size;
    args.rdma = &r->owner.args;
    TB_TRY(tb_transport_rdma.open(&r->port, &args));
    return tb_transport_rdma.connect(r->port, tb_plan_owner(r->st->plan, !self),
                                     &r->link);
}

static void keep_polling(void *ctx)
{
    struct run *r = ctx;

    if (r->port && !tb_transport_rdma.poll(r->port))
        tb_yield();
}

/* ------------------------------------------------------------------ report */

struct figures {
    double half_us[SIZES], rate;
    uint64_t wrong;
    struct tb_rdma_counts counts;
    int32_t lost;
    char why[512];
};

static void measure(struct run *r, struct figures *f)
{
    uint32_t sizes[SIZES] = {sizeof(struct mark)};
    struct tb_limits limits;
    uint64_t number = 0;

    tb_transport_rdma.limits(r->link, &limits);
    sizes[1] = (uint32_t)limits.middle;
    sizes[2] = (uint32_t)limits.packet_max;
    for (int i = 0; i < SIZES && !r->lost; i++)
        f->half_us[i] = least_half(r, sizes[i], &number);
    if (!r->lost)
        f->rate = stream(r, sizes[2], &number);
}

static void report(struct tb_station *st, const struct figures *own,
                   const struct figures *peer)
{
    const struct tb_rdma_counts *a = &own->counts, *b = &peer->counts;
    bool good = !own->lost && !peer->lost && !own->wrong && !peer->wrong;
    const char *why = own->lost ? own->why : peer->why;

    tb_report(st, "link", good ? "works" : "fails", good ? "" : why,
              "\"small_us\": %.2f, \"middle_us\": %.2f, \"large_us\": %.2f, "
              "\"rate\": %.3f, \"resent\": %llu, \"lost\": %llu, "
              "\"damaged\": %llu, \"epochs\": %llu, \"cables_lost\": %llu",
              own->half_us[0], own->half_us[1], own->half_us[2], own->rate,
              (unsigned long long)(a->resent + b->resent),
              (unsigned long long)(a->lost + b->lost),
              (unsigned long long)(a->damaged + b->damaged),
              (unsigned long long)(a->epochs + b->epochs),
              (unsigned long long)(a->cables_lost + b->cables_lost));
}

void tb_probe_link(struct tb_station *st)
{
    struct run r = {.st = st};
    struct figures own, peer;
    int32_t mine, theirs;

    st->cable = -1;
    tb_begin(st, "link");
    r.sink = (struct tb_sink){&r, on_packet, on_returned, on_lost};
    memset(&own, 0, sizeof(own));
    mine = open_run(&r) != TB_OK;
    if (mine)
        snprintf(own.why, sizeof(own.why), "%s", tb_fail_note());
    tb_swap(st, &mine, &theirs, sizeof(mine));
    begin_step(&r);
    if (!mine && !theirs) {
        if (st->side == 0)
            measure(&r, &own);
        else
            serve(&r);
        tb_rdma_count(r.port, &own.counts);
        memcpy(own.why, r.why, sizeof(own.why));
    }
    own.wrong = r.wrong;
    own.lost = mine || r.lost;
    st->meanwhile = keep_polling;
    st->meanwhile_ctx = &r;
    tb_swap(st, &own, &peer, sizeof(own));
    tb_meet(st);
    st->meanwhile = NULL;
    if (st->side == 0)
        report(st, &own, &peer);
    tb_transport_rdma.close(r.port);
    tb_owner_close(&r.owner);
}
