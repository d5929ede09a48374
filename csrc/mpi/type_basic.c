/* SPDX-License-Identifier: MIT */
/* The predefined datatypes: one static table, nothing is allocated. */
#include "mpi/type.h"

#include <limits.h>
#include <wchar.h>

#include "engine/loop.h"
#include "include/tbmpi.h"
#include "mpi/life.h"
#include "mpi/p2p.h"

/* Representations that C has no name for. */
struct half_complex {
    uint16_t part[2];
};
struct quad {
    _Alignas(16) char bytes[16];
};
struct quad_complex {
    struct quad part[2];
};

#define PLAIN_CHAR (CHAR_MIN < 0 ? TB_BASIC_INT8 : TB_BASIC_UINT8)
#define BASIC(name) TB_BASIC_##name

_Static_assert(sizeof(int) == 4 && sizeof(long) == 8 && sizeof(bool) == 1,
               "the table takes int, long and bool for these sizes");

/* X(name without MPI_, C type, representation, family). MPI_CHAR is a C
 * integer here: programs reduce it, and the other libraries let them. */
#define BASICS(X)                                                              \
    X(AINT, MPI_Aint, BASIC(INT64), MULTI)                                     \
    X(COUNT, MPI_Count, BASIC(INT64), MULTI)                                   \
    X(OFFSET, MPI_Offset, BASIC(INT64), MULTI)                                 \
    X(PACKED, char, BASIC(NONE), NONE)                                         \
    X(SHORT, short, BASIC(INT16), C_INTEGER)                                   \
    X(INT, int, BASIC(INT32), C_INTEGER)                                       \
    X(LONG, long, BASIC(INT64), C_INTEGER)                                     \
    X(LONG_LONG_INT, long long, BASIC(INT64), C_INTEGER)                       \
    X(UNSIGNED_SHORT, unsigned short, BASIC(UINT16), C_INTEGER)                \
    X(UNSIGNED, unsigned, BASIC(UINT32), C_INTEGER)                            \
    X(UNSIGNED_LONG, unsigned long, BASIC(UINT64), C_INTEGER)                  \
    X(UNSIGNED_LONG_LONG, unsigned long long, BASIC(UINT64), C_INTEGER)        \
    X(FLOAT, float, BASIC(FLOAT), FLOATING)                                    \
    X(C_COMPLEX, float _Complex, BASIC(COMPLEX_FLOAT), COMPLEX)                \
    X(CXX_FLOAT_COMPLEX, float _Complex, BASIC(COMPLEX_FLOAT), COMPLEX)        \
    X(DOUBLE, double, BASIC(DOUBLE), FLOATING)                                 \
    X(C_DOUBLE_COMPLEX, double _Complex, BASIC(COMPLEX_DOUBLE), COMPLEX)       \
    X(CXX_DOUBLE_COMPLEX, double _Complex, BASIC(COMPLEX_DOUBLE), COMPLEX)     \
    X(LOGICAL, int32_t, BASIC(UINT32), LOGICAL)                                \
    X(INTEGER, int32_t, BASIC(INT32), FORTRAN_INTEGER)                         \
    X(REAL, float, BASIC(FLOAT), FLOATING)                                     \
    X(COMPLEX, float _Complex, BASIC(COMPLEX_FLOAT), COMPLEX)                  \
    X(DOUBLE_PRECISION, double, BASIC(DOUBLE), FLOATING)                       \
    X(DOUBLE_COMPLEX, double _Complex, BASIC(COMPLEX_DOUBLE), COMPLEX)         \
    X(CHARACTER, char, BASIC(NONE), NONE)                                      \
    X(LONG_DOUBLE, long double, BASIC(LONG_DOUBLE), FLOATING)                  \
    X(C_LONG_DOUBLE_COMPLEX, long double _Complex, BASIC(COMPLEX_LONG_DOUBLE), \
      COMPLEX)                                                                 \
    X(CXX_LONG_DOUBLE_COMPLEX, long double _Complex,                           \
      BASIC(COMPLEX_LONG_DOUBLE), COMPLEX)                                     \
    X(C_BOOL, bool, BASIC(UINT8), LOGICAL)                                     \
    X(CXX_BOOL, bool, BASIC(UINT8), LOGICAL)                                   \
    X(WCHAR, wchar_t, BASIC(NONE), NONE)                                       \
    X(INT8_T, int8_t, BASIC(INT8), C_INTEGER)                                  \
    X(UINT8_T, uint8_t, BASIC(UINT8), C_INTEGER)                               \
    X(CHAR, char, PLAIN_CHAR, C_INTEGER)                                       \
    X(SIGNED_CHAR, signed char, BASIC(INT8), C_INTEGER)                        \
    X(UNSIGNED_CHAR, unsigned char, BASIC(UINT8), C_INTEGER)                   \
    X(BYTE, unsigned char, BASIC(UINT8), BYTE)                                 \
    X(INT16_T, int16_t, BASIC(INT16), C_INTEGER)                               \
    X(UINT16_T, uint16_t, BASIC(UINT16), C_INTEGER)                            \
    X(INT32_T, int32_t, BASIC(INT32), C_INTEGER)                               \
    X(UINT32_T, uint32_t, BASIC(UINT32), C_INTEGER)                            \
    X(INT64_T, int64_t, BASIC(INT64), C_INTEGER)                               \
    X(UINT64_T, uint64_t, BASIC(UINT64), C_INTEGER)                            \
    X(LOGICAL1, int8_t, BASIC(UINT8), LOGICAL)                                 \
    X(INTEGER1, int8_t, BASIC(INT8), FORTRAN_INTEGER)                          \
    X(LOGICAL2, int16_t, BASIC(UINT16), LOGICAL)                               \
    X(INTEGER2, int16_t, BASIC(INT16), FORTRAN_INTEGER)                        \
    X(REAL2, uint16_t, BASIC(FLOAT16), FLOATING)                               \
    X(LOGICAL4, int32_t, BASIC(UINT32), LOGICAL)                               \
    X(INTEGER4, int32_t, BASIC(INT32), FORTRAN_INTEGER)                        \
    X(REAL4, float, BASIC(FLOAT), FLOATING)                                    \
    X(COMPLEX4, struct half_complex, BASIC(COMPLEX_FLOAT16), COMPLEX)          \
    X(LOGICAL8, int64_t, BASIC(UINT64), LOGICAL)                               \
    X(INTEGER8, int64_t, BASIC(INT64), FORTRAN_INTEGER)                        \
    X(REAL8, double, BASIC(DOUBLE), FLOATING)                                  \
    X(COMPLEX8, float _Complex, BASIC(COMPLEX_FLOAT), COMPLEX)                 \
    X(LOGICAL16, tb_int128, BASIC(UINT128), LOGICAL)                           \
    X(INTEGER16, tb_int128, BASIC(INT128), FORTRAN_INTEGER)                    \
    X(REAL16, struct quad, BASIC(REAL16), FLOATING)                            \
    X(COMPLEX16, double _Complex, BASIC(COMPLEX_DOUBLE), COMPLEX)              \
    X(COMPLEX32, struct quad_complex, BASIC(COMPLEX32), COMPLEX)

/* X(name without TBMPI_, C type, representation, family). */
#define EXTENSIONS(X)                              \
    X(FLOAT16, uint16_t, BASIC(FLOAT16), FLOATING) \
    X(BFLOAT16, uint16_t, BASIC(BFLOAT16), FLOATING)

/* X(name without MPI_, representation, type of the value, of the index). A
 * short and an int have a gap between them; all others are one run. */
#define RUN_PAIRS(X)                                                        \
    X(FLOAT_INT, FLOAT_INT, FLOAT, INT)                                     \
    X(DOUBLE_INT, DOUBLE_INT, DOUBLE, INT)                                  \
    X(LONG_INT, LONG_INT, LONG, INT)                                        \
    X(2INT, INT_INT, INT, INT)                                              \
    X(LONG_DOUBLE_INT, LONG_DOUBLE_INT, LONG_DOUBLE, INT)                   \
    X(2REAL, FLOAT_FLOAT, REAL, REAL)                                       \
    X(2DOUBLE_PRECISION, DOUBLE_DOUBLE, DOUBLE_PRECISION, DOUBLE_PRECISION) \
    X(2INTEGER, INT_INT, INTEGER, INTEGER)
#define GAP_PAIRS(X) X(SHORT_INT, SHORT_INT, SHORT, INT)

enum {
#define X(name, ...) AT_##name,
    BASICS(X) EXTENSIONS(X) RUN_PAIRS(X) GAP_PAIRS(X)
#undef X
        TYPES
};

/* ----------------------------------------------------------------- layouts */

#define PAIR(name) struct tb_pair_##name
#define INDEX_AT(name) offsetof(PAIR(name), index)
#define VALUE_BYTES(name) sizeof(((PAIR(name) *)0)->value)
#define PAIR_BYTES(name) (VALUE_BYTES(name) + sizeof(((PAIR(name) *)0)->index))

#define X(name, basic, value, index) \
    _Static_assert(INDEX_AT(basic) == VALUE_BYTES(basic), "no gap in " #name);
RUN_PAIRS(X)
#undef X

static struct tb_loop short_int = {
    .refs = -1,
    .kind = TB_LOOP_RUNS,
    .size = PAIR_BYTES(SHORT_INT),
    .runs = 2,
    .n = 2,
    .displs = (const int64_t[]){0, INDEX_AT(SHORT_INT)},
    .starts = (const int64_t[]){0, sizeof(short), PAIR_BYTES(SHORT_INT)},
};

static struct tb_layout layouts[TYPES] = {
#define X(name, type, basic, family) \
    [AT_##name] = TB_LAYOUT_RUN(sizeof(type), sizeof(type), _Alignof(type)),
    BASICS(X) EXTENSIONS(X)
#undef X
#define X(name, basic, value, index)                                    \
    [AT_##name] = TB_LAYOUT_RUN(PAIR_BYTES(basic), sizeof(PAIR(basic)), \
                                _Alignof(PAIR(basic))),
        RUN_PAIRS(X)
#undef X
            [AT_SHORT_INT] = {.refs = -1,
                              .align = _Alignof(PAIR(SHORT_INT)),
                              .size = PAIR_BYTES(SHORT_INT),
                              .extent = sizeof(PAIR(SHORT_INT)),
                              .true_ub = sizeof(PAIR(SHORT_INT)),
                              .runs = 2,
                              .loop = &short_int,
                              .turn = &short_int,
                              .turn_size = PAIR_BYTES(SHORT_INT),
                              .pitch = sizeof(PAIR(SHORT_INT))},
};

/* ------------------------------------------------------------------- types */

static struct tb_type types[TYPES];

/* What MPI_Get_elements and external32 take pairs for. */
static struct tb_type_args pairs[TYPES] = {
#define X(name, basic, value, index)                                 \
    [AT_##name] = {.n_types = 2,                                     \
                   .types = (struct tb_type *[]){&types[AT_##value], \
                                                 &types[AT_##index]}},
    RUN_PAIRS(X) GAP_PAIRS(X)
#undef X
};

static struct tb_type types[TYPES] = {
#define TYPE(name, prefix, basic_, family_)        \
    [AT_##name] = {.layout = &layouts[AT_##name],  \
                   .committed = true,              \
                   .basic = basic_,                \
                   .family = TB_FAMILY_##family_,  \
                   .combiner = MPI_COMBINER_NAMED, \
                   .elements = 1,                  \
                   .only = &types[AT_##name],      \
                   .label = prefix #name},
#define X(name, type, basic, family) TYPE(name, "MPI_", basic, family)
    BASICS(X)
#undef X
#define X(name, type, basic, family) TYPE(name, "TBMPI_", basic, family)
        EXTENSIONS(X)
#undef X
#define X(name, basic_, value, index)                                 \
    [AT_##name] = {                                                   \
        .layout = &layouts[AT_##name],                                \
        .committed = true,                                            \
        .basic = TB_BASIC_##basic_,                                   \
        .family = TB_FAMILY_PAIR,                                     \
        .combiner = MPI_COMBINER_NAMED,                               \
        .elements = 2,                                                \
        .only = AT_##value == AT_##index ? &types[AT_##value] : NULL, \
        .args = &pairs[AT_##name],                                    \
        .label = "MPI_" #name,                                        \
    },
            RUN_PAIRS(X) GAP_PAIRS(X)
#undef X
};

/* Handles are pointers, which C does not let into the tables above. */
static const MPI_Datatype handles[TYPES] = {
#define X(name, ...) [AT_##name] = MPI_##name,
    BASICS(X) RUN_PAIRS(X) GAP_PAIRS(X)
#undef X
#define X(name, ...) [AT_##name] = TBMPI_##name,
        EXTENSIONS(X)
#undef X
};

struct tb_type *tb_type_predefined(MPI_Datatype handle)
{
    return tb_handle_find((uintptr_t)handle, TB_KIND_TYPE);
}

struct tb_type *tb_type_bytes(void)
{
    return &types[AT_BYTE];
}

static void drop(void *object)
{
    tb_type_unref(object);
}

tb_err tb_type_init(void)
{
    for (int i = 0; i < TYPES; i++)
        tb_handle_predefine(&types[i].obj, TB_KIND_TYPE, (uintptr_t)handles[i]);
    return TB_OK;
}

void tb_type_fini(void)
{
    tb_handle_sweep(TB_KIND_TYPE, drop);
    tb_type_f90_fini();
    for (int i = 0; i < TYPES; i++)
        tb_attrs_forget(&types[i].attrs);
}
