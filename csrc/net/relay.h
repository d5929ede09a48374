/* SPDX-License-Identifier: MIT */
/*
 * relay: packets between a rank and the router of its node, which passes them
 * on over the cables. tb_transport_relay is the rank's end; its neighbours are
 * all ranks of other nodes, however many hops away.
 *
 * Each rank has a lane in the pool (pool.h), which carries descriptors only:
 * the packets lie in slots of the pool, from the rank that packs them to the
 * cable, and from the cable to the rank that reads them.
 *
 *   up    rank to router   SEND this slot there; GIVE this one back, I read it
 *   down  router to rank   STOCK: this slot is yours to fill; DELIVER: read it;
 *                          LOST: that node cannot be reached any more; this
 *                          rank's own node: its lane is in disorder
 *
 * A lane's ring has one writer and one reader. A descriptor is one 64-bit word
 * and is stored with release, so that whoever sees it sees the slot behind it.
 * Its top bit says in which lap of the ring it was written: the reader needs
 * no counter of the writer's, and writes nothing.
 *
 * Nor does the writer need one of the reader's, because a ring is never full.
 * A slot is either the router's or lent to one rank. The router lends a rank
 * at most TB_RELAY_LENT slots at a time, and a slot stands in at most one word
 * of the two rings that has not been read: whoever reads it becomes its owner.
 * With LOST, at most once a node, there are fewer unread words than a ring
 * has. (A word that is written over was read before, and its reading is
 * ordered before the writing: of the words behind it in the ring at least one
 * carried a slot that has since come back through the other ring.)
 *
 * Neither side believes the other: slot, length, kind and, in the router, the
 * lender of each word are checked; a rank in disorder loses its lane, a router
 * in disorder is lost to its ranks.
 */
#ifndef TB_RELAY_H
#define TB_RELAY_H

#include "net/plan.h"
#include "net/pool.h"
#include "net/transport.h"

/* ------------------------------------------------------------ descriptors */

enum tb_relay_kind {
    TB_RELAY_SEND = 1,
    TB_RELAY_GIVE,
    TB_RELAY_STOCK,
    TB_RELAY_DELIVER,
    TB_RELAY_LOST
};

/* From the low bits: slot, or for LOST the node (20 bits); bytes of the packet,
 * or for LOST whether its owner is gone (18); endpoint that it is for or comes
 * from (16); kind (3); channel (1). */
#define TB_RELAY_SLOT_BITS 20
#define TB_RELAY_BYTES_BITS 18
#define TB_RELAY_LAP ((uint64_t)1 << 63)

struct tb_relay_word {
    enum tb_relay_kind kind;
    uint32_t slot;
    uint32_t bytes;
    int endpoint;
    enum tb_channel channel;
};

static inline uint64_t tb_relay_pack(enum tb_relay_kind kind, uint32_t slot,
                                     size_t bytes, int endpoint,
                                     enum tb_channel ch)
{
    return (uint64_t)slot | (uint64_t)bytes << 20 |
           (uint64_t)(uint16_t)endpoint << 38 | (uint64_t)kind << 54 |
           (uint64_t)ch << 57;
}

static inline struct tb_relay_word tb_relay_unpack(uint64_t word)
{
    return (struct tb_relay_word){
        .slot = (uint32_t)word & ((1u << TB_RELAY_SLOT_BITS) - 1),
        .bytes = (uint32_t)(word >> 20) & ((1u << TB_RELAY_BYTES_BITS) - 1),
        .endpoint = (int)(word >> 38 & 0xffff),
        .kind = (enum tb_relay_kind)(word >> 54 & 7),
        .channel = (enum tb_channel)(word >> 57 & 1),
    };
}

/* ------------------------------------------------------------------- rings */

#define TB_RELAY_WORDS 4080 /* of a ring; a whole number of lines */
/* Slots lent to one rank at a time; the rest is for LOST, and one to spare. */
#define TB_RELAY_LENT (TB_RELAY_WORDS - TB_NODES_MOST - 1)

/* What lies in the pool; all zero is the initial state. */
struct tb_relay_lane {
    _Alignas(TB_LINE) _Atomic uint64_t up[TB_RELAY_WORDS];
    _Alignas(TB_LINE) _Atomic uint64_t down[TB_RELAY_WORDS];
};
_Static_assert(sizeof(struct tb_relay_lane) <= TB_POOL_LANE, "a lane fits");

/* One end of a ring, in its owner's memory. All zero but `words` at first. */
struct tb_ring_end {
    _Atomic uint64_t *words;
    uint32_t at;   /* of the next word to write or read */
    uint32_t laps; /* done; the lap bit is its complement's lowest */
};

static inline uint64_t tb_ring_lap(const struct tb_ring_end *end)
{
    return end->laps & 1 ? 0 : TB_RELAY_LAP;
}

static inline void tb_ring_step(struct tb_ring_end *end)
{
    if (TB_UNLIKELY(++end->at == TB_RELAY_WORDS)) {
        end->at = 0;
        end->laps++;
    }
}

/* Release: the slot's content, or the reading of it, comes before. */
static inline void tb_ring_put(struct tb_ring_end *end, uint64_t word)
{
    atomic_store_explicit(&end->words[end->at], word | tb_ring_lap(end),
                          memory_order_release);
    tb_ring_step(end);
}

/* The next word, if there is one; taken off by tb_ring_step. Acquire: pairs
 * with put. */
static inline bool tb_ring_look(const struct tb_ring_end *end, uint64_t *word)
{
    *word = atomic_load_explicit(&end->words[end->at], memory_order_acquire);
    return ((*word ^ tb_ring_lap(end)) & TB_RELAY_LAP) == 0;
}

static inline struct tb_relay_lane *
tb_relay_at(void *pool, const struct tb_regpool_plan *plan, int place)
{
    return (struct tb_relay_lane *)(void *)((char *)pool + plan->lanes +
                                            (size_t)place * TB_POOL_LANE);
}

/* ------------------------------------------------------------------- board */

/*
 * What the router of a node tells people and its ranks, in the pool's head
 * behind struct tb_pool_head. Written by the router alone, read by anybody at
 * any time; a torn read only garbles a message. tools/factgen.py reads the
 * #defines, so keep them plain numbers.
 */
#define TB_BOARD_AT 4096        /* bytes into the pool */
#define TB_BOARD_NODE_BYTES 256 /* TB_NODES_MOST of these */
#define TB_BOARD_NODE_NEXT 0    /* int32: next node on the way; -1: none */
#define TB_BOARD_NODE_HOPS 4    /* uint32: 0: this node */
#define TB_BOARD_NODE_SENT 8    /* uint64: packets of this node's ranks to it */
#define TB_BOARD_NODE_GOT 16    /* uint64: packets from it to this node */
#define TB_BOARD_NODE_PASSED                                            \
    24                       /* uint64: packets passed on to it, its or \
                                not, that others have made */
#define TB_BOARD_NODE_WHY 32 /* text: why it is lost */
#define TB_BOARD_NODE_WHY_BYTES 224

struct tb_board_node {
    _Atomic int32_t next;
    _Atomic uint32_t hops;
    _Atomic uint64_t sent, got, passed;
    char why[TB_BOARD_NODE_WHY_BYTES];
};
_Static_assert(sizeof(struct tb_board_node) == TB_BOARD_NODE_BYTES, "layout");
_Static_assert(offsetof(struct tb_board_node, sent) == TB_BOARD_NODE_SENT,
               "layout");
_Static_assert(offsetof(struct tb_board_node, got) == TB_BOARD_NODE_GOT,
               "layout");
_Static_assert(offsetof(struct tb_board_node, passed) == TB_BOARD_NODE_PASSED,
               "layout");
_Static_assert(offsetof(struct tb_board_node, why) == TB_BOARD_NODE_WHY,
               "layout");
_Static_assert(sizeof(struct tb_pool_head) <= TB_BOARD_AT, "head, then board");

static inline struct tb_board_node *tb_board_node(void *pool, int node)
{
    return (struct tb_board_node *)(void *)((char *)pool + TB_BOARD_AT) + node;
}

/* ------------------------------------------------------------ the rank's end
 */

/* What tb_port_args.relay points to; copied by open, the rest outlives it. */
struct tb_relay_args {
    void *pool; /* mapped; the router need not have begun */
    size_t bytes;
    const struct tb_plan *plan;
};

/* Maps the pool of descriptor `fd` for a node of `ranks` ranks; the caller
 * keeps the descriptor and unmaps with tb_share_unmap. */
tb_err tb_relay_map(void **out, size_t *bytes, int fd, int ranks);

/* Waits until the router has opened its devices and joined the other routers,
 * at most `ns`. Fails with the router's reason, also when it has died. */
tb_err tb_relay_await(void *pool, uint64_t ns);

#endif
