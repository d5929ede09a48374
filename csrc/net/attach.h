/* SPDX-License-Identifier: MIT */
/* How a process finds the memory that it shares with the ranks beside it. */
#ifndef TB_ATTACH_H
#define TB_ATTACH_H

#include "net/net.h"
#include "net/routes.h"

struct tb_machine {
    void *segment; /* NULL: alone, and no launcher made one */
    size_t bytes;
    int place;               /* of this process among `places` */
    int places;              /* endpoints on this machine, this one included */
    int *local;              /* their endpoints, ascending */
    int *node;               /* by endpoint: see tb_net_node */
    int *place_of;           /* by endpoint of this machine */
    struct tb_plan *job;     /* NULL: all on one machine */
    struct tb_routes cables; /* of the job, all alive */
    void *pool;              /* shared with the router; NULL: there is none */
    size_t pool_bytes;
};

/* Fills `out`; tb_machine_leave undoes it, also after a failure. */
tb_err tb_machine_join(struct tb_machine *out, const struct tb_config *config,
                       struct tb_boot *boot);
void tb_machine_leave(struct tb_machine *m);

#endif
