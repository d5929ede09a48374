/* SPDX-License-Identifier: MIT */
/*
 * Two levels: the members of one node, who share memory, and one leader of each
 * node, who talk over cables. (Two-level collectives: Karonis et al.,
 * "Exploiting hierarchy in parallel computer networks to optimize collective
 * operation performance", IPDPS 2000.) Where each node has one member the local
 * level is empty, and costs nothing.
 */
#ifndef TB_LEVELS_H
#define TB_LEVELS_H

#include "coll/build.h"
#include "coll/shape.h"

struct tb_levels {
    const struct tb_shape *shape;
    struct tb_team local;   /* this node's members; 0 is their leader */
    struct tb_team leaders; /* by node, in the shape's order */
    bool leads;             /* else leaders.rank means nothing */
};

/* With `root` (-1: none), that rank leads its node and is rank 0 of the
 * leaders, whose order is turned so. False: no memory, the schedule has
 * failed. */
bool tb_levels_init(struct tb_levels *l, struct tb_sched *s,
                    const struct tb_comm *c, int root);

/* What the leader has after all of its node have been combined: `out`, or `in`
 * when it is alone. `out` matters at the leader only. */
const void *tb_levels_reduce(struct tb_sched *s, const struct tb_levels *l,
                             const void *in, void *out, int64_t count);

/* mesh.c, among a team of which any two are joined. Block i of the sum of all
 * contributions `in` to rank i of the team, at `out`; `in` may be where `out`
 * is. For operations that commute. */
void tb_mesh_reduce(struct tb_sched *s, const struct tb_team *t,
                    const struct tb_blocks *in, void *out);

/* ways.c: the vector `in` of each, combined, to `out` of each. `both`: around
 * the ring in both directions, else in one. `in` may be `out`. For operations
 * that commute. */
void tb_ways_allreduce(struct tb_sched *s, const struct tb_team *t,
                       const void *in, void *out, int64_t count, bool both);

#endif
