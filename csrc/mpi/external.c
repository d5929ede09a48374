/* SPDX-License-Identifier: MIT */
/*
 * The external32 representation (MPI 5.0, section 14.5.2): big-endian, `long`
 * in 4 bytes, `wchar_t` in 2, `long double` as IEEE binary128.
 *
 * The native stream passes through a small buffer, where it is converted basic
 * type by basic type.
 */
#include "mpi/type.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------ basic types */

/* How one basic type is represented on both sides. */
struct form {
    int64_t parts;  /* complex numbers have 2 */
    int64_t native; /* bytes of a part */
    int64_t external;
    bool is_signed; /* when the two differ */
    bool long_double;
};

static struct form form_of(const struct tb_type *basic)
{
    struct form f = {.parts = basic->family == TB_FAMILY_COMPLEX ? 2 : 1};
    MPI_Datatype handle = tb_type_handle(basic);

    f.native = f.external = basic->layout->size / f.parts;
    f.is_signed = handle == MPI_LONG;
    f.long_double = basic->basic == TB_BASIC_LONG_DOUBLE ||
                    basic->basic == TB_BASIC_COMPLEX_LONG_DOUBLE;
    if (handle == MPI_LONG || handle == MPI_UNSIGNED_LONG)
        f.external = 4;
    else if (handle == MPI_WCHAR)
        f.external = 2;
    else if (f.long_double)
        f.external = 16;
    return f;
}

/* ------------------------------------------------------------- conversions */

/* To big-endian or back. */
static void swap_bytes(const char *from, char *to, int64_t width, int64_t n)
{
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
        memcpy(to, from, (size_t)(n * width));
        return;
    }
    for (int64_t i = 0; i < n; i++, from += width, to += width)
        for (int64_t b = 0; b < width; b++)
            to[b] = from[width - 1 - b];
}

/* `n` numbers of 4 or 8 bytes become shorter; false: one does not fit. */
static bool narrow(const char *from, char *to, const struct form *f, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t value = 0;
        char whole[8];
        swap_bytes(from + i * f->native, whole, f->native, 1);
        for (int64_t b = 0; b < f->native; b++)
            value = value << 8 | (unsigned char)whole[b];
        int64_t bits = 8 * f->external - f->is_signed;
        uint64_t above = value >> bits;
        if (above && !(f->is_signed && above == UINT64_MAX >> bits))
            return false;
        memcpy(to + i * f->external, whole + f->native - f->external,
               (size_t)f->external);
    }
    return true;
}

static void extend(const char *from, char *to, const struct form *f, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const char *number = from + i * f->external;
        bool negative = f->is_signed && number[0] & 0x80;
        char whole[8];
        memset(whole, negative ? 0xff : 0, sizeof whole);
        memcpy(whole + f->native - f->external, number, (size_t)f->external);
        swap_bytes(whole, to + i * f->native, f->native, 1);
    }
}

/* IEEE binary128 as two words: sign, 15 bits of exponent, 112 of fraction. */
struct quad {
    uint64_t high, low;
};

#define QUAD_BIAS 16383
#define QUAD_INFINITY ((uint64_t)0x7fff << 48)
#define QUAD_NAN ((uint64_t)0x7fff8 << 44)

static struct quad quad_of(long double value)
{
    uint64_t sign = (uint64_t)(signbit(value) != 0) << 63;
    int exponent;

    if (isnan(value))
        return (struct quad){sign | QUAD_NAN, 0};
    if (isinf(value))
        return (struct quad){sign | QUAD_INFINITY, 0};
    if (value == 0)
        return (struct quad){sign, 0};
    /* The fraction in [1, 2), or below 1 with the smallest exponent there is;
     * no step rounds. */
    long double f = 2 * frexpl(fabsl(value), &exponent);
    exponent += QUAD_BIAS - 1;
    if (exponent <= 0) {
        f = ldexpl(f, exponent - 1);
        exponent = 0;
    } else {
        f -= 1;
    }
    f = ldexpl(f, 48);
    uint64_t high = (uint64_t)f;
    uint64_t low = (uint64_t)ldexpl(f - (long double)high, 64);
    return (struct quad){sign | (uint64_t)exponent << 48 | high, low};
}

static long double value_of(struct quad q)
{
    int exponent = (int)(q.high >> 48 & 0x7fff);
    uint64_t high = q.high & (((uint64_t)1 << 48) - 1);
    long double value;

    /* Bits that can only round are folded into one, so that the sum below is
     * the one rounding. */
    if (LDBL_MANT_DIG < 113) {
        bool rest = q.low & 0x3fff;
        q.low = (q.low & ~(uint64_t)0x3fff) | (uint64_t)rest << 14;
    }
    if (exponent == 0x7fff) {
        value = high || q.low ? (long double)NAN : (long double)INFINITY;
    } else {
        high |= (uint64_t)(exponent > 0) << 48;
        value = ldexpl((long double)high, 64) + (long double)q.low;
        value = ldexpl(value, TB_MAX(exponent, 1) - QUAD_BIAS - 112);
    }
    return copysignl(value, q.high >> 63 ? -1 : 1);
}

static void quads_out(const char *from, char *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        long double value;
        memcpy(&value, from + i * (int64_t)sizeof value, sizeof value);
        struct quad q = quad_of(value);
        swap_bytes((const char *)&q.high, to + i * 16, 8, 1);
        swap_bytes((const char *)&q.low, to + i * 16 + 8, 8, 1);
    }
}

/* The x87 format leaves the last bytes unused. */
#define LONG_DOUBLE_BYTES (LDBL_MANT_DIG == 64 ? 10 : sizeof(long double))

static void quads_in(const char *from, char *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        struct quad q;
        swap_bytes(from + i * 16, (char *)&q.high, 8, 1);
        swap_bytes(from + i * 16 + 8, (char *)&q.low, 8, 1);
        long double value = value_of(q);
        memcpy(to + i * (int64_t)sizeof value, &value, LONG_DOUBLE_BYTES);
    }
}

/* ------------------------------------------------------------- the passage */

#define PIECE 4096

/* The state of one call. */
struct passage {
    const struct tb_layout *layout;
    char *memory;   /* the program's buffer */
    char *external; /* the external data still to come */
    int64_t at;     /* in the native stream */
    tb_err err;
};

static bool pack_basic(void *arg, struct tb_type *basic, int64_t count)
{
    struct passage *p = arg;
    struct form f = form_of(basic);
    int64_t most = PIECE / basic->layout->size;
    char native[PIECE];

    while (count > 0) {
        int64_t n = TB_MIN(count, most);
        int64_t bytes = n * basic->layout->size;
        tb_layout_pack(p->layout, p->memory, p->at, native, bytes);
        if (f.long_double)
            quads_out(native, p->external, n * f.parts);
        else if (f.external == f.native)
            swap_bytes(native, p->external, f.native, n * f.parts);
        else if (!narrow(native, p->external, &f, n))
            p->err = tb_fail(TB_ERR_CONVERSION,
                             "a value of type %s does not "
                             "fit in the %d bytes it has in external32",
                             basic->label, (int)f.external);
        if (p->err)
            return false;
        p->at += bytes;
        p->external += n * f.parts * f.external;
        count -= n;
    }
    return true;
}

static bool unpack_basic(void *arg, struct tb_type *basic, int64_t count)
{
    struct passage *p = arg;
    struct form f = form_of(basic);
    int64_t most = PIECE / basic->layout->size;
    char native[PIECE];

    while (count > 0) {
        int64_t n = TB_MIN(count, most);
        int64_t bytes = n * basic->layout->size;
        memset(native, 0, (size_t)bytes);
        if (f.long_double)
            quads_in(p->external, native, n * f.parts);
        else if (f.external == f.native)
            swap_bytes(p->external, native, f.native, n * f.parts);
        else
            extend(p->external, native, &f, n);
        tb_layout_unpack(p->layout, p->memory, p->at, native, bytes);
        p->at += bytes;
        p->external += n * f.parts * f.external;
        count -= n;
    }
    return true;
}

/* ---------------------------------------------------------------- the calls */

static bool add_size(void *arg, struct tb_type *basic, int64_t count)
{
    int64_t *size = arg, bytes;
    struct form f = form_of(basic);

    return !__builtin_mul_overflow(count, f.parts * f.external, &bytes) &&
           !__builtin_add_overflow(*size, bytes, size);
}

/* The external size of `count` elements, once the name is the one there is. */
static tb_err measure(const char *datarep, int64_t count,
                      const struct tb_type *t, int64_t *size)
{
    *size = 0;
    if (strcmp(datarep, "external32") != 0)
        return tb_fail(TB_ERR_UNSUPPORTED_DATAREP,
                       "datarep is \"%s\": only "
                       "\"external32\" exists",
                       datarep);
    if (tb_type_walk(t, 1, add_size, size) &&
        !__builtin_mul_overflow(*size, count, size))
        return TB_OK;
    return tb_fail(TB_ERR_COUNT,
                   "count is %lld: the external data are larger "
                   "than 63 bits can count",
                   (long long)count);
}

static tb_err check_room(const char *arg, const void *buf, int64_t need,
                         int64_t size, int64_t position)
{
    if (position < 0 || position > size)
        return tb_fail(TB_ERR_ARG, "position is %lld, and %s has %lld bytes",
                       (long long)position, arg, (long long)size);
    if (need > size - position)
        return tb_fail(TB_ERR_TRUNCATE,
                       "%lld bytes at position %lld of %s, which has %lld",
                       (long long)need, (long long)position, arg,
                       (long long)size);
    if (need > 0 && !buf)
        return tb_fail(TB_ERR_BUFFER, "%s is NULL", arg);
    return TB_OK;
}

tb_err tb_pack_external_size(const char *datarep, MPI_Count incount,
                             struct tb_type *t, MPI_Count *size)
{
    return measure(datarep, incount, t, size);
}

tb_err tb_pack_external(const char *datarep, const void *inbuf,
                        MPI_Count incount, struct tb_type *t, void *outbuf,
                        MPI_Count outsize, MPI_Count *position)
{
    int64_t bytes;

    TB_TRY(measure(datarep, incount, t, &bytes));
    TB_TRY(check_room("outbuf", outbuf, bytes, outsize, *position));
    TB_TRY(tb_type_check_buffer("inbuf", inbuf, incount, t));
    struct passage p = {.layout = t->layout,
                        .memory = (char *)(uintptr_t)inbuf,
                        .external = (char *)outbuf + *position};
    tb_type_walk(t, incount, pack_basic, &p);
    if (!p.err)
        *position += bytes;
    return p.err;
}

tb_err tb_unpack_external(const char *datarep, const void *inbuf,
                          MPI_Count insize, MPI_Count *position, void *outbuf,
                          MPI_Count outcount, struct tb_type *t)
{
    int64_t bytes;

    TB_TRY(measure(datarep, outcount, t, &bytes));
    TB_TRY(check_room("inbuf", inbuf, bytes, insize, *position));
    TB_TRY(tb_type_check_buffer("outbuf", outbuf, outcount, t));
    struct passage p = {.layout = t->layout,
                        .memory = outbuf,
                        .external = (char *)(uintptr_t)inbuf + *position};
    tb_type_walk(t, outcount, unpack_basic, &p);
    *position += bytes;
    return TB_OK;
}
