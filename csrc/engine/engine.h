/* SPDX-License-Identifier: MIT */
/*
 * engine: messages. Matching, the eager and rendezvous protocols, requests and
 * progress, on top of net's packets. It knows contexts, ranks within them and
 * tags, but no communicators, datatypes or collectives.
 *
 * No globals. Calls on one engine are serialised by tb_engine_lock when more
 * than one thread uses it; waiting releases the lock while it idles.
 */
#ifndef TB_ENGINE_H
#define TB_ENGINE_H

#include "base/base.h"
#include "base/config.h"
#include "engine/layout.h"
#include "net/net.h"

#define TB_ANY_SOURCE (-1)
#define TB_ANY_TAG (-2)

struct tb_engine;
struct tb_context;
struct tb_arrival;

/* What a finished operation has to tell. */
struct tb_result {
    int source; /* rank within the context */
    int tag;
    int64_t bytes;
    int64_t sent; /* of the whole message; more than `bytes`: truncated */
    tb_err err;
    bool cancelled;
};

/* The error of a result, with a note that says what it means. */
tb_err tb_result_error(const struct tb_result *r);

enum tb_req_kind {
    TB_REQ_SEND,
    TB_REQ_RECV,
    TB_REQ_TASK /* completed by whoever made it: schedules, grequests */
};

enum tb_send_mode { TB_SEND_STANDARD, TB_SEND_SYNC, TB_SEND_READY };

/*
 * The one request. Made and freed by the engine; layers above use the marked
 * fields. `done` becomes true exactly once per start, after `result` is
 * whole; then `on_done`, if set, is called (from within a poll or from the
 * call that started the operation; it may start operations, not wait).
 */
struct tb_req {
    struct tb_list link; /* in the one queue that holds it */
    struct tb_engine *engine;
    enum tb_req_kind kind;
    bool done;
    struct tb_result result;

    void (*on_done)(struct tb_req *req); /* for the owner */
    void *owner;                         /* for the owner */
    uint32_t handle;                     /* for mpi/handle.c; 0: none */
    void *more;                          /* for mpi/request.c */
    void *comm;                          /* for mpi/request.c */

    /* The rest is the engine's. */
    char *buf;
    struct tb_layout *layout; /* NULL: `buf` is the one run */
    int64_t bytes;            /* of the stream: sent, or room to receive */
    int64_t moved;            /* of the stream, so far */
    int64_t expect;           /* receives: bytes that will be delivered */
    uint64_t context;         /* its name */
    int peer;                 /* endpoint; -1: any */
    int source, tag;
    uint64_t order; /* of posting, within the context */
    uint32_t seq;   /* of the envelope that was sent */
    uint32_t id;    /* of this request on the wire; 0: none */
    uint32_t remote_id;
    uint64_t remote_address;
    uint8_t mode;
    uint8_t state;
};

/* ---------------------------------------------------------------- life */

/* Opens net as well. `boot` stays the caller's and outlives the engine. */
tb_err tb_engine_open(struct tb_engine **out, const struct tb_config *config,
                      struct tb_boot *boot);
/* Frees everything; operations still open are forgotten. */
void tb_engine_close(struct tb_engine *e);
struct tb_net *tb_engine_net(struct tb_engine *e);

/* ------------------------------------------------------------- contexts */

/*
 * A context separates the messages of one communicator from all others. Its
 * `name` is the same number in every process that shares it and is never used
 * twice; messages that arrive before the context is opened here are kept for
 * it. `peers` gives the endpoint of each rank that may send here; copied by
 * reference, must outlive the context.
 */
tb_err tb_context_open(struct tb_engine *e, uint64_t name, const int *peers,
                       int n, struct tb_context **out);
/* One to send into only, which may share its name with one to receive from;
 * `peers` as above. */
tb_err tb_context_outward(struct tb_engine *e, uint64_t name, const int *peers,
                          struct tb_context **out);
/* Receives that are still posted stay so; the context ends with the last. */
void tb_context_close(struct tb_context *c);

/*
 * A context may be served instead: its messages are not received but handed to
 * a service as they arrive, by the rank that sent them, which has been checked.
 * The calls come from within a poll; they may start operations, not wait.
 */
struct tb_service {
    /* A short message, whose data are valid during the call. False: not now;
     * the message is kept. Called also while earlier ones are kept. */
    bool (*message)(struct tb_service *s, int source, int tag, const void *data,
                    int64_t bytes);
    /* A message has been kept: one that was not wanted now, or a long one. */
    void (*kept)(struct tb_service *s, int source, int tag);
};
/* Before the first message can have come. The service outlives the context. */
void tb_context_serve(struct tb_context *c, struct tb_service *s);
/* Takes out the oldest message that was kept from there; NULL: there is none.
 * *data: its bytes, until tb_arrival_drop; NULL: it is a long one, and has to
 * be received with tb_engine_recv_arrival. */
struct tb_arrival *tb_context_take(struct tb_context *c, int source, int tag,
                                   const void **data, int64_t *bytes);
void tb_arrival_drop(struct tb_engine *e, struct tb_arrival *a);

/* ------------------------------------------------------ point to point */

struct tb_send_args {
    struct tb_context *context;
    const void *buf;
    struct tb_layout *layout;
    int64_t count;
    int dest;   /* rank: an index into the context's peers */
    int source; /* what the receiver will see as the sender's rank */
    int tag;
    enum tb_send_mode mode;
};

struct tb_recv_args {
    struct tb_context *context;
    void *buf;
    struct tb_layout *layout;
    int64_t count;
    int source; /* rank or TB_ANY_SOURCE */
    int tag;    /* or TB_ANY_TAG */
};

/*
 * Start a send, a receive. The buffer is the engine's until the request is
 * done. With `quick`, a send that could be finished at once makes no request:
 * *out is NULL and the buffer is free. The request is the caller's to free.
 */
tb_err tb_engine_send(struct tb_engine *e, const struct tb_send_args *args,
                      bool quick, struct tb_req **out);
tb_err tb_engine_recv(struct tb_engine *e, const struct tb_recv_args *args,
                      struct tb_req **out);

/* Looks for a message that has arrived and that nobody has received; drives
 * progress once. *found says whether; then *result describes it. */
tb_err tb_engine_probe(struct tb_engine *e, struct tb_context *c, int source,
                       int tag, bool *found, struct tb_result *result);
/* The same, and takes the message out of matching; only
 * tb_engine_recv_arrival can receive it then, which consumes it. */
tb_err tb_engine_mprobe(struct tb_engine *e, struct tb_context *c, int source,
                        int tag, struct tb_arrival **found,
                        struct tb_result *result);
tb_err tb_engine_recv_arrival(struct tb_engine *e, struct tb_arrival *a,
                              void *buf, struct tb_layout *layout,
                              int64_t count, struct tb_req **out);

/* Tries to withdraw. The request completes in any case, `result.cancelled`
 * says how. Sends are asked back from the receiver, so this needs progress
 * there. */
tb_err tb_engine_cancel(struct tb_req *req);

/* A request that its maker completes, by tb_req_finish. */
tb_err tb_req_task(struct tb_engine *e, struct tb_req **out);
void tb_req_finish(struct tb_req *req, tb_err err);

/* Gives a request back. One that is not done is completed in the background
 * and freed then (MPI_Request_free); on_done is not called any more. */
void tb_req_free(struct tb_req *req);

/* -------------------------------------------------------------- counters */

struct tb_traffic {
    uint64_t messages_out, bytes_out; /* data of long messages: announced */
    uint64_t messages_in, bytes_in;
};

struct tb_engine_stats {
    struct tb_traffic inside;  /* with processes of this machine */
    struct tb_traffic outside; /* with others */
    uint64_t idle;             /* times that a wait was ready to sleep */
    uint64_t unexpected, unexpected_bytes; /* messages without a receive */
    uint64_t posted;                       /* receives without a message */
    uint64_t requests, contexts;           /* that exist */
};

/* Adds up what there is now; takes as long as the queues are. */
void tb_engine_stats(const struct tb_engine *e, struct tb_engine_stats *out);

/* ------------------------------------------------------------- progress */

/* Moves what can be moved; true when anything did. Never blocks. */
bool tb_engine_poll(struct tb_engine *e);

/* Polls and idles until the request is done, or `done(arg)` says so. Fails
 * only when waiting is pointless: the launcher or a needed peer is gone. */
tb_err tb_engine_wait(struct tb_engine *e, struct tb_req *req);
/* `done` may be asked by any thread, and again after it has said yes. */
tb_err tb_engine_wait_until(struct tb_engine *e, bool (*done)(void *arg),
                            void *arg);

/* Whether all that was started has left this process: no packet waits for
 * room, no long message is on its way. */
bool tb_engine_settled(const struct tb_engine *e);

/* Gives up: every wait fails with `why` and the present note from now on. For
 * what happens in an upcall and concerns nobody's request. */
void tb_engine_fail(struct tb_engine *e, tb_err why);

/* A test that came out false: gives others the processor now and then, so that
 * a loop over Test or Iprobe does not starve the rank it waits for. The error
 * that a wait would have ended with, so that the loop ends, too. */
tb_err tb_engine_tested(struct tb_engine *e);

/*
 * Work that wants to be run from progress, outside of any upcall. `run` is
 * called once per tb_engine_post, in order of posting.
 */
struct tb_task {
    struct tb_list link;
    void (*run)(struct tb_task *task);
    bool posted;
};
void tb_engine_post(struct tb_engine *e, struct tb_task *task);

/* A condition that no packet announces: `poll` is called in every progress
 * while the watch is on, until it answers true. A peer that changes the
 * condition rings this process (tb_net_ring). */
struct tb_watch {
    struct tb_list link;
    bool (*poll)(struct tb_watch *watch); /* true: satisfied, taken off */
};
void tb_engine_watch(struct tb_engine *e, struct tb_watch *watch);

/* -------------------------------------------------------------- threads */

/* Makes lock and unlock real. Before any second thread calls. */
void tb_engine_threaded(struct tb_engine *e);
void tb_engine_lock(struct tb_engine *e);
void tb_engine_unlock(struct tb_engine *e);

#endif
