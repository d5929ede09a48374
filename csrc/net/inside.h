/* SPDX-License-Identifier: MIT */
/*
 * net's own structures, shared by its files only.
 *
 *   net.c     open, close, the ways to endpoints, packets
 *   shape.c   questions about nodes, ranks and cables
 *   idle.c    waiting
 */
#ifndef TB_INSIDE_H
#define TB_INSIDE_H

#include "net/attach.h"
#include "net/net.h"
#include "net/owner.h"
#include "net/sockets.h"

#define TB_TRANSPORTS 5
#define TB_LOST_WHY_BYTES 256

struct tb_net {
    const struct tb_config *config;
    struct tb_net_sink up;
    struct tb_boot *boot;
    struct tb_sink sink; /* what the transports call */
    int self, endpoints;
    struct tb_route *ways; /* by endpoint */
    struct tb_port *ports[TB_TRANSPORTS];
    struct tb_machine machine;
    struct tb_segment_plan plan;
    struct tb_owner owner;     /* of the verbs, where this rank is that */
    struct tb_port *rdma;      /* NULL: it is not; else one of `ports` */
    struct tb_sockets sockets; /* to other machines, where ranks have them */
    struct tb_port *tcp;       /* NULL: they have not; else one of `ports` */
    struct tb_bell *bell;
    struct tb_note *note;

    /* Waiting: see idle.c. */
    _Atomic bool crowded;
    uint32_t present;       /* ranks whose processors are known here */
    uint64_t spin_ns;       /* 0: do not */
    uint64_t spin_until;    /* of the present wait */
    _Atomic uint64_t nap;   /* longest sleep now; see tb_rdma_nap */
    uint64_t check_at;      /* when to look next whether the others live */
    _Atomic bool check_due; /* the next poll looks at the neighbours */
    _Atomic bool orphaned;  /* the launcher has gone */
    uint32_t polls;
    struct tb_bell own_bell; /* used where there is no segment */
    struct tb_note own_note;
};

/* The transports in the order of preference: the first that reaches an
 * endpoint carries. */
extern const struct tb_transport *const tb_transports[TB_TRANSPORTS];

/* Tells the others of this machine which processors this process may use. */
void tb_idle_init(struct tb_net *net);

tb_err tb_net_orphaned(void);

#endif
