/* SPDX-License-Identifier: MIT */
/*
 * The engine's own structures, shared by its files only.
 *
 *   engine.c    open, close, packets in, peers
 *   match.c     contexts, the posted and the unexpected queue
 *   request.c   requests: pool, numbers on the wire, completion, cancel
 *   send.c      the sending half of the protocols
 *   recv.c      the receiving half
 *   progress.c  polling, waiting, tasks, threads
 *   stats.c     what it tells about itself
 */
#ifndef TB_ENGINE_INTERNAL_H
#define TB_ENGINE_INTERNAL_H

#include <pthread.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/packet.h"

/* The window counts in units, so that empty messages cost something too. */
#define TB_UNIT 64
#define TB_PULL_CHUNK (4 << 20) /* bytes a pull may take of one poll */

/* Where a request stands. */
enum tb_state {
    TB_STATE_IDLE,
    TB_STATE_QUEUED,  /* send: waits in peer->sends for room */
    TB_STATE_OFFERED, /* send: RTS or synchronous packet is out */
    TB_STATE_STREAM,  /* send: in engine->streams */
    TB_STATE_POSTED,  /* receive: in the matching queue */
    TB_STATE_PULL,    /* receive: in engine->pulls */
    TB_STATE_FILL     /* receive: fragments arrive */
};

/* What this process knows of one endpoint; made on first use. */
struct tb_peer {
    int endpoint;
    const struct tb_route *route;
    tb_err lost;  /* why nothing can be sent any more */
    bool stalled; /* in engine->stalled: outbox or sends are not empty */
    struct tb_peer *next_stalled;

    uint64_t seq;          /* of the next envelope to it; 32 bits travel */
    uint64_t bytes_out;    /* of data announced or sent to it, ever */
    uint32_t used;         /* eager units sent, ever */
    uint32_t credited;     /* of those, consumed by it as it last said */
    struct tb_list outbox; /* struct tb_parcel: small packets without room */
    struct tb_list sends;  /* struct tb_req: sends without room, in order */

    uint64_t expect;      /* seq of the next envelope from it */
    uint64_t bytes_in;    /* of data announced or sent by it, ever */
    uint32_t consumed;    /* eager units from it, ever */
    uint32_t reported;    /* of those, told to it */
    struct tb_list early; /* struct tb_arrival: envelopes ahead of their turn */

    size_t eager_max, pull_min; /* copied from net's limits */
};

/* A small packet that waits for room. */
struct tb_parcel {
    struct tb_list link;
    uint32_t bytes;
    uint64_t packet[TB_PACKET_SMALL / 8];
};

/* A message that came before its receive. */
struct tb_arrival {
    struct tb_list link;     /* in its bin of the context; or peer->early */
    struct tb_list in_order; /* in the context's list of all */
    struct tb_context *context;
    int peer;
    int source, tag;
    int64_t bytes;
    uint32_t seq;
    uint32_t units;     /* of the window, given back when consumed */
    uint32_t remote_id; /* RTS, or synchronous: the sender's request */
    uint64_t address;   /* RTS */
    bool rts, sync;
    uint32_t packet_bytes;
    void *data; /* eager data, or (early) the whole packet; within `room`
                   or of its own */
    uint64_t room[12];
};

#define TB_BINS_MAX 64

struct tb_context {
    struct tb_context *next; /* in the hash chain */
    struct tb_engine *engine;
    uint64_t name;
    const int *peers;
    int n;
    bool open;                  /* false: only holds early arrivals */
    bool closing;               /* ends with its last posted receive */
    struct tb_service *service; /* NULL: messages are received */
    unsigned mask;              /* of bins */
    uint64_t order;             /* of the next posted receive */
    struct tb_list any;         /* posted with ANY_SOURCE */
    struct tb_list arrivals;    /* all unexpected, in order of arrival */
    struct tb_bin {
        struct tb_list posted;
        struct tb_list arrived;
    } * bins;
};

struct tb_waiter {
    struct tb_list link;
    pthread_cond_t wake;
    bool (*done)(void *arg);
    void *arg;
};

#define TB_CHAINS_LEAST 64

struct tb_engine {
    struct tb_net *net;
    const struct tb_config *config;
    struct tb_note *note;
    int self;
    int endpoints;
    struct tb_peer **peers;
    uint32_t window;     /* units */
    tb_err fatal;        /* why no wait can succeed any more … */
    char fatal_why[256]; /* … in words; "": the error says it */

    struct tb_context *last;    /* the context of the last packet */
    struct tb_context **chains; /* a hash table by name; grows */
    unsigned chains_mask, contexts;

    /* Work for progress; `busy` is true when any of them is not empty. */
    bool busy;
    struct tb_peer *stalled;
    struct tb_list streams; /* sends that put out fragments */
    struct tb_list pulls;   /* receives that copy from the sender's memory */
    struct tb_list tasks;
    struct tb_list watches;

    struct tb_pool requests, arrivals, parcels;
    struct tb_slotted { /* requests that have a number on the wire */
        struct tb_req *req;
        uint32_t generation;
        uint32_t next_free;
    } * slots;
    uint32_t slots_n, slots_free;
    unsigned tested; /* false tests in a row */

    bool threaded;
    bool polling; /* some thread holds the progress baton */
    bool asleep;  /* and sleeps */
    pthread_mutex_t lock;
    _Atomic int contenders; /* threads that want the lock */
    struct tb_list waiters;
};

/* Whether waiting is pointless, as an error with its note. */
static inline tb_err tb_fatal(const struct tb_engine *e)
{
    if (TB_UNLIKELY(e->fatal && e->fatal_why[0]))
        tb_fail_say("%s", e->fatal_why);
    return e->fatal;
}

/* engine.c */
struct tb_peer *tb_peer_make(struct tb_engine *e, int endpoint);
static inline struct tb_peer *tb_peer_of(struct tb_engine *e, int endpoint)
{
    struct tb_peer *p = e->peers[endpoint];
    return TB_LIKELY(p != NULL) ? p : tb_peer_make(e, endpoint);
}

/* match.c. `post` finds the arrival that a receive takes, or queues it;
 * `arrive` finds the receive that an envelope belongs to. */
struct tb_context *tb_context_find(struct tb_engine *e, uint64_t name);
struct tb_context *tb_context_hold(struct tb_engine *e, uint64_t name);
struct tb_req *tb_match_arrive(struct tb_context *c, int source, int tag);
struct tb_arrival *tb_match_look(struct tb_context *c, int source, int tag);
void tb_match_post(struct tb_context *c, struct tb_req *req);
void tb_match_keep(struct tb_context *c, struct tb_arrival *a);
void tb_match_take(struct tb_arrival *a);
struct tb_arrival *tb_match_by_seq(struct tb_engine *e, int peer, uint32_t seq);
tb_err tb_contexts_init(struct tb_engine *e);
void tb_contexts_fini(struct tb_engine *e);

/* request.c */
struct tb_req *tb_req_new(struct tb_engine *e, enum tb_req_kind kind);
tb_err tb_req_number(struct tb_req *req);
void tb_req_unnumber(struct tb_req *req);
struct tb_req *tb_req_by_number(struct tb_engine *e, uint32_t id);
void tb_req_done(struct tb_req *req);
void tb_req_failed(struct tb_req *req, tb_err err);
void tb_handle_cancel(struct tb_engine *e, const struct tb_cancel *k);
void tb_handle_recall(struct tb_engine *e, const struct tb_cancel *k);
/* Sets where the data of a request lies. */
tb_err tb_req_describe(struct tb_req *req, const void *buf,
                       struct tb_layout *layout, int64_t count);

/* send.c */
tb_err tb_post_small(struct tb_engine *e, struct tb_peer *p, void *packet,
                     size_t bytes);
void tb_peer_flush(struct tb_engine *e, struct tb_peer *p);
void tb_peer_stall(struct tb_engine *e, struct tb_peer *p);
bool tb_stream_push(struct tb_engine *e, struct tb_req *req);
void tb_handle_cts(struct tb_engine *e, const struct tb_cts *k);
void tb_handle_fin(struct tb_engine *e, const struct tb_fin *k);
void tb_send_fin(struct tb_engine *e, struct tb_peer *p, uint32_t id);

/* recv.c */
void tb_handle_envelope(struct tb_engine *e, const struct tb_envelope *k,
                        size_t bytes);
void tb_handle_data(struct tb_engine *e, const struct tb_data *k, size_t bytes);
void tb_pull_some(struct tb_engine *e, struct tb_req *req);
void tb_arrival_free(struct tb_engine *e, struct tb_arrival *a);

/* Fills the base of a packet; takes the credit along. */
static inline void tb_base_fill(struct tb_engine *e, struct tb_peer *p,
                                struct tb_base *b, enum tb_packet_kind kind,
                                uint32_t seq)
{
    b->hop.dest = (uint16_t)p->endpoint;
    b->hop.origin = (uint16_t)e->self;
    b->kind = (uint8_t)kind;
    b->flags = 0;
    b->spare = 0;
    b->credit = p->reported = p->consumed;
    b->seq = seq;
}

/* Eager units that a message of so many bytes takes of the window. */
static inline uint32_t tb_units(int64_t bytes)
{
    return 1 + (uint32_t)(bytes / TB_UNIT);
}

/* Bytes of the stream of `count` elements. */
static inline tb_err tb_stream_bytes(const struct tb_layout *l, int64_t count,
                                     int64_t *bytes)
{
    if (TB_LIKELY(!__builtin_mul_overflow(count, l->size, bytes)))
        return TB_OK;
    return tb_fail(TB_ERR_COUNT,
                   "count is %lld: that many elements of %lld bytes do not fit "
                   "any memory",
                   (long long)count, (long long)l->size);
}

/* The stream of a request, to and from memory elsewhere. */
static inline void tb_req_read(const struct tb_req *r, int64_t from, void *out,
                               int64_t n)
{
    if (TB_UNLIKELY(!n))
        return; /* there may be no buffer at all */
    if (TB_LIKELY(!r->layout))
        memcpy(out, r->buf + from, (size_t)n);
    else
        tb_layout_pack(r->layout, r->buf, from, out, n);
}

static inline void tb_req_write(const struct tb_req *r, int64_t from,
                                const void *in, int64_t n)
{
    if (TB_LIKELY(!r->layout))
        memcpy(r->buf + from, in, (size_t)n);
    else
        tb_layout_unpack(r->layout, r->buf, from, in, n);
}

#endif
