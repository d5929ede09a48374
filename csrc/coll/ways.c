/* SPDX-License-Identifier: MIT */
/*
 * Collectives where nodes stand in a ring or a line: messages go between
 * neighbours only, and a cable's two directions work at once.
 *
 * Allreduce: the vector is cut for both ways around the ring, each of which
 * carries m/2 bytes twice, less its last step: Patarasuk and Yuan's, doubled.
 * On a line one way suffices: what closes the ring goes back by the directions
 * that the others leave free. Each way has two streams that take turns, so that
 * one is combined while the other is on its way.
 * Bcast: halves go both ways around the ring, piece by piece, m/2 bytes over
 * each cable; on a line all of it goes both ways from the root.
 */
#include "coll/levels.h"

#define PIECE 131072
#define STREAMS 4

/* ------------------------------------------------------------- reductions */

/* A part of the vector on its way round; see ring_reduce in allreduce.c. */
struct stream {
    int by; /* 1, or -1: the other way round */
    struct tb_blocks in, out;
    void *arrived[2];
    struct tb_part sum;  /* of the block that is sent next */
    struct tb_part next; /* what arrives, to be combined */
    int at;              /* its block */
};

static int beside(const struct tb_team *t, int rank, int by)
{
    return (rank + by + t->size) % t->size;
}

static void stream_init(struct stream *v, struct tb_sched *s,
                        const struct tb_team *t, struct tb_part in, void *out)
{
    v->in = tb_cut(in.buf, in.count, in.layout, t->size);
    v->out = tb_cut(out, in.count, in.layout, t->size);
    for (int i = 0; i < 2 && in.count; i++)
        v->arrived[i] = tb_sched_elements(s, in.layout, v->in.count);
    v->at = t->rank;
    v->sum = tb_block(&v->in, v->at);
}

static void stream_move(struct stream *v, struct tb_sched *s,
                        const struct tb_team *t, int step)
{
    v->at = beside(t, v->at, -v->by);
    v->next = tb_block(&v->in, v->at);
    v->next.buf = v->arrived[step % 2];
    if (step == t->size - 1 && v->in.base != v->out.base)
        v->next.buf = tb_block(&v->out, v->at).buf;
    tb_sched_recv(s, t, beside(t, t->rank, -v->by), v->next);
    tb_sched_send(s, t, beside(t, t->rank, v->by), v->sum);
}

static void stream_add(struct stream *v, struct tb_sched *s)
{
    tb_sched_reduce(s, tb_block(&v->in, v->at).buf, v->next.buf, v->next.count);
    v->sum = v->next;
}

/* The sums go round once more. */
static void stream_pass(struct stream *v, struct tb_sched *s,
                        const struct tb_team *t)
{
    struct tb_part own = tb_block(&v->out, v->at);
    v->at = beside(t, v->at, -v->by);
    tb_sched_recv(s, t, beside(t, t->rank, -v->by), tb_block(&v->out, v->at));
    tb_sched_send(s, t, beside(t, t->rank, v->by), own);
}

static void streams_reduce(struct stream *v, int n, struct tb_sched *s,
                           const struct tb_team *t)
{
    for (int step = 1; step < t->size; step++)
        for (int turn = 0; turn < 2; turn++) {
            for (int i = turn; i < n; i += 2)
                stream_move(&v[i], s, t, step);
            for (int i = 1 - turn; i < n && step + turn > 1; i += 2)
                stream_add(&v[i], s);
            tb_sched_round(s);
        }
    for (int i = 1; i < n && t->size > 1; i += 2)
        stream_add(&v[i], s);
}

void tb_ways_allreduce(struct tb_sched *s, const struct tb_team *t,
                       const void *in, void *out, int64_t count, bool both)
{
    struct tb_layout *layout = s->type->layout;
    struct stream v[STREAMS];
    int n = both ? STREAMS : STREAMS / 2;
    for (int i = 0; i < n; i++) {
        int64_t at = count * i / n, end = count * (i + 1) / n;
        v[i] = (struct stream){.by = i < STREAMS / 2 ? 1 : -1};
        stream_init(&v[i], s, t,
                    tb_elements(s, tb_at(in, at * layout->extent), end - at),
                    tb_at(out, at * layout->extent));
    }
    streams_reduce(v, n, s, t);
    for (int i = 0; i < n; i++) {
        struct tb_part place = tb_block(&v[i].out, v[i].at);
        if (v[i].sum.buf != place.buf)
            tb_sched_copy(s, v[i].sum, place);
    }
    for (int step = 1; step < t->size; step++) {
        for (int i = 0; i < n; i++)
            stream_pass(&v[i], s, t);
        tb_sched_round(s);
    }
    tb_sched_round(s);
}

static void allreduce(struct tb_sched *s, const struct tb_call *c, bool both)
{
    int64_t count = c->recv.count;
    void *out = c->recv.base;
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, -1))
        return;
    const void *in = tb_levels_reduce(s, &l, c->send.base, out, count);
    if (l.leads)
        tb_ways_allreduce(s, &l.leaders, in, out, count, both);
    tb_bcast_binomial(s, &l.local, tb_elements(s, out, count));
}

void tb_build_allreduce_both_ways(struct tb_sched *s, const struct tb_call *c)
{
    allreduce(s, c, true);
}

void tb_build_allreduce_one_way(struct tb_sched *s, const struct tb_call *c)
{
    allreduce(s, c, false);
}

/* --------------------------------------------------------------- broadcast */

/* A message that comes from one neighbour, piece by piece, and goes on to up
 * to two others. */
struct chain {
    int far;             /* steps from where it starts */
    int from;            /* -1: it starts here */
    int to[2];           /* -1: nobody */
    struct tb_part what; /* bytes */
};

/* Empty before the first and behind the last. */
static struct tb_part chain_piece(const struct chain *v, int64_t p)
{
    int64_t at = p < 0 ? v->what.count : TB_MIN(p * PIECE, v->what.count);
    return tb_bytes(tb_at(v->what.buf, at), TB_MIN(PIECE, v->what.count - at));
}

/* A piece takes one round a step, at both ends the same one, so that ranks
 * that pass messages on both ways never wait for each other's next round. */
static void chain_move(const struct chain *v, struct tb_sched *s,
                       const struct tb_team *t, int64_t round)
{
    if (v->from >= 0)
        tb_sched_recv(s, t, v->from, chain_piece(v, round - v->far + 1));
    for (int i = 0; i < 2; i++)
        if (v->to[i] >= 0)
            tb_sched_send(s, t, v->to[i], chain_piece(v, round - v->far));
}

static void run_chains(const struct chain *v, int n, struct tb_sched *s,
                       const struct tb_team *t)
{
    int64_t rounds = 0;
    for (int i = 0; i < n; i++) {
        int64_t pieces = (v[i].what.count + PIECE - 1) / PIECE;
        rounds = TB_MAX(rounds, pieces + v[i].far);
    }
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < n; i++)
            chain_move(&v[i], s, t, round);
        tb_sched_round(s);
    }
}

static void around_ring(struct tb_sched *s, const struct tb_team *t,
                        struct tb_part what)
{
    struct tb_blocks halves = tb_cut(what.buf, what.count, what.layout, 2);
    struct chain v[2];
    for (int i = 0; i < 2; i++) {
        int by = i ? -1 : 1, next = beside(t, t->rank, by);
        v[i] = (struct chain){
            .far = i ? (t->size - t->rank) % t->size : t->rank,
            .from = t->rank ? beside(t, t->rank, -by) : -1,
            .to = {next ? next : -1, -1},
            .what = tb_block(&halves, i),
        };
    }
    run_chains(v, 2, s, t);
}

/* The root is rank 0 of the leaders. Those from 1 to `last` are on one side of
 * it, the others, from the far end towards it, on the other. */
static void along_line(struct tb_sched *s, const struct tb_team *t,
                       struct tb_part what)
{
    int n = t->size, me = t->rank, last = n - 1 - t->shift;
    struct chain v = {
        .from = -1, .to = {me < last ? me + 1 : -1, -1}, .what = what};
    if (me > last) {
        v.far = n - me;
        v.from = beside(t, me, 1);
        v.to[1] = me > last + 1 ? me - 1 : -1;
    } else if (me > 0) {
        v.far = me;
        v.from = me - 1;
    } else if (last < n - 1) {
        v.to[1] = n - 1;
    }
    run_chains(&v, 1, s, t);
}

void tb_build_bcast_both_ways(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_part what = tb_block(&c->recv, 0);
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, c->root))
        return;
    if (l.leads) {
        struct tb_part stream = tb_stream_begin(s, &l.leaders, what);
        if (l.shape->cabling == TB_CABLING_RING)
            around_ring(s, &l.leaders, stream);
        else
            along_line(s, &l.leaders, stream);
        tb_stream_end(s, &l.leaders, stream, what);
    }
    tb_bcast_binomial(s, &l.local, what);
}
