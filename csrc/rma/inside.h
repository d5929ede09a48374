/* SPDX-License-Identifier: MIT */
/* rma's own structures, shared by its files only. */
#ifndef TB_RMA_INSIDE_H
#define TB_RMA_INSIDE_H

#include "include/mpi.h"
#include "mpi/world.h"
#include "rma/rma.h"
#include "rma/wire.h"

/* Beside memory that several processes map: whose turn it is to accumulate. */
struct tb_rma_mutex {
    _Alignas(TB_LINE) _Atomic uint32_t owner; /* process id; 0: nobody */
};

/* Elements of the target's memory. */
struct tb_rma_place {
    char *at; /* where displacements count from */
    struct tb_layout *layout;
    int64_t count;
    struct tb_rma_mutex *mutex; /* NULL: only this process reaches it */
};

enum tb_rma_locking { TB_RMA_UNLOCKED, TB_RMA_SHARED, TB_RMA_EXCLUSIVELY };

/* What this process, as an origin, knows of a target. */
struct tb_rma_target {
    char *base; /* as it is mapped here */
    bool direct;
    struct tb_rma_mutex *mutex;
    int64_t size;
    int64_t unit;

    uint32_t number;   /* of the next request */
    int pending;       /* transfers of data that are on their way */
    bool dirty;        /* asked for something since the last flush */
    uint32_t asked;    /* UNLOCK and FLUSH, ever … */
    uint32_t answered; /* … and DONE */
    tb_err err;        /* what DONE, or an empty answer, has told */

    uint8_t lock;   /* enum tb_rma_locking, of MPI_Win_lock */
    bool asked_for; /* LOCK was sent, UNLOCK not yet */
    bool granted;   /* GRANTED has come since */
    bool started;   /* in the group of MPI_Win_start */
    bool met;       /* and its POSTED has been taken */
    uint32_t posts; /* POSTED that nobody has taken yet */
};

/* What this process, as a target, knows of an origin. */
struct tb_rma_origin {
    int kept;                /* requests that wait in the context */
    bool busy;               /* the next must wait for the present one … */
    bool wants_exclusive;    /* LOCK: what it asked for … */
    bool tell;               /* … and whether it wants to hear */
    int open;                /* carried out but for data on their way */
    int dones, completes;    /* to say when `open` is 0 */
    bool unlocks;            /* to do before */
    enum tb_rma_locking has; /* what it holds */
    struct tb_list link;     /* in the queue */
    tb_err err;              /* for the next DONE */
};

struct tb_rma_region {
    uintptr_t from, to;
};

enum tb_rma_access {
    TB_RMA_NO_ACCESS,
    TB_RMA_FENCED,
    TB_RMA_STARTED,
    TB_RMA_LOCKED, /* some targets are */
    TB_RMA_LOCKED_ALL
};

struct tb_rma {
    struct tb_service service;
    struct tb_engine *engine;
    struct tb_comm *comm;
    struct tb_context *ops;
    int n, rank;
    struct tb_rma_memory memory;
    struct tb_rma_target *targets;
    struct tb_rma_origin *origins;

    /* Dynamic windows: what is attached, in no order. */
    struct tb_rma_region *regions;
    int n_regions, room_regions;

    /* As a target. */
    struct tb_list queue; /* origins that wait for the lock */
    int shared;           /* that hold it */
    bool exclusive;
    struct tb_task serving;
    int completed; /* COMPLETE, less those that MPI_Win_wait has counted */

    /* As an origin. */
    int unsent; /* requests of operations that have found no room yet */

    /* Epochs. */
    enum tb_rma_access access;
    bool used;    /* FENCED: operations were started */
    bool nocheck; /* the epoch needs no POSTED, or no locks */
    int locked;   /* LOCKED: how many targets */
    bool posted;
    int expected; /* … COMPLETEs */
};

/* ------------------------------------------------------------------ memory */

/* Makes and maps memory, swaps what all need to know. */
tb_err tb_rma_map(struct tb_rma *r);
void tb_rma_unmap(struct tb_rma *r);

/* Whether this process has those elements to offer: at `at`, which counts as in
 * struct tb_rma_head; *out is where. TB_ERR_RMA_RANGE otherwise. */
tb_err tb_rma_locate(const struct tb_rma *r, int64_t at,
                     const struct tb_layout *l, int64_t count, char **out);

/* ------------------------------------------------------------------- apply */

void tb_rma_mutex_lock(struct tb_rma_mutex *m);
void tb_rma_mutex_unlock(struct tb_rma_mutex *m);

/* The stream of a place from packed data, to packed data. */
void tb_rma_store(const struct tb_rma_place *p, const void *in, int64_t bytes);
void tb_rma_load(const struct tb_rma_place *p, void *out, int64_t bytes);
/* From one place to another; the stream is `bytes` long on both sides. */
void tb_rma_copy(const struct tb_rma_place *from, const struct tb_rma_place *to,
                 int64_t bytes);

/* place[i] = place[i] op in[i] for the stream's elements, which are `type`;
 * `old`, unless it is NULL, gets what was there. Both are packed. */
void tb_rma_accumulate(const struct tb_rma_place *p, struct tb_type *type,
                       struct tb_op *op, const void *in, void *old,
                       int64_t bytes);
/* One element: becomes `value` if it is equal to `compare`. */
void tb_rma_swap(const struct tb_rma_place *p, const void *value,
                 const void *compare, void *old, int64_t bytes);

/* ------------------------------------------------------------------ target */

void tb_rma_serve(struct tb_rma *r);
/* The queue of the lock, for an origin that is known to want none yet. True:
 * it has it; else tb_rma_origin.busy until it does. */
bool tb_rma_lock_ask(struct tb_rma *r, int origin, bool exclusive, bool tell);
void tb_rma_lock_give_back(struct tb_rma *r, int origin);
void tb_rma_wake(struct tb_rma *r);

/* ------------------------------------------------------------------ origin */

/* Sends, or arranges to; nothing waits. */
tb_err tb_rma_answer(struct tb_rma *r, int dest, enum tb_rma_answer_kind kind,
                     tb_err err);
tb_err tb_rma_say(struct tb_rma *r, int target, enum tb_rma_kind kind,
                  unsigned flags);

/*
 * A transfer: a request to the engine whose buffers must stay until it is
 * done. `done` is called then, or at once; it is freed after that.
 */
struct tb_rma_transfer {
    struct tb_rma *rma;
    int peer;
    void (*done)(struct tb_rma_transfer *t);
    struct tb_req *user;      /* origin: to finish then; NULL */
    struct tb_layout *layout; /* a reference; NULL */
    int64_t bytes;            /* expected; fewer: it failed there */
    tb_err err;               /* how it ended */
    void *more;               /* for `done`; freed with it */
    int64_t room[];
};
struct tb_rma_transfer *tb_rma_transfer_new(struct tb_rma *r, int peer,
                                            int64_t room);
/* Takes the transfer over, also on failure, when `done` is called too. */
void tb_rma_transfer_send(struct tb_rma_transfer *t, const void *buf,
                          struct tb_layout *layout, int64_t count, int tag);
void tb_rma_transfer_recv(struct tb_rma_transfer *t, void *buf,
                          struct tb_layout *layout, int64_t count, int tag);

/* Of a message that tb_context_take has taken. */
void tb_rma_transfer_arrival(struct tb_rma_transfer *t, struct tb_arrival *a);

/* The caller's memory on one side of an operation. */
struct tb_rma_side {
    const void *buf;
    int64_t count;
    struct tb_type *type;
};

/* An operation as it was called for. */
struct tb_rma_call {
    struct tb_rma *rma;
    enum tb_rma_kind kind;     /* PUT to SWAP */
    unsigned flags;            /* FETCH */
    struct tb_rma_side origin; /* what goes there; GET: where it comes to */
    struct tb_rma_side result; /* SWAP, FETCH: what was there */
    const void *compare;       /* SWAP */
    struct tb_op *op;          /* ACC */
    struct tb_type *element;   /* ACC, SWAP: predefined */
    int rank;                  /* of the target */
    int64_t disp;              /* in its units */
    int64_t count;             /* elements there */
    struct tb_type *type;      /* of those */
    struct tb_req **request;   /* NULL: none is wanted */
};
tb_err tb_rma_start(struct tb_rma_call *c);

/* ------------------------------------------------------------------- epoch */

/* Whether operations on `target` may be started; waits for what it takes. */
tb_err tb_rma_ready(struct tb_rma *r, int target);
tb_err tb_rma_check_rank(const struct tb_rma *r, int rank);
/* STARTED: the target has posted. LOCKED: asks for the lock; waits for it where
 * memory is mapped here; gives it back, which tb_rma_flush then waits for. */
tb_err tb_rma_meet(struct tb_rma *r, int target);
tb_err tb_rma_ask_lock(struct tb_rma *r, int target, bool exclusive);
tb_err tb_rma_await_lock(struct tb_rma *r, int target);
tb_err tb_rma_unlock(struct tb_rma *r, int target);
/* Everything started on this target, or with -1 on all, is carried out there,
 * or only its buffers are free here. */
tb_err tb_rma_flush(struct tb_rma *r, int target);
tb_err tb_rma_flush_local(struct tb_rma *r, int target);
/* Waits until `done`, which may be asked again after it has said yes. */
struct tb_rma_wait {
    struct tb_rma *rma;
    int target; /* or -1: all */
};
tb_err tb_rma_wait_until(bool (*done)(void *wait), struct tb_rma *r,
                         int target);

#endif
