/* SPDX-License-Identifier: MIT */
/*
 * Predefined types found by property: Fortran's by precision and range, by
 * size, and pairs by what they are made of.
 */
#include "mpi/type.h"

#include <string.h>

/* ------------------------------------------------- by precision and range */

/* A kind of number: decimal digits and decimal exponent it can hold, and the
 * types of that kind. In rising order. */
struct fortran_kind {
    int digits;
    int range;
    MPI_Datatype real;
    MPI_Datatype complex;
};

/* `long double` is a kind of its own where it is neither double nor quad. */
static const struct fortran_kind kinds[] = {
    {6, 37, MPI_REAL4, MPI_COMPLEX8},
    {15, 307, MPI_REAL8, MPI_COMPLEX16},
    {LDBL_DIG, LDBL_MAX_10_EXP - 1, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX},
    {33, 4931, MPI_REAL16, MPI_COMPLEX32},
};

static const struct {
    int range;
    MPI_Datatype type;
} integers[] = {
    {2, MPI_INTEGER1},  {4, MPI_INTEGER2},   {9, MPI_INTEGER4},
    {18, MPI_INTEGER8}, {38, MPI_INTEGER16},
};

/*
 * The types made so far. The standard wants the same handle for the same
 * arguments, and calls these types predefined: they are never freed.
 */
struct made {
    struct tb_type type;
    struct tb_type_args args;
    int64_t values[2];
    struct made *next;
};

static struct made *all_made;

void tb_type_f90_fini(void)
{
    while (all_made) {
        struct made *m = all_made;
        all_made = m->next;
        tb_attrs_forget(&m->type.attrs);
        tb_free(m);
    }
}

static struct tb_type *find_made(int combiner, int64_t a, int64_t b)
{
    for (struct made *m = all_made; m; m = m->next)
        if (m->type.combiner == combiner && m->values[0] == a &&
            m->values[1] == b)
            return &m->type;
    return NULL;
}

/* One more handle for a predefined type; `a`, and `b` if n is 2, are its
 * contents. */
static tb_err make(int combiner, int n, int64_t a, int64_t b,
                   MPI_Datatype handle, struct tb_type **out)
{
    const struct tb_type *of = tb_type_predefined(handle);
    struct made *m = tb_calloc(1, sizeof *m);

    if (!m)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype");
    m->type = *of;
    memset(&m->type.obj, 0, sizeof m->type.obj);
    m->type.attrs = NULL;
    m->type.label[0] = 0;
    m->type.combiner = combiner;
    m->type.args = &m->args;
    m->values[0] = a;
    m->values[1] = b;
    m->args.values = m->values;
    m->args.n_ints = n;
    tb_err err = tb_handle_new(&m->type.obj, TB_KIND_TYPE);
    if (err) {
        tb_free(m);
        return err;
    }
    m->type.obj.predefined = true;
    m->next = all_made;
    all_made = m;
    *out = &m->type;
    return TB_OK;
}

/* The smallest kind with that precision and range; either may be undefined. */
static tb_err real_or_complex(int combiner, int p, int r, struct tb_type **out)
{
    *out = find_made(combiner, p, r);
    if (*out)
        return TB_OK;
    if (p == MPI_UNDEFINED && r == MPI_UNDEFINED)
        return tb_fail(TB_ERR_ARG, "p and r are both MPI_UNDEFINED");
    for (size_t i = 0; i < TB_COUNT_OF(kinds); i++) {
        if ((p != MPI_UNDEFINED && p > kinds[i].digits) ||
            (r != MPI_UNDEFINED && r > kinds[i].range))
            continue;
        bool is_real = combiner == MPI_COMBINER_F90_REAL;
        return make(combiner, 2, p, r,
                    is_real ? kinds[i].real : kinds[i].complex, out);
    }
    return tb_fail(TB_ERR_ARG,
                   "no type has %d decimal digits and an exponent "
                   "range of %d",
                   p, r);
}

tb_err tb_type_create_f90_real(int p, int r, struct tb_type **out)
{
    return real_or_complex(MPI_COMBINER_F90_REAL, p, r, out);
}

tb_err tb_type_create_f90_complex(int p, int r, struct tb_type **out)
{
    return real_or_complex(MPI_COMBINER_F90_COMPLEX, p, r, out);
}

tb_err tb_type_create_f90_integer(int r, struct tb_type **out)
{
    *out = find_made(MPI_COMBINER_F90_INTEGER, r, 0);
    if (*out)
        return TB_OK;
    for (size_t i = 0; i < TB_COUNT_OF(integers); i++)
        if (r <= integers[i].range)
            return make(MPI_COMBINER_F90_INTEGER, 1, r, 0, integers[i].type,
                        out);
    return tb_fail(TB_ERR_ARG,
                   "no integer type has a range of %d decimal "
                   "digits",
                   r);
}

/* ------------------------------------------------------------ by their size */

tb_err tb_type_match_size(int typeclass, int size, struct tb_type **out)
{
    static const struct {
        int class;
        int size;
        MPI_Datatype type;
    } rows[] = {
        {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},
        {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
        {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},
        {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
        {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16},
        {MPI_TYPECLASS_REAL, 2, MPI_REAL2},
        {MPI_TYPECLASS_REAL, 4, MPI_REAL4},
        {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
        {MPI_TYPECLASS_REAL, 16, MPI_REAL16},
        {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
        {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},
        {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
        {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
    };

    if (typeclass != MPI_TYPECLASS_INTEGER && typeclass != MPI_TYPECLASS_REAL &&
        typeclass != MPI_TYPECLASS_COMPLEX)
        return tb_fail(TB_ERR_ARG,
                       "typeclass is %d: not one of "
                       "MPI_TYPECLASS_INTEGER, _REAL and _COMPLEX",
                       typeclass);
    for (size_t i = 0; i < TB_COUNT_OF(rows); i++)
        if (rows[i].class == typeclass && rows[i].size == size) {
            *out = tb_type_predefined(rows[i].type);
            return TB_OK;
        }
    return tb_fail(TB_ERR_ARG, "no type of that class has %d bytes", size);
}

/* ----------------------------------------------------- by value and index */

/* MPI_DATATYPE_NULL, which is no error, for other than the named pairs. */
tb_err tb_type_get_value_index(struct tb_type *value, struct tb_type *index,
                               struct tb_type **out)
{
    static const MPI_Datatype pairs[] = {
        MPI_FLOAT_INT, MPI_DOUBLE_INT,        MPI_LONG_INT,
        MPI_2INT,      MPI_SHORT_INT,         MPI_LONG_DOUBLE_INT,
        MPI_2REAL,     MPI_2DOUBLE_PRECISION, MPI_2INTEGER,
    };

    *out = NULL;
    for (size_t i = 0; i < TB_COUNT_OF(pairs); i++) {
        struct tb_type *pair = tb_type_predefined(pairs[i]);
        if (pair->args->types[0] == value && pair->args->types[1] == index)
            *out = pair;
    }
    return TB_OK;
}
