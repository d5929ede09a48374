/* SPDX-License-Identifier: MIT */
/*
 * The sockets of a rank to the ranks of other machines, as its plan names them,
 * and the pipes by which the ranks of one machine wake each other from a sleep
 * in which they wait for sockets too.
 */
#ifndef TB_SOCKETS_H
#define TB_SOCKETS_H

#include "net/attach.h"
#include "net/tcp.h"

struct tb_sockets {
    struct tb_tcp_args args; /* socket NULL: there are none */
    const char **host;       /* by endpoint; points into the plan */
    const struct tb_plan *job;
    struct tb_bell **bell; /* by rank of this machine, in their order */
    int bells;             /* told of a pipe */
};

/* Fills `out`, all zero before, from the machine's plan, if it has one that
 * says so; tb_sockets_close undoes it, also after a failure. `own`: what this
 * process sleeps on. */
tb_err tb_sockets_open(struct tb_sockets *out, const struct tb_machine *m,
                       const struct tb_segment_plan *plan, struct tb_bell *own);
/* After the ports. Closes the pipes; the sockets are the port's. */
void tb_sockets_close(struct tb_sockets *s);

#endif
