/* SPDX-License-Identifier: MIT */
/* Graphs that every process knows as a whole. topo_dist.c has the others. */
#include "mpi/api.h"
#include "mpi/check.h"
#include "mpi/comm.h"
#include "mpi/topo.h"

static int first_edge(const int *index, int node)
{
    return node ? index[node - 1] : 0;
}

static tb_err check_graph(const struct tb_comm *old, int nnodes,
                          const int *index, const int *edges)
{
    TB_TRY(tb_comm_need_intra(old));
    if (nnodes < 0 || nnodes > old->size)
        return tb_fail(TB_ERR_ARG,
                       "nnodes is %d: the communicator has %d "
                       "processes",
                       nnodes, old->size);
    if (nnodes == 0)
        return TB_OK;
    TB_TRY(tb_check_ptr("index", index));
    for (int i = 0; i < nnodes; i++)
        if (index[i] < first_edge(index, i))
            return tb_fail(TB_ERR_ARG, "index[%d] is %d, less than before", i,
                           index[i]);
    if (index[nnodes - 1])
        TB_TRY(tb_check_ptr("edges", edges));
    for (int i = 0; i < index[nnodes - 1]; i++)
        if (edges[i] < 0 || edges[i] >= nnodes)
            return tb_fail(TB_ERR_ARG,
                           "edges[%d] is %d: the graph has nodes "
                           "0..%d",
                           i, edges[i], nnodes - 1);
    return TB_OK;
}

static tb_err make_graph(struct tb_topo **out, int nnodes, const int *index,
                         const int *edges, int rank)
{
    size_t nodes = (size_t)nnodes, n = (size_t)index[nnodes - 1];
    struct tb_topo *t;

    TB_TRY(tb_topo_new(&t, MPI_GRAPH, nodes + n));
    t->nnodes = nnodes;
    t->nedges = (int)n;
    t->index = tb_topo_array(t, nodes);
    t->edges = tb_topo_array(t, n);
    memcpy(t->index, index, nodes * sizeof *index);
    if (n)
        memcpy(t->edges, edges, n * sizeof *edges);
    t->in = t->out = t->edges + first_edge(t->index, rank);
    t->n_in = t->n_out = t->index[rank] - first_edge(t->index, rank);
    *out = t;
    return TB_OK;
}

tb_err tb_graph_create(struct tb_comm *comm_old, int nnodes, const int indx[],
                       const int edges[], int reorder,
                       struct tb_comm **comm_graph)
{
    uint64_t name = tb_comm_next_name(comm_old);
    struct tb_topo *t;

    (void)reorder; /* as for grids: ranks keep their numbers */
    TB_TRY(check_graph(comm_old, nnodes, indx, edges));
    if (comm_old->rank >= nnodes)
        return TB_OK;
    TB_TRY(make_graph(&t, nnodes, indx, edges, comm_old->rank));
    return tb_topo_publish(comm_old, name, nnodes, t, comm_graph);
}

tb_err tb_graph_map(struct tb_comm *comm, int nnodes, const int indx[],
                    const int edges[], int *newrank)
{
    TB_TRY(check_graph(comm, nnodes, indx, edges));
    *newrank = comm->rank < nnodes ? comm->rank : MPI_UNDEFINED;
    return TB_OK;
}

tb_err tb_graphdims_get(struct tb_comm *comm, int *nnodes, int *nedges)
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_GRAPH, &t));
    *nnodes = t->nnodes;
    *nedges = t->nedges;
    return TB_OK;
}

tb_err tb_graph_get(struct tb_comm *comm, int maxindex, int maxedges,
                    int indx[], int edges[])
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_GRAPH, &t));
    TB_TRY(tb_topo_check_room("maxindex", maxindex, t->nnodes));
    TB_TRY(tb_topo_check_room("maxedges", maxedges, t->nedges));
    TB_TRY(tb_check_ptr("index", indx));
    memcpy(indx, t->index, (size_t)t->nnodes * sizeof *indx);
    if (t->nedges == 0)
        return TB_OK;
    TB_TRY(tb_check_ptr("edges", edges));
    memcpy(edges, t->edges, (size_t)t->nedges * sizeof *edges);
    return TB_OK;
}

/* A node's neighbours: *n of them. */
static tb_err neighbours_of(const struct tb_comm *comm, int rank,
                            const int **list, int *n)
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_GRAPH, &t));
    if (rank < 0 || rank >= comm->size)
        return tb_wrong_rank("the", comm, rank);
    *list = t->edges + first_edge(t->index, rank);
    *n = t->index[rank] - first_edge(t->index, rank);
    return TB_OK;
}

tb_err tb_graph_neighbors_count(struct tb_comm *comm, int rank, int *nneighbors)
{
    const int *list;

    return neighbours_of(comm, rank, &list, nneighbors);
}

tb_err tb_graph_neighbors(struct tb_comm *comm, int rank, int maxneighbors,
                          int neighbors[])
{
    const int *list = NULL;
    int n = 0;

    TB_TRY(neighbours_of(comm, rank, &list, &n));
    TB_TRY(tb_topo_check_room("maxneighbors", maxneighbors, n));
    if (n == 0)
        return TB_OK;
    TB_TRY(tb_check_ptr("neighbors", neighbors));
    memcpy(neighbors, list, (size_t)n * sizeof *list);
    return TB_OK;
}
