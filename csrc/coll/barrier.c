/* SPDX-License-Identifier: MIT */
/*
 * Barriers.
 *
 * Dissemination: in round k each rank tells the one 2^k further on; after
 * ceil(log2 n) rounds each has heard of all. (Hensgen, Finkel and Manber, "Two
 * algorithms for barrier synchronization", 1988.)
 */
#include "coll/build.h"

void tb_build_barrier_dissemination(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    for (int64_t far = 1; far < t.size; far *= 2) {
        tb_sched_await(s, &t, (int)((t.rank - far + t.size) % t.size));
        tb_sched_signal(s, &t, (int)((t.rank + far) % t.size));
        tb_sched_round(s);
    }
}

/* Each side's ranks report to their first, the first ones tell each other that
 * their sides are complete, then they tell theirs. */
void tb_build_barrier_inter(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    struct tb_team other = tb_team_remote(c->comm);
    int mask = 1, parent = -1;
    for (; mask < t.size && parent < 0; mask *= 2) {
        if (t.rank & mask)
            parent = t.rank - mask;
        else if (t.rank + mask < t.size)
            tb_sched_await(s, &t, t.rank + mask);
    }
    tb_sched_round(s);
    if (parent < 0) {
        tb_sched_await(s, &other, 0);
        tb_sched_signal(s, &other, 0);
    } else {
        tb_sched_signal(s, &t, parent);
        tb_sched_round(s);
        tb_sched_await(s, &t, parent);
        mask /= 2;
    }
    tb_sched_round(s);
    for (mask /= 2; mask > 0; mask /= 2)
        if (t.rank + mask < t.size)
            tb_sched_signal(s, &t, t.rank + mask);
    tb_sched_round(s);
}
