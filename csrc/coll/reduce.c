/* SPDX-License-Identifier: MIT */
/*
 * Reductions to one rank.
 *
 * Binomial tree: log n rounds, m bytes from each. Keeps the ranks' order.
 * Halving: Rabenseifner's. Recursive halving leaves each rank with m/n bytes
 * of the result, then a binomial gather. 2m bytes, the reduction itself shared
 * by all. (Rabenseifner, "Optimization of collective reduction operations",
 * ICCS 2004.)
 *
 * tb_op_apply computes inout = in op inout: the left operand is the one that
 * is only read.
 */
#include "coll/build.h"

static void *at(const struct tb_sched *s, const void *base, int64_t element)
{
    return tb_at(base, element * s->type->layout->extent);
}

void tb_reduce_binomial(struct tb_sched *s, const struct tb_team *t,
                        const void *in, void *out, int64_t count)
{
    void *spare[2] = {NULL, NULL};
    const void *acc = in;
    int turn = 0;
    for (int mask = 1; mask < t->size; mask *= 2) {
        if (t->rank & mask) {
            tb_sched_send(s, t, t->rank - mask, tb_elements(s, acc, count));
            tb_sched_round(s);
            return;
        }
        if (t->rank + mask >= t->size)
            continue;
        bool is_last = t->rank == 0 && 2 * mask >= t->size;
        void *next = is_last && in != out ? out : spare[turn];
        if (!next)
            next = spare[turn] = tb_sched_elements(s, s->type->layout, count);
        turn = !turn;
        tb_sched_recv(s, t, t->rank + mask, tb_elements(s, next, count));
        tb_sched_round(s);
        tb_sched_reduce(s, acc, next, count);
        acc = next;
    }
    if (acc != out)
        tb_sched_copy(s, tb_elements(s, acc, count),
                      tb_elements(s, out, count));
    tb_sched_round(s);
}

void tb_build_reduce_binomial(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    tb_reduce_binomial(s, &t, c->send.base, c->recv.base, c->recv.count);
}

/* The tree starts at rank 0 and the result goes on to the root, where the
 * ranks' order matters. */
void tb_build_reduce_ordered(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    void *out = c->recv.base;
    if (t.rank == 0 && c->root != 0)
        out = tb_sched_elements(s, s->type->layout, c->recv.count);
    tb_reduce_binomial(s, &t, c->send.base, out, c->recv.count);
    if (c->root != 0 && t.rank == 0)
        tb_sched_send(s, &t, c->root, tb_elements(s, out, c->recv.count));
    else if (c->root != 0 && t.rank == c->root)
        tb_sched_recv(s, &t, 0, tb_elements(s, out, c->recv.count));
    tb_sched_round(s);
}

/* --------------------------------------------------------------- halving */

void tb_halves_init(struct tb_halves *h, struct tb_sched *s,
                    const struct tb_team *t, int64_t count)
{
    h->t = t;
    h->parts = tb_pow2_below(t->size);
    h->extra = t->size - h->parts;
    if (t->rank >= 2 * h->extra)
        h->id = t->rank - h->extra;
    else
        h->id = t->rank % 2 ? -1 : t->rank / 2;
    int64_t *edge = tb_sched_bytes(s, (h->parts + 1) * (int64_t)sizeof *edge);
    h->edge = edge;
    if (!edge)
        return;
    int64_t each = (count + h->parts - 1) / h->parts;
    for (int i = 0; i <= h->parts; i++)
        edge[i] = TB_MIN(count, i * each);
}

static struct tb_part part(const struct tb_halves *h, const struct tb_sched *s,
                           const void *base, int i, int n)
{
    return tb_elements(s, at(s, base, h->edge[i]), h->edge[i + n] - h->edge[i]);
}

struct tb_part tb_halves_part(const struct tb_halves *h,
                              const struct tb_sched *s, int i, int n)
{
    return part(h, s, h->acc, i, n);
}

/* Contributions of the ranks that sit out; what takes part goes in. */
static const void *fold(const struct tb_halves *h, struct tb_sched *s,
                        const void *in, int64_t count)
{
    if (h->id >= h->extra)
        return in;
    if (h->id < 0) {
        tb_sched_send(s, h->t, h->t->rank - 1, tb_elements(s, in, count));
        tb_sched_round(s);
        return in;
    }
    void *both = tb_sched_elements(s, s->type->layout, count);
    tb_sched_recv(s, h->t, h->t->rank + 1, tb_elements(s, both, count));
    tb_sched_round(s);
    tb_sched_reduce(s, in, both, count);
    return both;
}

void tb_halves_build(const struct tb_halves *h, struct tb_sched *s,
                     const void *in)
{
    if (!h->edge)
        return;
    int64_t count = h->edge[h->parts];
    const void *from = fold(h, s, in, count);
    if (h->id < 0)
        return;
    void *arrived = tb_sched_elements(s, s->type->layout, count);
    int low = 0;
    for (int half = h->parts / 2; half > 0; half /= 2) {
        int peer = tb_halves_rank(h, h->id ^ half);
        int keep = h->id & half ? low + half : low;
        int give = h->id & half ? low : low + half;
        struct tb_part kept = part(h, s, h->acc, keep, half);
        struct tb_part in_part = part(h, s, arrived, keep, half);
        tb_sched_recv(s, h->t, peer, in_part);
        tb_sched_send(s, h->t, peer, part(h, s, from, give, half));
        if (from != h->acc)
            tb_sched_copy(s, part(h, s, from, keep, half), kept);
        tb_sched_round(s);
        tb_sched_reduce(s, in_part.buf, kept.buf, kept.count);
        from = h->acc;
        low = keep;
    }
    if (from != h->acc)
        tb_sched_copy(s, part(h, s, from, 0, 1), part(h, s, h->acc, 0, 1));
}

void tb_build_reduce_halving(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, c->root);
    struct tb_halves h;
    tb_halves_init(&h, s, &t, c->recv.count);
    h.acc = t.rank ? tb_sched_elements(s, s->type->layout, c->recv.count)
                   : c->recv.base;
    tb_halves_build(&h, s, c->send.base);
    if (!h.edge || h.id < 0)
        return;
    for (int mask = 1; mask < h.parts; mask *= 2) {
        int peer = tb_halves_rank(&h, h.id ^ mask);
        if (h.id & mask) {
            tb_sched_round(s);
            tb_sched_send(s, &t, peer, tb_halves_part(&h, s, h.id, mask));
            break;
        }
        tb_sched_recv(s, &t, peer, tb_halves_part(&h, s, h.id + mask, mask));
    }
    tb_sched_round(s);
}

/* The side without the root reduces to its first rank, which tells the root. */
void tb_build_reduce_inter(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team other = tb_team_remote(c->comm);
    struct tb_team t = tb_team_of(c->comm, 0);
    int64_t count = c->recv.count;
    if (c->root == MPI_ROOT) {
        tb_sched_recv(s, &other, 0, tb_elements(s, c->recv.base, count));
    } else if (c->root >= 0) {
        void *out = NULL;
        if (t.rank == 0)
            out = tb_sched_elements(s, s->type->layout, count);
        tb_reduce_binomial(s, &t, c->send.base, out, count);
        if (t.rank == 0)
            tb_sched_send(s, &other, c->root, tb_elements(s, out, count));
    }
    tb_sched_round(s);
}
