/* SPDX-License-Identifier: MIT */
/*
 * net: endpoints and the ways between them. An endpoint is a process, numbered
 * from 0: the ranks of MPI_COMM_WORLD, and behind them the routers, one a
 * node, which only other routers and the hops of packets know (plan.h). net
 * owns the transports, the start-up exchange (boot.c) and the doorbell. It
 * moves packets by endpoint number and knows nothing of what is in them but
 * the first four bytes, struct tb_hop. From node to node packets go through
 * this node's router (relay.h), which knows the ways (routes.h); a lone rank
 * on every node may own the verbs itself.
 *
 * No globals: one process may open several (tests do).
 */
#ifndef TB_NET_H
#define TB_NET_H

#include "net/segment.h"
#include "net/transport.h"

/* First in every packet: who it is for and who made it. The maker fills it;
 * a node in between reads it to pass the packet on. */
struct tb_hop {
    uint16_t dest;
    uint16_t origin;
};

/* ------------------------------------------------------------------- boot */

/*
 * How this process was started. PMI-1's wire protocol (PMI_FD, PMI_PORT) to
 * whichever launcher serves it; without one, a job of one.
 */
struct tb_boot;

/* Reads the start-up variables, says hello to the launcher, and takes the
 * credentials out of the environment so that child processes are on their
 * own. Another launcher's variables that say "more than one rank" without a
 * PMI server are an error: N silent singletons are nobody's wish. */
tb_err tb_boot_open(struct tb_boot **out, const struct tb_config *config);
bool tb_boot_launched(const struct tb_boot *boot); /* false: alone */
int tb_boot_rank(const struct tb_boot *boot);
int tb_boot_size(const struct tb_boot *boot);
int tb_boot_appnum(const struct tb_boot *boot);   /* -1: unknown */
int tb_boot_universe(const struct tb_boot *boot); /* -1: unknown */

/* The key-value space, values of any length (chunked to the server's limits;
 * binary safe). get() waits for nothing: call fence() between. */
tb_err tb_boot_put(struct tb_boot *boot, const char *key, const void *value,
                   size_t bytes);
tb_err tb_boot_get(struct tb_boot *boot, const char *key, void *value,
                   size_t room, size_t *bytes);
tb_err tb_boot_fence(struct tb_boot *boot);

/* False once the launcher has gone. Never blocks. */
bool tb_boot_alive(struct tb_boot *boot);

/* Asks the launcher to end the job with `code`, because of `why`, which the
 * caller has put on the job board. Returns; the caller exits. */
void tb_boot_abort(struct tb_boot *boot, int code, const char *why);

/* Says goodbye, so that leaving is no failure, and frees. */
void tb_boot_close(struct tb_boot *boot);

/* -------------------------------------------------------------------- net */

struct tb_net;

/* What net calls, from within tb_net_poll only. Rules as in transport.h. */
struct tb_net_sink {
    void *ctx;
    void (*packet)(void *ctx, enum tb_channel ch, const void *data,
                   size_t bytes);
    /* TB_ERR_LOST: its process, or that of its router, has gone. Another
     * error: it may live, but nothing reaches it any more. The thread's note
     * (tb_fail_note) says what has happened. */
    void (*lost)(void *ctx, int endpoint, tb_err why);
};

struct tb_net_args {
    const struct tb_config *config;
    struct tb_net_sink up;
    struct tb_boot *boot; /* stays the caller's; outlives the net */
};

/* Attaches to the machine's segment, swapping cards through boot where the
 * launcher did not make one, and opens the transports. */
tb_err tb_net_open(struct tb_net **out, const struct tb_net_args *args);
void tb_net_close(struct tb_net *net);

int tb_net_self(const struct tb_net *net);
int tb_net_endpoints(const struct tb_net *net);

/*
 * Nodes: machines, or under --sim what behaves like one; numbered from 0.
 * Everything here is equal on all ranks and stays as it was at the start,
 * also when a cable dies, so that who chooses by it chooses like the others.
 */
int tb_net_nodes(const struct tb_net *net);
/* The node of an endpoint. Equal numbers share memory. */
int tb_net_node(const struct tb_net *net, int endpoint);
/* The ranks of a node, ascending, *n of them: may be none. */
const int *tb_net_ranks(const struct tb_net *net, int node, int *n);

/*
 * Cables between nodes. `hops` counts the cables on the shortest way between
 * two nodes: 0 within one, 1 for neighbours; `cables` those that join the two
 * directly. A direction of a cable carries what the other does not slow down.
 * ring_order: true when the cables make one ring through all nodes and nothing
 * besides; `order`, with room for all, then has the nodes as they follow each
 * other. On a mesh all hops between different nodes are 1.
 */
int tb_net_hops(const struct tb_net *net, int a, int b);
int tb_net_cables(const struct tb_net *net, int a, int b);
bool tb_net_ring_order(const struct tb_net *net, int *order);

/* This rank's note on the job board; a private one when there is no board. */
struct tb_note *tb_net_note(struct tb_net *net);

/*
 * Memory common to all endpoints of this machine: `bytes` for each, in the
 * order of tb_net_local(). NULL when there is none. All zero at first; its
 * use is the caller's (coll/commons.c).
 */
void *tb_net_commons(struct tb_net *net, size_t *bytes);

/* Endpoints of this machine in ascending order; *n of them. */
const int *tb_net_local(const struct tb_net *net, int *n);

/*
 * The route to an endpoint: the link to the next hop, and who carries. Stays
 * where it is for the net's life; what it says may change with the routes.
 * Sending goes by the transport's contract; the caller writes struct tb_hop
 * itself.
 */
struct tb_route {
    const struct tb_transport *by;
    struct tb_link *link;
    struct tb_limits limits;
    int neighbour; /* the endpoint itself, or one that passes packets on */
};
const struct tb_route *tb_net_route(const struct tb_net *net, int endpoint);

static inline tb_err tb_route_reserve(const struct tb_route *w,
                                      enum tb_channel ch, size_t max,
                                      struct tb_slot *out)
{
    return w->by->reserve(w->link, ch, max, out);
}

static inline void tb_route_commit(const struct tb_route *w,
                                   const struct tb_slot *slot, size_t bytes)
{
    w->by->commit(w->link, slot, bytes);
}

static inline tb_err tb_route_pull(const struct tb_route *w, uint64_t remote,
                                   void *local, size_t bytes, size_t *done)
{
    return w->by->pull(w->link, remote, local, bytes, done);
}

/* Delivers what has arrived on all transports; returns how many packets. */
int tb_net_poll(struct tb_net *net);

/* True when a poll now would do something. */
bool tb_net_pending(struct tb_net *net);

/*
 * Waiting. `idle` counts the caller's fruitless polls in a row, starting at 1;
 * tb_net_idle spins, yields or sleeps accordingly and returns when it is worth
 * polling again. `ready`, called before a sleep with `arg`, is the last look:
 * it says whether there is something to do, and so asks tb_net_pending too.
 * NULL: tb_net_pending alone. Apart from that look, tb_net_idle touches
 * nothing that a poll touches: with threads it is called without the lock
 * under which the others poll, which `ready` then takes. One caller at a time.
 * TB_ERR_LOST: the launcher is gone, give up.
 */
tb_err tb_net_idle(struct tb_net *net, unsigned idle, bool (*ready)(void *arg),
                   void *arg);

/* Wakes this process from tb_net_idle; for other threads. Wakes an endpoint of
 * this machine; for those that wrote to the commons. */
void tb_net_wake(struct tb_net *net);
void tb_net_ring(struct tb_net *net, int endpoint);

/* True when the processes of this job on this machine, routers included,
 * outnumber the processors that they may use. May change while ranks start. */
bool tb_net_crowded(const struct tb_net *net);

#endif
