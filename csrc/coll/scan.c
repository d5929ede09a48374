/* SPDX-License-Identifier: MIT */
/*
 * Prefix reductions, by recursive doubling: in round k the ranks whose numbers
 * differ in bit k exchange the sum of their groups of 2^k; whoever is in the
 * upper group adds the lower one's to its prefix. log n rounds of m bytes;
 * keeps the ranks' order. (Hillis and Steele, "Data parallel algorithms",
 * 1986, on hypercubes.)
 */
#include "coll/build.h"

/* `prefix` gets the sum over the ranks below this one, and over it too if
 * `own` is set. */
static void scan(struct tb_sched *s, const struct tb_call *c, bool own)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    struct tb_layout *layout = s->type->layout;
    int64_t count = c->recv.count;
    void *prefix = c->recv.base;
    void *group = tb_sched_elements(s, layout, count);
    void *arrived = tb_sched_elements(s, layout, count);
    bool is_empty = !own;

    tb_sched_copy(s, tb_elements(s, c->send.base, count),
                  tb_elements(s, group, count));
    if (own && !c->in_place)
        tb_sched_copy(s, tb_elements(s, c->send.base, count),
                      tb_elements(s, prefix, count));
    for (int mask = 1; mask < t.size; mask *= 2) {
        int peer = t.rank ^ mask;
        if (peer >= t.size)
            continue;
        tb_sched_recv(s, &t, peer, tb_elements(s, arrived, count));
        tb_sched_send(s, &t, peer, tb_elements(s, group, count));
        tb_sched_round(s);
        if (peer > t.rank) {
            tb_sched_reduce(s, group, arrived, count);
            void *swap = group;
            group = arrived;
            arrived = swap;
            continue;
        }
        if (is_empty)
            tb_sched_copy(s, tb_elements(s, arrived, count),
                          tb_elements(s, prefix, count));
        else
            tb_sched_reduce(s, arrived, prefix, count);
        is_empty = false;
        tb_sched_reduce(s, arrived, group, count);
    }
    tb_sched_round(s);
}

void tb_build_scan_doubling(struct tb_sched *s, const struct tb_call *c)
{
    scan(s, c, true);
}

void tb_build_exscan_doubling(struct tb_sched *s, const struct tb_call *c)
{
    scan(s, c, false);
}
