/* SPDX-License-Identifier: MIT */
/*
 * The loops of the predefined reductions, one per operation and representation.
 *
 * They are plain loops over restricted pointers that compilers vectorise; the
 * element types carry an alignment of 1, since data may lie in a packet.
 * Addition and multiplication of signed integers are done unsigned, which is
 * the same bits and wraps. 16-bit floating point is computed in float and
 * rounded once.
 */
#include "mpi/op.h"

#include <string.h>

#define UNSIGNED(X)     \
    X(UINT8, uint8_t)   \
    X(UINT16, uint16_t) \
    X(UINT32, uint32_t) \
    X(UINT64, uint64_t) \
    X(UINT128, tb_uint128)
#define SIGNED(X)     \
    X(INT8, int8_t)   \
    X(INT16, int16_t) \
    X(INT32, int32_t) \
    X(INT64, int64_t) \
    X(INT128, tb_int128)
#define REALS(X)                \
    X(FLOAT, float)             \
    X(DOUBLE, double)           \
    X(LONG_DOUBLE, long double) \
    X(FLOAT128, tb_float128)
#define HALVES(X)        \
    X(FLOAT16, uint16_t) \
    X(BFLOAT16, uint16_t)

/* Lists of macros look like expressions to the formatter. */
/* clang-format off */
#define ANYWHERE __attribute__((aligned(1), may_alias))
#define X(basic, type) typedef type any_##basic ANYWHERE;
UNSIGNED(X)
SIGNED(X)
REALS(X)
HALVES(X)
#undef X

/* `result` is an expression of a, from in, and b, from inout. */
#define KERNEL(op, basic, type, result)                                     \
    static void op##_##basic(const void *restrict in, void *restrict inout, \
                             int64_t n)                                     \
    {                                                                       \
        const any_##basic *restrict x = in;                                 \
        any_##basic *restrict y = inout;                                    \
        for (int64_t i = 0; i < n; i++) {                                   \
            const type a = x[i], b = y[i];                                  \
            y[i] = (type)(result);                                          \
        }                                                                   \
    }

/* ---------------------------------------------------------------- integers */

/* 1u keeps short types from being multiplied as int, which could overflow. */
#define X(basic, type)                             \
    KERNEL(SUM, basic, type, a + b)                \
    KERNEL(PROD, basic, type, 1u * a * b)          \
    KERNEL(BAND, basic, type, a & b)               \
    KERNEL(BOR, basic, type, a | b)                \
    KERNEL(BXOR, basic, type, a ^ b)               \
    KERNEL(LAND, basic, type, (a != 0) & (b != 0)) \
    KERNEL(LOR, basic, type, (a != 0) | (b != 0))  \
    KERNEL(LXOR, basic, type, (a != 0) ^ (b != 0))
UNSIGNED(X)
#undef X

#define X(basic, type)                      \
    KERNEL(MIN, basic, type, a < b ? a : b) \
    KERNEL(MAX, basic, type, a > b ? a : b)
UNSIGNED(X)
SIGNED(X)
#undef X

/* ------------------------------------------------------------------- reals */

/* A NaN on either side stays one, whoever is first. */
#define X(basic, type)                                \
    KERNEL(SUM, basic, type, a + b)                   \
    KERNEL(PROD, basic, type, a * b)                  \
    KERNEL(MIN, basic, type, a < b || a != a ? a : b) \
    KERNEL(MAX, basic, type, a > b || a != a ? a : b)
REALS(X)
#undef X
/* clang-format on */

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Without a branch, which would keep the loops from being vectorised. */
static inline uint32_t choose(bool which, uint32_t yes, uint32_t no)
{
    return no ^ ((yes ^ no) & -(uint32_t)which);
}

/*
 * IEEE binary16: 5 bits of exponent, 10 of fraction. No arithmetic on
 * subnormal floats, which programs may have turned off.
 */
static inline float from_FLOAT16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t size = h & 0x7fff;
    uint32_t tiny = bits_of_float((float)(int32_t)size * 0x1p-24f);
    uint32_t bits = (size << 13) + (112u << 23);
    bits = choose(size >= 0x7c00, (size << 13) + (224u << 23), bits);
    bits = choose(size < 0x400, tiny, bits);
    return float_of_bits(sign | bits);
}

static inline uint16_t to_FLOAT16(float f)
{
    uint32_t bits = bits_of_float(f);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffff;
    /* Rounded to 10 bits of fraction, ties to even; carries into the exponent
     * and, past the largest number, to infinity. */
    uint32_t body = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    /* In units of the smallest number: an addition that leaves just those
     * bits does the rounding. */
    uint32_t tiny = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000;
    body = choose(size < 113u << 23, tiny, body);
    body = choose(size >= 143u << 23, 0x7c00, body);
    body = choose(size > 0x7f800000, 0x7e00, body);
    return (uint16_t)(sign | body);
}

/* bfloat16: the upper half of a float. */
static inline float from_BFLOAT16(uint16_t h)
{
    return float_of_bits((uint32_t)h << 16);
}

static inline uint16_t to_BFLOAT16(float f)
{
    uint32_t bits = bits_of_float(f);
    uint32_t round = bits + 0x7fff + (bits >> 16 & 1);
    bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)choose(is_nan, bits >> 16 | 0x40, round >> 16);
}

static inline bool lower(float a, float b)
{
    return a < b || a != a;
}

static inline bool higher(float a, float b)
{
    return a > b || a != a;
}

/* clang-format off */
#define X(basic, type)                                                        \
    KERNEL(SUM, basic, type, to_##basic(from_##basic(a) + from_##basic(b)))   \
    KERNEL(PROD, basic, type, to_##basic(from_##basic(a) * from_##basic(b)))  \
    KERNEL(MIN, basic, type, lower(from_##basic(a), from_##basic(b)) ? a : b) \
    KERNEL(MAX, basic, type, higher(from_##basic(a), from_##basic(b)) ? a : b)
HALVES(X)
#undef X

/* --------------------------------------------------------- complex numbers */

/* Without the recovery of infinities that C's own multiplication does. */
#define COMPLEX(basic, type, from, to)                                \
    static void SUM_COMPLEX_##basic(const void *restrict in,          \
                                    void *restrict inout, int64_t n)  \
    {                                                                 \
        SUM_##basic(in, inout, 2 * n);                                \
    }                                                                 \
    static void PROD_COMPLEX_##basic(const void *restrict in,         \
                                     void *restrict inout, int64_t n) \
    {                                                                 \
        const any_##basic *restrict x = in;                           \
        any_##basic *restrict y = inout;                              \
        for (int64_t i = 0; i < 2 * n; i += 2) {                      \
            const type a = from(x[i]), ai = from(x[i + 1]);           \
            const type b = from(y[i]), bi = from(y[i + 1]);           \
            y[i] = to(a * b - ai * bi);                               \
            y[i + 1] = to(a * bi + ai * b);                           \
        }                                                             \
    }
COMPLEX(FLOAT16, float, from_FLOAT16, to_FLOAT16)
#define X(basic, type) COMPLEX(basic, type, , )
REALS(X)
#undef X

/* ------------------------------------------------------------------- pairs */

/* Of equal values the one with the smaller index. */
#define LOC(op, basic, type, index_type, better)                            \
    static void op##_##basic(const void *restrict in, void *restrict inout, \
                             int64_t n)                                     \
    {                                                                       \
        const size_t step = sizeof(struct tb_pair_##basic);                 \
        const size_t at = offsetof(struct tb_pair_##basic, index);          \
        const char *x = in;                                                 \
        char *y = inout;                                                    \
        for (; n > 0; n--, x += step, y += step) {                          \
            type a, b;                                                      \
            index_type i, k;                                                \
            memcpy(&a, x, sizeof a);                                        \
            memcpy(&b, y, sizeof b);                                        \
            memcpy(&i, x + at, sizeof i);                                   \
            memcpy(&k, y + at, sizeof k);                                   \
            if (a == b) {                                                   \
                if (i < k)                                                  \
                    memcpy(y + at, &i, sizeof i);                           \
            } else if (a better b) {                                        \
                memcpy(y, &a, sizeof a);                                    \
                memcpy(y + at, &i, sizeof i);                               \
            }                                                               \
        }                                                                   \
    }
#define X(basic, type, index) \
    LOC(MINLOC, basic, type, index, <) LOC(MAXLOC, basic, type, index, >)
TB_PAIRS(X)
#undef X

/* --------------------------------------------------------------- the table */

#define AT(op, basic) [TB_BASIC_##basic] = op##_##basic,
#define AT_UNSIGNED(op) \
    AT(op, UINT8) AT(op, UINT16) AT(op, UINT32) AT(op, UINT64) AT(op, UINT128)
#define AT_SIGNED(op) \
    AT(op, INT8) AT(op, INT16) AT(op, INT32) AT(op, INT64) AT(op, INT128)
/* Where the sign makes no difference. */
#define AT_INTEGERS(op)                                             \
    AT_UNSIGNED(op)                                                 \
    [TB_BASIC_INT8] = op##_UINT8, [TB_BASIC_INT16] = op##_UINT16,   \
    [TB_BASIC_INT32] = op##_UINT32, [TB_BASIC_INT64] = op##_UINT64, \
    [TB_BASIC_INT128] = op##_UINT128,
#define AT_REALS(op)                                              \
    AT(op, FLOAT16) AT(op, BFLOAT16) AT(op, FLOAT) AT(op, DOUBLE) \
    AT(op, LONG_DOUBLE) AT(op, FLOAT128)
#define AT_COMPLEX(op)                                                       \
    AT(op, COMPLEX_FLOAT16) AT(op, COMPLEX_FLOAT) AT(op, COMPLEX_DOUBLE)     \
    AT(op, COMPLEX_LONG_DOUBLE) AT(op, COMPLEX_FLOAT128)
#define AT_PAIRS(op)                                                         \
    AT(op, FLOAT_INT) AT(op, DOUBLE_INT) AT(op, LONG_INT) AT(op, INT_INT)    \
    AT(op, SHORT_INT) AT(op, LONG_DOUBLE_INT) AT(op, FLOAT_FLOAT)            \
    AT(op, DOUBLE_DOUBLE)

tb_op_kernel *const tb_op_kernels[TB_OP_LIMIT][TB_BASIC_LIMIT] = {
    /* The index is the handle's, less TB_OP_FIRST; C does not take the
     * constants of mpi.h, which are pointers, in this place. */
    [0x01] = {AT_INTEGERS(SUM) AT_REALS(SUM) AT_COMPLEX(SUM)},
    [0x02] = {AT_UNSIGNED(MIN) AT_SIGNED(MIN) AT_REALS(MIN)},
    [0x03] = {AT_UNSIGNED(MAX) AT_SIGNED(MAX) AT_REALS(MAX)},
    [0x04] = {AT_INTEGERS(PROD) AT_REALS(PROD) AT_COMPLEX(PROD)},
    [0x08] = {AT_INTEGERS(BAND)},
    [0x09] = {AT_INTEGERS(BOR)},
    [0x0a] = {AT_INTEGERS(BXOR)},
    [0x10] = {AT_INTEGERS(LAND)},
    [0x11] = {AT_INTEGERS(LOR)},
    [0x12] = {AT_INTEGERS(LXOR)},
    [0x18] = {AT_PAIRS(MINLOC)},
    [0x19] = {AT_PAIRS(MAXLOC)},
};
