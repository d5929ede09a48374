/* SPDX-License-Identifier: MIT */
/*
 * Making layouts. A constructor surveys its arguments first, with all
 * arithmetic checked, and then compiles the loop nest, where nothing can
 * overflow any more: whatever a loop reaches lies within the true bounds.
 */
#include "engine/loop.h"

#include <string.h>

struct tb_layout tb_layout_byte = TB_LAYOUT_BYTES(1);

/* ------------------------------------------------------ checked arithmetic */

static int64_t add(int64_t a, int64_t b, bool *wrong)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        *wrong = true;
    return r;
}

static int64_t mul(int64_t a, int64_t b, bool *wrong)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        *wrong = true;
    return r;
}

/* ------------------------------------------------------------------ bounds */

/* What is known of a layout before its loops are made. */
struct draft {
    bool wrong; /* something overflowed */
    bool any;   /* there is data */
    bool marked;
    bool rounded; /* the extent goes up to the alignment, as in a structure */
    int64_t size, align;
    int64_t true_lb, true_ub;
    int64_t ub; /* the upper end of the elements, what they round up included */
    int64_t mark_lb, mark_ub;
};

static void widen(int64_t *low, int64_t *high, bool first, int64_t from,
                  int64_t to)
{
    *low = first ? from : TB_MIN(*low, from);
    *high = first ? to : TB_MAX(*high, to);
}

/* `n` elements of `of` are placed at displacements from `low` to `high`. */
static void cover(struct draft *d, int64_t n, int64_t low, int64_t high,
                  const struct tb_layout *of)
{
    bool *wrong = &d->wrong;

    d->align = TB_MAX(d->align, of->align);
    if (of->marked) {
        int64_t ub = add(of->lb, of->extent, wrong);
        widen(&d->mark_lb, &d->mark_ub, !d->marked, add(low, of->lb, wrong),
              add(high, ub, wrong));
        d->marked = true;
    }
    if (of->size == 0)
        return;
    d->size = add(d->size, mul(n, of->size, wrong), wrong);
    int64_t ub = add(high, add(of->lb, of->extent, wrong), wrong);
    d->ub = d->any ? TB_MAX(d->ub, ub) : ub;
    widen(&d->true_lb, &d->true_ub, !d->any, add(low, of->true_lb, wrong),
          add(high, of->true_ub, wrong));
    d->any = true;
}

/* The same for `n` elements `stride` apart, the first ones from `low` to
 * `high`. Returns the new ends of that range. */
static void stretch(struct draft *d, int64_t n, int64_t stride, int64_t *low,
                    int64_t *high)
{
    int64_t reach = mul(n - 1, stride, &d->wrong);
    if (reach < 0)
        *low = add(*low, reach, &d->wrong);
    else
        *high = add(*high, reach, &d->wrong);
}

static void settle(struct draft *d, struct tb_layout *l)
{
    bool *wrong = &d->wrong;

    l->align = TB_MAX(d->align, 1);
    l->size = d->size;
    l->true_lb = d->true_lb;
    l->true_ub = d->true_ub;
    l->marked = d->marked;
    if (d->marked) {
        l->lb = d->mark_lb;
        l->extent = add(d->mark_ub, mul(d->mark_lb, -1, wrong), wrong);
        return;
    }
    int64_t ub = d->rounded ? d->true_ub : d->ub;
    l->lb = d->true_lb;
    l->extent = add(ub, mul(d->true_lb, -1, wrong), wrong);
    if (d->rounded)
        l->extent = add(l->extent, l->align - 1, wrong) / l->align * l->align;
}

/* ------------------------------------------------------------------- loops */

static struct tb_loop *loop_ref(struct tb_loop *l)
{
    if (l && atomic_load_explicit(&l->refs, memory_order_relaxed) > 0)
        atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

static bool last_ref(_Atomic int32_t *refs)
{
    return atomic_load_explicit(refs, memory_order_relaxed) > 0 &&
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

static void loop_unref(struct tb_loop *l)
{
    while (l && last_ref(&l->refs)) {
        struct tb_loop *inner = l->inner;
        if (l->kind == TB_LOOP_PARTS)
            for (int64_t i = 0; i < l->n; i++)
                loop_unref(l->parts[i].inner);
        tb_free(l);
        l = inner;
    }
}

/* A loop with room for `room` objects of `bytes` bytes behind it. */
static struct tb_loop *loop_new(enum tb_loop_kind kind, int64_t room,
                                size_t bytes)
{
    size_t behind;
    struct tb_loop *l = NULL;

    if (!__builtin_mul_overflow((size_t)room, bytes, &behind) &&
        behind < SIZE_MAX / 2)
        l = tb_alloc(sizeof(*l) + behind);
    if (!l)
        return NULL;
    memset(l, 0, sizeof(*l));
    atomic_init(&l->refs, 1);
    l->kind = kind;
    return l;
}

static tb_err no_memory(int64_t n)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for a datatype of %lld blocks",
                   (long long)n);
}

/*
 * A loop nest under construction: `loop` starts `first` bytes from where the
 * element does; NULL: it is one run. Functions that take one by value take
 * over the reference to the loop, also when they fail.
 */
struct nest {
    int64_t first;
    int64_t size;
    int64_t runs;
    struct tb_loop *loop;
};

static struct nest nest_of(const struct tb_layout *l)
{
    return (struct nest){l->first, l->size, l->runs, loop_ref(l->loop)};
}

/* `n` of the same, `stride` apart. Neither n nor the size is 0. */
static tb_err repeat(struct nest s, int64_t n, int64_t stride, struct nest *out)
{
    struct tb_loop *l = s.loop;
    int64_t span;

    *out = s;
    if (n == 1)
        return TB_OK;
    if (!l && stride == s.size) {
        out->size = n * s.size;
        return TB_OK;
    }
    struct tb_loop *r = loop_new(TB_LOOP_REPEAT, 0, 0);
    if (!r) {
        loop_unref(l);
        return no_memory(n);
    }
    if (l && l->kind == TB_LOOP_REPEAT &&
        !__builtin_mul_overflow(l->n, l->stride, &span) && span == stride) {
        r->n = n * l->n; /* the pattern goes on: one longer loop */
        r->stride = l->stride;
        r->unit = l->unit;
        r->inner = loop_ref(l->inner);
        loop_unref(l);
    } else {
        r->n = n;
        r->stride = stride;
        r->unit = s.size;
        r->inner = l;
    }
    out->size = r->size = n * s.size;
    out->runs = r->runs = n * s.runs;
    out->loop = r;
    return TB_OK;
}

/* ---------------------------------------------------------------- finishing */

/* Finds the turn: what repeats at one pitch through all elements. */
static void set_turn(struct tb_layout *l)
{
    struct tb_loop *p = l->loop;
    int64_t span;

    l->dense = l->size == 0 || (!p && l->extent == l->size);
    l->turn = p;
    l->turn_size = l->size;
    l->pitch = l->extent;
    if (p && p->kind == TB_LOOP_REPEAT &&
        !__builtin_mul_overflow(p->n, p->stride, &span) && span == l->extent) {
        l->turn = p->inner;
        l->turn_size = p->unit;
        l->pitch = p->stride;
    }
}

static tb_err overflow(void)
{
    return tb_fail(TB_ERR_TYPE, "the datatype's size or bounds do not fit in "
                                "63 bits: use smaller counts or displacements");
}

/* Makes the layout; takes over the reference to the nest's loop. */
static tb_err finish(struct draft *d, struct nest s, struct tb_layout **out)
{
    struct tb_layout *l = tb_alloc(sizeof(*l));

    if (!l) {
        loop_unref(s.loop);
        return no_memory(1);
    }
    atomic_init(&l->refs, 1);
    settle(d, l);
    if (d->wrong) {
        loop_unref(s.loop);
        tb_free(l);
        return overflow();
    }
    l->first = s.first;
    l->runs = s.runs;
    l->loop = s.loop;
    set_turn(l);
    *out = l;
    return TB_OK;
}

void tb_layout_unref(struct tb_layout *l)
{
    if (!l || !last_ref(&l->refs))
        return;
    loop_unref(l->loop);
    tb_free(l);
}

/* ----------------------------------------------------- regular constructors */

tb_err tb_layout_vector(struct tb_layout **out, int64_t count, int64_t block,
                        int64_t stride, const struct tb_layout *of)
{
    struct draft d = {0};
    struct nest s = {0};

    if (count > 0 && block > 0) {
        int64_t low = 0, high = 0;
        stretch(&d, block, of->extent, &low, &high);
        stretch(&d, count, stride, &low, &high);
        cover(&d, mul(count, block, &d.wrong), low, high, of);
    }
    if (d.wrong)
        return overflow();
    if (d.any) {
        TB_TRY(repeat(nest_of(of), block, of->extent, &s));
        TB_TRY(repeat(s, count, stride, &s));
    }
    return finish(&d, s, out);
}

tb_err tb_layout_contiguous(struct tb_layout **out, int64_t count,
                            const struct tb_layout *of)
{
    return tb_layout_vector(out, 1, count, 0, of);
}

tb_err tb_layout_resized(struct tb_layout **out, int64_t lb, int64_t extent,
                         const struct tb_layout *of)
{
    struct draft d = {.any = of->size > 0,
                      .marked = true,
                      .size = of->size,
                      .align = of->align,
                      .true_lb = of->true_lb,
                      .true_ub = of->true_ub,
                      .mark_lb = lb};
    d.mark_ub = add(lb, extent, &d.wrong);
    return finish(&d, nest_of(of), out);
}

/* ------------------------------------------------------ lists of any blocks */

/* What the irregular constructors have in common. */
struct list {
    int64_t n;
    const int64_t *blocks; /* NULL: all are `block` long */
    int64_t block;
    const int64_t *displs; /* x unit */
    int64_t unit;
    const struct tb_layout *const *types; /* NULL: all are `type` */
    const struct tb_layout *type;
};

/* One block that has data. */
struct entry {
    int64_t displ;
    int64_t block;
    const struct tb_layout *of;
};

static bool entry_at(const struct list *p, int64_t i, struct entry *e)
{
    e->of = p->types ? p->types[i] : p->type;
    e->block = p->blocks ? p->blocks[i] : p->block;
    e->displ = p->displs[i] * p->unit;
    return e->block > 0 && e->of->size > 0;
}

static bool is_run(const struct entry *e)
{
    return !e->of->loop && (e->block == 1 || e->of->extent == e->of->size);
}

struct survey {
    int64_t live;        /* blocks with data */
    struct entry sample; /* the last of them */
    bool all_runs;
    bool all_same; /* but for their displacements */
};

static struct survey look_over(const struct list *p, struct draft *d)
{
    struct survey s = {.all_runs = true, .all_same = true};

    for (int64_t i = 0; i < p->n; i++) {
        struct entry e = {0, p->blocks ? p->blocks[i] : p->block,
                          p->types ? p->types[i] : p->type};
        if (e.block == 0)
            continue;
        int64_t low = mul(p->displs[i], p->unit, &d->wrong), high = low;
        stretch(d, e.block, e.of->extent, &low, &high);
        cover(d, e.block, low, high, e.of);
        if (e.of->size == 0)
            continue;
        s.all_runs = s.all_runs && is_run(&e);
        s.all_same =
            s.all_same &&
            (s.live == 0 || (e.of == s.sample.of && e.block == s.sample.block));
        s.live++;
        s.sample = e;
    }
    return s;
}

/* Whether all displacements are one distance apart, and which. */
static bool is_regular(const int64_t *displs, int64_t n, int64_t *stride)
{
    if (__builtin_sub_overflow(displs[1], displs[0], stride))
        return false;
    for (int64_t i = 2; i < n; i++) {
        int64_t d;
        if (__builtin_sub_overflow(displs[i], displs[i - 1], &d) ||
            d != *stride)
            return false;
    }
    return true;
}

/* Runs of any length, adjacent ones merged. Fills displs and starts, returns
 * how many there are. */
static int64_t merge_runs(const struct list *p, int64_t *displs,
                          int64_t *starts)
{
    int64_t n = 0, at = 0, end = 0;

    for (int64_t i = 0; i < p->n; i++) {
        struct entry e;
        if (!entry_at(p, i, &e))
            continue;
        int64_t begin = e.displ + e.of->first;
        int64_t bytes = e.block * e.of->size;
        if (n == 0 || begin != end) {
            displs[n] = begin;
            starts[n++] = at;
        }
        at += bytes;
        end = begin + bytes;
    }
    starts[n] = at;
    return n;
}

static bool equal_runs(const int64_t *starts, int64_t n)
{
    for (int64_t i = 2; i <= n; i++)
        if (starts[i] - starts[i - 1] != starts[1])
            return false;
    return true;
}

static tb_err list_of_runs(const struct list *p, int64_t live, struct nest *out)
{
    int64_t stride;
    struct tb_loop *l = loop_new(TB_LOOP_RUNS, live + 1, 2 * sizeof(int64_t));
    if (!l)
        return no_memory(live);
    int64_t *displs = (int64_t *)(l + 1);
    int64_t *starts = displs + live;
    int64_t n = merge_runs(p, displs, starts);

    *out = (struct nest){0, starts[n], n, l};
    l->n = l->runs = n;
    l->size = starts[n];
    l->displs = displs;
    l->starts = starts;
    if (!equal_runs(starts, n))
        return TB_OK;
    if (n == 1 || is_regular(displs, n, &stride)) {
        struct nest one = {displs[0], starts[1], 1, NULL};
        stride = n == 1 ? 0 : stride;
        loop_unref(l);
        return repeat(one, n, stride, out);
    }
    l->kind = TB_LOOP_BLOCKS;
    l->unit = starts[1];
    return TB_OK;
}

/* Blocks that differ only in where they are, and are not runs. */
static tb_err list_of_blocks(const struct list *p, const struct survey *v,
                             struct nest *out)
{
    const struct tb_layout *of = v->sample.of;
    struct tb_loop *l = loop_new(TB_LOOP_BLOCKS, v->live, sizeof(int64_t));
    struct nest one;
    int64_t stride;

    if (!l)
        return no_memory(v->live);
    int64_t *displs = (int64_t *)(l + 1);
    for (int64_t i = 0; i < p->n; i++) {
        struct entry e;
        if (entry_at(p, i, &e))
            displs[l->n++] = e.displ + of->first;
    }
    tb_err err = repeat(nest_of(of), v->sample.block, of->extent, &one);
    one.first = displs[0];
    if (err || l->n == 1 || is_regular(displs, l->n, &stride)) {
        int64_t n = l->n;
        loop_unref(l);
        return err ? err : repeat(one, n, n == 1 ? 0 : stride, out);
    }
    l->displs = displs;
    l->inner = one.loop;
    l->unit = one.size;
    l->size = l->n * one.size;
    l->runs = l->n * one.runs;
    *out = (struct nest){0, l->size, l->runs, l};
    return TB_OK;
}

/* One block as a part; its inner loop becomes a reference. */
static struct tb_loop_part part_of(const struct entry *e)
{
    const struct tb_layout *of = e->of;
    struct tb_loop *l = of->loop;
    struct tb_loop_part part = {.displ = e->displ + of->first,
                                .n = e->block,
                                .stride = of->extent,
                                .unit = of->size,
                                .inner = l};
    if (is_run(e)) {
        part.n = 1;
        part.unit = e->block * of->size;
    } else if (e->block == 1 && l->kind == TB_LOOP_REPEAT) {
        part.n = l->n;
        part.stride = l->stride;
        part.unit = l->unit;
        part.inner = l->inner;
    }
    loop_ref(part.inner);
    return part;
}

/* Whether `next` is a run that goes on where the run `p` ends. */
static bool joins(const struct tb_loop_part *p, const struct tb_loop_part *next)
{
    return !p->inner && p->n == 1 && !next->inner && next->n == 1 &&
           next->displ == p->displ + p->unit;
}

/* Blocks of any kind. */
static tb_err list_of_parts(const struct list *p, const struct survey *v,
                            struct nest *out)
{
    struct tb_loop *l =
        loop_new(TB_LOOP_PARTS, v->live, sizeof(struct tb_loop_part));

    if (!l)
        return no_memory(v->live);
    struct tb_loop_part *parts = (struct tb_loop_part *)(l + 1);
    for (int64_t i = 0; i < p->n; i++) {
        struct entry e;
        if (!entry_at(p, i, &e))
            continue;
        struct tb_loop_part part = part_of(&e);
        part.start = l->size;
        l->size += part.n * part.unit;
        if (l->n > 0 && joins(&parts[l->n - 1], &part)) {
            parts[l->n - 1].unit += part.unit;
            continue;
        }
        l->runs += part.n * (part.inner ? part.inner->runs : 1);
        parts[l->n++] = part;
    }
    l->parts = parts;
    *out = (struct nest){0, l->size, l->runs, l};
    return TB_OK;
}

static tb_err compile(const struct list *p, struct tb_layout **out)
{
    struct draft d = {.rounded = p->types != NULL};
    struct nest s = {0};
    struct survey v = look_over(p, &d);

    if (d.wrong)
        return overflow();
    if (v.live > 0 && v.all_runs)
        TB_TRY(list_of_runs(p, v.live, &s));
    else if (v.live > 0 && v.all_same)
        TB_TRY(list_of_blocks(p, &v, &s));
    else if (v.live > 0)
        TB_TRY(list_of_parts(p, &v, &s));
    return finish(&d, s, out);
}

tb_err tb_layout_indexed(struct tb_layout **out, int64_t n,
                         const int64_t *blocks, const int64_t *displs,
                         int64_t unit, const struct tb_layout *of)
{
    struct list p = {
        .n = n, .blocks = blocks, .displs = displs, .unit = unit, .type = of};
    return compile(&p, out);
}

tb_err tb_layout_indexed_block(struct tb_layout **out, int64_t n, int64_t block,
                               const int64_t *displs, int64_t unit,
                               const struct tb_layout *of)
{
    struct list p = {
        .n = n, .block = block, .displs = displs, .unit = unit, .type = of};
    return compile(&p, out);
}

tb_err tb_layout_struct(struct tb_layout **out, int64_t n,
                        const int64_t *blocks, const int64_t *displs,
                        const struct tb_layout *const *of)
{
    struct list p = {
        .n = n, .blocks = blocks, .displs = displs, .unit = 1, .types = of};
    return compile(&p, out);
}
