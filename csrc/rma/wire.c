/* SPDX-License-Identifier: MIT */
/* Layouts as groups of runs, and back. */
#include "rma/wire.h"

/* Whether the run continues the group; then it does. */
static bool extend(struct tb_rma_group *g, int64_t displ, int64_t bytes)
{
    if (bytes != g->bytes)
        return false;
    if (g->n == 1)
        g->stride = displ - g->displ;
    else if (displ != g->displ + g->n * g->stride)
        return false;
    g->n++;
    return true;
}

int64_t tb_rma_describe(const struct tb_layout *l, struct tb_rma_group *out,
                        int64_t room)
{
    struct tb_rma_group g = {0};
    int64_t groups = 0;

    for (int64_t at = 0; at < l->size;) {
        void *where;
        int64_t bytes = tb_layout_run(l, NULL, at, l->size, &where);
        int64_t displ = (int64_t)(intptr_t)where;
        at += bytes;
        if (!g.n || !extend(&g, displ, bytes)) {
            g = (struct tb_rma_group){displ, 1, bytes, 0};
            groups++;
        }
        if (groups <= room)
            out[groups - 1] = g;
    }
    return groups;
}

/* The layouts of the groups; on failure those made so far are in `parts`. */
static tb_err make_parts(const struct tb_rma_group *groups, int64_t n,
                         struct tb_layout **parts)
{
    for (int64_t i = 0; i < n; i++) {
        const struct tb_rma_group *g = &groups[i];
        if (g->n < 1 || g->bytes < 1)
            return tb_fail(TB_ERR_PROTOCOL, "a datatype on the wire has a "
                                            "block of no length");
        TB_TRY(tb_layout_vector(&parts[i], g->n, g->bytes, g->stride,
                                &tb_layout_byte));
    }
    return TB_OK;
}

static tb_err join_parts(const struct tb_rma_group *groups, int64_t n,
                         int64_t extent, struct tb_layout *const *parts,
                         int64_t *numbers, struct tb_layout **out)
{
    struct tb_layout *joined;

    for (int64_t i = 0; i < n; i++) {
        numbers[i] = 1;
        numbers[n + i] = groups[i].displ;
    }
    TB_TRY(tb_layout_struct(&joined, n, numbers, numbers + n,
                            (const struct tb_layout *const *)parts));
    tb_err err = tb_layout_resized(out, 0, extent, joined);
    tb_layout_unref(joined);
    return err;
}

tb_err tb_rma_layout(const struct tb_rma_group *groups, int64_t n,
                     int64_t extent, struct tb_layout **out)
{
    struct tb_layout **parts = tb_calloc((size_t)n, sizeof(*parts));
    int64_t *numbers = tb_alloc((size_t)n * 2 * sizeof(*numbers));
    tb_err err;

    if (parts && numbers)
        err = make_parts(groups, n, parts);
    else
        err = tb_fail(TB_ERR_NO_MEM, "no memory for a target's datatype");
    if (!err)
        err = join_parts(groups, n, extent, parts, numbers, out);
    for (int64_t i = 0; parts && i < n; i++)
        tb_layout_unref(parts[i]);
    tb_free(numbers);
    tb_free(parts);
    return err;
}

bool tb_rma_reach(const struct tb_layout *l, int64_t count, int64_t *low,
                  int64_t *high)
{
    int64_t span, ends;

    if (__builtin_mul_overflow(count - 1, l->extent, &span) ||
        __builtin_add_overflow(l->true_lb, TB_MIN(span, 0), low) ||
        __builtin_add_overflow(l->true_ub, TB_MAX(span, 0), high) ||
        __builtin_sub_overflow(*high, *low, &ends))
        return false;
    return true;
}
