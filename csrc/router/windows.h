/* SPDX-License-Identifier: MIT */
/*
 * windows: how many packets may be on their way from one node to another, so
 * that all that can be in transit through a node fits its pool (the argument
 * is in docs/routing.md). A window counts slots, for each pair (source node,
 * destination node) and each slot class. The source takes one before a packet
 * leaves; it comes back when the destination rank has given the slot back
 * there. The source learns of that by running totals, so that no message about
 * them can be counted twice.
 *
 * Within a window, a destination rank may hold fewer slots than are left:
 * one that computes, and takes nothing, leaves room for its neighbours.
 *
 * Pure: no clock, no system call, no memory but the tables.
 */
#ifndef TB_WINDOWS_H
#define TB_WINDOWS_H

#include "net/plan.h"
#include "net/pool.h"

/* Messages that give window back, of one pair, that may be in the net at a
 * time: each tells of at least a quarter of one class's window. */
#define TB_WINDOW_TELLS (4 * TB_CLASSES)

struct tb_windows {
    const struct tb_plan *plan;
    uint32_t size[TB_CLASSES]; /* of each window */
    /* As a source. */
    uint32_t used[TB_NODES_MOST][TB_CLASSES]; /* by destination node */
    struct tb_window_use {
        uint32_t used[TB_CLASSES], back[TB_CLASSES]; /* now; ever come back */
    } * use;                                         /* by destination rank */
    /* As a destination: given back, ever, by source node and local place. */
    uint32_t (*given)[TB_CLASSES];              /* node * places + place */
    uint32_t untold[TB_NODES_MOST][TB_CLASSES]; /* by source node */
};

/*
 * The size of the windows, if the poorest node of `nodes` can spare so many
 * slots of each class for transit, and for the messages above; at most `most`
 * slots, where that is not 0. Fails with a note when there is not one for each
 * pair and class.
 */
tb_err tb_windows_share(uint32_t size[TB_CLASSES],
                        const uint32_t spare[TB_CLASSES], int nodes,
                        uint32_t most);

/* Zeroes all but `size`, which may be set later. */
tb_err tb_windows_init(struct tb_windows *w, const struct tb_plan *plan);
void tb_windows_fini(struct tb_windows *w);

/* Takes one for a packet to rank `dest`; false: not now. */
bool tb_window_take(struct tb_windows *w, int dest, enum tb_class class);

/* Rank `dest` has given back so many slots of this node's packets, ever, says
 * its router; less than it has said before is old news. False: it cannot
 * have. */
bool tb_window_back(struct tb_windows *w, int dest, enum tb_class class,
                    uint32_t ever);

/* The rank at local place `place` has given back a slot that came from node
 * `src`. True: time to tell that node. */
bool tb_window_given(struct tb_windows *w, int src, int place,
                     enum tb_class class);

/* The running totals for node `src`, by place and class, for a message that is
 * sent now; returns how many. */
int tb_window_tell(struct tb_windows *w, int src,
                   const uint32_t (**given)[TB_CLASSES]);

#endif
