/* SPDX-License-Identifier: MIT */
/*
 * Datatypes above their layouts: what constructors keep and refuse, arrays
 * against the standard's formulas, counting elements, packing, external32.
 */
#include "mpi/type.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "mpi/life.h"
#include "mpi/status.h"
#include "unit/check.h"

static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int between(int low, int high)
{
    return low + (int)(next() % (unsigned)(high - low + 1));
}

static struct tb_type *type_of(MPI_Datatype handle)
{
    struct tb_type *t;
    CHECK_EQ(tb_type_get(handle, &t), TB_OK);
    return t;
}

static void free_type(struct tb_type *t)
{
    CHECK_EQ(tb_type_free(t), TB_OK);
}

static struct tb_counts ints(const int *v)
{
    return (struct tb_counts){v, NULL};
}

static struct tb_counts counts(const MPI_Count *v)
{
    return (struct tb_counts){NULL, v};
}

/* ---------------------------------------------------------------- contents */

/* `t` has these contents: its numbers as one list, ints or addresses first as
 * the int form has them, and one type. Frees it. */
static void expect(struct tb_type *t, int combiner, int n_ints, int n_addresses,
                   int n_counts, const int64_t *values, MPI_Datatype of)
{
    MPI_Count ni, na, nc, nd;
    int got, i32[32];
    MPI_Aint addresses[32];
    MPI_Count large[32];
    MPI_Datatype types[4];

    CHECK_EQ(tb_type_get_envelope(t, &ni, &na, &nc, &nd, &got), TB_OK);
    CHECK_EQ(got, combiner);
    CHECK_EQ(ni, n_ints);
    CHECK_EQ(na, n_addresses);
    CHECK_EQ(nc, n_counts);
    CHECK(nd >= 1 && nd <= 4);
    CHECK_EQ(
        tb_type_get_contents(t, ni, na, nc, nd, i32, addresses, large, types),
        TB_OK);
    for (int i = 0; i < ni; i++)
        CHECK_EQ(i32[i], *values++);
    for (int i = 0; i < na; i++)
        CHECK_EQ(addresses[i], *values++);
    for (int i = 0; i < nc; i++)
        CHECK_EQ(large[i], *values++);
    CHECK(types[0] == of);
    if (nc > 0)
        CHECK_EQ(
            tb_type_get_contents(t, ni, na, 0, nd, i32, addresses, NULL, types),
            TB_ERR_TYPE);
    if (ni > 0)
        CHECK_EQ(tb_type_get_contents(t, ni - 1, na, nc, nd, i32, addresses,
                                      large, types),
                 TB_ERR_ARG);
    free_type(t);
}

#define VALUES(...) ((const int64_t[]){__VA_ARGS__})

static void check_contents(void)
{
    struct tb_type *f = type_of(MPI_FLOAT), *t;
    const int b[2] = {1, 2}, d[2] = {3, 5};
    const MPI_Count bl[2] = {1, 2}, dl[2] = {3, 5};
    const MPI_Datatype types[2] = {MPI_FLOAT, MPI_INT};

    for (int large = 0; large < 2; large++) {
        struct tb_counts bs = large ? counts(bl) : ints(b);
        struct tb_counts ds = large ? counts(dl) : ints(d);
#define SHAPE(i, a) large ? 0 : (i), large ? 0 : (a), large ? (i) + (a) : 0
        CHECK_EQ(tb_type_contiguous(4, f, &t, large), TB_OK);
        expect(t, MPI_COMBINER_CONTIGUOUS, SHAPE(1, 0), VALUES(4), MPI_FLOAT);
        CHECK_EQ(tb_type_vector(4, 2, -3, f, &t, large), TB_OK);
        expect(t, MPI_COMBINER_VECTOR, SHAPE(3, 0), VALUES(4, 2, -3),
               MPI_FLOAT);
        CHECK_EQ(tb_type_create_hvector(4, 2, 13, f, &t, large), TB_OK);
        expect(t, MPI_COMBINER_HVECTOR, SHAPE(2, 1), VALUES(4, 2, 13),
               MPI_FLOAT);
        CHECK_EQ(tb_type_indexed(2, bs, ds, f, &t, large), TB_OK);
        expect(t, MPI_COMBINER_INDEXED, SHAPE(5, 0), VALUES(2, 1, 2, 3, 5),
               MPI_FLOAT);
        CHECK_EQ(tb_type_create_hindexed(2, bs, counts(dl), f, &t, large),
                 TB_OK);
        expect(t, MPI_COMBINER_HINDEXED, SHAPE(3, 2), VALUES(2, 1, 2, 3, 5),
               MPI_FLOAT);
        CHECK_EQ(tb_type_create_indexed_block(2, 7, ds, f, &t, large), TB_OK);
        expect(t, MPI_COMBINER_INDEXED_BLOCK, SHAPE(4, 0), VALUES(2, 7, 3, 5),
               MPI_FLOAT);
        CHECK_EQ(tb_type_create_hindexed_block(2, 7, counts(dl), f, &t, large),
                 TB_OK);
        expect(t, MPI_COMBINER_HINDEXED_BLOCK, SHAPE(2, 2), VALUES(2, 7, 3, 5),
               MPI_FLOAT);
        CHECK_EQ(tb_type_create_struct(2, bs, counts(dl), types, &t, large),
                 TB_OK);
        expect(t, MPI_COMBINER_STRUCT, SHAPE(3, 2), VALUES(2, 1, 2, 3, 5),
               MPI_FLOAT);
        CHECK_EQ(tb_type_create_resized(f, -4, 20, &t, large), TB_OK);
        expect(t, MPI_COMBINER_RESIZED, SHAPE(0, 2), VALUES(-4, 20), MPI_FLOAT);
#undef SHAPE
    }
    CHECK_EQ(tb_type_dup(f, &t), TB_OK);
    expect(t, MPI_COMBINER_DUP, 0, 0, 0, NULL, MPI_FLOAT);
}

static void check_array_contents(void)
{
    struct tb_type *f = type_of(MPI_FLOAT), *t;
    const int sizes[2] = {5, 6}, subsizes[2] = {3, 4}, starts[2] = {1, 2};
    const MPI_Count sizes_l[2] = {5, 6}, subsizes_l[2] = {3, 4};
    const MPI_Count starts_l[2] = {1, 2};
    const int how[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    const int dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, psizes[2] = {2, 3};
    const int c = MPI_ORDER_C, dflt = MPI_DISTRIBUTE_DFLT_DARG;
    const int block = how[0], cyclic = how[1];

    CHECK_EQ(tb_type_create_subarray(2, ints(sizes), ints(subsizes),
                                     ints(starts), c, f, &t, false),
             TB_OK);
    expect(t, MPI_COMBINER_SUBARRAY, 8, 0, 0, VALUES(2, 5, 6, 3, 4, 1, 2, c),
           MPI_FLOAT);
    CHECK_EQ(tb_type_create_subarray(2, counts(sizes_l), counts(subsizes_l),
                                     counts(starts_l), c, f, &t, true),
             TB_OK);
    expect(t, MPI_COMBINER_SUBARRAY, 2, 0, 6, VALUES(2, c, 5, 6, 3, 4, 1, 2),
           MPI_FLOAT);
    CHECK_EQ(tb_type_create_darray(6, 4, 2, ints(sizes), how, dargs, psizes, c,
                                   f, &t, false),
             TB_OK);
    expect(t, MPI_COMBINER_DARRAY, 12, 0, 0,
           VALUES(6, 4, 2, 5, 6, block, cyclic, dflt, 2, 2, 3, c), MPI_FLOAT);
    CHECK_EQ(tb_type_create_darray(6, 4, 2, counts(sizes_l), how, dargs, psizes,
                                   c, f, &t, true),
             TB_OK);
    expect(t, MPI_COMBINER_DARRAY, 10, 0, 2,
           VALUES(6, 4, 2, block, cyclic, dflt, 2, 2, 3, c, 5, 6), MPI_FLOAT);
}

/* Contents give back derived types too, alive or freed by the program. */
static void check_derived_contents(void)
{
    struct tb_type *inner, *outer, *again;
    MPI_Datatype first, second, handle;
    int one;

    CHECK_EQ(tb_type_contiguous(3, type_of(MPI_INT), &inner, false), TB_OK);
    CHECK_EQ(tb_type_dup(inner, &outer), TB_OK);
    handle = tb_type_handle(inner);
    CHECK_EQ(tb_type_get_contents(outer, 0, 0, 0, 1, NULL, NULL, NULL, &first),
             TB_OK);
    CHECK(first == handle);
    free_type(type_of(first));
    CHECK(type_of(handle) == inner);
    free_type(inner);
    CHECK_EQ(tb_type_get(handle, &again), TB_ERR_TYPE);
    CHECK_EQ(tb_type_get_contents(outer, 0, 0, 0, 1, NULL, NULL, NULL, &second),
             TB_OK);
    again = type_of(second);
    free_type(outer);
    CHECK_EQ(tb_type_get_contents(again, 1, 0, 0, 1, &one, NULL, NULL, &first),
             TB_OK);
    CHECK_EQ(one, 3);
    CHECK(first == MPI_INT);
    free_type(again);
    CHECK_EQ(tb_type_get_contents(type_of(MPI_INT), 9, 9, 9, 9, &one, NULL,
                                  NULL, &first),
             TB_ERR_TYPE);
    CHECK_EQ(tb_type_free(type_of(MPI_INT)), TB_ERR_TYPE);
}

/* ------------------------------------------------------------------ arrays */

#define DIMS 3

struct array {
    int n, order, size, rank;
    int sizes[DIMS], subsizes[DIMS], starts[DIMS];
    int how[DIMS], dargs[DIMS], psizes[DIMS];
};

/* Whether index x of dimension i is chosen. */
static bool chosen(const struct array *a, bool dealt, int i, int x)
{
    if (!dealt)
        return x >= a->starts[i] && x < a->starts[i] + a->subsizes[i];
    if (a->how[i] == MPI_DISTRIBUTE_NONE)
        return true;
    int coordinate = a->rank, block = a->dargs[i];
    for (int k = a->n - 1; k > i; k--)
        coordinate /= a->psizes[k];
    coordinate %= a->psizes[i];
    if (block == MPI_DISTRIBUTE_DFLT_DARG)
        block = a->how[i] == MPI_DISTRIBUTE_CYCLIC
                    ? 1
                    : (a->sizes[i] + a->psizes[i] - 1) / a->psizes[i];
    return x / block % a->psizes[i] == coordinate;
}

/* Packs an array of numbered elements and compares with asking each element
 * whether it is chosen. */
static void check_array(struct tb_type *t, const struct array *a, bool dealt)
{
    static short whole[13 * 13 * 13], packed[13 * 13 * 13];
    int64_t total = 1, n = 0, position = 0;

    for (int i = 0; i < a->n; i++)
        total *= a->sizes[i];
    CHECK_EQ(t->layout->lb, 0);
    CHECK_EQ(t->layout->extent, total * (int64_t)sizeof(short));
    for (int64_t i = 0; i < total; i++)
        whole[i] = (short)i;
    CHECK_EQ(tb_pack(whole, 1, t, packed, sizeof packed, &position, NULL),
             TB_OK);
    for (int64_t at = 0; at < total; at++) {
        bool in = true;
        int64_t rest = at;
        for (int k = 0; k < a->n; k++) {
            int i = a->order == MPI_ORDER_C ? a->n - 1 - k : k;
            in = in && chosen(a, dealt, i, (int)(rest % a->sizes[i]));
            rest /= a->sizes[i];
        }
        if (in)
            CHECK_EQ(packed[n++], whole[at]);
    }
    CHECK_EQ(position, n * (int64_t)sizeof(short));
    free_type(t);
}

static struct array random_array(void)
{
    struct array a = {.n = between(1, DIMS), .size = 1};
    a.order = between(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    for (int i = 0; i < a.n; i++) {
        int g = a.sizes[i] = between(1, 13);
        a.subsizes[i] = between(1, g);
        a.starts[i] = between(0, g - a.subsizes[i]);
        a.how[i] = MPI_DISTRIBUTE_BLOCK + between(0, 1);
        a.psizes[i] = between(1, 4);
        if (between(0, 3) == 0) {
            a.how[i] = MPI_DISTRIBUTE_NONE;
            a.psizes[i] = 1;
        }
        int low = a.how[i] == MPI_DISTRIBUTE_BLOCK
                      ? (g + a.psizes[i] - 1) / a.psizes[i]
                      : 1;
        a.dargs[i] =
            between(0, 2) ? between(low, low + 4) : MPI_DISTRIBUTE_DFLT_DARG;
        a.size *= a.psizes[i];
    }
    a.rank = between(0, a.size - 1);
    return a;
}

static void check_arrays(void)
{
    struct tb_type *of = type_of(MPI_SHORT), *t;

    for (int i = 0; i < 3000; i++) {
        seed = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        struct array a = random_array();
        CHECK_EQ(tb_type_create_subarray(a.n, ints(a.sizes), ints(a.subsizes),
                                         ints(a.starts), a.order, of, &t,
                                         false),
                 TB_OK);
        check_array(t, &a, false);
        CHECK_EQ(tb_type_create_darray(a.size, a.rank, a.n, ints(a.sizes),
                                       a.how, a.dargs, a.psizes, a.order, of,
                                       &t, false),
                 TB_OK);
        check_array(t, &a, true);
    }
}

static void check_array_refusals(void)
{
    struct tb_type *of = type_of(MPI_SHORT), *t;
    const int two[2] = {2, 2}, three[2] = {3, 3}, zero[2] = {0, 0};
    const int cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
    const int none[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_NONE};
    const int blocks[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
    const int one[2] = {1, 1}, big[2] = {INT_MAX, INT_MAX};
    const MPI_Count huge[2] = {(MPI_Count)1 << 40, (MPI_Count)1 << 40};
    const MPI_Count start[2] = {0, 0};
    const int c = MPI_ORDER_C;

#define SUBARRAY(n, sizes, subsizes, starts, order) \
    tb_type_create_subarray(n, sizes, subsizes, starts, order, of, &t, false)
    CHECK_EQ(SUBARRAY(0, ints(two), ints(two), ints(zero), c), TB_ERR_ARG);
    CHECK_EQ(SUBARRAY(2, ints(two), ints(three), ints(zero), c), TB_ERR_ARG);
    CHECK_EQ(SUBARRAY(2, ints(three), ints(two), ints(two), c), TB_ERR_ARG);
    CHECK_EQ(SUBARRAY(2, ints(three), ints(zero), ints(zero), c), TB_ERR_ARG);
    CHECK_EQ(SUBARRAY(2, ints(two), ints(two), ints(zero), 1), TB_ERR_ARG);
    CHECK_EQ(SUBARRAY(2, ints(NULL), ints(two), ints(zero), c), TB_ERR_ARG);
    CHECK_EQ(SUBARRAY(2, counts(huge), counts(huge), counts(start), c),
             TB_ERR_TYPE);
#define DARRAY(size, rank, how, dargs, psizes)                               \
    tb_type_create_darray(size, rank, 2, ints(three), how, dargs, psizes, c, \
                          of, &t, false)
    CHECK_EQ(DARRAY(5, 0, cyclic, one, two), TB_ERR_ARG);
    CHECK_EQ(DARRAY(4, 4, cyclic, one, two), TB_ERR_RANK);
    CHECK_EQ(DARRAY(4, 0, none, one, two), TB_ERR_ARG);
    CHECK_EQ(DARRAY(4, 0, cyclic, zero, two), TB_ERR_ARG);
    CHECK_EQ(DARRAY(4, 0, blocks, one, two), TB_ERR_ARG);
    CHECK_EQ(DARRAY(4, 0, two, one, two), TB_ERR_ARG);
    CHECK_EQ(DARRAY(4, 0, cyclic, big, two), TB_OK);
    free_type(t);
}

/* ---------------------------------------------------------------- elements */

static void check_elements(void)
{
    /* Two of { int, double, 3 chars }, and a pair behind them. */
    const int blocks[3] = {1, 1, 3}, two[2] = {2, 1};
    const MPI_Count at[3] = {0, 8, 16}, far[2] = {0, 64};
    const MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    struct tb_type *s, *t;
    MPI_Datatype both[2] = {MPI_DATATYPE_NULL, MPI_DOUBLE_INT};
    MPI_Status status;
    MPI_Count n;

    CHECK_EQ(
        tb_type_create_struct(3, ints(blocks), counts(at), types, &s, false),
        TB_OK);
    both[0] = tb_type_handle(s);
    CHECK_EQ(tb_type_create_struct(2, ints(two), counts(far), both, &t, false),
             TB_OK);
    CHECK_EQ(t->elements, 12);
    CHECK(t->only == NULL);
    CHECK_EQ(t->layout->size, 42);
    static const int ends[13] = {0,  4,  12, 13, 14, 15, 19,
                                 27, 28, 29, 30, 38, 42};
    for (int bytes = 0, k = 0; bytes <= 42; bytes++) {
        int whole = ends[k] == bytes ? k++ : MPI_UNDEFINED;
        CHECK_EQ(tb_type_elements(t, bytes), whole);
        CHECK_EQ(tb_type_elements(t, 42 + bytes),
                 whole == MPI_UNDEFINED ? whole : 12 + whole);
    }
    for (int k = 0; k <= 12; k++) {
        CHECK_EQ(tb_status_set_elements(&status, t, 24 + k), TB_OK);
        CHECK_EQ(tb_status_bytes(&status), 84 + ends[k]);
        CHECK_EQ(tb_get_elements(&status, t, &n), TB_OK);
        CHECK_EQ(n, 24 + k);
        CHECK_EQ(tb_get_count(&status, t, &n), TB_OK);
        CHECK_EQ(n, k == 0 ? 2 : k == 12 ? 3 : MPI_UNDEFINED);
    }
    free_type(s);
    free_type(t);
    CHECK_EQ(tb_type_elements(type_of(MPI_SHORT_INT), 2), 1);
    CHECK_EQ(tb_type_elements(type_of(MPI_2INT), 8), 2);
    CHECK_EQ(tb_type_contiguous(0, type_of(MPI_INT), &t, false), TB_OK);
    CHECK_EQ(tb_type_elements(t, 0), 0);
    CHECK_EQ(tb_type_elements(t, 4), MPI_UNDEFINED);
    CHECK_EQ(tb_status_set_elements(&status, t, 1), TB_ERR_COUNT);
    CHECK_EQ(tb_status_set_elements(&status, t, 0), TB_OK);
    CHECK_EQ(tb_status_set_elements(&status, type_of(MPI_INT), INT64_MAX / 2),
             TB_ERR_COUNT);
    free_type(t);
}

/* ----------------------------------------------------------------- packing */

static void check_pack(void)
{
    struct tb_type *t, *of = type_of(MPI_INT);
    int in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
    char buf[40];
    MPI_Count position = 4, size;

    CHECK_EQ(tb_type_vector(2, 2, 4, of, &t, false), TB_OK);
    CHECK_EQ(tb_pack_size(3, t, NULL, &size), TB_OK);
    CHECK_EQ(size, 48);
    CHECK_EQ(tb_pack(in, 1, t, buf, sizeof buf, &position, NULL), TB_OK);
    CHECK_EQ(position, 20);
    CHECK_EQ(tb_pack(in, 2, t, buf, sizeof buf, &position, NULL),
             TB_ERR_TRUNCATE);
    CHECK_EQ(position, 20);
    position = 4;
    CHECK_EQ(tb_unpack(buf, sizeof buf, &position, out, 1, t, NULL), TB_OK);
    CHECK_EQ(position, 20);
    CHECK(out[0] == 1 && out[1] == 2 && out[2] == 0 && out[4] == 5 &&
          out[5] == 6);
    CHECK_EQ(tb_unpack(buf, sizeof buf, &position, out, 2, t, NULL),
             TB_ERR_TRUNCATE);
    position = 41;
    CHECK_EQ(tb_unpack(buf, sizeof buf, &position, out, 0, t, NULL),
             TB_ERR_ARG);
    position = -1;
    CHECK_EQ(tb_pack(in, 0, t, buf, sizeof buf, &position, NULL), TB_ERR_ARG);
    position = 0;
    CHECK_EQ(tb_pack(NULL, 1, t, buf, sizeof buf, &position, NULL),
             TB_ERR_BUFFER);
    CHECK_EQ(tb_pack(in, 1, t, NULL, sizeof buf, &position, NULL),
             TB_ERR_BUFFER);
    CHECK_EQ(tb_pack(NULL, 0, t, NULL, 0, &position, NULL), TB_OK);
    CHECK_EQ(tb_pack_size(INT64_MAX / 2, t, NULL, &size), TB_ERR_COUNT);
    free_type(t);
}

/* MPI_BOTTOM and addresses. */
static void check_bottom(void)
{
    static int a[3] = {1, 2, 3}, b[2] = {4, 5};
    const MPI_Count at[2] = {(MPI_Count)(uintptr_t)b, (MPI_Count)(uintptr_t)a};
    const int blocks[2] = {2, 3};
    struct tb_type *t;
    MPI_Count position = 0;
    int out[5];

    CHECK_EQ(tb_type_create_hindexed(2, ints(blocks), counts(at),
                                     type_of(MPI_INT), &t, false),
             TB_OK);
    CHECK_EQ(tb_pack(MPI_BOTTOM, 1, t, out, sizeof out, &position, NULL),
             TB_OK);
    CHECK(out[0] == 4 && out[1] == 5 && out[2] == 1 && out[4] == 3);
    free_type(t);
}

/* -------------------------------------------------------------- external32 */

static void check_bytes(struct tb_type *t, const void *value, const char *want,
                        int64_t size)
{
    unsigned char out[64];
    char back[64], again[64];
    MPI_Count position = 0, need;
    int64_t native = t->layout->size;

    CHECK_EQ(tb_pack_external_size("external32", 1, t, &need), TB_OK);
    CHECK_EQ(need, size);
    CHECK_EQ(
        tb_pack_external("external32", value, 1, t, out, sizeof out, &position),
        TB_OK);
    CHECK_EQ(position, size);
    CHECK(memcmp(out, want, (size_t)size) == 0);
    position = 0;
    memset(back, 0, sizeof back);
    CHECK_EQ(tb_unpack_external("external32", out, size, &position, back, 1, t),
             TB_OK);
    CHECK_EQ(position, size);
    tb_layout_pack(t->layout, value, 0, again, native);
    tb_layout_pack(t->layout, back, 0, out, native);
    bool x87 = t->basic == TB_BASIC_LONG_DOUBLE && LDBL_MANT_DIG == 64;
    CHECK(memcmp(again, out, x87 ? 10 : (size_t)native) == 0);
}

#define BYTES(handle, type, value, ...)                                       \
    do {                                                                      \
        type v_ = value;                                                      \
        static const unsigned char want_[] = {__VA_ARGS__};                   \
        check_bytes(type_of(handle), &v_, (const char *)want_, sizeof want_); \
    } while (0)

static void check_external(void)
{
    BYTES(MPI_INT, int, 0x01020304, 1, 2, 3, 4);
    BYTES(MPI_SHORT, short, -2, 0xff, 0xfe);
    BYTES(MPI_LONG, long, -3, 0xff, 0xff, 0xff, 0xfd);
    BYTES(MPI_UNSIGNED_LONG, unsigned long, 0xfffffffe, 0xff, 0xff, 0xff, 0xfe);
    BYTES(MPI_LONG_LONG, long long, 5, 0, 0, 0, 0, 0, 0, 0, 5);
    BYTES(MPI_WCHAR, wchar_t, 0x20ac, 0x20, 0xac);
    BYTES(MPI_C_BOOL, bool, true, 1);
    BYTES(MPI_FLOAT, float, 1.0f, 0x3f, 0x80, 0, 0);
    BYTES(MPI_DOUBLE, double, -2.0, 0xc0, 0, 0, 0, 0, 0, 0, 0);
    BYTES(MPI_C_COMPLEX, float _Complex, 1.0f, 0x3f, 0x80, 0, 0, 0, 0, 0, 0);
    BYTES(MPI_LONG_DOUBLE, long double, 1.5L, 0x3f, 0xff, 0x80, 0, 0, 0, 0, 0,
          0, 0, 0, 0, 0, 0, 0, 0);
    BYTES(MPI_LONG_DOUBLE, long double, -0.0L, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0,
          0, 0, 0, 0, 0, 0);
    BYTES(MPI_LONG_DOUBLE, long double, INFINITY, 0x7f, 0xff, 0, 0, 0, 0, 0, 0,
          0, 0, 0, 0, 0, 0, 0, 0);
    struct tb_pair_SHORT_INT pair = {1, 2};
    check_bytes(type_of(MPI_SHORT_INT), &pair, "\0\1\0\0\0\2", 6);
}

static void check_external_edges(void)
{
    struct tb_type *t = type_of(MPI_LONG);
    long big[2] = {1, 1L << 31}, small[2] = {-(1L << 31), (1L << 31) - 1};
    unsigned long above = 1UL << 32;
    char out[8];
    MPI_Count position = 0, size;

    CHECK_EQ(tb_pack_external("external32", big, 2, t, out, 8, &position),
             TB_ERR_CONVERSION);
    CHECK_EQ(position, 0);
    CHECK_EQ(tb_pack_external("external32", &above, 1,
                              type_of(MPI_UNSIGNED_LONG), out, 8, &position),
             TB_ERR_CONVERSION);
    CHECK_EQ(tb_pack_external("external32", small, 2, t, out, 8, &position),
             TB_OK);
    CHECK(memcmp(out, "\x80\0\0\0\x7f\xff\xff\xff", 8) == 0);
    position = 0;
    CHECK_EQ(tb_pack_external("external32", small, 2, t, out, 7, &position),
             TB_ERR_TRUNCATE);
    CHECK_EQ(tb_pack_external_size("native", 1, t, &size),
             TB_ERR_UNSUPPORTED_DATAREP);
    CHECK_EQ(tb_pack_external_size("external32", INT64_MAX / 2, t, &size),
             TB_ERR_COUNT);
}

/* Every finite double is the same after a passage through external32, as a
 * long double; and a long piece is cut where types end. */
static void check_external_long(void)
{
    enum { N = 3000 };
    static long double in[N], out[N];
    static char external[16 * N];
    MPI_Count position = 0;

    seed = 99;
    for (int i = 0; i < N; i++) {
        uint64_t bits = next();
        double d;
        memcpy(&d, &bits, sizeof d);
        in[i] =
            i % 3 ? (long double)d : ldexpl((long double)d, between(-60, 60));
        if (!isfinite(in[i]))
            in[i] = 0;
    }
    CHECK_EQ(tb_pack_external("external32", in, N, type_of(MPI_LONG_DOUBLE),
                              external, sizeof external, &position),
             TB_OK);
    CHECK_EQ(position, (MPI_Count)sizeof external);
    position = 0;
    CHECK_EQ(tb_unpack_external("external32", external, sizeof external,
                                &position, out, N, type_of(MPI_LONG_DOUBLE)),
             TB_OK);
    for (int i = 0; i < N; i++)
        CHECK(in[i] == out[i]);
}

/* -------------------------------------------------------------------- other */

static void check_found(void)
{
    struct tb_type *a, *b;

    CHECK_EQ(tb_type_match_size(MPI_TYPECLASS_REAL, 8, &a), TB_OK);
    CHECK(tb_type_handle(a) == MPI_REAL8);
    CHECK_EQ(tb_type_match_size(MPI_TYPECLASS_COMPLEX, 8, &a), TB_OK);
    CHECK(tb_type_handle(a) == MPI_COMPLEX8);
    CHECK_EQ(tb_type_match_size(MPI_TYPECLASS_INTEGER, 3, &a), TB_ERR_ARG);
    CHECK_EQ(tb_type_match_size(0, 4, &a), TB_ERR_ARG);

    CHECK_EQ(tb_type_create_f90_real(15, MPI_UNDEFINED, &a), TB_OK);
    CHECK_EQ(tb_type_create_f90_real(15, MPI_UNDEFINED, &b), TB_OK);
    CHECK(a == b && a->layout->size == 8 && a->basic == TB_BASIC_DOUBLE);
    CHECK_EQ(tb_type_free(a), TB_ERR_TYPE);
    CHECK_EQ(tb_type_create_f90_real(6, 38, &a), TB_OK);
    CHECK_EQ(a->layout->size, 8);
    CHECK_EQ(tb_type_create_f90_real(34, 1, &a), TB_ERR_ARG);
    CHECK_EQ(tb_type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &a),
             TB_ERR_ARG);
    CHECK_EQ(tb_type_create_f90_complex(MPI_UNDEFINED, 30, &a), TB_OK);
    CHECK_EQ(a->layout->size, 8);
    CHECK_EQ(tb_type_create_f90_integer(10, &a), TB_OK);
    CHECK_EQ(a->layout->size, 8);
    CHECK_EQ(tb_type_create_f90_integer(39, &a), TB_ERR_ARG);

    CHECK_EQ(tb_type_get_value_index(type_of(MPI_DOUBLE), type_of(MPI_INT), &a),
             TB_OK);
    CHECK(tb_type_handle(a) == MPI_DOUBLE_INT);
    CHECK_EQ(tb_type_get_value_index(type_of(MPI_INT), type_of(MPI_DOUBLE), &a),
             TB_OK);
    CHECK(a == NULL);
}

static void check_names(void)
{
    struct tb_type *t = type_of(MPI_DOUBLE);
    char name[MPI_MAX_OBJECT_NAME], long_name[MPI_MAX_OBJECT_NAME + 1];
    int length;

    CHECK_EQ(tb_type_get_name(t, name, &length), TB_OK);
    CHECK(strcmp(name, "MPI_DOUBLE") == 0 && length == 10);
    CHECK_EQ(tb_type_contiguous(1, t, &t, false), TB_OK);
    CHECK_EQ(tb_type_get_name(t, name, &length), TB_OK);
    CHECK(length == 0 && name[0] == 0);
    memset(long_name, 'x', MPI_MAX_OBJECT_NAME);
    long_name[MPI_MAX_OBJECT_NAME] = 0;
    CHECK_EQ(tb_type_set_name(t, long_name), TB_ERR_ARG);
    long_name[MPI_MAX_OBJECT_NAME - 1] = 0;
    CHECK_EQ(tb_type_set_name(t, long_name), TB_OK);
    CHECK_EQ(tb_type_get_name(t, name, &length), TB_OK);
    CHECK_EQ(length, MPI_MAX_OBJECT_NAME - 1);
    free_type(t);
}

static void check_refusals(void)
{
    struct tb_type *of = type_of(MPI_INT), *t;
    const int bad[2] = {1, -1}, good[2] = {0, 0};
    const MPI_Count at[2] = {0, 0};
    const MPI_Datatype types[2] = {MPI_INT, MPI_DATATYPE_NULL};
    const MPI_Count huge = (MPI_Count)1 << 62;

    CHECK_EQ(tb_type_indexed(2, ints(bad), ints(good), of, &t, false),
             TB_ERR_ARG);
    CHECK_EQ(tb_type_indexed(2, ints(NULL), ints(good), of, &t, false),
             TB_ERR_ARG);
    CHECK_EQ(tb_type_create_struct(2, ints(bad), counts(at), types, &t, false),
             TB_ERR_ARG);
    CHECK_EQ(tb_type_create_struct(2, ints(good), counts(at), types, &t, false),
             TB_ERR_TYPE);
    CHECK_EQ(tb_type_create_struct(2, ints(good), counts(at), NULL, &t, false),
             TB_ERR_ARG);
    CHECK_EQ(tb_type_contiguous(huge, of, &t, true), TB_ERR_TYPE);
    CHECK_EQ(tb_type_vector(1, 1, huge, of, &t, true), TB_ERR_TYPE);
    CHECK_EQ(tb_type_create_hvector(3, 1, huge, of, &t, true), TB_ERR_TYPE);
    CHECK_EQ(tb_type_create_resized(of, huge, huge, &t, true), TB_ERR_TYPE);
    CHECK_EQ(tb_type_indexed(huge, counts(at), counts(at), of, &t, true),
             TB_ERR_NO_MEM);
}

/* Everything fails cleanly when memory runs out, at whichever allocation. */
static void check_no_memory(void)
{
    const int blocks[3] = {1, 2, 3}, sizes[2] = {7, 9}, part[2] = {3, 4};
    const int how[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
    const int dargs[2] = {2, 2}, psizes[2] = {2, 2};
    const MPI_Count at[3] = {64, 0, 128};
    const MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_SHORT_INT};

    for (long fail = 0;; fail++) {
        struct tb_type *t[4] = {NULL, NULL, NULL, NULL};
        tb_mem_fail_after(fail);
        tb_err err = tb_type_create_struct(3, ints(blocks), counts(at), types,
                                           &t[0], false);
        if (!err)
            err =
                tb_type_create_subarray(2, ints(sizes), ints(part), ints(part),
                                        MPI_ORDER_C, t[0], &t[1], false);
        if (!err)
            err =
                tb_type_create_darray(4, 3, 2, ints(sizes), how, dargs, psizes,
                                      MPI_ORDER_C, t[0], &t[2], false);
        if (!err)
            err = tb_type_dup(t[1], &t[3]);
        tb_mem_fail_after(-1);
        for (int i = 0; i < 4; i++)
            if (t[i])
                free_type(t[i]);
        if (!err) {
            CHECK(fail > 20);
            return;
        }
        CHECK_EQ(err, TB_ERR_NO_MEM);
    }
}

int main(void)
{
    CHECK_EQ(tb_type_init(), TB_OK);
    check_contents();
    check_array_contents();
    check_derived_contents();
    check_arrays();
    check_array_refusals();
    check_elements();
    check_pack();
    check_bottom();
    check_external();
    check_external_edges();
    check_external_long();
    check_found();
    check_names();
    check_refusals();
    check_no_memory();
    tb_type_fini();
    return 0;
}
