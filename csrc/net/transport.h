/* SPDX-License-Identifier: MIT */
/*
 * The transport contract: what net.c asks of shm.c, self.c and their kin.
 *
 * A transport moves packets between neighbours. A neighbour is a process that
 * this one can reach without help, known by a small number (its endpoint).
 * A transport knows nothing of communicators, tags, datatypes, matching or
 * routes, reads no environment variable, and calls no other transport.
 *
 * Channels. A link has two: CONTROL delivers packets whole, once and in the
 * order of their commits; BULK delivers them whole and once, in any order, and
 * in no order relative to CONTROL.
 *
 * Sending. reserve() lends the caller memory in the link for one packet;
 * commit() hands it over, after which the caller may not touch it. Between the
 * two nothing else may be reserved on that link. When there is no room reserve
 * answers TB_ERR_AGAIN: nothing is queued, nobody waits, the caller keeps the
 * packet and tries again after a poll. Once there is room again the transport
 * rings the caller's bell, so that it may sleep meanwhile. A packet committed
 * is the link's until the neighbour has taken it over; if the link dies first,
 * `lost` hands each such packet back, oldest first.
 *
 * Receiving. poll() hands packets up through the sink, never more than a
 * bounded number a call, and never blocks. The memory of a packet is valid
 * only during the upcall. An upcall may reserve and commit, on any link, but
 * never poll: so there is no recursion to reason about.
 *
 * Threads. All calls on one port are serialised by its owner. Two ports of
 * one process are independent of each other (tests run both ends of a link as
 * threads of one process).
 */
#ifndef TB_TRANSPORT_H
#define TB_TRANSPORT_H

#include "base/base.h"
#include "base/config.h"

struct tb_port; /* a transport's state in this process */
struct tb_link; /* a way to one neighbour */
struct tb_rdma_args;
struct tb_relay_args;
struct tb_tcp_args;

enum tb_channel { TB_CONTROL, TB_BULK };

/* Memory lent by reserve. `data` is aligned to 8 bytes; `room` is at least
 * what was asked for. `cookie` belongs to the transport. */
struct tb_slot {
    void *data;
    size_t room;
    uint64_t cookie;
};

/* Fixed once the link exists. Sizes in bytes. */
struct tb_limits {
    size_t packet_max;   /* longest packet that reserve grants */
    size_t eager_max;    /* longest message worth sending without asking */
    size_t pull_min;     /* shortest message worth a pull; SIZE_MAX: none */
    uint32_t latency_ns; /* of one packet, roughly; orders routes */
    /* Shorter lengths at which a packet fills what carries it; 0: none. */
    size_t middle, small;
};

/* How much of a long message, with `bytes` left, to put into the next BULK
 * packet. Its end goes in middle packets: the last one is read only when it
 * has arrived whole. What carries a packet travels whole, so a small rest is
 * cheaper in small ones; from five eighths on a middle one is, a packet costing
 * about as much as a frame of 4 KiB takes. */
static inline size_t tb_limits_fit(const struct tb_limits *l, size_t bytes)
{
    size_t most = l->packet_max;

    if (TB_UNLIKELY(bytes <= most) && l->middle)
        most = bytes < l->middle / 8 * 5 ? l->small : l->middle;
    return TB_MIN(bytes, most);
}

/* What a transport calls, only from within poll (and connect, for `lost`). */
struct tb_sink {
    void *ctx;
    void (*packet)(void *ctx, int from, enum tb_channel ch, const void *data,
                   size_t bytes);
    /* One packet the lost link had not delivered; called before `lost`. */
    void (*returned)(void *ctx, int to, enum tb_channel ch, const void *data,
                     size_t bytes);
    /* The link to `peer` is dead; reported once. TB_ERR_LOST: its process is
     * gone, or on the way to it a router's. Other errors: it may live. The
     * thread's note (tb_fail) says what has happened. */
    void (*lost)(void *ctx, int peer, tb_err why);
};

struct tb_port_args {
    const struct tb_config *config;
    const struct tb_sink *up; /* outlives the port */
    int self;                 /* this process's endpoint */
    int endpoints;            /* of the job */
    void *segment;            /* of this machine, mapped; NULL: none */
    size_t segment_bytes;
    int local_rank; /* this process's place in the segment */
    int local_ranks;
    const int *local;                /* endpoint of each place in the segment */
    struct tb_bell *bell;            /* what this process sleeps on */
    const _Atomic bool *crowded;     /* see tb_net_crowded; NULL: it is not */
    const struct tb_rdma_args *rdma; /* NULL: it owns no verbs */
    const struct tb_relay_args *relay; /* NULL: no router */
    const struct tb_tcp_args *tcp;     /* NULL: no sockets to other machines */
};

/* What `crowded` says now. Relaxed: advice, which orders nothing. */
static inline bool tb_is_crowded(const _Atomic bool *crowded)
{
    return crowded && atomic_load_explicit(crowded, memory_order_relaxed);
}

/*
 * One const table per transport; no entry is NULL: what a transport does not
 * offer answers TB_ERR_NOTSUP.
 */
struct tb_transport {
    const char *name;

    /* Takes local resources only; talks to nobody. On failure nothing is left
     * behind and *out is untouched. */
    tb_err (*open)(struct tb_port **out, const struct tb_port_args *args);

    /* Makes a link to endpoint `peer`. Does not wait for the peer: packets may
     * be committed at once. TB_ERR_NOTSUP: not reachable this way. The link
     * belongs to the port and dies with it. */
    tb_err (*connect)(struct tb_port *port, int peer, struct tb_link **out);

    /* Lends room for a packet of up to `max` bytes, 1 to packet_max.
     * TB_ERR_AGAIN: not now. TB_ERR_LOST: never again. */
    tb_err (*reserve)(struct tb_link *link, enum tb_channel ch, size_t max,
                      struct tb_slot *out);

    /* Sends the first `bytes` of the slot; 0 gives it back unused. Cannot
     * fail: a dead link shows by `lost`. */
    void (*commit)(struct tb_link *link, const struct tb_slot *slot,
                   size_t bytes);

    /* Delivers what has arrived; returns the number of packets. */
    int (*poll)(struct tb_port *port);

    /* True when a poll now would do something. For the last look before
     * sleep; cheap, no upcalls. */
    bool (*pending)(struct tb_port *port);

    /* Copies `bytes` from the neighbour's memory at `remote` to `local`,
     * without the neighbour's help. Blocks for as long as the copy takes and
     * no longer. TB_ERR_NOTSUP: not on this link, now or ever again, use
     * packets; *done then says how many leading bytes are right. */
    tb_err (*pull)(struct tb_link *link, uint64_t remote, void *local,
                   size_t bytes, size_t *done);

    void (*limits)(const struct tb_link *link, struct tb_limits *out);

    /* Looks whether the neighbours still live; a dead one shows by `lost` at
     * a later poll. For now and then: it may cost a system call a peer. */
    void (*check)(struct tb_port *port);

    /* Gives everything back. What was committed is not waited for: the owner
     * drains first, by its own protocol. */
    void (*close)(struct tb_port *port);
};

extern const struct tb_transport tb_transport_self;
extern const struct tb_transport tb_transport_shm;
extern const struct tb_transport tb_transport_relay;
extern const struct tb_transport tb_transport_rdma;
extern const struct tb_transport tb_transport_tcp;

#endif
