/* SPDX-License-Identifier: MIT */
/*
 * The owner of the verbs of a node, as its plan wants it: a router, or a rank
 * where each node has one and no router. Opens the verbs library, the pool and
 * the rdma port over all cables that end here.
 */
#ifndef TB_OWNER_H
#define TB_OWNER_H

#include "net/plan.h"
#include "net/rdma.h"
#include "net/verbs.h"

struct tb_owner {
    struct tb_verbs *verbs;
    struct tb_regpool *pool;
    struct tb_rdma_args args; /* points into the plan and to what follows */
    struct tb_cable *cables;
    struct tb_mgmt *mgmt;
};

/* Fills `out`, all zero before; tb_owner_close undoes it, also after a
 * failure. `fd`: of the pool shared with `ranks` ranks, or -1: private memory
 * of `bytes`. The caller sets args.more. The plan must outlive it. */
tb_err tb_owner_open(struct tb_owner *out, const struct tb_config *config,
                     const struct tb_plan *plan, int fd, size_t bytes,
                     int ranks);
/* After the port. */
void tb_owner_close(struct tb_owner *owner);

#endif
