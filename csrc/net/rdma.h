/* SPDX-License-Identifier: MIT */
/*
 * rdma: packets over Thunderbolt cables, by Apple's verbs or any other that
 * offers unreliable-connected SEND and RECV. tb_transport_rdma keeps the
 * contract of transport.h; this header has what the contract has no word for:
 * cables, sockets, and slots that pass through without being copied.
 *
 * A *cable* joins one device here with one device at a neighbour's. A *link*
 * leads to one neighbour (an endpoint that owns the verbs of its machine) over
 * all cables between the two, up to TB_CABLES_MOST. A dead cable's traffic is
 * repaired over the link's others; when none is left the link is lost.
 *
 * Two stream sockets serve a pair of machines beside the verbs: a *wire* per
 * cable, which goes silent when the cable does (hello, queue pair numbers,
 * "receives posted", probes, epochs), and one over the *management* network
 * (is the other process alive; what the router has to say). Messages on them
 * are framed and checked by post.h.
 *
 * Nothing here blocks, once open has returned, but calls into the verbs
 * library that bring a queue pair up. reserve answers TB_ERR_AGAIN until the
 * link is up. Everything advances in poll, which must be called at least every
 * tb_rdma_nap() nanoseconds, since completions wake nobody.
 */
#ifndef TB_RDMA_H
#define TB_RDMA_H

#include "net/pool.h"
#include "net/transport.h"

/* A cable of this machine, as the plan of the job says. */
struct tb_cable {
    int id;                /* its number in the plan */
    int peer;              /* endpoint that owns the other end */
    const char *peer_name; /* that machine, for messages */
    const char *device;    /* e.g. rdma_en2: for messages, and where no device
                              has the address `gid` to tell names apart */
    uint8_t gid[16];       /* of this end, e.g. ::ffff:169.254.1.2 */
    uint8_t peer_gid[16];
    int wire; /* connected stream socket to the cable's other end */
};

/* A connection to another machine over the management network, also to such
 * as no cable leads to. */
struct tb_mgmt {
    int peer; /* endpoint that owns the verbs there */
    const char *name;
    int fd;
};

enum tb_cable_state { TB_CABLE_STARTING, TB_CABLE_UP, TB_CABLE_DEAD };

/* Beyond transport.h's sink; called from within poll only. Any may be NULL. */
struct tb_rdma_sink {
    void *ctx;
    /* The neighbour has the slot that tb_rdma_send was given; it is the
     * caller's again. */
    void (*sent)(void *ctx, uint32_t slot);
    /* A message that the process at endpoint `peer` gave to tb_rdma_tell. */
    void (*told)(void *ctx, int peer, const void *data, size_t bytes);
    /* A cable came up or died; `why` is one line that names it, its device and
     * both machines. Death of the last cable of a link: `lost` follows. */
    void (*cable)(void *ctx, int id, enum tb_cable_state state,
                  const char *why);
    /* The process at endpoint `peer` has ended without farewell, or its machine
     * has gone. If it is a neighbour, `lost` follows. */
    void (*gone)(void *ctx, int peer, const char *why);
    /* No word from endpoint `peer`, nor a sign of its death, for `ns`; told
     * once a silence, and again with 0 when the silence ends. */
    void (*silent)(void *ctx, int peer, uint64_t ns);
};

/*
 * What tb_port_args.rdma points to. Everything is copied by open but the pool
 * and verbs, which must outlive the port. Sockets become the port's once open
 * has succeeded; before, they stay the caller's.
 */
struct tb_rdma_args {
    struct tb_verbs *verbs;
    struct tb_regpool *pool; /* used by this port alone */
    const char *name;        /* of this machine, for messages */
    const char *build;       /* must be equal at both ends; e.g. TB_VERSION */
    const struct tb_cable *cables;
    int n_cables;
    const struct tb_mgmt *mgmt;
    int n_mgmt;
    /* Stream socket to a program that passes on what goes along the wires, and
     * sends back whatever it gets here: while it does not, silence on a wire
     * says nothing about the cable. 0: there is none, the wires are direct. */
    int relay;
    struct tb_rdma_sink more;
};

/*
 * Within packet(): takes the slot of the packet just handed up out of the
 * link, which posts another one in its place; its number. The slot holds
 * header and payload, sealed by the packet's maker, and is the caller's until
 * tb_rdma_give or tb_rdma_send. Within returned(): the same for the packet
 * handed back; one that is not kept goes back to the pool.
 */
uint32_t tb_rdma_keep(struct tb_port *port);

/* Gives a slot back to the pool: a kept one, or one that `sent` named. */
void tb_rdma_give(struct tb_port *port, uint32_t slot);

/*
 * Sends slot `slot` of the pool, filled and sealed (tb_slot_seal), without a
 * look at its payload. It is the link's until sent() names it; if the link is
 * lost first the packet comes back through returned(). TB_ERR_AGAIN: no credit
 * for its class now, the slot stays the caller's. TB_ERR_LOST: never again.
 */
tb_err tb_rdma_send(struct tb_link *link, enum tb_channel ch, uint32_t slot,
                    size_t bytes);

/* Says something to another machine's owner, over the management network, in
 * order, once; up to TB_TELL_MOST bytes. TB_ERR_AGAIN: the socket is full.
 * TB_ERR_LOST: that process is gone. */
#define TB_TELL_MOST 4096
tb_err tb_rdma_tell(struct tb_port *port, int peer, const void *data,
                    size_t bytes);

/* Longest sleep between two polls now, in ns; 0: poll on. Latency, not
 * correctness, hangs on it: an owner that sleeps longer is merely late. */
uint64_t tb_rdma_nap(struct tb_port *port);

/* True when nothing that was committed or sent waits for an acknowledgement;
 * for those who want to leave in order. */
bool tb_rdma_idle(const struct tb_port *port);

/* Says goodbye to the neighbours, so that what closes now is no loss to
 * them. After tb_rdma_idle; close follows. */
void tb_rdma_farewell(struct tb_port *port);

/* Counters since open, all cables of the port; for --where and tests. */
struct tb_rdma_counts {
    uint64_t sends, receives;   /* transmissions posted, completed */
    uint64_t packets;           /* handed up */
    uint64_t resent;            /* transmissions that repeated one */
    uint64_t lost;              /* transmissions that did not arrive */
    uint64_t damaged;           /* arrivals with a wrong checksum */
    uint64_t duplicates, stale; /* arrivals seen before, of a past epoch */
    uint64_t acks, probes;      /* transmissions without a packet; by socket */
    uint64_t epochs;            /* queue pairs reset and brought up again */
    uint64_t cables_lost;
};
void tb_rdma_count(const struct tb_port *port, struct tb_rdma_counts *out);

#endif
