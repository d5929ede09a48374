/* SPDX-License-Identifier: MIT */
/*
 * Latency, bandwidth and loss of the verbs alone, by class of slots. All
 * figures are the receiver's: a SEND that completes has left, no more. Nothing
 * here relies on what it measures: messages are numbered and checked, and what
 * does not come is waited for a limited time.
 */
#include "base/crc.h"
#include "selftest/station.h"

#include <stdlib.h>

#define MTU(st) ((enum tb_ibv_mtu)(st)->device.mtu)
#define CLASSES 3
#define ROUNDS 400
#define ROUNDS_NS 1500000000u
#define ROUND_NS 70000000u /* a round that takes longer was lost */
#define BURSTS 8
#define BURSTS_NS 2000000000u
#define QUIET_NS 50000000u /* no more is coming */
#define CALL_POLLS 64      /* polls between two looks at the peer */
#define BATCH 16

static const uint32_t class_frames[CLASSES] = {1, 8, 32};

/* At the start of each message. */
struct stamp {
    uint64_t number;
    uint32_t crc; /* of what follows */
    uint32_t spare;
};

static void stamp(char *at, uint32_t bytes, uint64_t number)
{
    struct stamp s = {.number = number};

    tb_fill(at + sizeof(s), bytes - sizeof(s), (uint32_t)number);
    s.crc = tb_crc32c((uint32_t)number, at + sizeof(s), bytes - sizeof(s));
    memcpy(at, &s, sizeof(s));
}

static bool intact(const char *at, uint32_t bytes, uint64_t *number)
{
    struct stamp s;

    memcpy(&s, at, sizeof(s));
    *number = s.number;
    return s.crc ==
           tb_crc32c((uint32_t)s.number, at + sizeof(s), bytes - sizeof(s));
}

static int by_rate(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* ------------------------------------------------------------------ latency */

#define POSTED 16

static char *receive_at(struct tb_station *st, uint32_t slot, uint32_t bytes)
{
    return st->in + (size_t)slot * bytes;
}

/* Takes completions; true when message `number` has come. Receives are posted
 * again. */
static bool take_number(struct tb_pair *p, uint32_t bytes, uint64_t *number)
{
    struct tb_ibv_wc wc;
    bool came = false;
    uint32_t slot;

    while (!came && tb_ibv_poll_cq(p->cq, 1, &wc) > 0) {
        if (wc.wr_id & TB_OF_SEND)
            continue;
        slot = (uint32_t)wc.wr_id;
        came = wc.status == TB_IBV_WC_SUCCESS;
        if (came)
            memcpy(number, receive_at(p->st, slot, bytes), sizeof(*number));
        tb_pair_receive(p, slot, receive_at(p->st, slot, bytes), bytes);
    }
    return came;
}

/* Side 1: sends back the number of whatever comes, until side 0 calls. */
static void answer(struct tb_pair *p, uint32_t bytes)
{
    struct tb_station *st = p->st;
    uint64_t number;

    for (uint32_t polls = 1;; polls++) {
        if (take_number(p, bytes, &number)) {
            memcpy(st->out, &number, sizeof(number));
            tb_pair_send(p, 0, st->out, bytes);
        } else if (polls % CALL_POLLS == 0 && tb_called(st)) {
            return;
        } else {
            tb_yield();
        }
    }
}

/* Round trips; their times, ascending. Returns how many came back, of *tried.
 */
static int play(struct tb_pair *p, uint32_t bytes, uint64_t *ns, int *tried)
{
    struct tb_station *st = p->st;
    uint64_t end = tb_now() + ROUNDS_NS;
    int n = 0;

    for (*tried = 0; *tried < ROUNDS && tb_now() < end; ++*tried) {
        uint64_t began = tb_now(), now = began, want = (uint64_t)*tried + 1;
        uint64_t number = 0;
        memcpy(st->out, &want, sizeof(want));
        if (tb_pair_send(p, 0, st->out, bytes))
            break;
        while (number != want && now - began < ROUND_NS) {
            if (!take_number(p, bytes, &number))
                tb_yield();
            now = tb_now();
        }
        if (number == want)
            ns[n++] = now - began;
    }
    qsort(ns, (size_t)n, sizeof(*ns), by_time);
    return n;
}

/* Rounds that took much longer than most do, and by how much, typically. */
static int count_late(const uint64_t *ns, int n, uint64_t *by)
{
    uint64_t usual = n ? ns[n / 4] : 0;
    int first = 0;

    while (first < n && ns[first] <= 3 * usual + 100000)
        first++;
    *by = first < n ? ns[(first + n) / 2] - usual : 0;
    return n - first;
}

static void probe_latency(struct tb_pair *p, int class)
{
    struct tb_station *st = p->st;
    uint32_t bytes = class_frames[class] * TB_FRAME_BYTES;
    uint64_t ns[ROUNDS], by;
    int n = 0, tried = 0, late;

    if (!tb_pair_join(p, MTU(st), false, NULL))
        return;
    for (uint32_t i = 0; i < POSTED; i++)
        tb_pair_receive(p, i, receive_at(st, i, bytes), bytes);
    tb_meet(st);
    if (st->side == 0)
        n = play(p, bytes, ns, &tried);
    else
        answer(p, bytes);
    tb_meet(st);
    if (st->side != 0)
        return;
    late = count_late(ns, n, &by);
    tb_report(st, "latency", n ? "measured" : "nothing", "",
              "\"frames\": %u, \"least_us\": %.2f, \"median_us\": %.2f, "
              "\"rounds\": %d, \"lost\": %d, \"late\": %d, \"late_us\": %.1f",
              class_frames[class], n ? (double)ns[0] / 2e3 : 0.0,
              n ? (double)ns[n / 2] / 2e3 : 0.0, tried, tried - n, late,
              (double)by / 1e3);
}

/* ---------------------------------------------------------------- bandwidth */

/* What the receiver has seen, of all bursts in one direction. */
struct seen {
    uint64_t sent, arrived, damaged, failed, disordered, duplicated;
    double rate[BURSTS]; /* bytes a nanosecond */
    uint64_t timed;      /* bursts in `rate` */
};

struct burst {
    struct tb_pair *pair;
    uint32_t bytes, depth; /* of a message; messages posted at most */
    uint64_t number;       /* the next message's, from 1 */
    uint32_t posted;       /* receives that wait */
    uint64_t last;         /* number that came last */
    uint32_t *free;        /* slots whose receive has completed */
    uint32_t n_free;
    uint32_t *full; /* slots to be checked */
};

static void post_free(struct burst *b)
{
    while (b->n_free) {
        uint32_t slot = b->free[b->n_free - 1];
        if (tb_pair_receive(b->pair, slot,
                            receive_at(b->pair->st, slot, b->bytes), b->bytes))
            return;
        b->n_free--;
        b->posted++;
    }
}

static void check(struct burst *b, uint32_t n, struct seen *seen)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number;
        if (!intact(receive_at(b->pair->st, b->full[i], b->bytes), b->bytes,
                    &number)) {
            seen->damaged++;
            continue;
        }
        seen->duplicated += number == b->last;
        seen->disordered += number < b->last;
        b->last = TB_MAX(b->last, number);
    }
}

/* One poll's completions; how many messages came whole, added to *arrived. */
static void take_completions(struct burst *b, const struct tb_ibv_wc *wc, int n,
                             uint32_t *arrived, struct seen *seen)
{
    for (int i = 0; i < n; i++) {
        uint32_t slot = (uint32_t)wc[i].wr_id;
        if (!b->posted || slot >= b->depth)
            continue;
        b->free[b->n_free++] = slot;
        b->posted--;
        if (wc[i].status == TB_IBV_WC_SUCCESS)
            b->full[(*arrived)++] = slot;
        else
            seen->failed++;
    }
}

/* Takes in as many messages as receives are posted, or what comes of them.
 * Nothing has been sent before the time `empty`. */
static void take_burst(struct burst *b, uint64_t empty, struct seen *seen)
{
    uint64_t last = 0, gap = 0, since = tb_now();
    uint64_t most = b->pair->st->patience;
    uint32_t arrived = 0, n = b->posted;
    struct tb_ibv_wc wc[BATCH];

    while (b->posted) {
        uint64_t asked = tb_now();
        int got = tb_ibv_poll_cq(b->pair->cq, BATCH, wc);
        uint64_t now = tb_now();
        if (got > 0) {
            take_completions(b, wc, got, &arrived, seen);
            gap = last ? TB_MAX(gap, now - last) : 0;
            most = TB_MAX((uint64_t)QUIET_NS, 4 * gap);
            last = since = now;
        } else if (now - since > most) {
            break;
        } else {
            empty = last ? empty : asked;
            tb_yield();
        }
    }
    check(b, arrived, seen);
    seen->sent += n;
    seen->arrived += arrived;
    if (arrived > n / 2 && n > 4) {
        /* From the last look that found nothing: so whoever looks too late, or
         * too seldom, measures too little and never too much. */
        seen->rate[seen->timed++] =
            (double)(arrived - 1) * b->bytes / (double)(last - empty);
    }
}

static void send_burst(struct burst *b, uint32_t n)
{
    struct tb_station *st = b->pair->st;
    struct tb_ibv_wc wc;
    uint32_t posted = 0;

    for (; posted < n; posted++) {
        char *at = st->out + (size_t)posted * b->bytes;
        if (tb_pair_send(b->pair, posted, at, b->bytes))
            break;
    }
    while (posted && tb_pair_await(b->pair, 1, st->patience, &wc))
        posted--;
}

/* Bursts from one side to the other; `seen` is right at the receiver. */
static void run_bursts(struct burst *b, int sender, struct seen *seen)
{
    struct tb_station *st = b->pair->st;
    uint64_t end = tb_now() + BURSTS_NS;
    struct {
        uint32_t posted, over;
    } mine, theirs;

    for (int i = 0; i < BURSTS; i++) {
        mine.over = tb_now() > end;
        if (st->side != sender)
            post_free(b);
        mine.posted = b->posted;
        tb_swap(st, &mine, &theirs, sizeof(mine));
        if (mine.over || theirs.over)
            break;
        if (st->side == sender) {
            for (uint32_t k = 0; k < theirs.posted; k++)
                stamp(st->out + (size_t)k * b->bytes, b->bytes, b->number++);
            tb_meet(st);
            send_burst(b, theirs.posted);
        } else {
            uint64_t before = tb_now();
            tb_meet(st);
            take_burst(b, before, seen);
        }
    }
    tb_meet(st);
}

static uint32_t burst_depth(const struct tb_pair *p, uint32_t frames)
{
    uint32_t most = TB_MIN(p->send_frames, p->recv_frames);

    /* Half the queue: there is always room for the next burst's. */
    return TB_MAX(TB_MIN(most, 2048u) / 2 / frames, 1);
}

static void report_rate(struct tb_station *st, int class, int sender,
                        struct seen *s)
{
    size_t n = s->timed;

    qsort(s->rate, n, sizeof(*s->rate), by_rate);
    tb_report(st, "rate", s->arrived ? "measured" : "nothing", "",
              "\"frames\": %u, \"from\": %d, \"best\": %.3f, \"median\": %.3f, "
              "\"messages\": %llu, \"lost\": %llu, \"damaged\": %llu, "
              "\"failed\": %llu, \"disordered\": %llu, \"duplicated\": %llu",
              class_frames[class], sender, n ? s->rate[n - 1] : 0.0,
              n ? s->rate[n / 2] : 0.0, (unsigned long long)s->sent,
              (unsigned long long)(s->sent - s->arrived - s->failed),
              (unsigned long long)s->damaged, (unsigned long long)s->failed,
              (unsigned long long)s->disordered,
              (unsigned long long)s->duplicated);
}

static void probe_rate(struct tb_pair *p, int class, int sender)
{
    struct tb_station *st = p->st;
    struct burst b = {.pair = p,
                      .bytes = class_frames[class] * TB_FRAME_BYTES,
                      .depth = burst_depth(p, class_frames[class]),
                      .number = 1};
    struct seen seen, theirs;
    uint32_t depth;

    memset(&seen, 0, sizeof(seen));
    tb_swap(st, &b.depth, &depth, sizeof(depth));
    b.depth = TB_MIN(b.depth, depth);
    b.free = tb_calloc(b.depth, 2 * sizeof(*b.free));
    if (!b.free || !tb_pair_join(p, MTU(st), false, NULL)) {
        tb_free(b.free);
        return;
    }
    b.full = b.free + b.depth;
    while (b.n_free < b.depth) {
        b.free[b.n_free] = b.n_free;
        b.n_free++;
    }
    run_bursts(&b, sender, &seen);
    tb_free(b.free);
    tb_swap(st, &seen, &theirs, sizeof(seen));
    if (st->side == 0)
        report_rate(st, class, sender, sender == 0 ? &theirs : &seen);
}

void tb_probe_rates(struct tb_station *st, struct tb_pair *pair)
{
    tb_begin(st, "latency");
    for (int class = 0; class < CLASSES; class ++)
        probe_latency(pair, class);
    tb_begin(st, "rate");
    for (int class = 0; class < CLASSES; class ++) {
        for (int sender = 0; sender < 2; sender++)
            probe_rate(pair, class, sender);
    }
}
