/* SPDX-License-Identifier: MIT */
/*
 * Running layouts: pack, unpack, and the look-up of runs.
 *
 * Both directions share all code down to the kernels. A strided kernel copies
 * from one stride to another, so the direction is in its arguments; the others
 * take it as a constant. There are kernels for the unit sizes that numbers and
 * short rows of them have, where a copy of constant size becomes a few moves.
 * Everything longer goes through memcpy.
 *
 * A nest with a short inner loop would spend its time on starting that loop. So
 * the loops are interchanged: what the inner loop does once is done for a batch
 * of places at once, with a stride in the stream too.
 */
#include "engine/loop.h"

#include <string.h>

/* The part of the stream that is still to be copied. */
struct todo {
    char *stream;
    int64_t left;
    bool unpack;
};

static TB_INLINE void move(char *restrict mem, char *restrict stream, size_t n,
                           bool unpack)
{
    if (unpack)
        memcpy(mem, stream, n);
    else
        memcpy(stream, mem, n);
}

/* Displacements may count from MPI_BOTTOM, which is NULL: arithmetic that C
 * defines for integers only. */
static TB_INLINE char *at(char *mem, int64_t displ)
{
    return (char *)((uintptr_t)mem + (uintptr_t)displ);
}

/* ----------------------------------------------------------------- kernels */

/* Four units at once, loaded before any is stored: faster, and the compiler
 * may not do that on its own. */
static TB_INLINE void four_units(const char *from, int64_t from_step, char *to,
                                 int64_t to_step, size_t unit)
{
    uint64_t a, b, c, d;

    memcpy(&a, from, unit);
    memcpy(&b, from + from_step, unit);
    memcpy(&c, from + 2 * from_step, unit);
    memcpy(&d, from + 3 * from_step, unit);
    memcpy(to, &a, unit);
    memcpy(to + to_step, &b, unit);
    memcpy(to + 2 * to_step, &c, unit);
    memcpy(to + 3 * to_step, &d, unit);
}

static TB_INLINE void strided_units(const char *restrict from,
                                    int64_t from_step, char *restrict to,
                                    int64_t to_step, int64_t n, size_t unit)
{
    for (; n >= 4; n -= 4) {
        if (unit <= sizeof(uint64_t)) {
            four_units(from, from_step, to, to_step, unit);
        } else {
            memcpy(to, from, unit);
            memcpy(to + to_step, from + from_step, unit);
            memcpy(to + 2 * to_step, from + 2 * from_step, unit);
            memcpy(to + 3 * to_step, from + 3 * from_step, unit);
        }
        from += 4 * from_step;
        to += 4 * to_step;
    }
    for (; n > 0; n--) {
        memcpy(to, from, unit);
        from += from_step;
        to += to_step;
    }
}

static TB_INLINE void listed_units(char *mem, const int64_t *displs, int64_t n,
                                   char *stream, size_t unit, bool unpack)
{
    for (; n >= 4; n -= 4) {
        move(at(mem, displs[0]), stream, unit, unpack);
        move(at(mem, displs[1]), stream + unit, unit, unpack);
        move(at(mem, displs[2]), stream + 2 * unit, unit, unpack);
        move(at(mem, displs[3]), stream + 3 * unit, unit, unpack);
        displs += 4;
        stream += 4 * unit;
    }
    for (; n > 0; n--) {
        move(at(mem, *displs++), stream, unit, unpack);
        stream += unit;
    }
}

/* Unit sizes that have a kernel of their own. */
#define FIXED_UNITS(X) \
    X(1)               \
    X(2)               \
    X(3) X(4) X(6) X(8) X(12) X(16) X(20) X(24) X(32) X(40) X(48) X(56) X(64)

static void copy_strided(const char *from, int64_t from_step, char *to,
                         int64_t to_step, int64_t n, int64_t unit)
{
    switch (unit) {
#define X(size)                                               \
    case size:                                                \
        strided_units(from, from_step, to, to_step, n, size); \
        break;
        FIXED_UNITS(X)
#undef X
    default:
        strided_units(from, from_step, to, to_step, n, (size_t)unit);
    }
}

static TB_INLINE void listed(char *mem, const int64_t *displs, int64_t n,
                             char *stream, int64_t unit, bool unpack)
{
    switch (unit) {
#define X(size)                                             \
    case size:                                              \
        listed_units(mem, displs, n, stream, size, unpack); \
        break;
        FIXED_UNITS(X)
#undef X
    default:
        listed_units(mem, displs, n, stream, (size_t)unit, unpack);
    }
}

/* `n` units, `stride` apart in memory and `pace` in the stream. */
static void move_strided(char *mem, int64_t stride, int64_t n, char *stream,
                         int64_t pace, int64_t unit, bool unpack)
{
    if (unpack)
        copy_strided(stream, pace, mem, stride, n, unit);
    else
        copy_strided(mem, stride, stream, pace, n, unit);
}

static void move_listed(char *mem, const int64_t *displs, int64_t n,
                        char *stream, int64_t unit, bool unpack)
{
    if (unpack)
        listed(mem, displs, n, stream, unit, true);
    else
        listed(mem, displs, n, stream, unit, false);
}

/* Both ends of a run of `half` to 2 x `half` bytes, which may overlap. */
static TB_INLINE void move_ends(char *mem, char *stream, int64_t n,
                                int64_t half, bool unpack)
{
    move(mem, stream, (size_t)half, unpack);
    move(mem + n - half, stream + n - half, (size_t)half, unpack);
}

/* One run of any length. */
static TB_INLINE void move_run(char *mem, char *stream, int64_t n, bool unpack)
{
    if (TB_LIKELY(n >= 8 && n <= 16))
        move_ends(mem, stream, n, 8, unpack);
    else if (n > 64 || n < 4)
        move(mem, stream, (size_t)n, unpack);
    else if (n > 32)
        move_ends(mem, stream, n, 32, unpack);
    else if (n > 16)
        move_ends(mem, stream, n, 16, unpack);
    else
        move_ends(mem, stream, n, 4, unpack);
}

/* The next `n` bytes, or what is left. */
static void copy_run(char *mem, int64_t n, struct todo *t)
{
    n = TB_MIN(n, t->left);
    if (t->unpack)
        move_run(mem, t->stream, n, true);
    else
        move_run(mem, t->stream, n, false);
    t->stream += n;
    t->left -= n;
}

/* ------------------------------------------------------- interchanged loops */

/* What the inner loop did for one place is done for `n` of them, `stride` apart
 * in memory and `pace` in the stream. */
struct batch {
    int64_t n;
    int64_t stride;
    int64_t pace;
    bool unpack;
};

static void batch_loop(const struct tb_loop *l, char *mem, char *stream,
                       const struct batch *b);

static void batch_place(const struct tb_loop *inner, int64_t unit, char *mem,
                        char *stream, const struct batch *b)
{
    if (inner)
        batch_loop(inner, mem, stream, b);
    else
        move_strided(mem, b->stride, b->n, stream, b->pace, unit, b->unpack);
}

static void batch_parts(const struct tb_loop *l, char *mem, char *stream,
                        const struct batch *b)
{
    for (int64_t i = 0; i < l->n; i++) {
        const struct tb_loop_part *p = &l->parts[i];
        for (int64_t k = 0; k < p->n; k++)
            batch_place(p->inner, p->unit, at(mem, p->displ + k * p->stride),
                        stream + p->start + k * p->unit, b);
    }
}

static void batch_loop(const struct tb_loop *l, char *mem, char *stream,
                       const struct batch *b)
{
    if (l->kind == TB_LOOP_PARTS) {
        batch_parts(l, mem, stream, b);
        return;
    }
    for (int64_t i = 0; i < l->n; i++) {
        int64_t displ = l->displs ? l->displs[i] : i * l->stride;
        int64_t start = l->starts ? l->starts[i] : i * l->unit;
        int64_t unit = l->starts ? l->starts[i + 1] - start : l->unit;
        batch_place(l->inner, unit, at(mem, displ), stream + start, b);
    }
}

/* Whether interchanging pays: few runs in the inner loop, and short ones. */
static bool is_short(const struct tb_loop *inner, int64_t n)
{
    return n >= 4 && inner->runs <= 16 && inner->size <= 64 * inner->runs;
}

/* As many places as the first-level cache has room for. */
static int64_t batch_size(int64_t stride, int64_t unit)
{
    int64_t reach = TB_MAX(stride < 0 ? -stride : stride, unit);
    return TB_MAX(8, 16384 / reach);
}

/* `n` whole places. */
static void copy_batches(const struct tb_loop *inner, int64_t unit,
                         int64_t stride, int64_t n, char *mem, struct todo *t)
{
    struct batch b = {batch_size(stride, unit), stride, unit, t->unpack};

    for (; n > 0; n -= b.n) {
        b.n = TB_MIN(b.n, n);
        batch_loop(inner, mem, t->stream, &b);
        mem = at(mem, b.n * stride);
        t->stream += b.n * unit;
        t->left -= b.n * unit;
    }
}

/* ------------------------------------------------------------------- loops */

static void copy_loop(const struct tb_loop *l, char *mem, int64_t skip,
                      struct todo *t);

/* `n` whole units in a row. */
static void copy_units(char *mem, int64_t stride, int64_t n, int64_t unit,
                       struct todo *t)
{
    move_strided(mem, stride, n, t->stream, unit, unit, t->unpack);
    t->stream += n * unit;
    t->left -= n * unit;
}

/* `n` places with an inner loop. */
static void copy_nest(const struct tb_loop *inner, int64_t stride, int64_t n,
                      char *mem, int64_t skip, struct todo *t)
{
    if (skip > 0) {
        copy_loop(inner, mem, skip, t);
        mem = at(mem, stride);
        n--;
    }
    if (is_short(inner, n)) {
        int64_t whole = TB_MIN(n, t->left / inner->size);
        copy_batches(inner, inner->size, stride, whole, mem, t);
        mem = at(mem, whole * stride);
        n -= whole;
    }
    for (; n > 0 && t->left > 0; n--) {
        copy_loop(inner, mem, 0, t);
        mem = at(mem, stride);
    }
}

/* `n` places, `stride` apart, but for the first `skip` bytes of the stream. */
static void copy_places(const struct tb_loop *inner, int64_t unit,
                        int64_t stride, int64_t n, char *mem, int64_t skip,
                        struct todo *t)
{
    if (skip >= unit) {
        int64_t k = skip / unit;
        skip -= k * unit;
        mem = at(mem, k * stride);
        n -= k;
    }
    if (inner) {
        copy_nest(inner, stride, n, mem, skip, t);
        return;
    }
    if (skip > 0) {
        copy_run(mem + skip, unit - skip, t);
        mem += stride;
        n--;
    }
    if (t->left >= n * unit) {
        copy_units(mem, stride, n, unit, t);
        return;
    }
    int64_t whole = t->left / unit;
    copy_units(mem, stride, whole, unit, t);
    copy_run(mem + whole * stride, unit, t);
}

static void copy_blocks(const struct tb_loop *l, char *mem, int64_t skip,
                        struct todo *t)
{
    const int64_t *displs = l->displs;
    int64_t n = l->n;

    if (skip >= l->unit) {
        int64_t k = skip / l->unit;
        skip -= k * l->unit;
        displs += k;
        n -= k;
    }
    if (l->inner) {
        for (; n > 0 && t->left > 0; n--) {
            copy_loop(l->inner, at(mem, *displs++), skip, t);
            skip = 0;
        }
        return;
    }
    if (skip > 0) {
        copy_run(at(mem, *displs++ + skip), l->unit - skip, t);
        n--;
    }
    int64_t whole = TB_MIN(n, t->left / l->unit);
    move_listed(mem, displs, whole, t->stream, l->unit, t->unpack);
    t->stream += whole * l->unit;
    t->left -= whole * l->unit;
    if (whole < n && t->left > 0)
        copy_run(at(mem, displs[whole]), l->unit, t);
}

/* The run, the part, that holds a byte of the stream. */
static int64_t find_run(const struct tb_loop *l, int64_t byte)
{
    int64_t low = 0;

    for (int64_t n = l->n; n > 1;) {
        int64_t half = n / 2;
        low += l->starts[low + half] <= byte ? half : 0;
        n -= half;
    }
    return low;
}

static int64_t find_part(const struct tb_loop *l, int64_t byte)
{
    int64_t low = 0;

    for (int64_t n = l->n; n > 1;) {
        int64_t half = n / 2;
        low += l->parts[low + half].start <= byte ? half : 0;
        n -= half;
    }
    return low;
}

/* Whole runs from the i-th on, `left` bytes at most. Returns the next one. */
static TB_INLINE int64_t whole_runs(const struct tb_loop *l, int64_t i,
                                    char *mem, char *stream, int64_t left,
                                    bool unpack)
{
    const int64_t *displs = l->displs, *starts = l->starts;
    int64_t n = l->n, start = starts[i], end = start + left;

    for (; i < n && starts[i + 1] <= end; i++) {
        int64_t next = starts[i + 1];
        move_run(at(mem, displs[i]), stream, next - start, unpack);
        stream += next - start;
        start = next;
    }
    return i;
}

static void copy_runs(const struct tb_loop *l, char *mem, int64_t skip,
                      struct todo *t)
{
    int64_t i = skip > 0 ? find_run(l, skip) : 0;

    if (skip > l->starts[i]) {
        int64_t into = skip - l->starts[i];
        copy_run(at(mem, l->displs[i] + into), l->starts[i + 1] - skip, t);
        i++;
    }
    if (i == l->n || t->left == 0)
        return;
    int64_t start = l->starts[i];
    i = t->unpack ? whole_runs(l, i, mem, t->stream, t->left, true)
                  : whole_runs(l, i, mem, t->stream, t->left, false);
    t->stream += l->starts[i] - start;
    t->left -= l->starts[i] - start;
    if (i < l->n && t->left > 0)
        copy_run(at(mem, l->displs[i]), t->left, t);
}

static void copy_parts(const struct tb_loop *l, char *mem, int64_t skip,
                       struct todo *t)
{
    int64_t i = skip > 0 ? find_part(l, skip) : 0;

    skip -= l->parts[i].start;
    for (; i < l->n && t->left > 0; i++) {
        const struct tb_loop_part *p = &l->parts[i];
        copy_places(p->inner, p->unit, p->stride, p->n, at(mem, p->displ), skip,
                    t);
        skip = 0;
    }
}

static void copy_loop(const struct tb_loop *l, char *mem, int64_t skip,
                      struct todo *t)
{
    switch (l->kind) {
    case TB_LOOP_REPEAT:
        copy_places(l->inner, l->unit, l->stride, l->n, mem, skip, t);
        break;
    case TB_LOOP_BLOCKS:
        copy_blocks(l, mem, skip, t);
        break;
    case TB_LOOP_RUNS:
        copy_runs(l, mem, skip, t);
        break;
    case TB_LOOP_PARTS:
        copy_parts(l, mem, skip, t);
        break;
    }
}

/* -------------------------------------------------------------- from above */

static void copy(const struct tb_layout *l, char *mem, int64_t from,
                 struct todo *t)
{
    int64_t k = from > 0 ? from / l->turn_size : 0;
    int64_t skip = from - k * l->turn_size;
    int64_t n = (skip + t->left - 1) / l->turn_size + 1;

    copy_places(l->turn, l->turn_size, l->pitch, n, at(mem, k * l->pitch), skip,
                t);
}

void tb_layout_pack(const struct tb_layout *l, const void *base, int64_t from,
                    void *out, int64_t bytes)
{
    char *mem = tb_layout_at(l, base);
    struct todo t = {.stream = out, .left = bytes, .unpack = false};

    if (bytes <= 0)
        return;
    if (l->dense)
        memcpy(out, mem + from, (size_t)bytes);
    else
        copy(l, mem, from, &t);
}

void tb_layout_unpack(const struct tb_layout *l, void *base, int64_t from,
                      const void *in, int64_t bytes)
{
    char *mem = tb_layout_at(l, base);
    struct todo t = {
        .stream = (char *)(uintptr_t)in, .left = bytes, .unpack = true};

    if (bytes <= 0)
        return;
    if (l->dense)
        memcpy(mem + from, in, (size_t)bytes);
    else
        copy(l, mem, from, &t);
}

int64_t tb_layout_mean_run(const struct tb_layout *l)
{
    return l->runs > 0 ? l->size / l->runs : l->size;
}

/* Steps into the place that holds byte `skip` of places `stride` apart. */
static void step_in(char **mem, int64_t *skip, int64_t unit, int64_t stride)
{
    int64_t k = *skip / unit;
    *mem = at(*mem, k * stride);
    *skip -= k * unit;
}

int64_t tb_layout_run(const struct tb_layout *l, const void *base, int64_t from,
                      int64_t limit, void **address)
{
    char *mem = tb_layout_at(l, base);
    const struct tb_loop *p = l->turn;
    int64_t unit = l->turn_size;
    int64_t skip = from;

    if (l->dense) {
        *address = mem + from;
        return limit - from;
    }
    step_in(&mem, &skip, unit, l->pitch);
    while (p) {
        if (p->kind == TB_LOOP_REPEAT) {
            unit = p->unit;
            step_in(&mem, &skip, unit, p->stride);
            p = p->inner;
        } else if (p->kind == TB_LOOP_BLOCKS) {
            unit = p->unit;
            mem = at(mem, p->displs[skip / unit]);
            skip %= unit;
            p = p->inner;
        } else if (p->kind == TB_LOOP_RUNS) {
            int64_t i = find_run(p, skip);
            unit = p->starts[i + 1] - p->starts[i];
            mem = at(mem, p->displs[i]);
            skip -= p->starts[i];
            p = NULL;
        } else {
            const struct tb_loop_part *part = &p->parts[find_part(p, skip)];
            unit = part->unit;
            mem = at(mem, part->displ);
            skip -= part->start;
            step_in(&mem, &skip, unit, part->stride);
            p = part->inner;
        }
    }
    *address = mem + skip;
    return TB_MIN(unit - skip, limit - from);
}
