/* ranks: 1 2 3 4 6 */
/* SPDX-License-Identifier: MIT */
/*
 * Neighbourhood collectives: on grids, also with periodic dimensions of one or
 * two ranks, where what goes down must arrive as coming from above; and on
 * graphs with edges that occur twice.
 */
#include "coll_forms.h"

enum { MOST = 16 };

static void neighbours(int *in, int *out, int *n_in, int *n_out)
{
    int kind, weighted;
    MPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        int dims;
        MPI_Cartdim_get(comm, &dims);
        *n_in = *n_out = 2 * dims;
        for (int d = 0; d < dims; d++)
            MPI_Cart_shift(comm, d, 1, &in[2 * d], &in[2 * d + 1]);
        memcpy(out, in, 2 * (size_t)dims * sizeof *in);
        return;
    }
    MPI_Dist_graph_neighbors_count(comm, n_in, n_out, &weighted);
    MPI_Dist_graph_neighbors(comm, *n_in, in, MPI_UNWEIGHTED, *n_out, out,
                             MPI_UNWEIGHTED);
}

/* The number that edge `edge` of rank `from` has at its other end `to`. */
static int other_end(int is_cart, int edge, int nth)
{
    return is_cart ? edge ^ 1 : nth;
}

/* Which of the edges before this one go to the same rank. */
static int nth_edge(const int *ranks, int edge)
{
    int nth = 0;
    for (int i = 0; i < edge; i++)
        nth += ranks[i] == ranks[edge];
    return nth;
}

static void exchange(int is_cart, int count)
{
    int in[MOST], out[MOST], n_in, n_out;
    neighbours(in, out, &n_in, &n_out);
    int *give = ints(count * MOST), *get = ints(count * MOST);
    for (int e = 0; e < n_out; e++)
        for (int i = 0; i < count; i++)
            give[e * count + i] =
                value(me, other_end(is_cart, e, nth_edge(out, e)), i);
    RUN(Neighbor_alltoall, neighbor_alltoall, give, count, MPI_INT, get, count,
        MPI_INT);
    for (int e = 0; e < n_in; e++)
        for (int i = 0; i < count; i++) {
            int at = is_cart ? e : nth_edge(in, e);
            int want = in[e] == MPI_PROC_NULL ? -77 : value(in[e], at, i);
            CHECK(get[e * count + i] == want);
        }
    RUN(Neighbor_allgather, neighbor_allgather, give, count, MPI_INT, get,
        count, MPI_INT);
    for (int e = 0; e < n_in; e++)
        for (int i = 0; i < count && in[e] != MPI_PROC_NULL && is_cart; i++)
            CHECK(get[e * count + i] == value(in[e], 1, i));
    free(give);
    free(get);
}

/* Blocks of different lengths: both ends of an edge know the dimension. */
static void exchange_v(int count)
{
    int in[MOST], out[MOST], n_in, n_out, lengths[MOST], at[MOST];
    MPI_Aint places[MOST];
    MPI_Datatype types[MOST];
    neighbours(in, out, &n_in, &n_out);
    for (int e = 0; e < n_in; e++) {
        lengths[e] = e / 2 * count;
        at[e] = (n_in - 1 - e) * count * MOST;
        places[e] = at[e] * (MPI_Aint)sizeof(int);
        types[e] = MPI_INT;
    }
    int *give = ints(count * MOST * MOST), *get = ints(count * MOST * MOST);
    for (int w = 0; w < 2; w++) {
        for (int e = 0; e < n_out; e++)
            for (int i = 0; i < lengths[e]; i++) {
                give[at[e] + i] = value(me, e ^ 1, i + w);
                get[at[e] + i] = -77;
            }
        if (w)
            RUN(Neighbor_alltoallw, neighbor_alltoallw, give, lengths, places,
                types, get, lengths, places, types);
        else
            RUN(Neighbor_alltoallv, neighbor_alltoallv, give, lengths, at,
                MPI_INT, get, lengths, at, MPI_INT);
        for (int e = 0; e < n_in; e++)
            for (int i = 0; i < lengths[e]; i++)
                CHECK(get[at[e] + i] ==
                      (in[e] == MPI_PROC_NULL ? -77 : value(in[e], e, i + w)));
    }
    free(give);
    free(get);
}

static void on_grid(int ndims, const int *dims, const int *periods)
{
    MPI_Comm grid;
    int need = 1;
    for (int d = 0; d < ndims; d++)
        need *= dims[d];
    if (need > size)
        return;
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &grid);
    if (grid == MPI_COMM_NULL)
        return;
    use(grid);
    for (form = 0; form < FORMS; form++)
        for (int count = 1; count < 50000; count *= 20) {
            exchange(1, count);
            if (count < 1000)
                exchange_v(count);
        }
    MPI_Comm_free(&grid);
}

static void on_graph(void)
{
    MPI_Comm graph;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int sources[3] = {before, before, rank};
    int targets[3] = {next, rank, next};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, sources, MPI_UNWEIGHTED,
                                   3, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &graph);
    use(graph);
    for (form = 0; form < FORMS; form++)
        for (int count = 1; count < 50000; count *= 20)
            exchange(0, count);
    MPI_Comm_free(&graph);
}

int main(void)
{
    smoke_init(MPI_THREAD_SINGLE);
    for (int periods = 0; periods < 8; periods++) {
        int p[3] = {periods & 1, periods >> 1 & 1, periods >> 2};
        on_grid(1, (int[]){size}, p);
        on_grid(2, (int[]){2, 1}, p);
        on_grid(2, (int[]){1, size}, p);
        on_grid(3, (int[]){1, 2, size / 2 > 0 ? size / 2 : 1}, p);
    }
    on_graph();
    MPI_Finalize();
    return 0;
}
