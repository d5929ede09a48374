/* SPDX-License-Identifier: MIT */
/*
 * Collectives in two levels (levels.h), whatever joins the nodes.
 *
 * Reductions: to the leaders, among them, and back by broadcast. For
 * operations that commute: ranks are combined node by node.
 * Allgather: leaders collect their node's blocks, swap them, and hand out the
 * whole. On a ring of n nodes blocks travel both ways, n/2 steps; on a mesh
 * all at once; elsewhere round by neighbours.
 */
#include "coll/levels.h"

#define FLAT_NODES 9 /* up to here everybody tells everybody */

static int node_with(const struct tb_shape *shape, int rank)
{
    for (int i = 0; i < shape->nodes; i++)
        for (int j = shape->first[i]; j < shape->first[i + 1]; j++)
            if (shape->ranks[j] == rank)
                return i;
    return 0;
}

static int place_of(const struct tb_team *t, int rank)
{
    int i = 0;
    while (t->ranks[i] != rank)
        i++;
    return i;
}

static int turned(int rank, int by, int size)
{
    return (rank - by + size) % size;
}

bool tb_levels_init(struct tb_levels *l, struct tb_sched *s,
                    const struct tb_comm *c, int root)
{
    const struct tb_shape *shape = l->shape = c->shape;
    int n = shape->nodes, home = root < 0 ? 0 : node_with(shape, root);
    int *leaders = tb_sched_bytes(s, n * (int64_t)sizeof *leaders);
    if (!leaders)
        return false;
    for (int i = 0; i < n; i++)
        leaders[i] = shape->ranks[shape->first[i]];
    if (root >= 0)
        leaders[home] = root;
    const int *first = &shape->first[shape->node];
    l->local = (struct tb_team){.way = TB_WAY_MAIN,
                                .size = first[1] - first[0],
                                .ranks = shape->ranks + first[0]};
    l->local.shift = place_of(&l->local, leaders[shape->node]);
    l->local.rank =
        turned(place_of(&l->local, c->rank), l->local.shift, l->local.size);
    l->leads = l->local.rank == 0;
    l->leaders = (struct tb_team){.way = TB_WAY_MAIN,
                                  .rank = turned(shape->node, home, n),
                                  .size = n,
                                  .shift = home,
                                  .ranks = leaders};
    return true;
}

const void *tb_levels_reduce(struct tb_sched *s, const struct tb_levels *l,
                             const void *in, void *out, int64_t count)
{
    if (l->local.size == 1)
        return in;
    tb_reduce_binomial(s, &l->local, in, out, count);
    return out;
}

/* ---------------------------------------------------------------- barrier */

static void meet(struct tb_sched *s, const struct tb_team *t, bool at_once)
{
    int n = t->size;
    for (int64_t far = 1; far < n; far = at_once ? far + 1 : 2 * far) {
        tb_sched_await(s, t, (int)((t->rank - far + n) % n));
        tb_sched_signal(s, t, (int)((t->rank + far) % n));
        if (!at_once)
            tb_sched_round(s);
    }
    tb_sched_round(s);
}

void tb_build_barrier_nodes(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, -1))
        return;
    if (!l.leads) {
        tb_sched_signal(s, &l.local, 0);
        tb_sched_await(s, &l.local, 0);
        tb_sched_round(s);
        return;
    }
    for (int i = 1; i < l.local.size; i++)
        tb_sched_await(s, &l.local, i);
    tb_sched_round(s);
    meet(s, &l.leaders,
         l.shape->cabling == TB_CABLING_MESH && l.leaders.size <= FLAT_NODES);
    for (int i = 1; i < l.local.size; i++)
        tb_sched_signal(s, &l.local, i);
    tb_sched_round(s);
}

/* -------------------------------------------------------------- broadcast */

static void tell_all(struct tb_sched *s, const struct tb_team *t,
                     struct tb_part what)
{
    if (t->rank)
        tb_sched_recv(s, t, 0, what);
    else
        for (int i = 1; i < t->size; i++)
            tb_sched_send(s, t, i, what);
    tb_sched_round(s);
}

void tb_build_bcast_nodes(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_part what = tb_block(&c->recv, 0);
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, c->root))
        return;
    if (l.leads && l.shape->cabling == TB_CABLING_MESH &&
        l.leaders.size <= FLAT_NODES)
        tell_all(s, &l.leaders, what);
    else if (l.leads)
        tb_bcast_binomial(s, &l.leaders, what);
    tb_bcast_binomial(s, &l.local, what);
}

/* ------------------------------------------------------------- reductions */

void tb_build_reduce_nodes(struct tb_sched *s, const struct tb_call *c)
{
    int64_t count = c->recv.count;
    void *out = c->recv.base;
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, c->root))
        return;
    if (c->comm->rank != c->root && l.leads)
        out = tb_sched_elements(s, s->type->layout, count);
    const void *in = tb_levels_reduce(s, &l, c->send.base, out, count);
    if (l.leads)
        tb_reduce_binomial(s, &l.leaders, in, out, count);
}

void tb_build_allreduce_nodes(struct tb_sched *s, const struct tb_call *c)
{
    int64_t count = c->recv.count;
    void *out = c->recv.base;
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, -1))
        return;
    const void *in = tb_levels_reduce(s, &l, c->send.base, out, count);
    if (l.leads) {
        tb_reduce_binomial(s, &l.leaders, in, out, count);
        tb_bcast_binomial(s, &l.leaders, tb_elements(s, out, count));
    }
    tb_bcast_binomial(s, &l.local, tb_elements(s, out, count));
}

/* -------------------------------------------------------------- allgather */

typedef void sched_message(struct tb_sched *s, const struct tb_team *t,
                           int peer, struct tb_part what);

/* Half of a part: 0 the first, 1 the second, anything else all of it. */
static struct tb_part half_of(struct tb_part p, int half)
{
    int64_t first = p.count / 2;
    if (half == 1)
        p.buf = tb_at(p.buf, first * p.layout->extent);
    if (half == 0 || half == 1)
        p.count = half ? p.count - first : first;
    return p;
}

/* Sends or receives what node `node` has given; `half` of it. */
static void pass(struct tb_sched *s, const struct tb_levels *l,
                 const struct tb_call *c, sched_message *message, int peer,
                 int node, int half)
{
    const struct tb_shape *shape = l->shape;
    int first = shape->first[node], end = shape->first[node + 1];
    if (shape->in_order) {
        message(
            s, &l->leaders, peer,
            half_of(tb_block_range(&c->recv, shape->ranks[first], end - first),
                    half));
        return;
    }
    for (int i = first; i < end; i++)
        message(s, &l->leaders, peer,
                half_of(tb_block(&c->recv, shape->ranks[i]), half));
}

static void swap_at_once(struct tb_sched *s, const struct tb_levels *l,
                         const struct tb_call *c)
{
    int n = l->leaders.size, me = l->leaders.rank;
    for (int i = 1; i < n; i++) {
        int from = (me - i + n) % n, to = (me + i) % n;
        pass(s, l, c, tb_sched_recv, from, from, -1);
        pass(s, l, c, tb_sched_send, to, me, -1);
    }
    tb_sched_round(s);
}

/* What started i - 1 nodes away is passed on to the next, in one direction. */
static void pass_on(struct tb_sched *s, const struct tb_levels *l,
                    const struct tb_call *c, int by, int i, int half)
{
    int n = l->leaders.size, me = l->leaders.rank;
    int from = (me - by + n) % n, to = (me + by + n) % n;
    pass(s, l, c, tb_sched_recv, from, (me - i * by + i * n) % n, half);
    pass(s, l, c, tb_sched_send, to, (me - (i - 1) * by + i * n) % n, half);
}

static void swap_round(struct tb_sched *s, const struct tb_levels *l,
                       const struct tb_call *c)
{
    for (int i = 1; i < l->leaders.size; i++) {
        pass_on(s, l, c, 1, i, -1);
        tb_sched_round(s);
    }
}

/* Where the number of nodes is even, what comes from the opposite one comes in
 * halves, one from each side. */
static void swap_both_ways(struct tb_sched *s, const struct tb_levels *l,
                           const struct tb_call *c)
{
    int n = l->leaders.size;
    for (int i = 1; i <= n / 2; i++) {
        bool is_opposite = 2 * i == n;
        pass_on(s, l, c, 1, i, is_opposite ? 0 : -1);
        pass_on(s, l, c, -1, i, is_opposite ? 1 : -1);
        tb_sched_round(s);
    }
}

void tb_build_allgather_nodes(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_part own = tb_block(&c->recv, c->comm->rank);
    struct tb_levels l;
    if (!tb_levels_init(&l, s, c->comm, -1))
        return;
    if (!c->in_place)
        tb_sched_copy(s, tb_block(&c->send, 0), own);
    if (!l.leads)
        tb_sched_send(s, &l.local, 0, own);
    else
        for (int i = 1; i < l.local.size; i++)
            tb_sched_recv(s, &l.local, i,
                          tb_block(&c->recv, tb_team_rank(&l.local, i)));
    tb_sched_round(s);
    if (l.leads && l.shape->cabling == TB_CABLING_MESH)
        swap_at_once(s, &l, c);
    else if (l.leads && l.shape->cabling == TB_CABLING_RING)
        swap_both_ways(s, &l, c);
    else if (l.leads)
        swap_round(s, &l, c);
    tb_bcast_binomial(s, &l.local, tb_block_range(&c->recv, 0, c->comm->size));
}
