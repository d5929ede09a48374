/* SPDX-License-Identifier: MIT */
/*
 * A verbs transport without verbs: the ports of one process, each in a thread
 * of its own, hand each other packets by copying from slot to slot, under
 * locks. It keeps the contract of rdma.h that a router relies on: receives are
 * posted from the pool, a packet needs one there, a sent slot comes back when
 * the neighbour has taken it over, and a link whose last cable dies hands back
 * what it has not.
 */
#ifndef TB_FAKE_RDMA_H
#define TB_FAKE_RDMA_H

#include "net/plan.h"

/* Receives posted for each neighbour, by class. */
extern uint32_t fake_depth[3];

/* Before the first port of a job opens; `plan` outlives the ports. */
void fake_begin(const struct tb_plan *plan);
/* When the last port of the job is closed and no thread polls any more. */
void fake_end(void);

/* From any thread. */
void fake_cut(int cable);
void fake_kill(int node); /* its owner's process ends */

/* Packets that went over each cable's pair of nodes, both ways. */
long fake_carried(int a, int b);

#endif
