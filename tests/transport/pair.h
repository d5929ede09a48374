/* SPDX-License-Identifier: MIT */
/* Two Macs driven by one thread, and a runner, for the tests of the rdma
 * transport. */
#ifndef TB_TRANSPORT_PAIR_H
#define TB_TRANSPORT_PAIR_H

#include "transport/rig.h"

/* Times that are promised, a sanitizer's slowness apart. */
#ifdef __SANITIZE_THREAD__
#define SECOND 5000000000u
#else
#define SECOND 1000000000u
#endif

/* Two ends in this thread, each polled with the other. */
static inline void open_two(struct rig *r, struct end *a, struct end *b)
{
    end_init(a, r, 0);
    end_init(b, r, 1);
    ends_meet(a, b);
    a->partner = b;
    b->partner = a;
}

/* Both poll until all is acknowledged, or there is nobody to do so: whoever
 * closes alone has to wait for it. */
static inline void close_two(struct end *a, struct end *b)
{
    while (!tb_rdma_idle(a->port) || !tb_rdma_idle(b->port)) {
        end_poll_alone(a);
        end_poll_alone(b);
    }
    end_fini(a);
    end_fini(b);
}

static inline struct tb_rdma_counts counts(struct end *e)
{
    struct tb_rdma_counts c;

    tb_rdma_count(e->port, &c);
    return c;
}

/* Nothing of the verbs is left behind. */
static inline void check_returned(const struct rig *r)
{
    struct macs_held held = macs_held(&r->macs);

    CHECK_EQ(held.qps + held.cqs + held.pds + held.mrs, 0);
}

struct pair_test {
    const char *name;
    void (*run)(void);
};

/* Runs the tests whose names begin with `wanted`: at least one must. */
static inline void run_tests(const struct pair_test *tests, size_t n,
                             const char *wanted, unsigned seconds)
{
    int ran = 0;

    for (size_t k = 0; k < n; k++) {
        if (strncmp(tests[k].name, wanted, strlen(wanted)))
            continue;
        printf("%s\n", tests[k].name);
        fflush(stdout);
        limit_time(seconds);
        tests[k].run();
        ran++;
    }
    CHECK(ran > 0);
}

#endif
