/* SPDX-License-Identifier: MIT */
/*
 * Distributed graphs: each process knows its own neighbours only. With
 * MPI_Dist_graph_create any process may give any edge, so each contributor
 * tells its edges to all, and everybody keeps those that it is an end of:
 * a broadcast per contributor, 12 bytes an edge.
 */
#include "coll/coll.h"
#include "mpi/api.h"
#include "mpi/check.h"
#include "mpi/comm.h"
#include "mpi/topo.h"

/* One direction of a process's neighbourhood, as an argument or while it
 * grows. `weights` may be MPI_UNWEIGHTED in an argument. */
struct side {
    int n, room;
    int *ranks, *weights;
};

/* ------------------------------------------------------------------ making */

static void put_side(struct tb_topo *t, const struct side *s, int **ranks,
                     int **weights)
{
    size_t n = (size_t)s->n;

    *ranks = tb_topo_array(t, n);
    if (n)
        memcpy(*ranks, s->ranks, n * sizeof(int));
    if (!t->weighted)
        return;
    *weights = tb_topo_array(t, n);
    if (n)
        memcpy(*weights, s->weights, n * sizeof(int));
}

static tb_err publish(struct tb_comm *old, uint64_t name, const struct side *in,
                      const struct side *out, bool weighted,
                      const struct tb_info *info, struct tb_comm **comm)
{
    struct tb_topo *t;

    TB_TRY(
        tb_topo_new(&t, MPI_DIST_GRAPH, 2 * ((size_t)in->n + (size_t)out->n)));
    t->weighted = weighted;
    t->n_in = in->n;
    t->n_out = out->n;
    put_side(t, in, &t->in, &t->in_weights);
    put_side(t, out, &t->out, &t->out_weights);
    TB_TRY(tb_topo_publish(old, name, old->size, t, comm));
    return tb_comm_keep_hints(*comm, info);
}

static tb_err check_ranks(const char *arg, const struct tb_comm *c, int n,
                          const int *ranks)
{
    if (n)
        TB_TRY(tb_check_ptr(arg, ranks));
    for (int i = 0; i < n; i++)
        if ((ranks[i] < 0 || ranks[i] >= c->size) && ranks[i] != MPI_PROC_NULL)
            return tb_fail(TB_ERR_RANK, "%s[%d] is %d: it is not in 0..%d", arg,
                           i, ranks[i], c->size - 1);
    return TB_OK;
}

static tb_err check_weights(const char *arg, int n, const int *weights)
{
    if (n == 0 || weights == MPI_UNWEIGHTED)
        return TB_OK;
    if (!weights || weights == MPI_WEIGHTS_EMPTY)
        return tb_fail(TB_ERR_ARG, "%s is %s, but there are %d edges", arg,
                       weights ? "MPI_WEIGHTS_EMPTY" : "NULL", n);
    for (int i = 0; i < n; i++)
        if (weights[i] < 0)
            return tb_fail(TB_ERR_ARG,
                           "%s[%d] is %d: a weight must not be "
                           "negative",
                           arg, i, weights[i]);
    return TB_OK;
}

static tb_err check_adjacent(const struct tb_comm *c, const struct side *in,
                             const struct side *out)
{
    TB_TRY(tb_comm_need_intra(c));
    if (in->n < 0 || out->n < 0)
        return tb_fail(TB_ERR_ARG,
                       "indegree is %d and outdegree %d: neither "
                       "must be negative",
                       in->n, out->n);
    TB_TRY(check_ranks("sources", c, in->n, in->ranks));
    TB_TRY(check_ranks("destinations", c, out->n, out->ranks));
    TB_TRY(check_weights("sourceweights", in->n, in->weights));
    TB_TRY(check_weights("destweights", out->n, out->weights));
    if ((in->weights == MPI_UNWEIGHTED) != (out->weights == MPI_UNWEIGHTED))
        return tb_fail(TB_ERR_ARG,
                       "only one of sourceweights and destweights "
                       "is MPI_UNWEIGHTED: it must be both or none");
    return TB_OK;
}

static struct side side_of(int n, const int *ranks, const int *weights)
{
    return (struct side){.n = n,
                         .ranks = (int *)(uintptr_t)ranks,
                         .weights = (int *)(uintptr_t)weights};
}

tb_err tb_dist_graph_create_adjacent(struct tb_comm *comm_old, int indegree,
                                     const int sources[],
                                     const int sourceweights[], int outdegree,
                                     const int destinations[],
                                     const int destweights[],
                                     struct tb_info *info, int reorder,
                                     struct tb_comm **comm_dist_graph)
{
    uint64_t name = tb_comm_next_name(comm_old);
    struct side in = side_of(indegree, sources, sourceweights);
    struct side out = side_of(outdegree, destinations, destweights);

    (void)reorder; /* as for grids: ranks keep their numbers */
    TB_TRY(check_adjacent(comm_old, &in, &out));
    return publish(comm_old, name, &in, &out, sourceweights != MPI_UNWEIGHTED,
                   info, comm_dist_graph);
}

/* ------------------------------------------------------- edges from anybody */

struct edge {
    int32_t source, dest, weight;
};

/* The arguments of one process. */
struct given {
    int n;
    const int *sources, *degrees, *destinations, *weights;
};

static tb_err count_edges(const struct tb_comm *c, const struct given *g,
                          int *total)
{
    int64_t sum = 0;

    *total = 0;
    if (g->n < 0)
        return tb_fail(TB_ERR_ARG, "n is %d: it must not be negative", g->n);
    TB_TRY(check_ranks("sources", c, g->n, g->sources));
    if (g->n)
        TB_TRY(tb_check_ptr("degrees", g->degrees));
    for (int i = 0; i < g->n; i++) {
        if (g->degrees[i] < 0)
            return tb_fail(TB_ERR_ARG,
                           "degrees[%d] is %d: it must not be "
                           "negative",
                           i, g->degrees[i]);
        sum += g->degrees[i];
        if (sum > INT32_MAX)
            return tb_fail(TB_ERR_ARG, "the degrees add up to more than %d",
                           INT32_MAX);
    }
    TB_TRY(check_ranks("destinations", c, (int)sum, g->destinations));
    TB_TRY(check_weights("weights", (int)sum, g->weights));
    *total = (int)sum;
    return TB_OK;
}

static void list_edges(const struct given *g, struct edge *edges)
{
    bool weighted = g->weights != MPI_UNWEIGHTED;
    int k = 0;

    for (int i = 0; i < g->n; i++)
        for (int end = k + g->degrees[i]; k < end; k++)
            edges[k] = (struct edge){g->sources[i], g->destinations[k],
                                     weighted ? g->weights[k] : 0};
}

static tb_err grow(struct side *s, int rank, int weight)
{
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 8;
        int *ranks = tb_realloc(s->ranks, (size_t)room * sizeof *ranks);
        if (ranks)
            s->ranks = ranks;
        int *weights = tb_realloc(s->weights, (size_t)room * sizeof *weights);
        if (weights)
            s->weights = weights;
        if (!ranks || !weights)
            return tb_fail(TB_ERR_NO_MEM, "no memory for %d neighbours", room);
        s->room = room;
    }
    s->ranks[s->n] = rank;
    s->weights[s->n++] = weight;
    return TB_OK;
}

static tb_err keep_mine(int rank, const struct edge *edges, int n,
                        struct side *in, struct side *out)
{
    for (int i = 0; i < n; i++) {
        if (edges[i].dest == rank)
            TB_TRY(grow(in, edges[i].source, edges[i].weight));
        if (edges[i].source == rank)
            TB_TRY(grow(out, edges[i].dest, edges[i].weight));
    }
    return TB_OK;
}

/* Hears of everybody's edges; totals[r] of rank r. */
static tb_err exchange(struct tb_comm *c, const struct given *g,
                       const int *totals, struct side *in, struct side *out)
{
    int most = 0;

    for (int r = 0; r < c->size; r++)
        most = TB_MAX(most, totals[r]);
    struct edge *edges = tb_alloc((size_t)most * sizeof *edges);
    if (!edges)
        return tb_fail(TB_ERR_NO_MEM, "no memory for %d edges", most);
    tb_err err = TB_OK;
    for (int r = 0; !err && r < c->size; r++) {
        if (totals[r] == 0)
            continue;
        if (r == c->rank)
            list_edges(g, edges);
        err = tb_coll_bcast_bytes(c, edges, (int64_t)sizeof *edges * totals[r],
                                  r);
        if (!err)
            err = keep_mine(c->rank, edges, totals[r], in, out);
    }
    tb_free(edges);
    return err;
}

/* A process with wrong arguments gives no edges, so that nobody waits for
 * them, and fails afterwards. */
static tb_err gather(struct tb_comm *c, const struct given *g, struct side *in,
                     struct side *out)
{
    int mine;
    tb_err wrong = count_edges(c, g, &mine);
    int *totals = tb_alloc((size_t)c->size * sizeof *totals);
    if (!totals)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a topology");
    tb_err err = tb_coll_allgather_bytes(c, &mine, totals, sizeof mine);
    if (!err)
        err = exchange(c, g, totals, in, out);
    tb_free(totals);
    return wrong ? wrong : err;
}

static void side_free(struct side *s)
{
    tb_free(s->ranks);
    tb_free(s->weights);
}

tb_err tb_dist_graph_create(struct tb_comm *comm_old, int n,
                            const int sources[], const int degrees[],
                            const int destinations[], const int weights[],
                            struct tb_info *info, int reorder,
                            struct tb_comm **comm_dist_graph)
{
    uint64_t name = tb_comm_next_name(comm_old);
    struct given given = {n, sources, degrees, destinations, weights};
    struct side in = {0}, out = {0};

    (void)reorder;
    TB_TRY(tb_comm_need_intra(comm_old));
    tb_err err = gather(comm_old, &given, &in, &out);
    if (!err)
        err = publish(comm_old, name, &in, &out, weights != MPI_UNWEIGHTED,
                      info, comm_dist_graph);
    side_free(&in);
    side_free(&out);
    return err;
}

/* ----------------------------------------------------------------- inquiry */

tb_err tb_dist_graph_neighbors_count(struct tb_comm *comm, int *indegree,
                                     int *outdegree, int *weighted)
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_DIST_GRAPH, &t));
    *indegree = t->n_in;
    *outdegree = t->n_out;
    *weighted = t->weighted;
    return TB_OK;
}

/* As many as the caller wants; fewer than there are is no error here. */
static tb_err get_side(const char *arg, int max, int n, const int *from,
                       const int *from_weights, int *to, int *to_weights)
{
    size_t bytes = (size_t)TB_MIN(max, n) * sizeof *to;

    if (max < 0)
        return tb_fail(TB_ERR_ARG,
                       "the room for %s is %d: it must not be "
                       "negative",
                       arg, max);
    if (bytes == 0)
        return TB_OK;
    TB_TRY(tb_check_ptr(arg, to));
    memcpy(to, from, bytes);
    if (from_weights && to_weights && to_weights != MPI_UNWEIGHTED &&
        to_weights != MPI_WEIGHTS_EMPTY)
        memcpy(to_weights, from_weights, bytes);
    return TB_OK;
}

tb_err tb_dist_graph_neighbors(struct tb_comm *comm, int maxindegree,
                               int sources[], int sourceweights[],
                               int maxoutdegree, int destinations[],
                               int destweights[])
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_DIST_GRAPH, &t));
    TB_TRY(get_side("sources", maxindegree, t->n_in, t->in, t->in_weights,
                    sources, sourceweights));
    return get_side("destinations", maxoutdegree, t->n_out, t->out,
                    t->out_weights, destinations, destweights);
}
