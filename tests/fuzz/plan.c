/* SPDX-License-Identifier: MIT */
/* The text of a plan (net/plan.h). */
#include "net/plan.h"

#include <stdarg.h>

#include "fuzz/fuzz.h"

static void add_line(struct fuzz *f, const char *format, ...) TB_PRINTF(2, 3);

static void add_line(struct fuzz *f, const char *format, ...)
{
    char line[256];
    va_list ap;

    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    fuzz_add_text(f, line);
}

static void fuzz_example(struct fuzz *f)
{
    static const char *const owners[] = {"router", "rank", "none"};
    int nodes = 1 + (int)fuzz_below(f, 5), each = 1 + (int)fuzz_below(f, 3);
    const char *owner = owners[fuzz_below(f, 3)];

    add_line(f, "tbmpi-plan 1\njob %032d\nsize %d\nnodes %d\nself 0\n", 7,
             nodes * each, nodes);
    add_line(f, "owner %s\n", owner);
    for (int k = 0; k < nodes; k++) {
        add_line(f, "node %d mac%d", k, k);
        for (int i = 0; i < each; i++)
            add_line(f, " %d", k * each + i);
        add_line(f, "\n");
    }
    for (int k = 0; k + 1 < nodes; k++)
        add_line(f,
                 "cable %d %d rdma_en2 ::ffff:169.254.%d.1 %d rdma_en3 "
                 "::ffff:169.254.%d.2\n",
                 k, k, k + 1, k + 1, k + 1);
    if (nodes > 1 && fuzz_below(f, 2)) {
        add_line(f, "wire 0 1000\n");
        for (int k = 1; k < nodes; k++)
            add_line(f, "mgmt %d %d\n", k, 2000 + k);
        add_line(f, "agent 3000\n");
    }
}

static void fuzz_try(struct fuzz *f)
{
    struct tb_plan *plan;

    if (tb_plan_parse(&plan, (const char *)f->data, f->bytes)) {
        CHECK(*tb_fail_note());
        return;
    }
    /* What was let through can be used. */
    CHECK(plan->self >= 0 && plan->self < plan->nodes);
    for (int r = 0; r < plan->size; r++)
        CHECK(plan->node_of[r] >= 0 && plan->node_of[r] < plan->nodes);
    for (int c = 0; c < plan->cables; c++) {
        for (int k = 0; k < 2; k++) {
            int node = plan->cable[c].node[k];
            CHECK(node >= 0 && node < plan->nodes);
            CHECK(memchr(plan->cable[c].device[k], 0, TB_PLAN_NAME_BYTES));
        }
    }
    tb_plan_free(plan);
}
