/* SPDX-License-Identifier: MIT */
/*
 * Layouts against an interpreter of type maps: random nested types, packed and
 * unpacked in pieces at random offsets. A type map here is the standard's own,
 * a list of basic types with displacements, and nothing is clever about it.
 */
#include "engine/layout.h"

#include <string.h>

#include "unit/check.h"

#define CASES 6000
#define ITEMS_MAX 3000
#define SPAN_MAX 200000

/* ------------------------------------------------------------- random bits */

static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(next() % (uint64_t)(high - low + 1));
}

/* ---------------------------------------------------------------- type maps */

struct item {
    int64_t displ, bytes;
};

struct map {
    int64_t n, align;
    bool marked, rounded;
    int64_t mark_lb, mark_ub;
    int64_t ub; /* upper end of the elements */
    struct item items[ITEMS_MAX];
};

/* A layout and the type map it should have. */
struct pair {
    struct tb_layout *layout;
    struct map *map;
};

static struct map *map_new(void)
{
    struct map *m = calloc(1, sizeof *m);
    CHECK(m != NULL);
    m->align = 1;
    return m;
}

static int64_t map_size(const struct map *m)
{
    int64_t size = 0;
    for (int64_t i = 0; i < m->n; i++)
        size += m->items[i].bytes;
    return size;
}

static void map_true_bounds(const struct map *m, int64_t *lb, int64_t *ub)
{
    *lb = *ub = 0;
    for (int64_t i = 0; i < m->n; i++) {
        int64_t from = m->items[i].displ, to = from + m->items[i].bytes;
        *lb = i == 0 ? from : TB_MIN(*lb, from);
        *ub = i == 0 ? to : TB_MAX(*ub, to);
    }
}

static void map_bounds(const struct map *m, int64_t *lb, int64_t *extent)
{
    int64_t ub;
    map_true_bounds(m, lb, &ub);
    if (m->marked) {
        *lb = m->mark_lb;
        *extent = m->mark_ub - m->mark_lb;
        return;
    }
    *extent = (m->rounded ? ub : m->ub) - *lb;
    while (m->rounded && *extent % m->align)
        ++*extent;
}

static int64_t map_extent(const struct map *m)
{
    int64_t lb, extent;
    map_bounds(m, &lb, &extent);
    return extent;
}

/* Appends one element of `of` at a displacement; false: it grows too large. */
static bool map_place(struct map *m, int64_t displ, const struct map *of)
{
    if (m->n + of->n > ITEMS_MAX)
        return false;
    if (of->n > 0) {
        int64_t lb, extent;
        map_bounds(of, &lb, &extent);
        m->ub = TB_MAX(m->n > 0 ? m->ub : INT64_MIN, displ + lb + extent);
    }
    for (int64_t i = 0; i < of->n; i++) {
        m->items[m->n] = of->items[i];
        m->items[m->n++].displ += displ;
    }
    m->align = TB_MAX(m->align, of->align);
    if (of->marked) {
        int64_t lb = displ + of->mark_lb, ub = displ + of->mark_ub;
        m->mark_lb = m->marked ? TB_MIN(m->mark_lb, lb) : lb;
        m->mark_ub = m->marked ? TB_MAX(m->mark_ub, ub) : ub;
        m->marked = true;
    }
    return true;
}

static bool map_block(struct map *m, int64_t displ, int64_t block,
                      const struct map *of)
{
    for (int64_t i = 0; i < block; i++)
        if (!map_place(m, displ + i * map_extent(of), of))
            return false;
    return true;
}

/* ------------------------------------------------------------- random types */

static void pair_free(struct pair p)
{
    tb_layout_unref(p.layout);
    free(p.map);
}

static struct pair basic(void)
{
    static struct tb_layout kinds[] = {
        TB_LAYOUT_RUN(1, 1, 1),  TB_LAYOUT_RUN(2, 2, 2),
        TB_LAYOUT_RUN(4, 4, 4),  TB_LAYOUT_RUN(8, 8, 8),
        TB_LAYOUT_RUN(8, 8, 8),  TB_LAYOUT_RUN(16, 16, 8),
        TB_LAYOUT_RUN(12, 16, 8)};
    struct pair p = {&kinds[next() % TB_COUNT_OF(kinds)], map_new()};
    p.map->n = 1;
    p.map->items[0].bytes = p.layout->size;
    p.map->align = p.layout->align;
    p.map->rounded = true;
    return p;
}

static bool make_vector(struct pair of, struct pair *out)
{
    int64_t n = between(0, 6), block = between(0, 4);
    int64_t stride = between(-60, 120);
    if (next() % 3 == 0)
        stride = between(0, 4) * of.layout->extent;
    if (next() % 4 == 0)
        n = between(1, 300), block = 1;
    CHECK_EQ(tb_layout_vector(&out->layout, n, block, stride, of.layout), 0);
    bool fits = true;
    for (int64_t i = 0; i < n; i++)
        fits = fits && map_block(out->map, i * stride, block, of.map);
    return fits;
}

static bool make_contiguous(struct pair of, struct pair *out)
{
    int64_t n = between(0, 9);
    CHECK_EQ(tb_layout_contiguous(&out->layout, n, of.layout), 0);
    return map_block(out->map, 0, n, of.map);
}

static bool make_resized(struct pair of, struct pair *out)
{
    int64_t lb = between(-20, 20);
    int64_t extent = between(-10, 100);
    CHECK_EQ(tb_layout_resized(&out->layout, lb, extent, of.layout), 0);
    *out->map = *of.map;
    out->map->marked = true;
    out->map->mark_lb = lb;
    out->map->mark_ub = lb + extent;
    return true;
}

#define LIST_MAX 40

static int64_t blocks[LIST_MAX], displs[LIST_MAX];

static int64_t random_list(int64_t unit)
{
    int64_t n = between(0, next() % 3 ? 5 : LIST_MAX);
    int64_t step = between(0, 3), at = between(-5, 5);
    bool regular = next() % 3 == 0;
    for (int64_t i = 0; i < n; i++) {
        blocks[i] = regular ? 1 + step % 2 : between(0, 4);
        displs[i] = at;
        if (regular)
            at += step;
        else if (next() % 3 == 0)
            at += blocks[i] * (unit == 1 ? 8 : 1);
        else
            at = between(-40, 80);
    }
    return n;
}

static bool make_indexed(struct pair of, struct pair *out)
{
    int64_t unit = next() % 2 ? 1 : of.layout->extent;
    int64_t n = random_list(unit), block = between(0, 3);
    bool same = next() % 2, fits = true;
    tb_err err = same ? tb_layout_indexed_block(&out->layout, n, block, displs,
                                                unit, of.layout)
                      : tb_layout_indexed(&out->layout, n, blocks, displs, unit,
                                          of.layout);
    CHECK_EQ(err, 0);
    for (int64_t i = 0; i < n; i++)
        fits = fits && map_block(out->map, displs[i] * unit,
                                 same ? block : blocks[i], of.map);
    return fits;
}

static struct pair random_type(int depth);

static bool make_struct(struct pair of, struct pair *out)
{
    struct pair other[3] = {of, random_type(1), basic()};
    const struct tb_layout *types[LIST_MAX];
    int pick[LIST_MAX];
    int64_t n = random_list(1);
    bool fits = true;

    for (int64_t i = 0; i < n; i++) {
        pick[i] = (int)(next() % 3);
        types[i] = other[pick[i]].layout;
    }
    CHECK_EQ(tb_layout_struct(&out->layout, n, blocks, displs, types), 0);
    out->map->rounded = true;
    for (int64_t i = 0; i < n; i++)
        fits = fits &&
               map_block(out->map, displs[i], blocks[i], other[pick[i]].map);
    pair_free(other[1]);
    pair_free(other[2]);
    return fits;
}

static struct pair random_type(int depth)
{
    static bool (*const makers[])(struct pair, struct pair *) = {
        make_vector, make_contiguous, make_resized, make_indexed, make_struct};
    struct pair p = basic();

    for (int i = 0; i < depth; i++) {
        struct pair made = {NULL, map_new()};
        bool fits = makers[next() % TB_COUNT_OF(makers)](p, &made);
        if (!fits) {
            pair_free(made);
            break;
        }
        pair_free(p);
        p = made;
    }
    return p;
}

/* ---------------------------------------------------------------- the check */

static void check_numbers(struct pair p)
{
    int64_t lb, extent, true_lb, true_ub;
    map_bounds(p.map, &lb, &extent);
    map_true_bounds(p.map, &true_lb, &true_ub);
    CHECK_EQ(p.layout->size, map_size(p.map));
    CHECK_EQ(p.layout->lb, lb);
    CHECK_EQ(p.layout->extent, extent);
    CHECK_EQ(p.layout->true_lb, true_lb);
    CHECK_EQ(p.layout->true_ub, true_ub);
}

/* Where each byte of the stream lies; the ends of what is touched. */
static int64_t *places_of(const struct map *m, int64_t count, int64_t *low,
                          int64_t *high)
{
    int64_t size = map_size(m), extent = map_extent(m), at = 0;
    int64_t *places = malloc((size_t)(count * size + 1) * sizeof *places);
    CHECK(places != NULL);
    *low = *high = 0;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < m->n; i++)
            for (int64_t b = 0; b < m->items[i].bytes; b++) {
                int64_t place = k * extent + m->items[i].displ + b;
                *low = TB_MIN(*low, place);
                *high = TB_MAX(*high, place + 1);
                places[at++] = place;
            }
    return places;
}

static bool overlaps(const int64_t *places, int64_t n, int64_t low, char *seen)
{
    for (int64_t i = 0; i < n; i++)
        if (seen[places[i] - low]++)
            return true;
    return false;
}

/* Cuts 0..n into pieces; returns how many. */
static int cut(int64_t n, int64_t cuts[9])
{
    int pieces = (int)between(1, 8);
    cuts[0] = 0;
    for (int i = 1; i < pieces; i++)
        cuts[i] = between(cuts[i - 1], n);
    cuts[pieces] = n;
    return pieces;
}

static void check_copies(const struct tb_layout *l, const int64_t *places,
                         int64_t n, int64_t low, int64_t high)
{
    size_t span = (size_t)(high - low);
    char *mem = malloc(span + 1), *want = calloc(1, span + 1);
    char *stream = malloc((size_t)n + 1), *seen = calloc(1, span + 1);
    CHECK(mem && want && stream && seen);
    for (size_t i = 0; i < span; i++)
        mem[i] = (char)next();
    int64_t cuts[9];
    int pieces = cut(n, cuts);
    for (int i = pieces - 1; i >= 0; i--)
        tb_layout_pack(l, mem - low, cuts[i], stream + cuts[i],
                       cuts[i + 1] - cuts[i]);
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(stream[i], mem[places[i] - low]);

    /* A type map that overlaps itself must not be received into. */
    if (overlaps(places, n, low, seen))
        n = 0;
    for (int64_t i = 0; i < n; i++)
        want[places[i] - low] = stream[i] = (char)next();
    memset(mem, 0, span);
    pieces = cut(n, cuts);
    for (int i = pieces - 1; i >= 0; i--)
        tb_layout_unpack(l, mem - low, cuts[i], stream + cuts[i],
                         cuts[i + 1] - cuts[i]);
    CHECK(memcmp(mem, want, span) == 0);
    free(mem);
    free(want);
    free(stream);
    free(seen);
}

static void check_runs(const struct tb_layout *l, const int64_t *places,
                       int64_t n, int64_t low, int64_t high)
{
    char *mem = malloc((size_t)(high - low) + 1);
    for (int64_t at = between(0, n); at < n;) {
        void *address;
        int64_t limit = next() % 4 ? n : between(at + 1, n);
        int64_t run = tb_layout_run(l, mem - low, at, limit, &address);
        CHECK(run > 0 && at + run <= limit);
        CHECK(!l->dense || at + run == limit);
        for (int64_t i = 0; i < run; i++)
            CHECK((char *)address + i == mem - low + places[at + i]);
        at += run;
    }
    CHECK(l->size == 0 || tb_layout_mean_run(l) > 0);
    free(mem);
}

static void check_random(void)
{
    int copied = 0;

    for (int i = 0; i < CASES; i++) {
        seed = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        struct pair p = random_type((int)between(1, 5));
        int64_t count = between(1, 4), low, high;
        check_numbers(p);
        if (p.layout->size * count < SPAN_MAX) {
            int64_t *places = places_of(p.map, count, &low, &high);
            if (high - low < SPAN_MAX) {
                int64_t n = count * p.layout->size;
                check_copies(p.layout, places, n, low, high);
                check_runs(p.layout, places, n, low, high);
                copied++;
            }
            free(places);
        }
        pair_free(p);
    }
    CHECK(copied > CASES * 9 / 10);
}

/* ------------------------------------------------------------ special cases */

/* What a panel broadcast of HPL sends: the rows of each column, and one block
 * in another place. Freed before it is used up. */
static void check_panel(void)
{
    enum { COLUMNS = 256, ROWS = 100, LEADING = 120 };
    static double a[COLUMNS][LEADING], extra[7], out[COLUMNS * ROWS + 7];
    int64_t n = COLUMNS + 1, lengths[COLUMNS + 1], at[COLUMNS + 1];
    struct tb_layout number = TB_LAYOUT_RUN(8, 8, 8), *l;
    const struct tb_layout *types[COLUMNS + 1];

    for (int j = 0; j < COLUMNS; j++) {
        for (int i = 0; i < LEADING; i++)
            a[j][i] = j * 1000 + i;
        lengths[j] = ROWS;
        at[j] = (int64_t)(uintptr_t)a[j];
        types[j] = &number;
    }
    for (int i = 0; i < 7; i++)
        extra[i] = -i;
    lengths[COLUMNS] = 7;
    at[COLUMNS] = (int64_t)(uintptr_t)extra;
    types[COLUMNS] = &number;
    CHECK_EQ(tb_layout_struct(&l, n, lengths, at, types), 0);
    CHECK_EQ(l->size, (int64_t)sizeof out);
    CHECK_EQ(tb_layout_mean_run(l), l->size / n);
    tb_layout_ref(l);
    tb_layout_unref(l);
    tb_layout_pack(l, NULL, 0, out, l->size);
    for (int j = 0; j < COLUMNS; j++)
        CHECK(memcmp(out + j * ROWS, a[j], ROWS * sizeof(double)) == 0);
    CHECK(memcmp(out + COLUMNS * ROWS, extra, sizeof extra) == 0);
    tb_layout_unref(l);
}

/* A column of a matrix, sent as many elements: one loop from end to end. */
static void check_column(void)
{
    struct tb_layout number = TB_LAYOUT_RUN(8, 8, 8), *column, *rows, *merged;
    double a[6][5], out[6];

    for (int i = 0; i < 6; i++)
        a[i][2] = i;
    CHECK_EQ(tb_layout_vector(&column, 1, 1, 0, &number), 0);
    CHECK_EQ(tb_layout_resized(&rows, 0, sizeof a[0], column), 0);
    CHECK(rows->loop == NULL && !rows->dense);
    CHECK(tb_layout_is_run(rows, 1) && !tb_layout_is_run(rows, 2));
    CHECK(tb_layout_at(rows, a) == (void *)a);
    tb_layout_pack(rows, &a[0][2], 0, out, sizeof out);
    for (int i = 0; i < 6; i++)
        CHECK(out[i] == i);
    CHECK_EQ(tb_layout_contiguous(&merged, 6, rows), 0);
    CHECK_EQ(merged->turn_size, 8);
    CHECK_EQ(merged->pitch, (int64_t)sizeof a[0]);
    tb_layout_unref(column);
    tb_layout_unref(rows);
    tb_layout_unref(merged);
}

/* Sizes and places beyond 32 bits; nothing is touched. */
static void check_large(void)
{
    struct tb_layout number = TB_LAYOUT_RUN(8, 8, 8), *l, *huge;
    const int64_t n = (int64_t)1 << 40;
    void *address;

    CHECK_EQ(tb_layout_vector(&l, n, 3, 64, &number), 0);
    CHECK_EQ(l->size, n * 24);
    CHECK_EQ(l->extent, (n - 1) * 64 + 24);
    CHECK_EQ(tb_layout_run(l, NULL, 24 * (n / 2) + 5, l->size, &address), 19);
    CHECK_EQ((int64_t)(uintptr_t)address, 64 * (n / 2) + 5);
    CHECK_EQ(tb_layout_contiguous(&huge, (int64_t)1 << 17, l), 0);
    tb_layout_unref(huge);
    CHECK_EQ(tb_layout_contiguous(&huge, (int64_t)1 << 18, l), TB_ERR_TYPE);
    CHECK_EQ(tb_layout_vector(&huge, n, 1, n, &number), TB_ERR_TYPE);
    CHECK_EQ(tb_layout_vector(&huge, n, n, 1, &number), TB_ERR_TYPE);
    CHECK_EQ(tb_layout_vector(&huge, 2, 1, INT64_MIN, &number), TB_ERR_TYPE);
    CHECK_EQ(tb_layout_resized(&huge, INT64_MAX, 1, &number), TB_ERR_TYPE);
    int64_t far[2] = {0, INT64_MAX / 4};
    CHECK_EQ(tb_layout_indexed_block(&huge, 2, 1, far, 8, &number),
             TB_ERR_TYPE);
    CHECK_EQ(tb_layout_indexed(&huge, 2, far, far, 1, &number), TB_ERR_TYPE);
    tb_layout_unref(l);
}

/* Nothing leaks and nothing is half made when memory runs out. */
static void check_no_memory(void)
{
    for (long fail = 0;; fail++) {
        struct tb_layout number = TB_LAYOUT_RUN(8, 8, 8);
        struct tb_layout *v = NULL, *x = NULL, *s = NULL, *i = NULL;
        int64_t two[2] = {1, 2}, at[2] = {400, 0};
        tb_mem_fail_after(fail);
        tb_err err = tb_layout_vector(&v, 3, 2, 50, &number);
        if (!err)
            err = tb_layout_vector(&x, 3, 2, 500, v);
        if (!err)
            err = tb_layout_indexed(&i, 2, two, at, 1, v);
        const struct tb_layout *types[2] = {v, &number};
        if (!err)
            err = tb_layout_struct(&s, 2, two, at, types);
        tb_mem_fail_after(-1);
        tb_layout_unref(v);
        tb_layout_unref(x);
        tb_layout_unref(s);
        tb_layout_unref(i);
        if (!err) {
            CHECK(fail > 6);
            return;
        }
        CHECK_EQ(err, TB_ERR_NO_MEM);
    }
}

int main(void)
{
    check_random();
    check_panel();
    check_column();
    check_large();
    check_no_memory();
    return 0;
}
