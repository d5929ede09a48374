/* SPDX-License-Identifier: MIT */
/*
 * Collectives where a cable joins any two nodes: everything is one hop, and a
 * rank's cables all work at once.
 *
 * With n nodes, m bytes and cables of B bytes/s each way:
 * Once: each tells all others its whole vector; one hop, m/B.
 * Reduce: block i of everyone to rank i at once, (m/n)/B; pieces are combined
 * while the next are on their way.
 * Allreduce: that, and each tells all others its block, another (m/n)/B.
 * Bcast: the root gives each of the others one part, who tell the rest; piece
 * by piece both go on at once, (m/(n - 1))/B.
 */
#include "coll/levels.h"

#define PIECE 262144   /* bytes; several rounds' latency is small beside it */
#define PIECES_MOST 64 /* of a block: a limit to the schedule's length */

static int64_t piece_length(int64_t count, int64_t size)
{
    int64_t least = (count + PIECES_MOST - 1) / PIECES_MOST;
    return TB_MAX(TB_MAX(least, PIECE / TB_MAX(size, 1)), 1);
}

/* Piece number `p` of at most `length` elements; empty beyond the end. */
static struct tb_part piece_of(struct tb_part whole, int64_t length, int64_t p)
{
    int64_t at = TB_MIN(p * length, whole.count);
    return (struct tb_part){tb_at(whole.buf, at * whole.layout->extent),
                            TB_MIN(length, whole.count - at), whole.layout};
}

/* -------------------------------------------------------------- reductions */

/* What has arrived: for each other rank a piece, two pieces deep. */
struct arrivals {
    char *at[2];
    int64_t length; /* elements of a piece */
    struct tb_layout *layout;
};

static void *arrival(const struct arrivals *a, int64_t p, int from)
{
    return tb_at(a->at[p % 2], from * a->length * a->layout->extent);
}

static void swap_pieces(struct tb_sched *s, const struct tb_team *t,
                        const struct tb_blocks *in, const struct arrivals *a,
                        int64_t p)
{
    int n = t->size;
    struct tb_part own = tb_block(in, t->rank);
    for (int i = 1; i < n; i++) {
        int from = (t->rank - i + n) % n, to = (t->rank + i) % n;
        struct tb_part place = piece_of(own, a->length, p);
        place.buf = arrival(a, p, from);
        tb_sched_recv(s, t, from, place);
        tb_sched_send(s, t, to, piece_of(tb_block(in, to), a->length, p));
    }
}

/* In the order of the ranks, so that a repetition gives the same bits. */
static void add_pieces(struct tb_sched *s, const struct tb_team *t,
                       struct tb_part sum, const struct arrivals *a, int64_t p)
{
    struct tb_part piece = piece_of(sum, a->length, p);
    for (int from = t->size; from-- > 0;)
        if (from != t->rank)
            tb_sched_reduce(s, arrival(a, p, from), piece.buf, piece.count);
}

void tb_mesh_reduce(struct tb_sched *s, const struct tb_team *t,
                    const struct tb_blocks *in, void *out)
{
    struct tb_part own = tb_block(in, t->rank), sum = own;
    struct arrivals a = {.layout = own.layout};
    int64_t most = 0;
    sum.buf = out;
    for (int i = 0; i < t->size; i++)
        most = TB_MAX(most, tb_block(in, i).count);
    a.length = TB_MIN(piece_length(most, own.layout->size), TB_MAX(most, 1));
    int64_t pieces = (most + a.length - 1) / a.length;
    for (int i = 0; i < 2 && own.count; i++)
        a.at[i] = tb_sched_elements(s, own.layout, t->size * a.length);
    for (int64_t p = 0; p <= pieces; p++) {
        if (p < pieces)
            swap_pieces(s, t, in, &a, p);
        if (p < pieces && sum.buf != own.buf)
            tb_sched_copy(s, piece_of(own, a.length, p),
                          piece_of(sum, a.length, p));
        if (p > 0)
            add_pieces(s, t, sum, &a, p - 1);
        tb_sched_round(s);
    }
}

/* All have the same vectors and combine them in the same order. */
static void reduce_once(struct tb_sched *s, const struct tb_team *t,
                        const void *in, void *out, int64_t count)
{
    struct tb_layout *layout = s->type->layout;
    struct arrivals a = {.length = count, .layout = layout};
    a.at[0] = tb_sched_elements(s, layout, t->size * count);
    for (int i = 1; i < t->size; i++) {
        int from = (t->rank - i + t->size) % t->size;
        tb_sched_recv(s, t, from, tb_elements(s, arrival(&a, 0, from), count));
        tb_sched_send(s, t, (t->rank + i) % t->size, tb_elements(s, in, count));
    }
    tb_sched_copy(s, tb_elements(s, in, count),
                  tb_elements(s, arrival(&a, 0, t->rank), count));
    tb_sched_round(s);
    void *sum = arrival(&a, 0, t->size - 1);
    for (int i = t->size - 1; i-- > 0;)
        tb_sched_reduce(s, arrival(&a, 0, i), sum, count);
    tb_sched_copy(s, tb_elements(s, sum, count), tb_elements(s, out, count));
    tb_sched_round(s);
}

static void reduce_blocks(struct tb_sched *s, const struct tb_team *t,
                          const void *in, void *out, int64_t count)
{
    struct tb_layout *layout = s->type->layout;
    struct tb_blocks from =
        tb_cut((void *)(uintptr_t)in, count, layout, t->size);
    struct tb_blocks to = tb_cut(out, count, layout, t->size);
    tb_mesh_reduce(s, t, &from, tb_block(&to, t->rank).buf);
}

static void tell_blocks(struct tb_sched *s, const struct tb_team *t, void *out,
                        int64_t count)
{
    struct tb_blocks b = tb_cut(out, count, s->type->layout, t->size);
    for (int i = 1; i < t->size; i++) {
        int from = (t->rank - i + t->size) % t->size;
        tb_sched_recv(s, t, from, tb_block(&b, from));
        tb_sched_send(s, t, (t->rank + i) % t->size, tb_block(&b, t->rank));
    }
    tb_sched_round(s);
}

void tb_build_allreduce_mesh_once(struct tb_sched *s, const struct tb_call *c)
{
    int64_t count = c->recv.count;
    void *out = c->recv.base;
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, -1))
        return;
    const void *in = tb_levels_reduce(s, &l, c->send.base, out, count);
    if (l.leads)
        reduce_once(s, &l.leaders, in, out, count);
    tb_bcast_binomial(s, &l.local, tb_elements(s, out, count));
}

void tb_build_allreduce_mesh(struct tb_sched *s, const struct tb_call *c)
{
    int64_t count = c->recv.count;
    void *out = c->recv.base;
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, -1))
        return;
    const void *in = tb_levels_reduce(s, &l, c->send.base, out, count);
    if (l.leads) {
        reduce_blocks(s, &l.leaders, in, out, count);
        tell_blocks(s, &l.leaders, out, count);
    }
    tb_bcast_binomial(s, &l.local, tb_elements(s, out, count));
}

void tb_build_reduce_mesh(struct tb_sched *s, const struct tb_call *c)
{
    int64_t count = c->recv.count;
    void *out = c->recv.base;
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, c->root))
        return;
    if (c->comm->rank != c->root && l.leads)
        out = tb_sched_elements(s, s->type->layout, count);
    const void *in = tb_levels_reduce(s, &l, c->send.base, out, count);
    if (!l.leads)
        return;
    reduce_blocks(s, &l.leaders, in, out, count);
    struct tb_blocks b = tb_cut(out, count, s->type->layout, l.leaders.size);
    if (l.leaders.rank)
        tb_sched_send(s, &l.leaders, 0, tb_block(&b, l.leaders.rank));
    else
        for (int i = 1; i < l.leaders.size; i++)
            tb_sched_recv(s, &l.leaders, i, tb_block(&b, i));
    tb_sched_round(s);
}

/* --------------------------------------------------------------- broadcast */

/* Part i - 1 is rank i's to pass on. */
static void spread_piece(struct tb_sched *s, const struct tb_team *t,
                         const struct tb_blocks *parts, int64_t length,
                         int64_t p)
{
    struct tb_part own = {.layout = parts->layout};
    if (t->rank)
        own = tb_block(parts, t->rank - 1);
    for (int i = 1; i < t->size; i++) {
        struct tb_part theirs = tb_block(parts, i - 1);
        if (t->rank == 0) {
            tb_sched_send(s, t, i, piece_of(theirs, length, p));
        } else if (i == t->rank) {
            tb_sched_recv(s, t, 0, piece_of(own, length, p));
        } else if (p > 0) {
            tb_sched_recv(s, t, i, piece_of(theirs, length, p - 1));
            tb_sched_send(s, t, i, piece_of(own, length, p - 1));
        }
    }
    tb_sched_round(s);
}

static void spread(struct tb_sched *s, const struct tb_team *t,
                   struct tb_part what)
{
    struct tb_part stream = tb_stream_begin(s, t, what);
    struct tb_blocks parts =
        tb_cut(stream.buf, stream.count, stream.layout, t->size - 1);
    int64_t length = piece_length(parts.count, 1);
    int64_t pieces = (parts.count + length - 1) / length;
    for (int64_t p = 0; p <= pieces; p++)
        spread_piece(s, t, &parts, length, p);
    tb_stream_end(s, t, stream, what);
}

void tb_build_bcast_mesh(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_part what = tb_block(&c->recv, 0);
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, c->root))
        return;
    if (l.leads)
        spread(s, &l.leaders, what);
    tb_bcast_binomial(s, &l.local, what);
}
