/* SPDX-License-Identifier: MIT */
/* Datatypes as objects: their life, and what is in a stream of them. */
#include "mpi/type.h"

#include <string.h>

/* ---------------------------------------------------------------- arguments */

struct tb_type_args *tb_type_args_new(int64_t n_ints, int64_t n_addresses,
                                      int64_t n_counts, int64_t n_types)
{
    int64_t values = n_ints + n_addresses + n_counts;
    struct tb_type_args *args = NULL;
    int64_t bytes;

    /* Counts of any size come from the program. */
    if (values >= 0 && !__builtin_add_overflow(values, n_types, &bytes) &&
        !__builtin_mul_overflow(bytes, (int64_t)sizeof(int64_t), &bytes) &&
        !__builtin_add_overflow(bytes, (int64_t)sizeof(*args), &bytes))
        args = tb_alloc((size_t)bytes);
    if (!args)
        return NULL;
    args->n_ints = n_ints;
    args->n_addresses = n_addresses;
    args->n_counts = n_counts;
    args->n_types = n_types;
    args->types = (struct tb_type **)(args + 1);
    args->values = (int64_t *)(args->types + n_types);
    for (int64_t i = 0; i < n_types; i++)
        args->types[i] = NULL;
    return args;
}

void tb_type_args_free(struct tb_type_args *args)
{
    if (!args)
        return;
    for (int64_t i = 0; i < args->n_types; i++)
        tb_type_unref(args->types[i]);
    tb_free(args);
}

int64_t tb_type_block(const struct tb_type *t, int64_t i)
{
    return t->combiner == MPI_COMBINER_STRUCT ? t->args->values[1 + i] : 1;
}

/* ---------------------------------------------------------------- reference */

struct tb_type *tb_type_ref(struct tb_type *t)
{
    if (!t->obj.predefined)
        t->obj.refs++;
    return t;
}

void tb_type_unref(struct tb_type *t)
{
    if (!t || t->obj.predefined || --t->obj.refs > 0)
        return;
    tb_attrs_forget(&t->attrs);
    tb_layout_unref(t->layout);
    tb_type_args_free(t->args);
    tb_free(t);
}

/* Counts the basic elements, and finds out whether they are all of one type. */
static void take_stock(struct tb_type *t)
{
    const struct tb_type_args *args = t->args;

    t->elements = 0;
    t->only = NULL;
    if (t->layout->size == 0)
        return;
    if (t->combiner != MPI_COMBINER_STRUCT) {
        struct tb_type *of = args->types[0];
        t->elements = t->layout->size / of->layout->size * of->elements;
        t->only = of->only;
        return;
    }
    bool mixed = false;
    for (int64_t i = 0; i < args->n_types; i++) {
        struct tb_type *of = args->types[i];
        int64_t n = tb_type_block(t, i) * of->elements;
        if (n == 0)
            continue;
        mixed = mixed || (t->elements > 0 && of->only != t->only);
        t->only = of->only;
        t->elements += n;
    }
    if (mixed)
        t->only = NULL;
}

tb_err tb_type_make(int combiner, struct tb_layout *layout,
                    struct tb_type_args *args, struct tb_type **out)
{
    struct tb_type *t = tb_alloc(sizeof *t);
    tb_err err;

    if (!t) {
        tb_layout_unref(layout);
        tb_type_args_free(args);
        return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype");
    }
    memset(t, 0, offsetof(struct tb_type, label) + 1);
    t->layout = layout;
    t->combiner = combiner;
    t->args = args;
    take_stock(t);
    err = tb_handle_new(&t->obj, TB_KIND_TYPE);
    if (err) {
        t->obj.refs = 1;
        tb_type_unref(t);
        return err;
    }
    *out = t;
    return TB_OK;
}

tb_err tb_type_commit(struct tb_type *t)
{
    t->committed = true;
    return TB_OK;
}

tb_err tb_type_free(struct tb_type *t)
{
    if (t->obj.predefined)
        return tb_fail(TB_ERR_TYPE, "%s is predefined: it cannot be freed",
                       t->label[0] ? t->label : "the datatype");
    if (t->obj.users == 1)
        TB_TRY(tb_attrs_free(&t->attrs, tb_type_handle(t), TB_KIND_TYPE));
    tb_handle_drop(&t->obj);
    tb_type_unref(t);
    return TB_OK;
}

tb_err tb_type_dup(struct tb_type *old, struct tb_type **out)
{
    struct tb_type_args *args = tb_type_args_new(0, 0, 0, 1);
    struct tb_type *t;

    if (!args)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype");
    args->types[0] = tb_type_ref(old);
    TB_TRY(
        tb_type_make(MPI_COMBINER_DUP, tb_layout_ref(old->layout), args, &t));
    t->committed = old->committed;
    tb_err err =
        tb_attrs_copy(old->attrs, tb_type_handle(old), TB_KIND_TYPE, &t->attrs);
    if (err) {
        tb_handle_drop(&t->obj);
        tb_type_unref(t);
        return err;
    }
    *out = t;
    return TB_OK;
}

/* ------------------------------------------------------------- its stream */

tb_err tb_type_stream(const struct tb_type *t, int64_t count, int64_t *bytes)
{
    if (TB_LIKELY(!__builtin_mul_overflow(count, t->layout->size, bytes)))
        return TB_OK;
    return tb_fail(TB_ERR_COUNT,
                   "count is %lld: with %lld bytes each that is more than 63 "
                   "bits can count",
                   (long long)count, (long long)t->layout->size);
}

tb_err tb_type_check_buffer(const char *arg, const void *buf, int64_t count,
                            const struct tb_type *t)
{
    /* Displacements may be addresses, and the buffer MPI_BOTTOM. */
    uintptr_t begin = (uintptr_t)buf + (uintptr_t)t->layout->true_lb;

    if (TB_LIKELY(begin >= 4096) || count == 0 || t->layout->size == 0)
        return TB_OK;
    return tb_fail(TB_ERR_BUFFER,
                   "%s is %p, where no data can be (count %lld, %lld bytes "
                   "each)",
                   arg, buf, (long long)count, (long long)t->layout->size);
}

/* Whether a stream holds the types in turn; otherwise it is many times the
 * first. */
static bool is_list(const struct tb_type *t)
{
    return t->combiner == MPI_COMBINER_STRUCT || t->family == TB_FAMILY_PAIR;
}

bool tb_type_walk(const struct tb_type *t, int64_t count, tb_type_visit *visit,
                  void *arg)
{
    if (count == 0 || t->elements == 0)
        return true;
    if (t->only)
        return visit(arg, t->only, count * t->elements);
    struct tb_type **types = t->args->types;
    if (!is_list(t)) {
        int64_t each = t->layout->size / types[0]->layout->size;
        return tb_type_walk(types[0], count * each, visit, arg);
    }
    for (; count > 0; count--)
        for (int64_t i = 0; i < t->args->n_types; i++)
            if (!tb_type_walk(types[i], tb_type_block(t, i), visit, arg))
                return false;
    return true;
}

struct tally {
    int64_t bytes;
    int64_t elements;
};

/* Converts bytes to elements as far as they reach. */
static bool count_elements(void *arg, struct tb_type *basic, int64_t count)
{
    struct tally *rest = arg;
    int64_t n = TB_MIN(count, rest->bytes / basic->layout->size);

    rest->bytes -= n * basic->layout->size;
    rest->elements += n;
    return n == count;
}

int64_t tb_type_elements(const struct tb_type *t, int64_t bytes)
{
    int64_t size = t->layout->size;

    if (size == 0)
        return bytes == 0 ? 0 : MPI_UNDEFINED;
    struct tally rest = {bytes % size, bytes / size * t->elements};
    if (rest.bytes > 0)
        tb_type_walk(t, 1, count_elements, &rest);
    return rest.bytes == 0 ? rest.elements : MPI_UNDEFINED;
}

/* Converts elements to bytes as far as they reach. */
static bool count_bytes(void *arg, struct tb_type *basic, int64_t count)
{
    struct tally *rest = arg;
    int64_t n = TB_MIN(count, rest->elements);

    rest->bytes += n * basic->layout->size;
    rest->elements -= n;
    return rest->elements > 0;
}

tb_err tb_type_prefix(const struct tb_type *t, int64_t elements, int64_t *bytes)
{
    *bytes = 0;
    if (elements == 0)
        return TB_OK;
    if (t->elements == 0)
        return tb_fail(TB_ERR_COUNT,
                       "count is %lld, of a datatype without "
                       "elements",
                       (long long)elements);
    struct tally rest = {0, elements % t->elements};
    TB_TRY(tb_type_stream(t, elements / t->elements, bytes));
    if (rest.elements > 0)
        tb_type_walk(t, 1, count_bytes, &rest);
    *bytes += rest.bytes;
    return TB_OK;
}
