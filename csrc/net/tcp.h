/* SPDX-License-Identifier: MIT */
/*
 * tcp: packets over stream sockets, one to each rank on another machine. The
 * launcher connects them, proves by the job's secret that both ends belong to
 * the job, and hands them over, so that the ranks neither listen nor dial.
 *
 * What is committed stays in a ring until the reader says that it has taken
 * it; so a link that is lost can hand back what was not, and a reader that
 * computes holds up its own link alone. The ring is what may be on its way.
 *
 * Sockets cost a system call a look, so a port whose rank also has neighbours
 * in shared memory looks at them now and then only, unless something came
 * the last time. Before it sleeps it always looks, and then sleeps in poll(2)
 * on all of them and on the pipe by which others ring (tb_bell_arm_pipe).
 */
#ifndef TB_TCP_H
#define TB_TCP_H

#include "net/transport.h"

#define TB_TCP_RING_LEAST 8192

struct tb_tcp_args {
    /* By endpoint: a connected stream socket, or -1. They become the port's
     * when it is open. */
    const int *socket;
    /* By endpoint: the name of its machine, for messages. Outlives the port. */
    const char *const *host;
    const char *build; /* of this library: both ends must be equal */
    int ear;           /* the reading end of the pipe of args.bell; or -1 */
    /* How long to keep to oneself that a connection has ended: the launcher,
     * which knows why, mostly ends this process meanwhile. */
    uint64_t mourn_ns;
};

/* Sleeps until something arrives, there is room where there was none, a byte
 * comes through the ear, or `ns` nanoseconds have passed. What it looks at is
 * what the last pending() of this port has found worth it: the caller arms the
 * bell (tb_bell_arm_pipe), asks pending, sleeps, and disarms. It touches
 * nothing else of the port, so others may use that meanwhile. */
void tb_tcp_sleep(struct tb_port *port, uint64_t ns);

#endif
