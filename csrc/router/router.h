/* SPDX-License-Identifier: MIT */
/*
 * tbmpi-router: owns the verbs of one node for one job. It takes packets from
 * the ranks beside it and puts them on cables, takes what arrives to its ranks
 * or passes it on, and goes on doing so while ranks compute, and after they
 * have died. docs/routing.md says why it is as it is.
 *
 *   main.c     the process: plan, descriptors, signals, exit codes
 *   router.c   opening, closing, getting ready together with the others
 *   loop.c     polling and napping
 *   lanes.c    the ranks of this node: their words, their slots, their death
 *   forward.c  packets: where to next, and what waits
 *   windows.c  how much may be on its way
 *   ways.c     cables that die, nodes that cannot be reached
 *   holders.c  who else on this machine uses the devices
 *
 * One thread, no globals.
 */
#ifndef TB_ROUTER_H
#define TB_ROUTER_H

#include <signal.h>

#include "base/config.h"
#include "net/net.h"
#include "net/owner.h"
#include "net/relay.h"
#include "net/routes.h"
#include "net/segment.h"
#include "router/windows.h"

/* Where a slot is that is not the port's or the pool's. */
enum tb_whose {
    TB_WHOSE_POOL,   /* nobody's, or the port's */
    TB_WHOSE_RANK,   /* lent: stock to fill, or a packet to read */
    TB_WHOSE_ROUTER, /* in one of the queues */
    TB_WHOSE_LINK    /* sent, until the neighbour has it */
};

/* What the router knows of a slot. */
struct tb_load {
    uint32_t next;  /* in its queue */
    uint32_t bytes; /* of the packet */
    uint16_t dest, origin;
    uint8_t channel;
    uint8_t whose;
    bool reading; /* lent to be read, not to be filled */
    /* The rank that it is lent to, or whose stock it goes back to; or NONE. */
    int16_t place;
};
#define TB_PLACE_NONE (-1)

struct tb_queue {
    uint32_t first, last; /* slots; first TB_SLOT_NONE: empty */
};

/* One rank of this node. */
struct tb_rank_lane {
    int rank;
    struct tb_ring_end in, out; /* up, down */
    struct tb_bell *bell;
    struct tb_note *note;
    uint32_t lent;          /* slots */
    struct tb_queue behind; /* packets for it, beyond what may be lent */
    bool gone;              /* dead, or in disorder; its slots are taken back */
    uint64_t stopped_at;    /* when that was seen; 0: it is not */
    bool told_stopped;
};

/* One other node. */
struct tb_far {
    struct tb_link *link;       /* NULL: no cable, or none that lives */
    struct tb_queue leaving[2]; /* by channel: packets that go there next */
    bool tell_window;           /* it is to be told of window given back, … */
    bool tell_hello;            /* … that this router is ready, … */
    bool tell_news;             /* … which cables are dead */
    bool ready;                 /* it has said hello */
    bool gone;                  /* its owner's process, as somebody has said */
    bool lost;                  /* the ranks have been told */
};

struct tb_router {
    const struct tb_config *config;
    struct tb_plan *plan;
    struct tb_owner owner; /* verbs and pool */
    struct tb_port *port;
    struct tb_pool_head *head;
    struct tb_sink sink;
    void *segment;
    size_t segment_bytes;
    struct tb_segment_plan board;

    int places;
    struct tb_rank_lane *lanes;
    struct tb_load *loads;      /* by slot */
    struct tb_queue (*held)[2]; /* by rank and channel: wait for window */
    struct tb_queue strays;     /* handed back by a link that is being lost */
    struct tb_far far[TB_NODES_MOST];
    struct tb_routes routes;
    struct tb_windows windows;
    int last_cut;  /* the cable whose death changed the ways last; or -1, … */
    int last_gone; /* or the node, if it was that of a process; or -1 */

    enum tb_cable_state cable[TB_PLAN_CABLES_MOST]; /* own ones */
    uint32_t spare[TB_CLASSES];   /* slots for transit, here */
    uint32_t poorest[TB_CLASSES]; /* the least that anybody has said */
    bool said_hello;
    bool up;
    bool leaving;
    tb_err broken; /* cannot go on */
    char why[256]; /* that is so */

    uint64_t check_at; /* when to look after the ranks next … */
    uint64_t stops_at; /* … and which of them are stopped */
    bool work;         /* queues may have something to send */
};

/* ---------------------------------------------------------------- router.c */

/* Takes the plan over; the config must outlive the router. On failure the
 * pool's state says why, where there is a pool. */
tb_err tb_router_open(struct tb_router **out, const struct tb_config *config,
                      struct tb_plan *plan);
/* Everything back in order; neighbours see no loss if `tb_router_leave` came
 * before. */
void tb_router_close(struct tb_router *r);

/* One round: everything that can be done now. Returns how much was done. */
int tb_router_turn(struct tb_router *r);

/* No new packets from the ranks; what has been taken over is delivered. */
void tb_router_leave(struct tb_router *r);
/* True when nothing is left to do. */
bool tb_router_left(const struct tb_router *r);

/* It took too long to get ready: breaks, and says what is missing. */
void tb_router_late(struct tb_router *r);

/* Looks after ranks and neighbours, if it is time. */
void tb_router_check(struct tb_router *r, uint64_t now);

/* It cannot go on: the next look at `broken` ends it. */
void tb_router_break(struct tb_router *r, tb_err err, const char *why);

/* Says to the ranks that this router is no use any more. */
void tb_router_fail(struct tb_router *r, const char *why);

/* ------------------------------------------------------------------ loop.c */

/* Turns and naps until `stop` is set, then leaves in order. Returns an error
 * with a note when it had to give up. */
tb_err tb_router_run(struct tb_router *r, const volatile sig_atomic_t *stop);

/* ----------------------------------------------------------------- lanes.c */

tb_err tb_lanes_open(struct tb_router *r);
void tb_lanes_close(struct tb_router *r);
/* Lends every rank its stock of empty slots. */
void tb_lanes_stock(struct tb_router *r);
int tb_lanes_poll(struct tb_router *r);
bool tb_lanes_pending(const struct tb_router *r);
/* Looks which ranks have died, or are stopped. */
void tb_lanes_check(struct tb_router *r, uint64_t now);
/* A packet for a rank of this node. */
void tb_lane_deliver(struct tb_router *r, int place, uint32_t slot);
/* A slot whose packet is out of the house goes back to where it came from. */
void tb_lane_return(struct tb_router *r, uint32_t slot);
/* Node `node` cannot be reached any more. */
void tb_lanes_lose(struct tb_router *r, int node);
/* Wakes all ranks: the state in the pool's head has changed. */
void tb_lanes_wake(struct tb_router *r);

/* --------------------------------------------------------------- forward.c */

static inline void tb_queue_init(struct tb_queue *q)
{
    q->first = q->last = TB_SLOT_NONE;
}

static inline bool tb_queue_empty(const struct tb_queue *q)
{
    return q->first == TB_SLOT_NONE;
}

static inline void tb_queue_put(struct tb_router *r, struct tb_queue *q,
                                uint32_t slot)
{
    r->loads[slot].next = TB_SLOT_NONE;
    if (tb_queue_empty(q))
        q->first = slot;
    else
        r->loads[q->last].next = slot;
    q->last = slot;
}

static inline uint32_t tb_queue_take(struct tb_router *r, struct tb_queue *q)
{
    uint32_t slot = q->first;

    q->first = r->loads[slot].next;
    return slot;
}

/* A packet that a rank of this node has made; its load is filled. */
void tb_forward_new(struct tb_router *r, uint32_t slot);
/* Sends what has found no room or no window before. */
int tb_forward_flush(struct tb_router *r);
/* Ways have changed: all that waits for a neighbour is looked at again. */
void tb_forward_again(struct tb_router *r);
/* Tells nodes of window that their packets' readers have given back. */
void tb_forward_windows(struct tb_router *r);

void tb_forward_packet(void *ctx, int from, enum tb_channel ch,
                       const void *data, size_t bytes);
void tb_forward_returned(void *ctx, int to, enum tb_channel ch,
                         const void *data, size_t bytes);
void tb_forward_sent(void *ctx, uint32_t slot);

/* ------------------------------------------------------------------ ways.c */

void tb_ways_cable(void *ctx, int id, enum tb_cable_state state,
                   const char *why);
void tb_ways_gone(void *ctx, int peer, const char *why);
void tb_ways_lost(void *ctx, int peer, tb_err why);
void tb_ways_told(void *ctx, int peer, const void *data, size_t bytes);
/* Says what there is to say to the other routers. */
void tb_ways_tell(struct tb_router *r);
/* Publishes next hops for whoever looks. */
void tb_ways_publish(struct tb_router *r);
/* All cables of this node have come up or died. */
bool tb_ways_settled(const struct tb_router *r);

#endif
