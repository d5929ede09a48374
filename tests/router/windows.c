/* SPDX-License-Identifier: MIT */
/* Windows: what fits, what may leave, what comes back. */
#include "router/windows.h"

#include "unit/check.h"

static const char text[] =
    "tbmpi-plan 1\njob 0123456789abcdef0123456789abcdef\nsize 6\nnodes 3\n"
    "self 0\nowner router\nnode 0 a 0 1\nnode 1 b 2 3\nnode 2 c 4 5\n";

static void test_share(void)
{
    uint32_t size[TB_CLASSES], spare[TB_CLASSES] = {1000, 100, 13};

    CHECK_EQ(tb_windows_share(size, spare, 4, 0), TB_OK);
    CHECK_EQ(size[TB_SMALL], (1000 - 12 * TB_WINDOW_TELLS) / 12);
    CHECK_EQ(size[TB_MIDDLE], 8);
    CHECK_EQ(size[TB_LARGE], 1);
    CHECK_EQ(tb_windows_share(size, spare, 4, 2), TB_OK);
    CHECK_EQ(size[TB_SMALL], 2);
    CHECK_EQ(size[TB_LARGE], 1);
    CHECK_EQ(tb_windows_share(size, spare, 5, 0), TB_ERR_NO_SPACE);
    CHECK(strstr(tb_fail_note(), "TBMPI_POOL"));
    CHECK_EQ(tb_windows_share(size, spare, 1, 0), TB_OK);
}

/* What all nodes may have under way never exceeds what a node can spare. */
static void test_fits(void)
{
    for (int nodes = 2; nodes <= 10; nodes++) {
        for (uint32_t n = 1; n < 5000; n += 37) {
            uint32_t size[TB_CLASSES], spare[TB_CLASSES] = {n, n, n};
            uint32_t pairs = (uint32_t)(nodes * (nodes - 1));
            if (tb_windows_share(size, spare, nodes, 0))
                continue;
            CHECK(pairs * (size[TB_SMALL] + TB_WINDOW_TELLS) <= n);
            CHECK(pairs * size[TB_LARGE] <= n);
        }
    }
}

/* One rank takes nothing: there is always some left for the next. */
static void test_thresholds(struct tb_plan *plan)
{
    struct tb_windows w;
    int n = 0, other = 0;

    CHECK_EQ(tb_windows_init(&w, plan), TB_OK);
    w.size[TB_SMALL] = 16;
    while (tb_window_take(&w, 2, TB_SMALL))
        n++;
    CHECK_EQ(n, 8);
    while (tb_window_take(&w, 3, TB_SMALL))
        other++;
    CHECK_EQ(other, 4);
    CHECK(tb_window_take(&w, 5, TB_SMALL)); /* another node's window */
    CHECK(tb_window_back(&w, 3, TB_SMALL, 4));
    CHECK(tb_window_take(&w, 3, TB_SMALL));
    CHECK(!tb_window_take(&w, 2, TB_SMALL));
    CHECK(tb_window_back(&w, 2, TB_SMALL, 8));
    CHECK_EQ(w.used[1][TB_SMALL], 1);
    CHECK(tb_window_back(&w, 2, TB_SMALL, 3)); /* old news */
    CHECK_EQ(w.used[1][TB_SMALL], 1);
    CHECK(!tb_window_back(&w, 2, TB_SMALL, 9));
    tb_windows_fini(&w);
}

/* Whatever the size, a source that has lost sight of nothing but what is not
 * worth telling yet can still send. */
static void test_never_stuck(struct tb_plan *plan)
{
    for (uint32_t size = 1; size <= 40; size++) {
        struct tb_windows from, to;
        int tells = 0;
        CHECK_EQ(tb_windows_init(&from, plan), TB_OK);
        CHECK_EQ(tb_windows_init(&to, plan), TB_OK);
        from.size[TB_LARGE] = to.size[TB_LARGE] = size;
        for (int i = 0; i < 200; i++) {
            const uint32_t(*given)[TB_CLASSES];
            CHECK(tb_window_take(&from, 2 + i % 2, TB_LARGE));
            if (!tb_window_given(&to, 1, i % 2, TB_LARGE))
                continue;
            tells++;
            CHECK_EQ(tb_window_tell(&to, 1, &given), 2);
            for (int place = 0; place < 2; place++)
                CHECK(tb_window_back(&from, 2 + place, TB_LARGE,
                                     given[place][TB_LARGE]));
        }
        CHECK(tells <= 200 / (int)((size + 3) / 4));
        /* No more messages can be under way than room is kept for. */
        CHECK(size / ((size + 3) / 4) <= TB_WINDOW_TELLS / TB_CLASSES);
        tb_windows_fini(&from);
        tb_windows_fini(&to);
    }
}

int main(void)
{
    struct tb_plan *plan;

    CHECK_EQ(tb_plan_parse(&plan, text, sizeof(text) - 1), TB_OK);
    test_share();
    test_fits();
    test_thresholds(plan);
    test_never_stuck(plan);
    tb_plan_free(plan);
    return 0;
}
