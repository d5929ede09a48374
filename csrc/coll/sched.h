/* SPDX-License-Identifier: MIT */
/*
 * A schedule: a collective call as a list of steps for this rank. Builders
 * (build.h) fill one; this runs it, blocking or not, once or many times.
 *
 * Steps form *rounds*. When a round starts its steps are started in order:
 * sends and receives are posted, copies and reductions done on the spot. When
 * all of a round's sends and receives have ended the next round starts. So a
 * reduction of what round r received belongs into round r + 1, before that
 * round's sends. (Rounds: Hoefler, Lumsdaine and Rehm, "Implementation and
 * performance analysis of non-blocking collective operations for MPI", SC
 * 2007.)
 *
 * Between two ranks the n-th send meets the n-th receive: a schedule has one
 * tag, and messages of one tag keep their order.
 */
#ifndef TB_SCHED_H
#define TB_SCHED_H

#include "coll/call.h"
#include "coll/direct.h"
#include "mpi/request.h"

/* Which of a communicator's contexts: its own, whose peers are the remote
 * group if there is one; or that of an intercommunicator's local half. */
enum tb_way { TB_WAY_MAIN, TB_WAY_LOCAL, TB_WAYS };

/* The ranks among which an algorithm works, renumbered so that the root, if
 * there is one, is 0. */
struct tb_team {
    enum tb_way way;
    int rank, size;
    int shift;        /* where in the list below rank 0 of the team stands */
    const int *ranks; /* of the communicator; NULL: all, in order. Stays the
                         caller's, as long as the schedule is built */
};

enum tb_step_kind {
    TB_STEP_SEND,
    TB_STEP_RECV,
    TB_STEP_COPY,
    TB_STEP_REDUCE,
    TB_STEP_DIRECT /* a whole call through the lane: direct.h */
};

struct tb_step {
    uint8_t kind;
    uint8_t way;
    bool ends_round;
    int peer; /* rank in the way's communicator */
    const void *from;
    void *to;
    int64_t count;
    struct tb_layout *layout;
    int64_t to_count; /* copies only */
    struct tb_layout *to_layout;
    struct tb_req *req; /* while it runs */
};

/* Enough for most schedules among 8 ranks. */
#define TB_STEPS_INLINE 20
#define TB_SCRATCH_INLINE 1024

struct tb_scratch;

struct tb_sched {
    struct tb_more more; /* first: a persistent request's req->more */
    struct tb_engine *engine;
    struct tb_comm *comm;
    struct tb_type *type; /* of reductions */
    struct tb_op *op;
    struct {
        struct tb_context *context;
        int self;
        int tag;
    } ways[TB_WAYS];

    struct tb_step *steps; /* `few` or malloc'ed */
    int n, room;
    int at;    /* building: first step of the round; running: next to start */
    int round; /* running: first step of the current round */
    int open;  /* sends and receives of the round that have not ended */
    bool lasting;   /* outlives the call: holds references */
    bool broken;    /* no further round is started */
    bool withdrawn; /* what was open then has been cancelled */
    bool abandoned; /* requests may still use the scratch memory: leave it */
    tb_err err;     /* the first */
    struct tb_req *req; /* nonblocking: what the program holds, while the
                           schedule waits for messages */
    struct tb_task task;

    struct tb_scratch *scratch; /* blocks of it */
    size_t scratch_used;        /* of `small` */
    struct tb_adopted *adopted;
    struct tb_step few[TB_STEPS_INLINE];
    _Alignas(16) char small[TB_SCRATCH_INLINE];
};

/* ------------------------------------------------------------- life, runs */

/* An empty schedule for a call on `comm`. Takes the communicator's next tag,
 * so every member must do it, in order. `persistent`: a tag that no other
 * collective has, since starts need no order. Cannot fail. */
void tb_sched_init(struct tb_sched *s, struct tb_comm *comm, bool persistent);
void tb_sched_fini(struct tb_sched *s);

/* Runs it here. */
tb_err tb_sched_run(struct tb_sched *s);

/* A schedule that outlives the call; tb_sched_init'ed. */
tb_err tb_sched_new(struct tb_sched **out, struct tb_comm *comm,
                    bool persistent);
/* Starts it, makes its request, frees it in the end. On failure it is freed
 * at once. */
tb_err tb_sched_begin(struct tb_sched *s, struct tb_req **out);
/* Makes an inactive persistent request of it, which owns it. */
tb_err tb_sched_prepare(struct tb_sched *s, struct tb_req **out);

/* Gives kept memory back to the system; at the end of the library. */
void tb_sched_cleanup(void);

/* ---------------------------------------------------------------- building */

/*
 * None of these returns an error: the first one (no memory, or tb_sched_fail)
 * sticks to the schedule and running it reports it. Buffers stay the caller's
 * and must last until the schedule has run.
 */
void tb_sched_fail(struct tb_sched *s, tb_err err);

/* Messages; one without data is not sent at all, so both ends must know its
 * size. `peer` is a rank of the team. */
void tb_sched_send(struct tb_sched *s, const struct tb_team *t, int peer,
                   struct tb_part what);
void tb_sched_recv(struct tb_sched *s, const struct tb_team *t, int peer,
                   struct tb_part what);
/* Messages that only say "I am here". */
void tb_sched_signal(struct tb_sched *s, const struct tb_team *t, int peer);
void tb_sched_await(struct tb_sched *s, const struct tb_team *t, int peer);

/* to = from; the layouts may differ, the bytes must not. */
void tb_sched_copy(struct tb_sched *s, struct tb_part from, struct tb_part to);
/* inout = in op inout, elements of the schedule's type. */
void tb_sched_reduce(struct tb_sched *s, const void *in, void *inout,
                     int64_t count);

/* The whole call, through the communicator's lane; the call is copied. */
void tb_sched_direct(struct tb_sched *s, const struct tb_call *call,
                     enum tb_direct_how how);

/* Ends the round; an empty one is no round. */
void tb_sched_round(struct tb_sched *s);

/* Memory that lives as long as the schedule, aligned to 16. */
void *tb_sched_bytes(struct tb_sched *s, int64_t bytes);
/* The same for `count` elements: the address to use as their buffer. */
void *tb_sched_elements(struct tb_sched *s, const struct tb_layout *layout,
                        int64_t count);
/* Takes over the caller's reference. */
void tb_sched_adopt(struct tb_sched *s, struct tb_layout *layout);

/* ------------------------------------------------------------------ teams */

/* Those that the communicator's own context connects this rank with in one
 * group: all its ranks, or the local group. Rank `root` becomes 0. */
static inline struct tb_team tb_team_of(const struct tb_comm *c, int root)
{
    int rank = c->rank - root;
    return (struct tb_team){.way = c->remote ? TB_WAY_LOCAL : TB_WAY_MAIN,
                            .rank = rank < 0 ? rank + c->size : rank,
                            .size = c->size,
                            .shift = root};
}

/* The other group of an intercommunicator: only for sends and receives. */
static inline struct tb_team tb_team_remote(const struct tb_comm *c)
{
    return (struct tb_team){
        .way = TB_WAY_MAIN, .rank = -1, .size = c->remote_size};
}

static inline int tb_team_rank(const struct tb_team *t, int peer)
{
    int rank = peer + t->shift;
    rank -= rank < t->size ? 0 : t->size;
    return t->ranks ? t->ranks[rank] : rank;
}

#endif
