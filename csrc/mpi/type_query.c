/* SPDX-License-Identifier: MIT */
/* What a program can ask of a datatype. */
#include "mpi/type.h"

#include <string.h>

/* ------------------------------------------------------------------ bounds */

tb_err tb_type_size(struct tb_type *t, MPI_Count *size)
{
    *size = t->layout->size;
    return TB_OK;
}

tb_err tb_type_get_extent(struct tb_type *t, MPI_Count *lb, MPI_Count *extent)
{
    *lb = t->layout->lb;
    *extent = t->layout->extent;
    return TB_OK;
}

tb_err tb_type_get_true_extent(struct tb_type *t, MPI_Count *true_lb,
                               MPI_Count *true_extent)
{
    *true_lb = t->layout->true_lb;
    *true_extent = t->layout->true_ub - t->layout->true_lb;
    return TB_OK;
}

/* ------------------------------------------------------------------- names */

tb_err tb_type_get_name(struct tb_type *t, char *name, int *length)
{
    const char *label = t ? t->label : "MPI_DATATYPE_NULL";

    *length = (int)strlen(label);
    memcpy(name, label, (size_t)*length + 1);
    return TB_OK;
}

tb_err tb_type_set_name(struct tb_type *t, const char *name)
{
    size_t length = strlen(name);

    if (length >= sizeof t->label)
        return tb_fail(TB_ERR_ARG, "the name has %zu characters: %zu fit",
                       length, sizeof t->label - 1);
    memcpy(t->label, name, length + 1);
    return TB_OK;
}

/* ---------------------------------------------------------------- contents */

tb_err tb_type_get_envelope(struct tb_type *t, MPI_Count *num_integers,
                            MPI_Count *num_addresses,
                            MPI_Count *num_large_counts,
                            MPI_Count *num_datatypes, int *combiner)
{
    static const struct tb_type_args none;
    const struct tb_type_args *args =
        t->combiner == MPI_COMBINER_NAMED ? &none : t->args;

    *num_integers = args->n_ints;
    *num_addresses = args->n_addresses;
    *num_large_counts = args->n_counts;
    *num_datatypes = args->n_types;
    *combiner = t->combiner;
    return TB_OK;
}

static tb_err check_room(const char *what, int64_t has, int64_t room,
                         const void *array)
{
    if (has <= room && (has == 0 || array))
        return TB_OK;
    if (!array)
        return tb_fail(TB_ERR_ARG, "array_of_%s is NULL, and there are %lld",
                       what, (long long)has);
    return tb_fail(TB_ERR_ARG,
                   "max_%s is %lld, and there are %lld: ask "
                   "MPI_Type_get_envelope first",
                   what, (long long)room, (long long)has);
}

/* New rights to the handles of all types, or to none. */
static tb_err share_types(const struct tb_type_args *args, MPI_Datatype *out)
{
    for (int64_t i = 0; i < args->n_types; i++) {
        struct tb_type *of = args->types[i];
        tb_err err = tb_handle_share(&of->obj, TB_KIND_TYPE);
        if (err) {
            while (i-- > 0) {
                tb_handle_drop(&args->types[i]->obj);
                tb_type_unref(args->types[i]);
            }
            return err;
        }
        out[i] = tb_type_handle(of);
    }
    return TB_OK;
}

tb_err tb_type_get_contents(struct tb_type *t, MPI_Count max_integers,
                            MPI_Count max_addresses, MPI_Count max_large_counts,
                            MPI_Count max_datatypes, int integers[],
                            MPI_Aint addresses[], MPI_Count large_counts[],
                            MPI_Datatype datatypes[])
{
    const struct tb_type_args *args = t->args;

    if (t->combiner == MPI_COMBINER_NAMED)
        return tb_fail(TB_ERR_TYPE, "%s is predefined: it has no contents",
                       t->label);
    if (args->n_counts > 0 && !large_counts)
        return tb_fail(TB_ERR_TYPE, "the datatype was made by a function with "
                                    "_c: call MPI_Type_get_contents_c");
    TB_TRY(check_room("integers", args->n_ints, max_integers, integers));
    TB_TRY(
        check_room("addresses", args->n_addresses, max_addresses, addresses));
    TB_TRY(check_room("large_counts", args->n_counts, max_large_counts,
                      large_counts));
    TB_TRY(check_room("datatypes", args->n_types, max_datatypes, datatypes));
    TB_TRY(share_types(args, datatypes));
    const int64_t *v = args->values;
    for (int64_t i = 0; i < args->n_ints; i++)
        integers[i] = (int)*v++;
    for (int64_t i = 0; i < args->n_addresses; i++)
        addresses[i] = (MPI_Aint)*v++;
    for (int64_t i = 0; i < args->n_counts; i++)
        large_counts[i] = *v++;
    return TB_OK;
}

struct tb_type *tb_type_element(struct tb_type *t)
{
    struct tb_type *found = NULL;
    if (!t->args || t->family == TB_FAMILY_PAIR || t->args->n_types == 0)
        return t->obj.predefined ? t : t->only;
    for (int64_t i = 0; i < t->args->n_types; i++) {
        struct tb_type *part = tb_type_element(t->args->types[i]);
        if (!part || (found && part != found))
            return NULL;
        found = part;
    }
    return found;
}
