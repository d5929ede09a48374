/* SPDX-License-Identifier: MIT */
/* Routes over every shape, while cables die. */
#include "net/routes.h"

#include "unit/check.h"

static struct tb_plan *plan;

static void begin(int nodes)
{
    plan = calloc(1, sizeof(*plan));
    plan->nodes = nodes;
    plan->cable = calloc(TB_PLAN_CABLES_MOST, sizeof(*plan->cable));
}

static void cable(int a, int b)
{
    plan->cable[plan->cables].node[0] = a;
    plan->cable[plan->cables].node[1] = b;
    plan->cables++;
}

static void end(void)
{
    free(plan->cable);
    free(plan);
}

/* From everywhere to everywhere, by next hops, in as many as `hops` says. */
static void walk_all(const struct tb_routes *r)
{
    for (int a = 0; a < r->nodes; a++) {
        for (int b = 0; b < r->nodes; b++) {
            int at = a, steps = 0;
            if (a == b || tb_routes_hops(r, a, b) == TB_HOPS_NONE) {
                CHECK(a == b || tb_routes_next(r, a, a, b) == -1);
                continue;
            }
            while (at != b) {
                int next = tb_routes_next(r, at, a, b);
                CHECK(next >= 0 && tb_routes_joined(r, at, next) > 0);
                at = next;
                CHECK(++steps <= tb_routes_hops(r, a, b));
            }
            CHECK_EQ(steps, tb_routes_hops(r, a, b));
            CHECK_EQ(tb_routes_hops(r, b, a), steps);
        }
    }
}

static void test_mesh(void)
{
    struct tb_routes r;
    int order[TB_NODES_MOST];

    begin(4);
    for (int a = 0; a < 4; a++) {
        for (int b = a + 1; b < 4; b++)
            cable(a, b);
    }
    tb_routes_init(&r, plan);
    walk_all(&r);
    CHECK_EQ(tb_routes_next(&r, 1, 1, 3), 3);
    CHECK(!tb_routes_ring(&r, order));
    CHECK(tb_routes_cut(&r, 0));
    CHECK(!tb_routes_cut(&r, 0));
    walk_all(&r);
    CHECK_EQ(tb_routes_hops(&r, 0, 1), 2);
    CHECK(tb_routes_next(&r, 0, 0, 1) != tb_routes_next(&r, 1, 1, 0));
    CHECK(tb_routes_cut(&r, 1));
    CHECK(tb_routes_cut(&r, 2));
    walk_all(&r);
    CHECK_EQ(tb_routes_hops(&r, 0, 3), TB_HOPS_NONE);
    CHECK_EQ(tb_routes_hops(&r, 2, 3), 1);
    end();
}

static void ring(int n)
{
    begin(n);
    for (int a = 0; a < n; a++)
        cable(a, (a + 1) % n);
}

/* All to all over a ring of four: each direction of each cable carries the
 * same. */
static void test_balance(void)
{
    struct tb_routes r;
    int load[4][4] = {{0}};

    ring(4);
    tb_routes_init(&r, plan);
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            for (int at = a; at != b;) {
                int next = tb_routes_next(&r, at, a, b);
                load[at][next]++;
                at = next;
            }
        }
    }
    for (int a = 0; a < 4; a++) {
        CHECK_EQ(load[a][(a + 1) % 4], 2);
        CHECK_EQ(load[(a + 1) % 4][a], 2);
    }
    end();
}

static void test_ring(void)
{
    static const int mixed[6][2] = {{0, 3}, {3, 1}, {1, 5},
                                    {5, 2}, {2, 4}, {4, 0}};
    static const int expected[] = {0, 3, 1, 5, 2, 4};
    struct tb_routes r;
    int order[TB_NODES_MOST];

    for (int n = 3; n <= 9; n++) {
        ring(n);
        tb_routes_init(&r, plan);
        walk_all(&r);
        CHECK(tb_routes_ring(&r, order));
        for (int i = 0; i < n; i++)
            CHECK_EQ(order[i], i);
        CHECK_EQ(tb_routes_hops(&r, 0, n / 2), n / 2);
        CHECK(tb_routes_cut(&r, n - 1));
        walk_all(&r);
        CHECK_EQ(tb_routes_hops(&r, 0, n - 1), n - 1);
        CHECK(!tb_routes_ring(&r, order));
        end();
    }
    begin(6);
    for (int i = 0; i < 6; i++) {
        cable(mixed[i][0], mixed[i][1]);
        cable(mixed[i][1], mixed[i][0]); /* two cables each */
    }
    tb_routes_init(&r, plan);
    walk_all(&r);
    CHECK(tb_routes_ring(&r, order));
    for (int i = 0; i < 6; i++)
        CHECK_EQ(order[i], expected[i]);
    end();
}

static void test_no_ring(void)
{
    struct tb_routes r;
    int order[TB_NODES_MOST];

    begin(6); /* two rings of three */
    for (int i = 0; i < 6; i++)
        cable(i, i / 3 * 3 + (i + 1) % 3);
    tb_routes_init(&r, plan);
    CHECK(!tb_routes_ring(&r, order));
    walk_all(&r);
    CHECK_EQ(tb_routes_hops(&r, 0, 3), TB_HOPS_NONE);
    end();
    begin(2);
    cable(0, 1);
    cable(0, 1);
    tb_routes_init(&r, plan);
    CHECK(!tb_routes_ring(&r, order));
    CHECK_EQ(tb_routes_joined(&r, 0, 1), 2);
    CHECK(tb_routes_cut(&r, 1));
    CHECK_EQ(tb_routes_hops(&r, 1, 0), 1);
    CHECK(tb_routes_cut(&r, 0));
    CHECK_EQ(tb_routes_hops(&r, 1, 0), TB_HOPS_NONE);
    end();
}

static void test_star_and_line(void)
{
    struct tb_routes r;

    begin(5);
    for (int i = 1; i < 5; i++)
        cable(0, i);
    tb_routes_init(&r, plan);
    walk_all(&r);
    CHECK_EQ(tb_routes_next(&r, 3, 3, 4), 0);
    end();
    begin(TB_NODES_MOST);
    for (int i = 0; i + 1 < TB_NODES_MOST; i++)
        cable(i, i + 1);
    tb_routes_init(&r, plan);
    walk_all(&r);
    CHECK_EQ(tb_routes_hops(&r, 0, TB_NODES_MOST - 1), TB_NODES_MOST - 1);
    end();
}

/* Any graph, cables cut one after the other until none is left. */
static void test_random(void)
{
    uint32_t state = 9;

    for (int round = 0; round < 40; round++) {
        struct tb_routes r;
        begin(3 + round % 8);
        for (int i = 0; i < 2 * plan->nodes; i++) {
            int a, b;
            state = state * 1664525 + 1013904223;
            a = (int)(state >> 8) % plan->nodes;
            b = (int)(state >> 20) % plan->nodes;
            if (a != b)
                cable(a, b);
        }
        tb_routes_init(&r, plan);
        for (int i = 0; i < plan->cables; i++) {
            walk_all(&r);
            CHECK(tb_routes_cut(&r, i));
        }
        CHECK_EQ(tb_routes_hops(&r, 0, 1), TB_HOPS_NONE);
        end();
    }
}

int main(void)
{
    test_mesh();
    test_balance();
    test_ring();
    test_no_ring();
    test_star_and_line();
    test_random();
    return 0;
}
