/* SPDX-License-Identifier: MIT */
/*
 * Reductions whose result everybody gets: the same bits everywhere, since each
 * element is either computed by one rank, or by all in one order.
 *
 * Recursive doubling: log n rounds of m bytes; keeps the ranks' order.
 * Halving: Rabenseifner's; recursive halving, then doubling. 2m bytes each.
 * (Rabenseifner 2004; see reduce.c.)
 * Ring: 2(n - 1) rounds of m/n bytes between neighbours; for any n. (Patarasuk
 * and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009.)
 * Tree: a reduction and a broadcast along one tree, whose order depends on
 * nothing but the ranks.
 */
#include "coll/build.h"

/* Two buffers that take turns: one holds this rank's sum, the other gets the
 * next message. */
struct pair {
    void *acc, *spare;
};

/* spare holds what rank `peer` has summed up, acc what this one has. */
static void combine(struct tb_sched *s, struct pair *p, int rank, int peer,
                    int64_t count)
{
    if (peer < rank) {
        tb_sched_reduce(s, p->spare, p->acc, count);
        return;
    }
    tb_sched_reduce(s, p->acc, p->spare, count);
    void *swap = p->acc;
    p->acc = p->spare;
    p->spare = swap;
}

/* The ranks above a power of two: each hands its contribution to the rank
 * before it, and gets the result in the end. */
static void fold(struct tb_sched *s, const struct tb_halves *h, struct pair *p,
                 int64_t count)
{
    int rank = h->t->rank;
    if (h->id < 0) {
        tb_sched_send(s, h->t, rank - 1, tb_elements(s, p->acc, count));
    } else if (h->id < h->extra) {
        tb_sched_recv(s, h->t, rank + 1, tb_elements(s, p->spare, count));
        tb_sched_round(s);
        combine(s, p, rank, rank + 1, count);
    }
    tb_sched_round(s);
}

static void unfold(struct tb_sched *s, const struct tb_halves *h,
                   const void *acc, void *out, int64_t count)
{
    int rank = h->t->rank;
    if (h->id < 0)
        tb_sched_recv(s, h->t, rank - 1, tb_elements(s, out, count));
    else if (h->id < h->extra)
        tb_sched_send(s, h->t, rank + 1, tb_elements(s, acc, count));
    tb_sched_round(s);
}

void tb_build_allreduce_doubling(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    int64_t count = c->recv.count;
    struct tb_layout *layout = s->type->layout;
    struct pair p = {c->recv.base, tb_sched_elements(s, layout, count)};
    struct tb_halves h;
    tb_halves_init(&h, s, &t, count);
    if (!c->in_place)
        tb_sched_copy(s, tb_elements(s, c->send.base, count),
                      tb_elements(s, p.acc, count));
    fold(s, &h, &p, count);
    for (int mask = 1; mask < h.parts && h.id >= 0; mask *= 2) {
        int peer = tb_halves_rank(&h, h.id ^ mask);
        tb_sched_recv(s, &t, peer, tb_elements(s, p.spare, count));
        tb_sched_send(s, &t, peer, tb_elements(s, p.acc, count));
        tb_sched_round(s);
        combine(s, &p, t.rank, peer, count);
    }
    unfold(s, &h, p.acc, c->recv.base, count);
    if (h.id >= 0 && p.acc != c->recv.base)
        tb_sched_copy(s, tb_elements(s, p.acc, count),
                      tb_elements(s, c->recv.base, count));
    tb_sched_round(s);
}

void tb_build_allreduce_halving(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    struct tb_halves h;
    tb_halves_init(&h, s, &t, c->recv.count);
    h.acc = c->recv.base;
    tb_halves_build(&h, s, c->send.base);
    if (!h.edge)
        return;
    for (int mask = 1; mask < h.parts && h.id >= 0; mask *= 2) {
        int other = h.id ^ mask, peer = tb_halves_rank(&h, other);
        tb_sched_recv(s, &t, peer,
                      tb_halves_part(&h, s, other & ~(mask - 1), mask));
        tb_sched_send(s, &t, peer,
                      tb_halves_part(&h, s, h.id & ~(mask - 1), mask));
        tb_sched_round(s);
    }
    unfold(s, &h, h.acc, h.acc, c->recv.count);
}

/* Block i travels from rank i round to rank i - 1; each rank on the way adds
 * its own contribution. It is received where it can stay, if possible. */
static void ring_reduce(struct tb_sched *s, const struct tb_team *t,
                        const struct tb_blocks *in, const struct tb_blocks *out)
{
    int n = t->size, at = t->rank;
    void *arrived[2] = {tb_sched_elements(s, s->type->layout, in->count),
                        tb_sched_elements(s, s->type->layout, in->count)};
    struct tb_part sum = tb_block(in, at);
    for (int i = 1; i < n; i++) {
        at = (at - 1 + n) % n;
        struct tb_part own = tb_block(in, at), next = own;
        next.buf = i == n - 1 && in->base != out->base ? tb_block(out, at).buf
                                                       : arrived[i % 2];
        tb_sched_recv(s, t, (t->rank - 1 + n) % n, next);
        tb_sched_send(s, t, (t->rank + 1) % n, sum);
        tb_sched_round(s);
        tb_sched_reduce(s, own.buf, next.buf, own.count);
        sum = next;
    }
    if (sum.buf != tb_block(out, at).buf)
        tb_sched_copy(s, sum, tb_block(out, at));
}

void tb_build_allreduce_ring(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    struct tb_blocks in =
        tb_cut(c->send.base, c->recv.count, s->type->layout, t.size);
    struct tb_blocks out = in;
    out.base = c->recv.base;
    ring_reduce(s, &t, &in, &out);
    /* This rank has the block after its own: so it is called one more. */
    struct tb_team shifted = t;
    shifted.rank = (t.rank + 1) % t.size;
    shifted.shift = t.size - 1;
    tb_allgather_ring(s, &shifted, &out);
    tb_sched_round(s);
}

void tb_build_allreduce_tree(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    tb_reduce_binomial(s, &t, c->send.base, c->recv.base, c->recv.count);
    tb_bcast_binomial(s, &t, tb_elements(s, c->recv.base, c->recv.count));
}

/* Each side gets the other side's result: through the first ranks. */
void tb_build_allreduce_inter(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    struct tb_team other = tb_team_remote(c->comm);
    struct tb_part out = tb_elements(s, c->recv.base, c->recv.count);
    void *ours = NULL;
    if (t.rank == 0)
        ours = tb_sched_elements(s, s->type->layout, c->recv.count);
    tb_reduce_binomial(s, &t, c->send.base, ours, c->recv.count);
    if (t.rank == 0) {
        tb_sched_recv(s, &other, 0, out);
        tb_sched_send(s, &other, 0, tb_elements(s, ours, c->recv.count));
    }
    tb_sched_round(s);
    tb_bcast_binomial(s, &t, out);
}
