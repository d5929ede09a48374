/* SPDX-License-Identifier: MIT */
/*
 * Reductions: every operation on every predefined type, where the standard has
 * them, against one element at a time in plain C; user operations; refusals.
 */
#include "mpi/op.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "include/tbmpi.h"
#include "mpi/life.h"
#include "unit/check.h"

#define MOST 70

static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static struct tb_type *type_of(MPI_Datatype handle)
{
    struct tb_type *t;
    CHECK_EQ(tb_type_get(handle, &t), TB_OK);
    return t;
}

static struct tb_op *op_of(MPI_Op handle)
{
    struct tb_op *op;
    CHECK_EQ(tb_op_get(handle, &op), TB_OK);
    return op;
}

/* ------------------------------------------------------------ the families */

/* clang-format off */
enum { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, MINLOC, MAXLOC,
       OPS };
/* clang-format on */

static const MPI_Op ops[OPS] = {
    MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_BAND,   MPI_BOR,
    MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MINLOC, MPI_MAXLOC,
};

/* One letter an operation in the order above; a dot: not defined. */
#define C_INTS "+*<>&|^aox.."
#define F_INTS "+*<>&|^....."
#define FLOATS "+*<>........"
#define COMPLEXES "+*.........."
#define LOGICALS ".......aox.."
#define BYTES "....&|^....."
#define PAIRS "..........12"
#define NOTHING "............"

static const struct row {
    MPI_Datatype type;
    const char *defined;
} rows[] = {
    {MPI_AINT, C_INTS},
    {MPI_COUNT, C_INTS},
    {MPI_OFFSET, C_INTS},
    {MPI_PACKED, NOTHING},
    {MPI_SHORT, C_INTS},
    {MPI_INT, C_INTS},
    {MPI_LONG, C_INTS},
    {MPI_LONG_LONG, C_INTS},
    {MPI_UNSIGNED_SHORT, C_INTS},
    {MPI_UNSIGNED, C_INTS},
    {MPI_UNSIGNED_LONG, C_INTS},
    {MPI_UNSIGNED_LONG_LONG, C_INTS},
    {MPI_FLOAT, FLOATS},
    {MPI_C_FLOAT_COMPLEX, COMPLEXES},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEXES},
    {MPI_DOUBLE, FLOATS},
    {MPI_C_DOUBLE_COMPLEX, COMPLEXES},
    {MPI_CXX_DOUBLE_COMPLEX, COMPLEXES},
    {MPI_LOGICAL, LOGICALS},
    {MPI_INTEGER, F_INTS},
    {MPI_REAL, FLOATS},
    {MPI_COMPLEX, COMPLEXES},
    {MPI_DOUBLE_PRECISION, FLOATS},
    {MPI_DOUBLE_COMPLEX, COMPLEXES},
    {MPI_CHARACTER, NOTHING},
    {MPI_LONG_DOUBLE, FLOATS},
    {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEXES},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEXES},
    {MPI_FLOAT_INT, PAIRS},
    {MPI_DOUBLE_INT, PAIRS},
    {MPI_LONG_INT, PAIRS},
    {MPI_2INT, PAIRS},
    {MPI_SHORT_INT, PAIRS},
    {MPI_LONG_DOUBLE_INT, PAIRS},
    {MPI_2REAL, PAIRS},
    {MPI_2DOUBLE_PRECISION, PAIRS},
    {MPI_2INTEGER, PAIRS},
    {MPI_C_BOOL, LOGICALS},
    {MPI_CXX_BOOL, LOGICALS},
    {MPI_WCHAR, NOTHING},
    {MPI_INT8_T, C_INTS},
    {MPI_UINT8_T, C_INTS},
    {MPI_CHAR, C_INTS},
    {MPI_SIGNED_CHAR, C_INTS},
    {MPI_UNSIGNED_CHAR, C_INTS},
    {MPI_BYTE, BYTES},
    {MPI_INT16_T, C_INTS},
    {MPI_UINT16_T, C_INTS},
    {MPI_INT32_T, C_INTS},
    {MPI_UINT32_T, C_INTS},
    {MPI_INT64_T, C_INTS},
    {MPI_UINT64_T, C_INTS},
    {MPI_LOGICAL1, LOGICALS},
    {MPI_INTEGER1, F_INTS},
    {MPI_LOGICAL2, LOGICALS},
    {MPI_INTEGER2, F_INTS},
    {MPI_REAL2, FLOATS},
    {MPI_LOGICAL4, LOGICALS},
    {MPI_INTEGER4, F_INTS},
    {MPI_REAL4, FLOATS},
    {MPI_COMPLEX4, COMPLEXES},
    {MPI_LOGICAL8, LOGICALS},
    {MPI_INTEGER8, F_INTS},
    {MPI_REAL8, FLOATS},
    {MPI_COMPLEX8, COMPLEXES},
    {MPI_LOGICAL16, LOGICALS},
    {MPI_INTEGER16, F_INTS},
    {MPI_COMPLEX16, COMPLEXES},
    {TBMPI_FLOAT16, FLOATS},
    {TBMPI_BFLOAT16, FLOATS},
};

static void check_families(void)
{
    for (size_t i = 0; i < TB_COUNT_OF(rows); i++)
        for (int k = 0; k < OPS; k++) {
            tb_err want = rows[i].defined[k] == '.' ? TB_ERR_OP : TB_OK;
            tb_err got = tb_op_check(op_of(ops[k]), type_of(rows[i].type));
            if (got != want)
                fprintf(stderr, "%s, operation %d\n",
                        type_of(rows[i].type)->label, k);
            CHECK_EQ(got, want);
        }
    /* These depend on the compiler, but not on the operation. */
    tb_err quad = tb_op_check(op_of(MPI_SUM), type_of(MPI_REAL16));
    CHECK_EQ(tb_op_check(op_of(MPI_MAX), type_of(MPI_REAL16)), quad);
    CHECK_EQ(tb_op_check(op_of(MPI_PROD), type_of(MPI_COMPLEX32)), quad);
    CHECK_EQ(tb_op_check(op_of(MPI_REPLACE), type_of(MPI_INT)), TB_ERR_OP);
    CHECK_EQ(tb_op_check(op_of(MPI_NO_OP), type_of(MPI_INT)), TB_ERR_OP);
}

/* ----------------------------------------------------------------- results */

/* The reference: plain C on one element, in the type itself. */
#define INTEGER(name, type)                                     \
    static void one_##name(int op, const void *in, void *inout) \
    {                                                           \
        type a, b, r = 0;                                       \
        memcpy(&a, in, sizeof a);                               \
        memcpy(&b, inout, sizeof b);                            \
        switch (op) {                                           \
        case SUM:                                               \
            r = (type)((tb_uint128)a + (tb_uint128)b);          \
            break;                                              \
        case PROD:                                              \
            r = (type)((tb_uint128)a * (tb_uint128)b);          \
            break;                                              \
        case MIN:                                               \
            r = a < b ? a : b;                                  \
            break;                                              \
        case MAX:                                               \
            r = a < b ? b : a;                                  \
            break;                                              \
        case BAND:                                              \
            r = a & b;                                          \
            break;                                              \
        case BOR:                                               \
            r = a | b;                                          \
            break;                                              \
        case BXOR:                                              \
            r = a ^ b;                                          \
            break;                                              \
        case LAND:                                              \
            r = a && b;                                         \
            break;                                              \
        case LOR:                                               \
            r = a || b;                                         \
            break;                                              \
        case LXOR:                                              \
            r = !a != !b;                                       \
            break;                                              \
        }                                                       \
        memcpy(inout, &r, sizeof r);                            \
    }
INTEGER(int8, int8_t)
INTEGER(int16, int16_t)
INTEGER(int32, int32_t)
INTEGER(int64, int64_t)
INTEGER(int128, tb_int128)
INTEGER(uint8, uint8_t)
INTEGER(uint16, uint16_t)
INTEGER(uint32, uint32_t)
INTEGER(uint64, uint64_t)

#define REAL(name, type)                                                \
    static void one_##name(int op, const void *in, void *inout)         \
    {                                                                   \
        type a, b, r;                                                   \
        memcpy(&a, in, sizeof a);                                       \
        memcpy(&b, inout, sizeof b);                                    \
        r = op == SUM    ? a + b                                        \
            : op == PROD ? a * b                                        \
            : op == MIN  ? (a < b ? a : b)                              \
                         : (a < b ? b : a);                              \
        memcpy(inout, &r, sizeof r);                                    \
    }                                                                   \
    static void one_complex_##name(int op, const void *in, void *inout) \
    {                                                                   \
        type a[2], b[2], r[2];                                          \
        memcpy(a, in, sizeof a);                                        \
        memcpy(b, inout, sizeof b);                                     \
        r[0] = op == SUM ? a[0] + b[0] : a[0] * b[0] - a[1] * b[1];     \
        r[1] = op == SUM ? a[1] + b[1] : a[0] * b[1] + a[1] * b[0];     \
        memcpy(inout, r, sizeof r);                                     \
    }
REAL(float, float)
REAL(double, double)
REAL(long_double, long double)
REAL(quad, tb_float128)

#define PAIR(name, basic)                                                 \
    static void one_##name(int op, const void *in, void *inout)           \
    {                                                                     \
        struct tb_pair_##basic a, b;                                      \
        memcpy(&a, in, sizeof a);                                         \
        memcpy(&b, inout, sizeof b);                                      \
        bool wins = op == MINLOC ? a.value < b.value : a.value > b.value; \
        if (wins || (a.value == b.value && a.index < b.index))            \
            memcpy(inout, &a, sizeof a);                                  \
    }
PAIR(float_int, FLOAT_INT)
PAIR(double_int, DOUBLE_INT)
PAIR(long_int, LONG_INT)
PAIR(int_int, INT_INT)
PAIR(short_int, SHORT_INT)
PAIR(long_double_int, LONG_DOUBLE_INT)
PAIR(float_float, FLOAT_FLOAT)
PAIR(double_double, DOUBLE_DOUBLE)

static const struct check {
    MPI_Datatype type;
    void (*one)(int op, const void *in, void *inout);
} checks[] = {
    {MPI_INT8_T, one_int8},
    {MPI_SIGNED_CHAR, one_int8},
    {MPI_INT16_T, one_int16},
    {MPI_SHORT, one_int16},
    {MPI_INT, one_int32},
    {MPI_INTEGER, one_int32},
    {MPI_LONG, one_int64},
    {MPI_AINT, one_int64},
    {MPI_COUNT, one_int64},
    {MPI_OFFSET, one_int64},
    {MPI_INTEGER8, one_int64},
    {MPI_INTEGER16, one_int128},
    {MPI_UINT8_T, one_uint8},
    {MPI_UNSIGNED_CHAR, one_uint8},
    {MPI_BYTE, one_uint8},
    {MPI_C_BOOL, one_uint8},
    {MPI_CXX_BOOL, one_uint8},
    {MPI_UINT16_T, one_uint16},
    {MPI_UNSIGNED, one_uint32},
    {MPI_UNSIGNED_LONG, one_uint64},
    {MPI_LOGICAL, one_int32},
    {MPI_LOGICAL1, one_int8},
    {MPI_LOGICAL2, one_int16},
    {MPI_LOGICAL8, one_int64},
    {MPI_LOGICAL16, one_int128},
    {MPI_FLOAT, one_float},
    {MPI_REAL, one_float},
    {MPI_DOUBLE, one_double},
    {MPI_REAL8, one_double},
    {MPI_LONG_DOUBLE, one_long_double},
    {MPI_C_COMPLEX, one_complex_float},
    {MPI_COMPLEX8, one_complex_float},
    {MPI_DOUBLE_COMPLEX, one_complex_double},
    {MPI_C_LONG_DOUBLE_COMPLEX, one_complex_long_double},
    {MPI_REAL16, one_quad},
    {MPI_COMPLEX32, one_complex_quad},
    {MPI_FLOAT_INT, one_float_int},
    {MPI_DOUBLE_INT, one_double_int},
    {MPI_LONG_INT, one_long_int},
    {MPI_2INT, one_int_int},
    {MPI_2INTEGER, one_int_int},
    {MPI_SHORT_INT, one_short_int},
    {MPI_LONG_DOUBLE_INT, one_long_double_int},
    {MPI_2REAL, one_float_float},
    {MPI_2DOUBLE_PRECISION, one_double_double},
};

/* Small numbers of either sign, so that equal ones and zeros are common;
 * sometimes any bits at all for integers. Parts of complex numbers are whole,
 * so that a fused multiplication and addition gives the same. */
static void fill(char *p, const struct tb_type *t)
{
    const struct tb_type *of = t->args ? t->args->types[0] : t;
    int64_t small = (int64_t)(next() % 9) - 4;
    float f = (float)small;
    bool whole = t->family == TB_FAMILY_COMPLEX;
    double d = whole ? (double)small : (double)small * 0.37;
    long double l = whole ? (long double)small : (long double)small / 3;
    tb_float128 q = whole ? (tb_float128)small : (tb_float128)small / 7;
    size_t size = (size_t)t->layout->extent;

    memset(p, 0, size);
    switch (of->basic) {
    case TB_BASIC_FLOAT:
        memcpy(p, &f, sizeof f);
        break;
    case TB_BASIC_DOUBLE:
        memcpy(p, &d, sizeof d);
        break;
    case TB_BASIC_LONG_DOUBLE:
        memcpy(p, &l, sizeof l);
        break;
    case TB_BASIC_COMPLEX_FLOAT:
        memcpy(p, &f, sizeof f);
        memcpy(p + sizeof f, &f, sizeof f);
        break;
    case TB_BASIC_COMPLEX_DOUBLE:
        memcpy(p, &d, sizeof d);
        memcpy(p + sizeof d, &d, sizeof d);
        break;
    case TB_BASIC_COMPLEX_LONG_DOUBLE:
        memcpy(p, &l, sizeof l);
        memcpy(p + sizeof l, &l, sizeof l);
        break;
    case TB_BASIC_FLOAT128:
        memcpy(p, &q, sizeof q);
        break;
    case TB_BASIC_COMPLEX_FLOAT128:
        memcpy(p, &q, sizeof q);
        memcpy(p + sizeof q, &q, sizeof q);
        break;
    default:
        if (next() % 2 && t->family != TB_FAMILY_LOGICAL)
            small = (int64_t)next();
        for (size_t i = 0; i < (size_t)of->layout->size; i++)
            p[i] = (char)(i < 8 ? small >> 8 * i : small >> 63);
    }
    if (!t->args)
        return;
    const struct tb_type *index = t->args->types[1];
    char *at = p + size - (size_t)index->layout->extent;
    if (t->basic == TB_BASIC_LONG_DOUBLE_INT)
        at = p + sizeof(long double);
    else if (t->basic == TB_BASIC_DOUBLE_INT || t->basic == TB_BASIC_LONG_INT)
        at = p + 8;
    fill(at, index);
}

/* The x87 format leaves the last bytes of a long double to chance. */
static void clean(char *packed, const struct tb_type *t, int64_t n)
{
    int parts =
        t->basic == TB_BASIC_LONG_DOUBLE || t->basic == TB_BASIC_LONG_DOUBLE_INT
            ? 1
        : t->basic == TB_BASIC_COMPLEX_LONG_DOUBLE ? 2
                                                   : 0;
    if (LDBL_MANT_DIG != 64)
        return;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < parts; k++)
            memset(packed + i * t->layout->size + 16 * k + 10, 0, 6);
}

static bool equal(const char *a, const char *b, const struct tb_type *t,
                  int64_t n)
{
    size_t bytes = (size_t)(n * t->layout->size);
    char packed[2][MOST * 32];

    CHECK(bytes <= sizeof packed[0]);
    tb_layout_pack(t->layout, a, 0, packed[0], (int64_t)bytes);
    tb_layout_pack(t->layout, b, 0, packed[1], (int64_t)bytes);
    clean(packed[0], t, n);
    clean(packed[1], t, n);
    return memcmp(packed[0], packed[1], bytes) == 0;
}

static void check_results(void)
{
    static char in[MOST * 32 + 1], got[MOST * 32 + 1], want[MOST * 32 + 1];

    for (size_t i = 0; i < TB_COUNT_OF(checks); i++) {
        struct tb_type *t = type_of(checks[i].type);
        int64_t extent = t->layout->extent;
        for (int k = 0; k < OPS; k++) {
            if (tb_op_check(op_of(ops[k]), t))
                continue;
            for (int n = 0; n < MOST; n += n < 10 ? 1 : 19) {
                int shift = (int)(next() % 2); /* any alignment will do */
                for (int e = 0; e < n; e++) {
                    fill(in + shift + e * extent, t);
                    fill(got + shift + e * extent, t);
                }
                memcpy(want, got, sizeof want);
                tb_op_apply(op_of(ops[k]), in + shift, got + shift, n, t);
                for (int e = 0; e < n; e++)
                    checks[i].one(k, in + shift + e * extent,
                                  want + shift + e * extent);
                if (!equal(got + shift, want + shift, t, n))
                    fprintf(stderr, "%s, operation %d, %d elements\n", t->label,
                            k, n);
                CHECK(equal(got + shift, want + shift, t, n));
            }
        }
    }
}

/* ------------------------------------------------------ 16-bit arithmetic */

/* The value of a number with `exponent` bits of exponent, by definition. */
static double half_value(unsigned h, int exponent)
{
    int fraction = 15 - exponent, bias = (1 << (exponent - 1)) - 1;
    int e = (int)(h >> fraction) & ((1 << exponent) - 1);
    double f = (double)(h & ((1u << fraction) - 1)) / (1 << fraction);
    double v = e == (1 << exponent) - 1 ? (f != 0 ? NAN : INFINITY)
               : e == 0                 ? ldexp(f, 1 - bias)
                                        : ldexp(1 + f, e - bias);
    return h & 0x8000 ? -v : v;
}

/* Whether `got` is the number nearest to x: no neighbour is nearer, and of two
 * equally near ones it is the even. */
static bool is_nearest(double x, unsigned got, int exponent)
{
    unsigned infinity = ((1u << exponent) - 1) << (15 - exponent);
    double v = half_value(got, exponent);
    unsigned size = got & 0x7fff;

    if (isnan(x))
        return isnan(v);
    if (isinf(x) || x == 0)
        return v == x;
    if ((signbit(x) != 0) != (got >> 15 != 0) || isnan(v))
        return false;
    /* The next number after the largest, where infinity begins to be nearer. */
    double beyond = ldexp(1, 1 << (exponent - 1));
    double here = size == infinity ? beyond : fabs(v);
    double gap = fabs(fabs(x) - here);
    for (int step = -1; step <= 1; step += 2) {
        unsigned other = size + (unsigned)step;
        if ((size == 0 && step < 0) || other > infinity)
            continue;
        double there = other == infinity ? beyond : half_value(other, exponent);
        double other_gap = fabs(fabs(x) - there);
        if (other_gap < gap || (other_gap == gap && size % 2))
            return false;
    }
    return true;
}

static void check_halves(MPI_Datatype handle, int exponent)
{
    struct tb_type *t = type_of(handle);
    static uint16_t in[65536], out[65536];

    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 65536; i++) {
            in[i] = (uint16_t)next();
            if (round % 2) /* near each other, where rounding is at work */
                in[i] = (uint16_t)((i & 0xfc00) + (int)(next() % 2048) - 1024);
            out[i] = (uint16_t)i;
        }
        bool product = round % 4 > 1;
        tb_op_apply(op_of(product ? MPI_PROD : MPI_SUM), in, out, 65536, t);
        for (int i = 0; i < 65536; i++) {
            float a = (float)half_value(in[i], exponent);
            float b = (float)half_value((unsigned)i, exponent);
            CHECK(is_nearest(product ? a * b : a + b, out[i], exponent));
        }
    }
    for (int i = 0; i < 65536; i++) {
        in[i] = (uint16_t)next();
        out[i] = (uint16_t)i;
    }
    tb_op_apply(op_of(MPI_MAX), in, out, 65536, t);
    for (int i = 0; i < 65536; i++) {
        double a = half_value(in[i], exponent);
        double b = half_value((unsigned)i, exponent);
        double v = half_value(out[i], exponent);
        CHECK(isnan(a) || isnan(b) ? isnan(v) : v == fmax(a, b));
    }
}

/* (1 + 2i) (3 - i) = 5 + 5i, and their sum. */
static void check_half_complex(void)
{
    uint16_t in[2] = {0x3c00, 0x4000}, inout[2] = {0x4200, 0xbc00};

    tb_op_apply(op_of(MPI_PROD), in, inout, 1, type_of(MPI_COMPLEX4));
    CHECK(inout[0] == 0x4500 && inout[1] == 0x4500);
    tb_op_apply(op_of(MPI_SUM), in, inout, 1, type_of(MPI_COMPLEX4));
    CHECK(inout[0] == 0x4600 && inout[1] == 0x4700);
}

static void check_nan(void)
{
    double in[2] = {NAN, 1}, inout[2] = {1, NAN};
    tb_op_apply(op_of(MPI_MAX), in, inout, 2, type_of(MPI_DOUBLE));
    CHECK(isnan(inout[0]) && isnan(inout[1]));
    inout[0] = 2;
    tb_op_apply(op_of(MPI_MIN), in, inout, 2, type_of(MPI_DOUBLE));
    CHECK(isnan(inout[0]) && isnan(inout[1]));
}

/* --------------------------------------------------------- user operations */

static int calls;
static int64_t seen;

static void subtract(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    CHECK(*datatype == MPI_INT);
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
    *len = 0; /* theirs to spoil */
}

static void count_int(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    (void)in;
    (void)inout;
    CHECK(tb_type_predefined(*datatype) == NULL ||
          tb_type_predefined(*datatype)->combiner == MPI_COMBINER_RESIZED);
    calls++;
    seen += *len;
}

static void count_large(void *in, void *inout, MPI_Count *len,
                        MPI_Datatype *datatype)
{
    struct tb_type *t;
    (void)in;
    (void)inout;
    CHECK_EQ(tb_type_get(*datatype, &t), TB_OK);
    calls++;
    seen += *len;
}

static void check_user(void)
{
    struct tb_op *op, *large;
    struct tb_type *t;
    int in[3] = {10, 20, 30}, inout[3] = {1, 2, 3}, commute;
    const int64_t many = 2 * (int64_t)INT_MAX + 5;

    CHECK_EQ(tb_op_create(subtract, NULL, 0, &op), TB_OK);
    CHECK_EQ(tb_op_check(op, type_of(MPI_WCHAR)), TB_OK);
    CHECK_EQ(tb_op_commutative(op, &commute), TB_OK);
    CHECK_EQ(commute, 0);
    CHECK_EQ(tb_reduce_local(in, inout, 3, type_of(MPI_INT), op), TB_OK);
    CHECK(inout[0] == 9 && inout[1] == 18 && inout[2] == 27);
    CHECK_EQ(tb_op_free(op), TB_OK);

    /* Elements without extent: as many as one likes. */
    CHECK_EQ(tb_type_create_resized(type_of(MPI_BYTE), 0, 0, &t, false), TB_OK);
    CHECK_EQ(tb_op_create(count_int, NULL, 1, &op), TB_OK);
    CHECK_EQ(tb_op_create(NULL, count_large, 1, &large), TB_OK);
    tb_op_apply(op, in, inout, many, t);
    CHECK_EQ(calls, 3);
    CHECK_EQ(seen, many);
    calls = 0, seen = 0;
    tb_op_apply(large, in, inout, many, t);
    CHECK_EQ(calls, 1);
    CHECK_EQ(seen, many);

    /* Freed by the program, still in use by a collective. */
    tb_type_ref(t);
    CHECK_EQ(tb_type_free(t), TB_OK);
    CHECK_EQ(t->obj.handle, 0);
    tb_op_apply(large, in, inout, 1, t);
    CHECK_EQ(t->obj.handle, 0);
    CHECK_EQ(t->obj.refs, 1);
    tb_type_unref(t);
    CHECK_EQ(tb_op_free(op), TB_OK);
    CHECK_EQ(tb_op_free(large), TB_OK);
    CHECK_EQ(tb_op_free(op_of(MPI_SUM)), TB_ERR_OP);
    CHECK_EQ(tb_op_create(NULL, NULL, 1, &op), TB_ERR_ARG);
}

/* ------------------------------------------------------------ one-sided ops */

static void check_replace(void)
{
    struct tb_type *t;
    short in[7] = {1, 2, 3, 4, 5, 6, 7}, inout[7] = {0};

    CHECK_EQ(tb_type_vector(2, 1, 2, type_of(MPI_SHORT), &t, false), TB_OK);
    tb_op_apply(op_of(MPI_NO_OP), in, inout, 2, t);
    CHECK(inout[0] == 0 && inout[2] == 0);
    tb_op_apply(op_of(MPI_REPLACE), in, inout, 2, t);
    CHECK(inout[0] == 1 && inout[1] == 0 && inout[2] == 3 && inout[3] == 4 &&
          inout[4] == 0 && inout[5] == 6 && inout[6] == 0);
    CHECK_EQ(tb_op_check(op_of(MPI_SUM), t), TB_ERR_OP);
    CHECK_EQ(tb_type_free(t), TB_OK);
}

static void check_refusals(void)
{
    int a = 1, b = 2;
    struct tb_type *t = type_of(MPI_INT);

    CHECK_EQ(tb_reduce_local(&a, &a, 1, t, op_of(MPI_SUM)), TB_ERR_BUFFER);
    CHECK_EQ(tb_reduce_local(&a, &a, 0, t, op_of(MPI_SUM)), TB_OK);
    CHECK_EQ(tb_reduce_local(MPI_IN_PLACE, &b, 1, t, op_of(MPI_SUM)),
             TB_ERR_BUFFER);
    CHECK_EQ(tb_reduce_local(&a, NULL, 1, t, op_of(MPI_SUM)), TB_ERR_BUFFER);
    CHECK_EQ(tb_reduce_local(&a, &b, INT64_MAX, t, op_of(MPI_SUM)),
             TB_ERR_COUNT);
    CHECK_EQ(tb_reduce_local(&a, &b, 1, t, op_of(MPI_MINLOC)), TB_ERR_OP);
    CHECK_EQ(b, 2);
}

int main(void)
{
    CHECK_EQ(tb_type_init(), TB_OK);
    CHECK_EQ(tb_op_init(), TB_OK);
    check_families();
    check_results();
    check_halves(TBMPI_FLOAT16, 5);
    check_halves(MPI_REAL2, 5);
    check_halves(TBMPI_BFLOAT16, 8);
    check_half_complex();
    check_nan();
    check_user();
    check_replace();
    check_refusals();
    tb_op_fini();
    tb_type_fini();
    return 0;
}
