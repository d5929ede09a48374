/* SPDX-License-Identifier: MIT */
/* Cartesian grids. Ranks run in row-major order: the last coordinate fastest.
 */
#include "mpi/api.h"
#include "mpi/check.h"
#include "mpi/comm.h"
#include "mpi/topo.h"

/* ------------------------------------------------------------- arithmetic */

static void coords_of(const struct tb_topo *t, int rank, int *coords)
{
    for (int i = t->ndims - 1; i >= 0; i--) {
        coords[i] = rank % t->dims[i];
        rank /= t->dims[i];
    }
}

/* This process's rank moved by `by` along a dimension. */
static int moved(const struct tb_topo *t, int rank, int dim, int64_t by)
{
    int n = t->dims[dim], stride = 1;
    int64_t to = t->coords[dim] + by;

    if (to < 0 || to >= n) {
        if (!t->periods[dim])
            return MPI_PROC_NULL;
        to = (to % n + n) % n;
    }
    for (int i = dim + 1; i < t->ndims; i++)
        stride *= t->dims[i];
    return rank + (int)(to - t->coords[dim]) * stride;
}

/* ------------------------------------------------------------------ making */

static tb_err check_array(const char *arg, int n, const void *array)
{
    return n ? tb_check_ptr(arg, array) : TB_OK;
}

/* *n: how many ranks the grid has. */
static tb_err check_grid(const struct tb_comm *old, int ndims, const int *dims,
                         const int *periods, int *n)
{
    int64_t product = 1;

    TB_TRY(tb_comm_need_intra(old));
    if (ndims < 0)
        return tb_fail(TB_ERR_DIMS, "ndims is %d: it must not be negative",
                       ndims);
    TB_TRY(check_array("dims", ndims, dims));
    TB_TRY(check_array("periods", ndims, periods));
    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 1)
            return tb_fail(TB_ERR_DIMS, "dims[%d] is %d: it must be positive",
                           i, dims[i]);
        product *= dims[i];
        if (product > old->size)
            return tb_fail(TB_ERR_DIMS,
                           "the grid has more places than the "
                           "communicator has processes (%d)",
                           old->size);
    }
    *n = (int)product;
    return TB_OK;
}

/* The grid as seen from `rank`. */
static tb_err make_grid(struct tb_topo **out, int ndims, const int *dims,
                        const int *periods, int rank)
{
    size_t n = (size_t)ndims;
    struct tb_topo *t;

    TB_TRY(tb_topo_new(&t, MPI_CART, 5 * n));
    t->ndims = ndims;
    t->dims = tb_topo_array(t, n);
    t->periods = tb_topo_array(t, n);
    t->coords = tb_topo_array(t, n);
    t->in = t->out = tb_topo_array(t, 2 * n);
    t->n_in = t->n_out = 2 * ndims;
    for (int i = 0; i < ndims; i++) {
        t->dims[i] = dims[i];
        t->periods[i] = periods[i] != 0;
    }
    coords_of(t, rank, t->coords);
    for (int i = 0; i < ndims; i++) {
        t->in[2 * i] = moved(t, rank, i, -1);
        t->in[2 * i + 1] = moved(t, rank, i, 1);
    }
    *out = t;
    return TB_OK;
}

/* Ranks keep their numbers: processes of a machine have adjacent ones already,
 * which suits row-major grids. */
tb_err tb_cart_create(struct tb_comm *comm_old, int ndims, const int dims[],
                      const int periods[], int reorder,
                      struct tb_comm **comm_cart)
{
    uint64_t name = tb_comm_next_name(comm_old);
    struct tb_topo *t;
    int n;

    (void)reorder;
    TB_TRY(check_grid(comm_old, ndims, dims, periods, &n));
    if (comm_old->rank >= n)
        return TB_OK;
    TB_TRY(make_grid(&t, ndims, dims, periods, comm_old->rank));
    return tb_topo_publish(comm_old, name, n, t, comm_cart);
}

tb_err tb_cart_map(struct tb_comm *comm, int ndims, const int dims[],
                   const int periods[], int *newrank)
{
    int n;

    TB_TRY(check_grid(comm, ndims, dims, periods, &n));
    *newrank = comm->rank < n ? comm->rank : MPI_UNDEFINED;
    return TB_OK;
}

/* --------------------------------------------------------------- sub-grids */

/* Whether a rank lies in the sub-grid of this process: its coordinates in the
 * dimensions that are dropped are the same. */
static bool is_in_sub(const struct tb_topo *t, const int *remain, int rank)
{
    for (int i = t->ndims - 1; i >= 0; i--) {
        if (!remain[i] && rank % t->dims[i] != t->coords[i])
            return false;
        rank /= t->dims[i];
    }
    return true;
}

static tb_err list_sub(const struct tb_comm *c, const int *remain, int **ranks,
                       int *n, int *self)
{
    *n = 0;
    *self = 0;
    *ranks = tb_alloc((size_t)c->size * sizeof **ranks);
    if (!*ranks)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", c->size);
    for (int rank = 0; rank < c->size; rank++) {
        if (!is_in_sub(c->topo, remain, rank))
            continue;
        if (rank == c->rank)
            *self = *n;
        (*ranks)[(*n)++] = c->group->ranks[rank];
    }
    return TB_OK;
}

static tb_err make_sub(const struct tb_topo *t, const int *remain, int self,
                       struct tb_topo **out)
{
    int n = 0;
    int *kept = tb_alloc(2 * (size_t)t->ndims * sizeof *kept);
    if (!kept)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a topology");
    int *periods = kept + t->ndims;
    for (int i = 0; i < t->ndims; i++) {
        if (!remain[i])
            continue;
        kept[n] = t->dims[i];
        periods[n++] = t->periods[i];
    }
    tb_err err = make_grid(out, n, kept, periods, self);
    tb_free(kept);
    return err;
}

static bool is_point(const struct tb_topo *t, const int *remain)
{
    for (int i = 0; i < t->ndims; i++)
        if (remain[i])
            return false;
    return true;
}

/* All know the whole grid, so no message is needed, and since sub-grids are
 * disjoint they may have one name. A grid without dimensions is that of rank 0,
 * as in MPI_Cart_create. */
tb_err tb_cart_sub(struct tb_comm *comm, const int remain_dims[],
                   struct tb_comm **newcomm)
{
    uint64_t name = tb_comm_next_name(comm);
    struct tb_topo *t, *sub;
    int *ranks;
    int n, self;

    TB_TRY(tb_topo_get(comm, MPI_CART, &t));
    TB_TRY(check_array("remain_dims", t->ndims, remain_dims));
    if (is_point(t, remain_dims) && comm->rank != 0)
        return TB_OK;
    TB_TRY(list_sub(comm, remain_dims, &ranks, &n, &self));
    tb_err err = make_sub(t, remain_dims, self, &sub);
    if (err) {
        tb_free(ranks);
        return err;
    }
    err = tb_comm_publish_ranks(newcomm, name, ranks, n, comm);
    if (err)
        tb_topo_unref(sub);
    else
        (*newcomm)->topo = sub;
    return err;
}

/* ----------------------------------------------------------------- inquiry */

tb_err tb_cartdim_get(struct tb_comm *comm, int *ndims)
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_CART, &t));
    *ndims = t->ndims;
    return TB_OK;
}

tb_err tb_cart_get(struct tb_comm *comm, int maxdims, int dims[], int periods[],
                   int coords[])
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_CART, &t));
    TB_TRY(tb_topo_check_room("maxdims", maxdims, t->ndims));
    TB_TRY(check_array("dims", t->ndims, dims));
    TB_TRY(check_array("periods", t->ndims, periods));
    TB_TRY(check_array("coords", t->ndims, coords));
    for (int i = 0; i < t->ndims; i++) {
        dims[i] = t->dims[i];
        periods[i] = t->periods[i];
        coords[i] = t->coords[i];
    }
    return TB_OK;
}

tb_err tb_cart_coords(struct tb_comm *comm, int rank, int maxdims, int coords[])
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_CART, &t));
    if (rank < 0 || rank >= comm->size)
        return tb_wrong_rank("the", comm, rank);
    TB_TRY(tb_topo_check_room("maxdims", maxdims, t->ndims));
    TB_TRY(check_array("coords", t->ndims, coords));
    coords_of(t, rank, coords);
    return TB_OK;
}

tb_err tb_cart_rank(struct tb_comm *comm, const int coords[], int *rank)
{
    struct tb_topo *t;
    int at = 0;

    TB_TRY(tb_topo_get(comm, MPI_CART, &t));
    TB_TRY(check_array("coords", t->ndims, coords));
    for (int i = 0; i < t->ndims; i++) {
        int n = t->dims[i], x = coords[i];
        if ((x < 0 || x >= n) && !t->periods[i])
            return tb_fail(TB_ERR_ARG,
                           "coords[%d] is %d: that dimension has "
                           "0..%d and is not periodic",
                           i, x, n - 1);
        x %= n;
        at = at * n + (x < 0 ? x + n : x);
    }
    *rank = at;
    return TB_OK;
}

tb_err tb_cart_shift(struct tb_comm *comm, int direction, int disp,
                     int *rank_source, int *rank_dest)
{
    struct tb_topo *t;

    TB_TRY(tb_topo_get(comm, MPI_CART, &t));
    if (direction < 0 || direction >= t->ndims)
        return tb_fail(TB_ERR_ARG,
                       "direction is %d: the grid has %d dimensions", direction,
                       t->ndims);
    *rank_source = moved(t, comm->rank, direction, -(int64_t)disp);
    *rank_dest = moved(t, comm->rank, direction, disp);
    return TB_OK;
}
