/* SPDX-License-Identifier: MIT */
/*
 * What one-sided communication is made of: layouts as groups of runs and back,
 * whatever the groups say; and what operations do to memory.
 */
#include <string.h>

#include "rma/inside.h"
#include "unit/check.h"

static uint64_t seed = 88172645463325252u;

static int64_t pick(int64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)n);
}

/* ------------------------------------------------------------------- layouts
 */

static struct tb_layout *nested(int depth)
{
    struct tb_layout *inner, *made;
    if (depth == 0) {
        CHECK(!tb_layout_contiguous(&made, 1 + pick(9), &tb_layout_byte));
        return made;
    }
    inner = nested(depth - 1);
    if (pick(2)) {
        int64_t block = 1 + pick(3);
        CHECK(!tb_layout_vector(&made, 1 + pick(5), block,
                                block * inner->extent + pick(20), inner));
    } else {
        int64_t blocks[6], displs[6], at = 0, n = 1 + pick(6);
        for (int64_t i = 0; i < n; i++) {
            blocks[i] = pick(3);
            displs[i] = at + pick(9);
            at = displs[i] + blocks[i] * inner->extent;
        }
        CHECK(!tb_layout_indexed(&made, n, blocks, displs, 1, inner));
    }
    tb_layout_unref(inner);
    return made;
}

static struct tb_layout *there_and_back(const struct tb_layout *l)
{
    static struct tb_rma_group groups[4096];
    struct tb_layout *back;
    int64_t n = tb_rma_describe(l, NULL, 0);
    CHECK(n <= (int64_t)TB_COUNT_OF(groups));
    CHECK_EQ(tb_rma_describe(l, groups, n), n);
    CHECK(!tb_rma_layout(groups, n, l->extent, &back));
    return back;
}

static void layouts_survive(void)
{
    static char memory[1 << 20], a[1 << 18], b[1 << 18];
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (char)(i * 31 + i / 251);
    for (int i = 0; i < 3000; i++) {
        struct tb_layout *l = nested((int)pick(4));
        int64_t count = 1 + pick(3), bytes = l->size * count;
        if (l->size && bytes <= (int64_t)sizeof a &&
            l->true_ub + count * l->extent < (int64_t)sizeof memory) {
            struct tb_layout *back = there_and_back(l);
            CHECK_EQ(back->size, l->size);
            CHECK_EQ(back->extent, l->extent);
            CHECK_EQ(back->true_lb, l->true_lb);
            CHECK_EQ(back->true_ub, l->true_ub);
            tb_layout_pack(l, memory, 0, a, bytes);
            tb_layout_pack(back, memory, 0, b, bytes);
            CHECK(!memcmp(a, b, (size_t)bytes));
            tb_layout_unref(back);
        }
        tb_layout_unref(l);
    }
}

static void patterns_are_short(void)
{
    struct tb_layout *rows, *plane;
    CHECK(!tb_layout_vector(&rows, 1000, 8, 100, &tb_layout_byte));
    CHECK_EQ(tb_rma_describe(rows, NULL, 0), 1);
    CHECK(!tb_layout_vector(&plane, 10, 1, 200000, rows));
    CHECK_EQ(tb_rma_describe(plane, NULL, 0), 10);
    tb_layout_unref(plane);
    tb_layout_unref(rows);
}

/* Whatever the bytes are: an error, or a layout that says where it reaches. */
static void any_groups_are_harmless(void)
{
    for (int i = 0; i < 20000; i++) {
        struct tb_rma_group groups[4];
        int64_t n = 1 + pick(4), low, high;
        struct tb_layout *l = NULL;
        for (int64_t k = 0; k < n; k++)
            groups[k] = (struct tb_rma_group){
                pick(INT64_MAX) >> pick(63), (pick(INT64_MAX) >> pick(63)) - 2,
                (pick(INT64_MAX) >> pick(63)) - 2,
                (pick(INT64_MAX) >> pick(63)) - (pick(INT64_MAX) >> pick(63))};
        if (tb_rma_layout(groups, n, pick(INT64_MAX) >> pick(63), &l))
            continue;
        CHECK(l->size > 0);
        if (tb_rma_reach(l, 1 + (pick(INT64_MAX) >> pick(63)), &low, &high))
            CHECK(low <= l->true_lb && high >= l->true_ub);
        tb_layout_unref(l);
    }
}

/* --------------------------------------------------------------------- memory
 */

static void attached_memory_may_be_in_pieces(void)
{
    struct tb_rma_region regions[] = {{300, 400}, {100, 200}, {200, 300}};
    struct tb_rma r = {.memory.flavor = MPI_WIN_FLAVOR_DYNAMIC,
                       .regions = regions,
                       .n_regions = 3};
    struct tb_layout *halves;
    char *at;
    CHECK(!tb_rma_locate(&r, 100, &tb_layout_byte, 300, &at));
    CHECK_EQ((intptr_t)at, 100);
    CHECK_EQ(tb_rma_locate(&r, 100, &tb_layout_byte, 301, &at),
             TB_ERR_RMA_RANGE);
    CHECK_EQ(tb_rma_locate(&r, 99, &tb_layout_byte, 2, &at), TB_ERR_RMA_RANGE);
    CHECK_EQ(tb_rma_locate(&r, INT64_MAX, &tb_layout_byte, 2, &at),
             TB_ERR_RMA_RANGE);
    /* What lies between two runs need not be attached. */
    r.n_regions = 2;
    CHECK(!tb_layout_vector(&halves, 2, 50, 200, &tb_layout_byte));
    CHECK(!tb_rma_locate(&r, 100, halves, 1, &at));
    CHECK_EQ(tb_rma_locate(&r, 160, halves, 1, &at), TB_ERR_RMA_RANGE);
    tb_layout_unref(halves);
}

static void windows_end(void)
{
    static char memory[100];
    struct tb_rma r = {.memory = {.flavor = MPI_WIN_FLAVOR_CREATE,
                                  .base = memory,
                                  .size = sizeof memory}};
    char *at;
    CHECK(!tb_rma_locate(&r, 10, &tb_layout_byte, 90, &at));
    CHECK(at == memory + 10);
    CHECK_EQ(tb_rma_locate(&r, 10, &tb_layout_byte, 91, &at), TB_ERR_RMA_RANGE);
    CHECK_EQ(tb_rma_locate(&r, -1, &tb_layout_byte, 1, &at), TB_ERR_RMA_RANGE);
    CHECK_EQ(tb_rma_locate(&r, INT64_MAX - 5, &tb_layout_byte, 90, &at),
             TB_ERR_RMA_RANGE);
}

static void copies_meet_in_the_middle(void)
{
    static char from[8000], to[8000];
    struct tb_layout *five, *fives, *sevens;
    CHECK(!tb_layout_contiguous(&five, 5, &tb_layout_byte));
    CHECK(!tb_layout_resized(&fives, 0, 9, five));
    CHECK(!tb_layout_vector(&sevens, 500, 7, 11, &tb_layout_byte));
    struct tb_rma_place a = {.at = from, .layout = fives, .count = 700};
    struct tb_rma_place b = {.at = to, .layout = sevens, .count = 1};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 7 + i / 256);
    tb_rma_copy(&a, &b, 3500);
    for (int i = 0; i < 3500; i++)
        CHECK_EQ(to[i / 7 * 11 + i % 7], from[i / 5 * 9 + i % 5]);
    tb_layout_unref(five);
    tb_layout_unref(fives);
    tb_layout_unref(sevens);
}

static void a_mutex_outlives_its_owner(void)
{
    struct tb_rma_mutex m = {0};
    tb_rma_mutex_lock(&m);
    CHECK_EQ(atomic_load(&m.owner), getpid());
    tb_rma_mutex_unlock(&m);
    CHECK_EQ(atomic_load(&m.owner), 0);
    atomic_store(&m.owner, 0x3ffffff); /* beyond what a process can have */
    tb_rma_mutex_lock(&m);
    CHECK_EQ(atomic_load(&m.owner), getpid());
}

int main(void)
{
    layouts_survive();
    patterns_are_short();
    any_groups_are_harmless();
    attached_memory_may_be_in_pieces();
    windows_end();
    copies_meet_in_the_middle();
    a_mutex_outlives_its_owner();
    return 0;
}
