/* SPDX-License-Identifier: MIT */
/*
 * Lanes: how the ranks of a communicator that share a machine talk through its
 * commons (net.h), memory that each endpoint writes and all others read.
 *
 * A communicator gets a lane: a piece of each member's commons, with the same
 * number at all of them, agreed upon in one of its first collective calls. A
 * lane carries a sequence of *turns*, numbered alike by all members since
 * collectives are ordered. In a turn a member may *post* a block of bytes,
 * once, may look at what others have posted, and *finishes*: it will not look
 * at that turn any more.
 *
 * Each member has TB_LANE_SLOTS slots for posts, and for blocks that do not
 * fit into a slot a ring of memory. A post stays until all members have
 * finished its turn. So no post needs a barrier before or after it, and members
 * may be several turns apart.
 */
#ifndef TB_COMMONS_H
#define TB_COMMONS_H

#include "mpi/objects.h"

#define TB_LANE_SLOTS 16
#define TB_SLOT_BYTES 112 /* that fit into a slot */

/* What is posted: seq last. `what` tells members apart that are in different
 * calls. */
struct tb_posted {
    _Alignas(TB_LINE) _Atomic uint64_t turn;
    uint64_t what;
    union {
        char data[TB_SLOT_BYTES];
        uint64_t offset; /* in the lane, of a longer block */
    };
};

_Static_assert(sizeof(struct tb_posted) == TB_LINE, "one slot, one line");

struct tb_lane_memory {
    _Alignas(TB_LINE) _Atomic uint64_t finished; /* the last such turn */
    struct tb_posted slots[TB_LANE_SLOTS];
    char ring[];
};

struct tb_lane {
    int n, rank;
    uint64_t next;     /* turn of the next call */
    uint64_t finished; /* by this member */
    size_t room;       /* largest block */
    size_t piece;      /* good length of one block out of many */
    bool can_pull;     /* each member can read each other's memory */
    bool has_news;     /* posted or finished since the last tb_lane_tell */
    /* private: */
    struct tb_net *net; /* NULL: no member ever sleeps (tests) */
    int number;
    size_t ring_bytes;
    uint64_t head; /* of the ring: next byte to use, ever counting */
    struct tb_lane_post {
        uint64_t turn, start; /* of the block in the ring */
    } posts[TB_LANE_SLOTS];
    struct tb_lane_peer {
        struct tb_lane_memory *memory;
        uint64_t finished; /* at least */
        int endpoint;
        uint32_t pid;
    } peers[];
};

/* A lane of `n` members, `bytes` of memory at each, whose turns begin above
 * `top`, which is at least TB_LANE_SLOTS. The caller sets where that memory is,
 * and what else is known of the members. */
void tb_lane_init(struct tb_lane *l, int n, int rank, size_t bytes,
                  uint64_t top);

/* The communicator's lane, or NULL: none yet, or members on several machines,
 * or no lane is free. */
struct tb_lane *tb_lane_of(const struct tb_comm *c);

/*
 * Counts a blocking collective call, and every now and then, as long as there
 * is no lane, agrees on one with the other members. That blocks, and is itself
 * a collective operation. All members call it at the same places.
 */
tb_err tb_lane_agree(struct tb_comm *c);

/* Memory for a block to be posted in that turn; NULL: not yet, since members
 * have not finished what would be overwritten. */
void *tb_lane_block(struct tb_lane *l, uint64_t turn, size_t bytes);
/* Posts the block that the last tb_lane_block gave. */
void tb_lane_post(struct tb_lane *l, uint64_t turn, uint64_t what,
                  size_t bytes);

/* Member i's block of that turn, `bytes` of it, valid until this member
 * finishes the turn; NULL: not yet posted. *what is as posted, so that the
 * caller can see whether the block is what it takes it for. */
const void *tb_lane_look(struct tb_lane *l, int i, uint64_t turn, size_t bytes,
                         uint64_t *what);

/* This member is through with that turn and all before. */
void tb_lane_finish(struct tb_lane *l, uint64_t turn);
/* Whether all members are. */
bool tb_lane_all_finished(struct tb_lane *l, uint64_t turn);

/* Wakes members that sleep, if there is news for them. Whoever posts or
 * finishes calls this before long: at the latest before it waits or returns
 * to the program. Apart, because it costs a memory fence. */
void tb_lane_tell(struct tb_lane *l);

/* Forgets all lanes; at the end of the library. */
void tb_commons_fini(void);

#endif
