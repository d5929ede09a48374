/* SPDX-License-Identifier: MIT */
/*
 * Datatypes: what the files type*.c, pack.c, external.c and op*.c share.
 *
 * A datatype is a layout (engine/layout.h), which says where its bytes are, and
 * the arguments it was made with, which say all the rest. Layouts forget what
 * a byte belongs to; where that matters (external32, MPI_Get_elements) the
 * arguments are walked: tb_type_walk.
 */
#ifndef TB_TYPE_H
#define TB_TYPE_H

#include "mpi/api.h"
#include "mpi/objects.h"

#include <float.h>

/* ---------------------------------------------------------------- arguments */

/*
 * What MPI_Type_get_contents gives back. Integers, addresses and large counts
 * lie behind each other in `values`. The types are references. Belongs to one
 * tb_type and never changes. Pairs have static ones: their types are those of
 * value and index.
 */
struct tb_type_args {
    int64_t n_ints;
    int64_t n_addresses;
    int64_t n_counts;
    int64_t n_types;
    int64_t *values;
    struct tb_type **types;
};

/* One block of memory, values unset and types NULL; NULL: no memory. */
struct tb_type_args *tb_type_args_new(int64_t n_ints, int64_t n_addresses,
                                      int64_t n_counts, int64_t n_types);
/* Gives the references back too. NULL is fine. */
void tb_type_args_free(struct tb_type_args *args);

/*
 * A derived type with a handle. Takes over the layout and the arguments, also
 * when it fails.
 */
tb_err tb_type_make(int combiner, struct tb_layout *layout,
                    struct tb_type_args *args, struct tb_type **out);

/* Of a pair or struct: how many of args->types[i]. */
int64_t tb_type_block(const struct tb_type *t, int64_t i);

/*
 * Visits the basic types in the stream of `count` elements, in their order:
 * `visit` gets a predefined type and how many of it follow. Ends early when it
 * returns false, and then returns false.
 */
typedef bool tb_type_visit(void *arg, struct tb_type *basic, int64_t count);
bool tb_type_walk(const struct tb_type *t, int64_t count, tb_type_visit *visit,
                  void *arg);

/* How many bytes of a stream of this type its first basic elements take: the
 * inverse of tb_type_elements. TB_ERR_COUNT when that is too much. */
tb_err tb_type_prefix(const struct tb_type *t, int64_t elements,
                      int64_t *bytes);

/* Fails when a buffer argument cannot be the address of that much data. */
tb_err tb_type_check_buffer(const char *arg, const void *buf, int64_t count,
                            const struct tb_type *t);

/* --------------------------------------------------------- predefined types */

/* type_basic.c: the type of a handle constant. */
struct tb_type *tb_type_predefined(MPI_Datatype handle);

/* type_f90.c: frees the types that MPI_Type_create_f90_* made. */
void tb_type_f90_fini(void);

__extension__ typedef __int128 tb_int128;
__extension__ typedef unsigned __int128 tb_uint128;

/* MPI_REAL16 is IEEE binary128: `long double` itself, a type that the compiler
 * offers beside it, or nothing one could compute with. */
#if LDBL_MANT_DIG == 113
typedef long double tb_float128;
#define TB_BASIC_REAL16 TB_BASIC_FLOAT128
#define TB_BASIC_COMPLEX32 TB_BASIC_COMPLEX_FLOAT128
#elif defined(__SIZEOF_FLOAT128__)
__extension__ typedef __float128 tb_float128;
#define TB_BASIC_REAL16 TB_BASIC_FLOAT128
#define TB_BASIC_COMPLEX32 TB_BASIC_COMPLEX_FLOAT128
#else
typedef long double tb_float128;
#define TB_BASIC_REAL16 TB_BASIC_NONE
#define TB_BASIC_COMPLEX32 TB_BASIC_NONE
#endif

/* Types for MPI_MINLOC and MPI_MAXLOC: value, index. */
#define TB_PAIRS(X)                      \
    X(FLOAT_INT, float, int)             \
    X(DOUBLE_INT, double, int)           \
    X(LONG_INT, long, int)               \
    X(INT_INT, int, int)                 \
    X(SHORT_INT, short, int)             \
    X(LONG_DOUBLE_INT, long double, int) \
    X(FLOAT_FLOAT, float, float)         \
    X(DOUBLE_DOUBLE, double, double)

#define X(name, value_type, index_type) \
    struct tb_pair_##name {             \
        value_type value;               \
        index_type index;               \
    };
TB_PAIRS(X)
#undef X

#endif
