/* SPDX-License-Identifier: MIT */
/*
 * The verbs objects of one process. The public struct comes first in each, so
 * that a pointer to one is a pointer to the other.
 *
 * One lock per context, held for the length of a call: the verbs may be called
 * by several threads.
 */
#ifndef TB_FABRIC_OBJECTS_H
#define TB_FABRIC_OBJECTS_H

#include "fabric/state.h"

#include <errno.h>

/* An exported verb: its symbol is ibv_NAME, while in C it is fab_NAME, so that
 * no header's declarations or macros for the former are in the way. */
#define FAB_TEXT_OF(x) #x
#define FAB_TEXT(x) FAB_TEXT_OF(x)
#define FAB_VERB(result, name, ...)                           \
    __attribute__((visibility("default"))) result fab_##name( \
        __VA_ARGS__) __asm__(FAB_TEXT(__USER_LABEL_PREFIX__) "ibv_" #name)

/* Error numbers as macOS has them; fab_code makes them the system's if the
 * switch says so. */
enum {
    FAB_ENXIO = 6,
    FAB_ENOMEM = 12,
    FAB_EFAULT = 14,
    FAB_EBUSY = 16,
    FAB_EINVAL = 22,
    FAB_ETIMEDOUT = 60,
    FAB_ENODATA = 96,
    FAB_EOPNOTSUPP = 102
};
int fab_code(const struct fab_state *s, int darwin);

struct fab_handle {
    struct tb_ibv_device pub;
    struct fab_map *map;
    uint32_t index;        /* of the device in the state */
    _Atomic uint32_t refs; /* lists and contexts */
};

struct fab_context {
    struct tb_ibv_context pub;
    _Atomic uint32_t busy; /* the lock */
    struct fab_handle *handle;
    struct fab_state *s;
    struct fab_device *d;
    struct fab_cable *cable;
    uint32_t owner;          /* of what is claimed through it */
    volatile char *doorbell; /* a page that may not be touched */
    /* What has been made through it, by the device's slots. */
    struct fab_domain *domain[FAB_PDS];
    struct fab_cq *cq[FAB_CQS];
    struct fab_pair *pair[FAB_QPS];
    struct fab_region *region[FAB_MRS];
};

struct fab_domain {
    struct tb_ibv_pd pub;
    uint32_t objects;
};

struct fab_region {
    struct tb_ibv_mr pub;
    uint32_t key;
    bool misplaces; /* it crosses a 4 GiB line, and that matters */
};

struct fab_cq {
    struct tb_ibv_cq pub;
    int users;
    int next; /* who is looked at first */
    struct fab_pair *pair[2 * FAB_QPS];
};

struct fab_send {
    uint64_t wr_id;
    const char *data;
    uint64_t begin, finish; /* on the wire; valid once booked */
    uint32_t bytes;
    uint32_t good; /* leading bytes that are read; the others are zero */
    uint32_t frames;
    uint8_t status; /* not SUCCESS: is not sent */
    bool nothing;   /* completes, but does not travel */
    bool signaled;
};

struct fab_recv {
    uint64_t wr_id;
    char *data;
    uint64_t posted_at; /* known in drop mode only */
    uint32_t bytes;
    uint32_t good; /* leading bytes that are written */
    uint32_t frames;
    uint8_t status; /* what it will fail with */
};

/* A queue of work requests: from head to tail, counted without end; the size
 * is a power of two. Sends pass two more marks on the way. */
struct fab_pair {
    struct tb_ibv_qp pub;
    struct fab_context *c;
    struct fab_qp *me;
    struct fab_qp *peer; /* NULL until RTR */
    uint32_t slot;
    uint32_t dest;
    uint32_t plugs; /* of the cable when connected: else the way is dead */
    bool signal_all;
    struct tb_ibv_qp_attr attr;

    struct fab_send *send;
    uint32_t send_size, send_head, send_sent, send_booked, send_tail;
    uint32_t send_frames;
    struct fab_message *out;
    uint32_t tx_epoch;
    uint32_t to_epoch;  /* the peer's rx_epoch that `credit` is about */
    uint64_t booked;    /* messages that have wire time, in this epoch */
    uint64_t published; /* and that are in the ring */
    uint64_t freed;     /* and that the peer has taken, as far as known */
    uint64_t credit;    /* messages that surely find a RECV */
    uint64_t last_due;
    uint32_t place; /* in the ring */
    uint64_t dice;

    struct fab_recv *recv;
    uint32_t recv_size, recv_head, recv_tail;
    uint32_t recv_frames;
    struct fab_message *in;
    uint32_t rx_epoch;
    uint32_t in_epoch; /* the peer's tx_epoch that is followed */
    uint64_t posted, matched, taken;
    uint32_t copied; /* bytes of the next message that are in place */
};

static inline void fab_enter(struct fab_context *c)
{
    for (int spins = 0;
         atomic_exchange_explicit(&c->busy, 1, memory_order_acquire);) {
        if (++spins < 50)
            tb_relax();
        else
            tb_yield();
    }
}

static inline void fab_leave(struct fab_context *c)
{
    atomic_store_explicit(&c->busy, 0, memory_order_release);
}

static inline uint32_t fab_frames(uint32_t bytes)
{
    return bytes ? (bytes + TB_IBV_FRAME - 1) / TB_IBV_FRAME : 1;
}

/* False once the cable was pulled, or the port down, since RTR: nothing comes
 * or goes any more. */
static inline bool fab_alive(const struct fab_pair *q)
{
    return atomic_load_explicit(&q->c->cable->plugs, memory_order_relaxed) ==
           q->plugs;
}

/* --------------------------------------------------------------- device.c */

/* One GID of a device; all zero where there is none. False: no such index. */
bool fab_gid(const struct fab_device *d, uint32_t index, union tb_ibv_gid *out);
bool fab_gid_is_ipv4(const union tb_ibv_gid *gid);

void fab_handle_keep(struct fab_handle *h);
void fab_handle_drop(struct fab_handle *h);

/* -------------------------------------------------------------- objects.c */

/* Destroys whatever a context still has. */
void fab_empty(struct fab_context *c);

/* ----------------------------------------------------------------- wire.c */

/* Moves the queue's sends on: wire time for those that have credit, then into
 * the ring whatever it is time for. `now` as of tb_now. */
void fab_push(struct fab_pair *q, uint64_t now);

/* Something of the peer's waits to be taken, due or not. */
bool fab_arrived(struct fab_pair *q);

/* The next RECV to complete: 1 and *out filled, or 0. */
int fab_take(struct fab_pair *q, uint64_t now, struct tb_ibv_wc *out);

/* ----------------------------------------------------------------- post.c */

int fab_post_send(struct tb_ibv_qp *qp, struct tb_ibv_send_wr *list,
                  struct tb_ibv_send_wr **bad);
int fab_post_recv(struct tb_ibv_qp *qp, struct tb_ibv_recv_wr *list,
                  struct tb_ibv_recv_wr **bad);
int fab_poll_cq(struct tb_ibv_cq *cq, int room, struct tb_ibv_wc *out);

int fab_req_notify_cq(struct tb_ibv_cq *cq, int solicited_only); /* never */

/* Fills what all completions have. */
static inline void fab_complete(const struct fab_pair *q, struct tb_ibv_wc *out,
                                uint64_t wr_id, uint8_t status,
                                enum tb_ibv_wc_opcode opcode, uint32_t bytes)
{
    memset(out, 0, sizeof(*out));
    out->wr_id = wr_id;
    out->status = (enum tb_ibv_wc_status)status;
    out->opcode = opcode;
    out->byte_len = bytes;
    out->qp_num = q->pub.qp_num;
    out->src_qp = q->dest;
}

#endif
