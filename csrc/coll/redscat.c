/* SPDX-License-Identifier: MIT */
/*
 * Reductions whose result is scattered.
 *
 * Halving: recursive halving, log n rounds, for n a power of two and
 * operations that commute. (Thakur, Rabenseifner and Gropp, "Optimization of
 * collective communication operations in MPICH", 2005.)
 * Pairwise: n - 1 rounds; each rank sends every other its block. Also for
 * operations that commute.
 * Tree: a reduction to rank 0, which scatters. Keeps the ranks' order.
 * Mesh: every block to its rank at once; see mesh.c.
 */
#include "coll/levels.h"

/* Where the blocks begin in the array of contributions: n + 1 numbers, the
 * last one is the total. NULL: no memory. */
static int64_t *edges(struct tb_sched *s, const struct tb_call *c)
{
    int n = c->comm->size;
    int64_t *edge = tb_sched_bytes(s, (n + 1) * (int64_t)sizeof *edge);
    if (!edge)
        return NULL;
    edge[0] = 0;
    for (int i = 0; i < n; i++)
        edge[i + 1] = edge[i] + tb_block(&c->recv, i).count;
    return edge;
}

/* Block i of the contributions at `base`. */
static struct tb_part contribution(const struct tb_sched *s,
                                   const int64_t *edge, const void *base, int i)
{
    return tb_elements(s, tb_at(base, edge[i] * s->type->layout->extent),
                       edge[i + 1] - edge[i]);
}

static struct tb_part result(const struct tb_sched *s, const struct tb_call *c)
{
    return tb_elements(s, c->recv.base,
                       tb_block(&c->recv, c->comm->rank).count);
}

void tb_build_reduce_scatter_halving(struct tb_sched *s,
                                     const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    int64_t *edge = edges(s, c);
    struct tb_halves h;
    if (!edge)
        return;
    tb_halves_init(&h, s, &t, 0);
    h.edge = edge;
    h.acc = tb_sched_elements(s, s->type->layout, edge[t.size]);
    tb_halves_build(&h, s, c->send.base);
    tb_sched_copy(s, contribution(s, edge, h.acc, t.rank), result(s, c));
    tb_sched_round(s);
}

void tb_build_reduce_scatter_pairwise(struct tb_sched *s,
                                      const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    int64_t *edge = edges(s, c);
    int n = t.size;
    if (!edge)
        return;
    struct tb_part out = result(s, c), acc = out;
    if (c->in_place) /* the result's place is still to be sent */
        acc.buf = tb_sched_elements(s, s->type->layout, acc.count);
    void *arrived[2] = {tb_sched_elements(s, s->type->layout, acc.count),
                        tb_sched_elements(s, s->type->layout, acc.count)};
    tb_sched_copy(s, contribution(s, edge, c->send.base, t.rank), acc);
    for (int i = 1; i < n; i++) {
        int from = (t.rank - i + n) % n, to = (t.rank + i) % n;
        tb_sched_recv(s, &t, from, tb_elements(s, arrived[i % 2], acc.count));
        tb_sched_send(s, &t, to, contribution(s, edge, c->send.base, to));
        if (i > 1)
            tb_sched_reduce(s, arrived[(i - 1) % 2], acc.buf, acc.count);
        tb_sched_round(s);
    }
    if (n > 1)
        tb_sched_reduce(s, arrived[(n - 1) % 2], acc.buf, acc.count);
    if (acc.buf != out.buf)
        tb_sched_copy(s, acc, out);
    tb_sched_round(s);
}

void tb_build_reduce_scatter_mesh(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    int64_t *edge = edges(s, c);
    MPI_Count *counts = tb_sched_bytes(s, 2 * t.size * (int64_t)sizeof *counts);
    if (!edge || !counts)
        return;
    MPI_Count *starts = counts + t.size;
    for (int i = 0; i < t.size; i++) {
        counts[i] = edge[i + 1] - edge[i];
        starts[i] = edge[i];
    }
    struct tb_part out = result(s, c), sum = out;
    struct tb_blocks in = {.base = c->send.base,
                           .layout = s->type->layout,
                           .counts = {.c = counts},
                           .displs = {.c = starts}};
    if (c->in_place) /* the result's place is still to be sent */
        sum.buf = tb_sched_elements(s, in.layout, sum.count);
    tb_mesh_reduce(s, &t, &in, sum.buf);
    if (sum.buf != out.buf)
        tb_sched_copy(s, sum, out);
    tb_sched_round(s);
}

static void scatter(struct tb_sched *s, const struct tb_call *c,
                    const struct tb_team *t, const int64_t *edge,
                    const void *whole)
{
    struct tb_part out = result(s, c);
    if (t->rank == 0) {
        for (int i = 1; i < t->size; i++)
            tb_sched_send(s, t, i, contribution(s, edge, whole, i));
        tb_sched_copy(s, contribution(s, edge, whole, 0), out);
    } else {
        tb_sched_recv(s, t, 0, out);
    }
    tb_sched_round(s);
}

void tb_build_reduce_scatter_tree(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    int64_t *edge = edges(s, c);
    void *whole = NULL;
    if (!edge)
        return;
    if (t.rank == 0)
        whole = tb_sched_elements(s, s->type->layout, edge[t.size]);
    tb_reduce_binomial(s, &t, c->send.base, whole, edge[t.size]);
    scatter(s, c, &t, edge, whole);
}

/* Each side scatters what the other side has reduced; both totals are equal. */
void tb_build_reduce_scatter_inter(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    struct tb_team other = tb_team_remote(c->comm);
    int64_t *edge = edges(s, c);
    void *ours = NULL, *theirs = NULL;
    if (!edge)
        return;
    int64_t total = edge[t.size];
    if (t.rank == 0) {
        ours = tb_sched_elements(s, s->type->layout, total);
        theirs = tb_sched_elements(s, s->type->layout, total);
    }
    tb_reduce_binomial(s, &t, c->send.base, ours, total);
    if (t.rank == 0) {
        tb_sched_recv(s, &other, 0, tb_elements(s, theirs, total));
        tb_sched_send(s, &other, 0, tb_elements(s, ours, total));
    }
    tb_sched_round(s);
    scatter(s, c, &t, edge, theirs);
}
