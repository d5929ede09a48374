/* SPDX-License-Identifier: MIT */
/*
 * routes: from node to node over cables. Everybody computes the same next hops
 * from the plan and the cables known to be dead, by one rule: as few hops as
 * possible; of several neighbours that are equally near, the one that source
 * and destination name together, so that pairs, and the two directions of a
 * pair, spread over equal ways (in a ring of four each direction of each cable
 * carries the same). A packet so comes nearer to its destination with each
 * hop, whatever the shape; while not all have heard of a dead cable it may
 * take a way back, but none for ever.
 *
 * Pure: no memory but the struct, no clock, no system call.
 */
#ifndef TB_ROUTES_H
#define TB_ROUTES_H

#include "net/plan.h"

#define TB_HOPS_NONE UINT8_MAX

struct tb_routes {
    int nodes, cables;
    uint8_t end[TB_PLAN_CABLES_MOST][2]; /* nodes of each cable */
    bool dead[TB_PLAN_CABLES_MOST];
    uint16_t joined[TB_NODES_MOST][TB_NODES_MOST]; /* living cables between */
    uint8_t hops[TB_NODES_MOST][TB_NODES_MOST];    /* or TB_HOPS_NONE */
};

/* All cables of the plan are alive. */
void tb_routes_init(struct tb_routes *r, const struct tb_plan *plan);

/* Takes a cable out; false when it was out already. */
bool tb_routes_cut(struct tb_routes *r, int cable);

/* Of a packet from node `src` to node `dst` that is at node `at`: the node it
 * goes to next. -1: there is no way. `at` may not be `dst`. */
int tb_routes_next(const struct tb_routes *r, int at, int src, int dst);

/* Hops on the shortest way; TB_HOPS_NONE: there is no way. */
static inline int tb_routes_hops(const struct tb_routes *r, int a, int b)
{
    return r->hops[a][b];
}

/* Living cables between two nodes. */
static inline int tb_routes_joined(const struct tb_routes *r, int a, int b)
{
    return r->joined[a][b];
}

/* If the cables make one ring through all nodes, and nothing besides: writes
 * the nodes in their order around it, from node 0 towards its neighbour with
 * the smaller number. `order` has room for all nodes. */
bool tb_routes_ring(const struct tb_routes *r, int *order);

#endif
