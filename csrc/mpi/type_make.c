/* SPDX-License-Identifier: MIT */
/*
 * The constructors of datatypes. Each keeps its arguments in the order in which
 * MPI_Type_get_contents gives them back: for the int forms integers and then
 * addresses, for the _c forms large counts alone (MPI 5.0, section 5.1.13).
 * But for the arrays (type_array.c) the sequence of values is the same.
 */
#include "mpi/type.h"

#include <string.h>

static tb_err no_memory(int64_t n)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype of %lld blocks",
                   (long long)n);
}

/* Room for `n_ints` values and `n_addresses` more. */
static tb_err keep(struct tb_type *old, bool large, int64_t n_ints,
                   int64_t n_addresses, struct tb_type_args **out)
{
    struct tb_type_args *args =
        large ? tb_type_args_new(0, 0, n_ints + n_addresses, 1)
              : tb_type_args_new(n_ints, n_addresses, 0, 1);

    if (!args)
        return no_memory(n_ints);
    args->types[0] = tb_type_ref(old);
    *out = args;
    return TB_OK;
}

static void copy_counts(int64_t *to, struct tb_counts from, int64_t n)
{
    if (from.c) {
        memcpy(to, from.c, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = from.i[i];
}

static tb_err check_array(const char *arg, struct tb_counts v, int64_t n)
{
    if (TB_LIKELY(n == 0 || tb_counts_given(v)))
        return TB_OK;
    return tb_fail(TB_ERR_ARG, "%s is NULL, and count is %lld", arg,
                   (long long)n);
}

static tb_err check_blocks(const int64_t *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (TB_UNLIKELY(blocks[i] < 0))
            return tb_fail(TB_ERR_ARG,
                           "array_of_blocklengths[%lld] is %lld: it must not "
                           "be negative",
                           (long long)i, (long long)blocks[i]);
    return TB_OK;
}

/* Ends a constructor: with the layout, or with the error in making it. */
static tb_err complete(tb_err err, int combiner, struct tb_layout *layout,
                       struct tb_type_args *args, struct tb_type **out)
{
    if (!err)
        return tb_type_make(combiner, layout, args, out);
    tb_type_args_free(args);
    return err;
}

/* In bytes; what overflows cannot be made. */
static tb_err scale(int64_t stride, const struct tb_type *old, int64_t *bytes)
{
    if (TB_LIKELY(!__builtin_mul_overflow(stride, old->layout->extent, bytes)))
        return TB_OK;
    return tb_fail(TB_ERR_TYPE,
                   "stride is %lld: with an extent of %lld that "
                   "does not fit in 63 bits",
                   (long long)stride, (long long)old->layout->extent);
}

/* ----------------------------------------------------------------- regular */

tb_err tb_type_contiguous(MPI_Count count, struct tb_type *old,
                          struct tb_type **out, bool large)
{
    struct tb_type_args *args;
    struct tb_layout *layout = NULL;

    TB_TRY(keep(old, large, 1, 0, &args));
    args->values[0] = count;
    tb_err err = tb_layout_contiguous(&layout, count, old->layout);
    return complete(err, MPI_COMBINER_CONTIGUOUS, layout, args, out);
}

tb_err tb_type_vector(MPI_Count count, MPI_Count block, MPI_Count stride,
                      struct tb_type *old, struct tb_type **out, bool large)
{
    struct tb_type_args *args;
    struct tb_layout *layout = NULL;
    int64_t bytes;

    TB_TRY(scale(stride, old, &bytes));
    TB_TRY(keep(old, large, 3, 0, &args));
    args->values[0] = count;
    args->values[1] = block;
    args->values[2] = stride;
    tb_err err = tb_layout_vector(&layout, count, block, bytes, old->layout);
    return complete(err, MPI_COMBINER_VECTOR, layout, args, out);
}

tb_err tb_type_create_hvector(MPI_Count count, MPI_Count block,
                              MPI_Count stride, struct tb_type *old,
                              struct tb_type **out, bool large)
{
    struct tb_type_args *args;
    struct tb_layout *layout = NULL;

    TB_TRY(keep(old, large, 2, 1, &args));
    args->values[0] = count;
    args->values[1] = block;
    args->values[2] = stride;
    tb_err err = tb_layout_vector(&layout, count, block, stride, old->layout);
    return complete(err, MPI_COMBINER_HVECTOR, layout, args, out);
}

tb_err tb_type_create_resized(struct tb_type *old, MPI_Count lb,
                              MPI_Count extent, struct tb_type **out,
                              bool large)
{
    struct tb_type_args *args;
    struct tb_layout *layout = NULL;

    TB_TRY(keep(old, large, 0, 2, &args));
    args->values[0] = lb;
    args->values[1] = extent;
    tb_err err = tb_layout_resized(&layout, lb, extent, old->layout);
    return complete(err, MPI_COMBINER_RESIZED, layout, args, out);
}

/* --------------------------------------------------------------- irregular */

/* Blocks of lengths of their own; displacements count `unit` bytes. */
static tb_err indexed(int combiner, int64_t n, struct tb_counts blocks,
                      struct tb_counts displs, int64_t unit,
                      struct tb_type *old, bool large, struct tb_type **out)
{
    bool in_bytes = combiner == MPI_COMBINER_HINDEXED;
    struct tb_type_args *args;
    struct tb_layout *layout = NULL;

    TB_TRY(check_array("array_of_blocklengths", blocks, n));
    TB_TRY(check_array("array_of_displacements", displs, n));
    if (n > INT64_MAX / 4)
        return no_memory(n);
    TB_TRY(
        keep(old, large, 1 + n + (in_bytes ? 0 : n), in_bytes ? n : 0, &args));
    int64_t *values = args->values;
    values[0] = n;
    copy_counts(values + 1, blocks, n);
    copy_counts(values + 1 + n, displs, n);
    tb_err err = check_blocks(values + 1, n);
    if (!err)
        err = tb_layout_indexed(&layout, n, values + 1, values + 1 + n, unit,
                                old->layout);
    return complete(err, combiner, layout, args, out);
}

tb_err tb_type_indexed(MPI_Count count, struct tb_counts blocks,
                       struct tb_counts displs, struct tb_type *old,
                       struct tb_type **out, bool large)
{
    return indexed(MPI_COMBINER_INDEXED, count, blocks, displs,
                   old->layout->extent, old, large, out);
}

tb_err tb_type_create_hindexed(MPI_Count count, struct tb_counts blocks,
                               struct tb_counts displs, struct tb_type *old,
                               struct tb_type **out, bool large)
{
    return indexed(MPI_COMBINER_HINDEXED, count, blocks, displs, 1, old, large,
                   out);
}

/* Blocks of one length. */
static tb_err indexed_block(int combiner, int64_t n, int64_t block,
                            struct tb_counts displs, int64_t unit,
                            struct tb_type *old, bool large,
                            struct tb_type **out)
{
    bool in_bytes = combiner == MPI_COMBINER_HINDEXED_BLOCK;
    struct tb_type_args *args;
    struct tb_layout *layout = NULL;

    TB_TRY(check_array("array_of_displacements", displs, n));
    if (n > INT64_MAX / 4)
        return no_memory(n);
    TB_TRY(keep(old, large, 2 + (in_bytes ? 0 : n), in_bytes ? n : 0, &args));
    args->values[0] = n;
    args->values[1] = block;
    copy_counts(args->values + 2, displs, n);
    tb_err err = tb_layout_indexed_block(&layout, n, block, args->values + 2,
                                         unit, old->layout);
    return complete(err, combiner, layout, args, out);
}

tb_err tb_type_create_indexed_block(MPI_Count count, MPI_Count block,
                                    struct tb_counts displs,
                                    struct tb_type *old, struct tb_type **out,
                                    bool large)
{
    return indexed_block(MPI_COMBINER_INDEXED_BLOCK, count, block, displs,
                         old->layout->extent, old, large, out);
}

tb_err tb_type_create_hindexed_block(MPI_Count count, MPI_Count block,
                                     struct tb_counts displs,
                                     struct tb_type *old, struct tb_type **out,
                                     bool large)
{
    return indexed_block(MPI_COMBINER_HINDEXED_BLOCK, count, block, displs, 1,
                         old, large, out);
}

/* ------------------------------------------------------------------ struct */

static tb_err take_types(struct tb_type_args *args, const MPI_Datatype *from)
{
    for (int64_t i = 0; i < args->n_types; i++) {
        struct tb_type *t;
        TB_TRY(tb_type_get(from[i], &t));
        args->types[i] = tb_type_ref(t);
    }
    return TB_OK;
}

/* Enough for a panel of HPL: types made for one message should be cheap. */
#define LAYOUTS_INLINE 288

/* The layout of args, which are those of a struct of n blocks. */
static tb_err struct_layout(const struct tb_type_args *args, int64_t n,
                            struct tb_layout **out)
{
    const struct tb_layout *few[LAYOUTS_INLINE], **of = few;

    if (n <= 0)
        return tb_layout_contiguous(out, 0, &tb_layout_byte);
    if (n > LAYOUTS_INLINE)
        of = tb_alloc((size_t)n * sizeof *of);
    if (!of)
        return no_memory(n);
    for (int64_t i = 0; i < n; i++)
        of[i] = args->types[i]->layout;
    tb_err err =
        tb_layout_struct(out, n, args->values + 1, args->values + 1 + n, of);
    if (of != few)
        tb_free(of);
    return err;
}

tb_err tb_type_create_struct(MPI_Count count, struct tb_counts blocks,
                             struct tb_counts displs,
                             const MPI_Datatype types[], struct tb_type **out,
                             bool large)
{
    const int64_t n = count;
    struct tb_type_args *args = NULL;
    struct tb_layout *layout = NULL;

    TB_TRY(check_array("array_of_blocklengths", blocks, n));
    TB_TRY(check_array("array_of_displacements", displs, n));
    if (n > 0 && !types)
        return tb_fail(TB_ERR_ARG, "array_of_types is NULL, and count is %lld",
                       (long long)n);
    if (n <= INT64_MAX / 4)
        args = large ? tb_type_args_new(0, 0, 1 + 2 * n, n)
                     : tb_type_args_new(1 + n, n, 0, n);
    if (!args)
        return no_memory(n);
    args->values[0] = n;
    copy_counts(args->values + 1, blocks, n);
    copy_counts(args->values + 1 + n, displs, n);
    tb_err err = check_blocks(args->values + 1, n);
    if (!err)
        err = take_types(args, types);
    if (!err)
        err = struct_layout(args, n, &layout);
    return complete(err, MPI_COMBINER_STRUCT, layout, args, out);
}
