/* SPDX-License-Identifier: MIT */
/*
 * Subarrays and distributed arrays. Both are built dimension by dimension, the
 * fastest first: what is chosen in one dimension, with the extent of the whole
 * dimension, is the element of the next. (MPI 5.0, sections 5.1.3 and 5.1.4.)
 */
#include "mpi/type.h"

/* ------------------------------------------------- choosing in a dimension */

struct choice {
    struct tb_layout *layout; /* of an element of the present dimension */
    int64_t begin;            /* where the first chosen element is, in bytes */
};

static tb_err too_large(void)
{
    return tb_fail(TB_ERR_TYPE, "the array is larger than 63 bits can count");
}

/* Puts `layout` in the place of the one there is; takes over both. */
static void replace(struct choice *c, struct tb_layout *layout)
{
    tb_layout_unref(c->layout);
    c->layout = layout;
}

static tb_err begin_at(struct choice *c, int64_t start)
{
    int64_t bytes;

    if (__builtin_mul_overflow(start, c->layout->extent, &bytes) ||
        __builtin_add_overflow(c->begin, bytes, &c->begin))
        return too_large();
    return TB_OK;
}

/* What was chosen becomes an element with the extent of the whole dimension,
 * which has `size` elements of `extent` bytes. */
static tb_err close_dimension(struct choice *c, int64_t size, int64_t extent)
{
    struct tb_layout *layout;
    int64_t bytes;

    if (__builtin_mul_overflow(size, extent, &bytes))
        return too_large();
    TB_TRY(tb_layout_resized(&layout, 0, bytes, c->layout));
    replace(c, layout);
    return TB_OK;
}

/* `n` elements in a row, from `start` on. */
static tb_err choose_range(struct choice *c, int64_t size, int64_t start,
                           int64_t n)
{
    int64_t extent = c->layout->extent;
    struct tb_layout *layout;

    TB_TRY(begin_at(c, start));
    TB_TRY(tb_layout_contiguous(&layout, n, c->layout));
    replace(c, layout);
    return close_dimension(c, size, extent);
}

/* `whole` blocks of `block` elements at every `round` elements, and after them
 * a short block of `rest`. */
static tb_err choose_blocks(struct choice *c, int64_t block, int64_t round,
                            int64_t whole, int64_t rest)
{
    const struct tb_layout *parts[2] = {NULL, c->layout};
    const int64_t blocks[2] = {1, rest};
    int64_t displs[2] = {0, 0}, stride;
    struct tb_layout *regular, *all;

    if (__builtin_mul_overflow(round, c->layout->extent, &stride) ||
        __builtin_mul_overflow(whole, stride, &displs[1]))
        return too_large();
    TB_TRY(tb_layout_vector(&regular, whole, block, stride, c->layout));
    parts[0] = regular;
    tb_err err = tb_layout_struct(&all, 2, blocks, displs, parts);
    tb_layout_unref(regular);
    if (!err)
        replace(c, all);
    return err;
}

/* Blocks are dealt out to `ranks` ranks in turn; those of rank `rank`. */
static tb_err choose_cyclic(struct choice *c, int64_t size, int64_t block,
                            int64_t ranks, int64_t rank)
{
    int64_t extent = c->layout->extent;
    int64_t round, start;

    if (__builtin_mul_overflow(block, ranks, &round) ||
        __builtin_mul_overflow(block, rank, &start))
        return too_large();
    if (start >= size)
        return choose_range(c, size, 0, 0);
    int64_t reach = size - start; /* from this rank's first block to the end */
    int64_t whole = reach / round;
    int64_t rest = reach % round;
    if (rest >= block) {
        whole++;
        rest = 0;
    }
    TB_TRY(begin_at(c, start));
    TB_TRY(choose_blocks(c, block, round, whole, rest));
    return close_dimension(c, size, extent);
}

/* The type, when all dimensions are done. Frees what was chosen. */
static tb_err finish(tb_err err, int combiner, struct choice *c,
                     struct tb_type_args *args, struct tb_type **out)
{
    struct tb_layout *moved = NULL, *layout = NULL;

    if (!err)
        err = tb_layout_indexed_block(&moved, 1, 1, &c->begin, 1, c->layout);
    if (!err)
        err = tb_layout_resized(&layout, 0, c->layout->extent, moved);
    tb_layout_unref(moved);
    tb_layout_unref(c->layout);
    if (!err)
        return tb_type_make(combiner, layout, args, out);
    tb_type_args_free(args);
    return err;
}

/* The i-th dimension from the fastest on. */
static int dimension(int order, int n, int i)
{
    return order == MPI_ORDER_C ? n - 1 - i : i;
}

/* ------------------------------------------------------------------ checks */

static tb_err wrong(const char *arg, int i, int64_t value, const char *should)
{
    return tb_fail(TB_ERR_ARG, "%s[%d] is %lld: it should be %s", arg, i,
                   (long long)value, should);
}

static tb_err check_shape(int n, int order)
{
    if (n < 1)
        return tb_fail(TB_ERR_ARG,
                       "ndims is %d: an array has at least one "
                       "dimension",
                       n);
    if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
        return tb_fail(TB_ERR_ARG,
                       "order is %d: not one of MPI_ORDER_C and "
                       "MPI_ORDER_FORTRAN",
                       order);
    return TB_OK;
}

static tb_err check_given(bool given)
{
    if (given)
        return TB_OK;
    return tb_fail(TB_ERR_ARG, "an array argument is NULL");
}

/* ---------------------------------------------------------------- subarray */

static tb_err check_subarray(int n, struct tb_counts sizes,
                             struct tb_counts subsizes, struct tb_counts starts,
                             int order)
{
    TB_TRY(check_shape(n, order));
    TB_TRY(check_given(tb_counts_given(sizes) && tb_counts_given(subsizes) &&
                       tb_counts_given(starts)));
    for (int i = 0; i < n; i++) {
        int64_t size = tb_count_at(sizes, i);
        int64_t part = tb_count_at(subsizes, i);
        int64_t start = tb_count_at(starts, i);
        if (size < 1)
            return wrong("array_of_sizes", i, size, "at least 1");
        if (part < 1 || part > size)
            return wrong("array_of_subsizes", i, part,
                         "1 to the size of the "
                         "array");
        if (start < 0 || start > size - part)
            return wrong("array_of_starts", i, start,
                         "0 to the array's size "
                         "less the subarray's");
    }
    return TB_OK;
}

tb_err tb_type_create_subarray(int n, struct tb_counts sizes,
                               struct tb_counts subsizes,
                               struct tb_counts starts, int order,
                               struct tb_type *old, struct tb_type **out,
                               bool large)
{
    TB_TRY(check_subarray(n, sizes, subsizes, starts, order));
    int64_t dims = n;
    struct tb_type_args *args = large ? tb_type_args_new(2, 0, 3 * dims, 1)
                                      : tb_type_args_new(2 + 3 * dims, 0, 0, 1);
    if (!args)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype");
    int64_t *lists = args->values + (large ? 2 : 1);
    args->values[0] = n;
    args->values[large ? 1 : 1 + 3 * dims] = order;
    for (int i = 0; i < n; i++) {
        lists[i] = tb_count_at(sizes, i);
        lists[dims + i] = tb_count_at(subsizes, i);
        lists[2 * dims + i] = tb_count_at(starts, i);
    }
    args->types[0] = tb_type_ref(old);

    struct choice c = {tb_layout_ref(old->layout), 0};
    tb_err err = TB_OK;
    for (int k = 0; k < n && !err; k++) {
        int i = dimension(order, n, k);
        err = choose_range(&c, lists[i], lists[2 * dims + i], lists[dims + i]);
    }
    return finish(err, MPI_COMBINER_SUBARRAY, &c, args, out);
}

/* ------------------------------------------------------- distributed array */

/* One dimension of the arguments. */
struct dealing {
    int64_t size;
    int how;
    int darg;
    int ranks;
    int rank;
};

static tb_err check_dealing(int i, const struct dealing *d)
{
    if (d->size < 1)
        return wrong("array_of_gsizes", i, d->size, "at least 1");
    if (d->how != MPI_DISTRIBUTE_NONE && d->how != MPI_DISTRIBUTE_BLOCK &&
        d->how != MPI_DISTRIBUTE_CYCLIC)
        return wrong("array_of_distribs", i, d->how,
                     "MPI_DISTRIBUTE_NONE, "
                     "_BLOCK or _CYCLIC");
    if (d->how == MPI_DISTRIBUTE_NONE && d->ranks != 1)
        return wrong("array_of_psizes", i, d->ranks,
                     "1 where nothing is "
                     "distributed");
    if (d->how == MPI_DISTRIBUTE_NONE || d->darg == MPI_DISTRIBUTE_DFLT_DARG)
        return TB_OK;
    if (d->darg < 1)
        return wrong("array_of_dargs", i, d->darg, "at least 1");
    if (d->how == MPI_DISTRIBUTE_BLOCK && (int64_t)d->darg * d->ranks < d->size)
        return wrong("array_of_dargs", i, d->darg,
                     "large enough that all "
                     "blocks hold the array");
    return TB_OK;
}

static tb_err choose_dealt(struct choice *c, const struct dealing *d)
{
    bool by_default = d->darg == MPI_DISTRIBUTE_DFLT_DARG;

    if (d->how == MPI_DISTRIBUTE_NONE)
        return choose_range(c, d->size, 0, d->size);
    if (d->how == MPI_DISTRIBUTE_CYCLIC)
        return choose_cyclic(c, d->size, by_default ? 1 : d->darg, d->ranks,
                             d->rank);
    int64_t block = by_default ? (d->size - 1) / d->ranks + 1 : d->darg;
    return choose_cyclic(c, d->size, block, d->ranks, d->rank);
}

/* The process grid is in C order whatever the array's is. */
static tb_err check_grid(int size, int rank, int n, const int psizes[])
{
    int64_t grid = 1;

    for (int i = 0; i < n; i++) {
        if (psizes[i] < 1)
            return wrong("array_of_psizes", i, psizes[i], "at least 1");
        if (__builtin_mul_overflow(grid, (int64_t)psizes[i], &grid))
            return too_large();
    }
    if (grid != size)
        return tb_fail(TB_ERR_ARG,
                       "array_of_psizes has %lld places, and size "
                       "is %d",
                       (long long)grid, size);
    if (rank < 0 || rank >= size)
        return tb_fail(TB_ERR_RANK, "rank %d is not in 0..%d", rank, size - 1);
    return TB_OK;
}

static int coordinate(int rank, int n, const int psizes[], int i)
{
    for (int k = n - 1; k > i; k--)
        rank /= psizes[k];
    return rank % psizes[i];
}

/* Keeps the arguments in the order of MPI_Type_get_contents. */
static struct tb_type_args *keep(int size, int rank, int n,
                                 struct tb_counts gsizes, const int distribs[],
                                 const int dargs[], const int psizes[],
                                 int order, struct tb_type *old, bool large)
{
    const int *lists[3] = {distribs, dargs, psizes};
    int64_t dims = n;
    struct tb_type_args *args = large
                                    ? tb_type_args_new(4 + 3 * dims, 0, dims, 1)
                                    : tb_type_args_new(4 + 4 * dims, 0, 0, 1);
    if (!args)
        return NULL;
    int64_t *v = args->values;
    *v++ = size;
    *v++ = rank;
    *v++ = n;
    for (int i = 0; i < n && !large; i++)
        *v++ = tb_count_at(gsizes, i);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < n; i++)
            *v++ = lists[k][i];
    *v++ = order;
    for (int i = 0; i < n && large; i++)
        *v++ = tb_count_at(gsizes, i);
    args->types[0] = tb_type_ref(old);
    return args;
}

tb_err tb_type_create_darray(int size, int rank, int n, struct tb_counts gsizes,
                             const int distribs[], const int dargs[],
                             const int psizes[], int order, struct tb_type *old,
                             struct tb_type **out, bool large)
{
    TB_TRY(check_shape(n, order));
    TB_TRY(check_given(tb_counts_given(gsizes) && distribs && dargs && psizes));
    TB_TRY(check_grid(size, rank, n, psizes));
    struct tb_type_args *args =
        keep(size, rank, n, gsizes, distribs, dargs, psizes, order, old, large);
    if (!args)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype");

    struct choice c = {tb_layout_ref(old->layout), 0};
    tb_err err = TB_OK;
    for (int k = 0; k < n && !err; k++) {
        int i = dimension(order, n, k);
        struct dealing d = {tb_count_at(gsizes, i), distribs[i], dargs[i],
                            psizes[i], coordinate(rank, n, psizes, i)};
        err = check_dealing(i, &d);
        if (!err)
            err = choose_dealt(&c, &d);
    }
    return finish(err, MPI_COMBINER_DARRAY, &c, args, out);
}
