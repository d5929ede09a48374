/* SPDX-License-Identifier: MIT */
/*
 * Collectives through memory, for the ranks of a communicator that has a lane
 * (commons.h). No messages: each rank posts, looks at what the others have
 * posted, and that is it.
 *
 * By slots: the data itself is posted, in pieces when it is long, so that
 * copies in and out overlap and stay in cache. One copy in, one out
 * (reductions read it where it lies).
 * By pull: addresses are posted, and each rank copies what it needs straight
 * from the others' memory. (Chakraborty, Subramoni and Panda, "Contention-aware
 * kernel-assisted MPI collectives for multi-/many-core systems", CLUSTER 2017.)
 *
 * A direct operation is a state machine that never waits, so that blocking and
 * nonblocking calls share it.
 */
#ifndef TB_DIRECT_H
#define TB_DIRECT_H

#include "coll/call.h"
#include "coll/commons.h"
#include "coll/scratch.h"

enum tb_direct_how { TB_DIRECT_NONE, TB_DIRECT_SLOTS, TB_DIRECT_PULL };

struct tb_direct {
    struct tb_watch watch;
    const struct tb_call *call;
    struct tb_lane *lane;
    uint64_t turn, turns; /* the first, and how many */
    uint64_t pending; /* ranks whose posts are still to come or to be copied */
    uint64_t posted;  /* by slots: turns of which this rank's part is done */
    uint64_t taken;   /* and of which the others' is */
    int64_t piece;    /* by slots: of those bytes, in one turn */
    uint64_t what;    /* what the posts of its call say */
    int64_t bytes;    /* see tb_direct_bytes */
    uint8_t how;
    uint8_t stage; /* 0: not begun */
    bool done;
    tb_err err;
    struct tb_scratch *scratch[2];
    void (*on_done)(struct tb_direct *d);
    void *owner;
};

/* Bytes of the vector, or of each block. -1: blocks differ, or elements to
 * combine have holes. */
int64_t tb_direct_bytes(const struct tb_call *call);
/* Whether the call can go through this lane by slots, and how many turns that
 * takes; 0: it cannot. Whether it can go by pull. */
uint64_t tb_direct_slots(const struct tb_call *call,
                         const struct tb_lane *lane);
bool tb_direct_can_pull(const struct tb_call *call);

/* Prepares the operation and takes its turns; every member must do that in the
 * same order. `call` must last. */
void tb_direct_init(struct tb_direct *d, const struct tb_call *call,
                    enum tb_direct_how how);

/* Goes on as far as possible; true: it has ended, d->err says how. */
bool tb_direct_advance(struct tb_direct *d);

/* Goes on from progress, and calls on_done when it has ended. */
void tb_direct_watch(struct tb_direct *d);

/* Goes on until it has ended. */
tb_err tb_direct_run(struct tb_direct *d);

/* Ranks whose posts this one needs; whether it posts itself. */
uint64_t tb_direct_sources(const struct tb_call *call);
bool tb_direct_posts(const struct tb_call *call);
/* What this rank gives to itself. */
tb_err tb_direct_copy_own(const struct tb_call *call);

/* slots.c, pull.c: sets d->turns; tb_direct_advance. */
void tb_slots_init(struct tb_direct *d);
bool tb_slots_advance(struct tb_direct *d);
void tb_pull_init(struct tb_direct *d);
bool tb_pull_advance(struct tb_direct *d);

/* Notes that member i is in another call, as its post says. */
void tb_direct_mismatch(struct tb_direct *d, int i, uint64_t what);

#endif
