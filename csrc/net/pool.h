/* SPDX-License-Identifier: MIT */
/*
 * The registration pool: the memory that verbs devices read and write, one
 * shared object a machine and job, made zero filled by the launcher (or
 * private memory, where a lone rank owns the verbs). User memory is never
 * registered.
 *
 *   head | lanes: TB_POOL_LANE bytes a local rank (see relay.h) | slots
 *
 * Slots come in three classes of 1, 8 and 32 frames. A frame is the 4096 bytes
 * by which a Thunderbolt device counts everything. A slot is a header of
 * TB_SLOT_HEAD bytes and the payload of one packet behind it. Slots are known
 * by number; numbers, offsets and the division follow from the object's length
 * and the number of local ranks alone, so that nobody has to be told:
 * tb_regpool_plan() is the one place. Numbers from another process are checked
 * by tb_regpool_has() before use.
 *
 * The owner of the verbs holds all slots at first, in one free list a class
 * in memory of its own; it lends them to ranks through their lanes. It is the
 * only one that registers, takes and gives. tools/factgen.py reads the
 * #defines for the launcher, so keep them plain numbers.
 */
#ifndef TB_POOL_H
#define TB_POOL_H

#include "base/base.h"

struct tb_device;
struct tb_ibv_mr;

#define TB_POOL_MAGIC 0x314c4f504d4254 /* "TBMPOL1", little-endian */
#define TB_POOL_HEAD 16384             /* bytes before the lanes */
#define TB_POOL_LANE 65536             /* bytes a local rank */
#define TB_POOL_LEAST 4194304          /* shortest pool that is any use */
#define TB_POOL_REASON 128

#define TB_CABLES_MOST 4 /* of one link */
#define TB_FRAME 4096
#define TB_SLOT_HEAD 64
#define TB_SLOT_NONE UINT32_MAX

enum tb_class { TB_SMALL, TB_MIDDLE, TB_LARGE, TB_CLASSES };

static inline uint32_t tb_class_frames(enum tb_class class)
{
    static const uint8_t frames[TB_CLASSES] = {1, 8, 32};

    return frames[class];
}

/* Longest packet in a slot of the class, bytes. */
static inline size_t tb_class_room(enum tb_class class)
{
    return (size_t)tb_class_frames(class) * TB_FRAME - TB_SLOT_HEAD;
}

/* The smallest class for a packet of `bytes`, at most room of TB_LARGE. */
static inline enum tb_class tb_class_of(size_t bytes)
{
    if (TB_LIKELY(bytes <= TB_FRAME - TB_SLOT_HEAD))
        return TB_SMALL;
    return bytes <= tb_class_room(TB_MIDDLE) ? TB_MIDDLE : TB_LARGE;
}

/* -------------------------------------------------------------- the object */

enum tb_pool_state { TB_POOL_STARTING, TB_POOL_UP, TB_POOL_FAILED };

/* At the start of the object; all zero is the valid initial state. Written by
 * the owner of the verbs; read by the ranks beside it and by the launcher. */
struct tb_pool_head {
    uint64_t magic;
    uint32_t ranks;         /* local ones: lanes */
    uint32_t pid;           /* of the owner */
    _Atomic uint32_t state; /* release: after reason */
    char reason[TB_POOL_REASON];
    struct tb_bell bell; /* what the owner sleeps on when idle */
    /* Moves with each poll of the owner: it lives and is not stopped. */
    _Alignas(TB_LINE) _Atomic uint32_t polls;
    /* Slots by class: free ones now and then, and all. For people. */
    _Atomic uint32_t free[TB_CLASSES], slots[TB_CLASSES];
};
_Static_assert(sizeof(struct tb_pool_head) <= TB_POOL_HEAD, "the head fits");

/* Where the launcher finds them. */
#define TB_POOL_AT_PID 12
#define TB_POOL_AT_STATE 16
#define TB_POOL_AT_REASON 20
#define TB_POOL_AT_POLLS 384
#define TB_POOL_AT_FREE 388
#define TB_POOL_AT_SLOTS 400
_Static_assert(offsetof(struct tb_pool_head, pid) == TB_POOL_AT_PID &&
                   offsetof(struct tb_pool_head, state) == TB_POOL_AT_STATE &&
                   offsetof(struct tb_pool_head, reason) == TB_POOL_AT_REASON &&
                   offsetof(struct tb_pool_head, polls) == TB_POOL_AT_POLLS &&
                   offsetof(struct tb_pool_head, free) == TB_POOL_AT_FREE &&
                   offsetof(struct tb_pool_head, slots) == TB_POOL_AT_SLOTS,
               "layout");

/* Offsets into the object, bytes, and slot numbers. */
struct tb_regpool_plan {
    size_t lanes;                   /* ranks x TB_POOL_LANE */
    size_t slots;                   /* where the first slot begins */
    size_t end;                     /* of the last slot */
    size_t at[TB_CLASSES];          /* where each class begins */
    uint32_t first[TB_CLASSES + 1]; /* numbers of class c: first[c] and on,
                                       less than first[c + 1] */
};

/* Divides an object of `bytes` between `ranks` local ranks, 0 or more. Fails
 * with a note when that is too small. Pure. */
tb_err tb_regpool_plan(struct tb_regpool_plan *out, int ranks, size_t bytes);

static inline enum tb_class tb_regpool_class(const struct tb_regpool_plan *plan,
                                             uint32_t slot)
{
    if (slot < plan->first[TB_MIDDLE])
        return TB_SMALL;
    return slot < plan->first[TB_LARGE] ? TB_MIDDLE : TB_LARGE;
}

static inline bool tb_regpool_has(const struct tb_regpool_plan *plan,
                                  uint32_t slot)
{
    return slot < plan->first[TB_CLASSES];
}

/* Offset of a slot's header. */
static inline size_t tb_regpool_offset(const struct tb_regpool_plan *plan,
                                       uint32_t slot)
{
    enum tb_class class = tb_regpool_class(plan, slot);

    return plan->at[class] + (size_t)(slot - plan->first[class]) *
                                 tb_class_frames(class) * TB_FRAME;
}

/* ------------------------------------------------------------------ a slot */

/*
 * What whoever packs a packet writes at the start of the slot, once; every hop
 * verifies it and none changes it. The rest of the header is the link's
 * (slots.h).
 */
struct tb_seal {
    uint32_t bytes; /* of the payload */
    uint32_t crc;   /* CRC32C of the payload */
};

static inline void *tb_slot_data(void *slot)
{
    return (char *)slot + TB_SLOT_HEAD;
}

/* Writes the seal over a payload that is complete. */
void tb_slot_seal(void *slot, size_t bytes);

/* True when seal and payload agree and the payload is at most `room`. */
bool tb_slot_intact(const void *slot, size_t room);

/* --------------------------------------------------------- the owner's end */

/* Pieces of the pool as one device knows them. They are cut where addresses are
 * a multiple of TB_REGION_MOST: Apple's provider keeps 32 bits of an address,
 * so that no region may cross a 4 GiB line. */
#define TB_REGION_MOST 1073741824
#define TB_REGIONS_MOST 16
struct tb_regions {
    int n;
    struct tb_ibv_mr *mr[TB_REGIONS_MOST];
};

struct tb_regpool {
    char *base;
    size_t bytes;
    struct tb_regpool_plan plan;
    uint32_t *free[TB_CLASSES]; /* stacks of slot numbers */
    uint32_t n[TB_CLASSES];     /* slots in each */
    int pieces;
    size_t cut[TB_REGIONS_MOST + 1]; /* their ends, offsets from base */
};

/* Maps the object of descriptor `fd` (it stays the caller's), or, with -1,
 * takes `bytes` of private memory; all slots are free. Fails with a note. */
tb_err tb_regpool_open(struct tb_regpool **out, int fd, size_t bytes,
                       int ranks);
void tb_regpool_close(struct tb_regpool *pool);

/* TB_SLOT_NONE: none of that class is free. */
static inline uint32_t tb_regpool_take(struct tb_regpool *pool,
                                       enum tb_class class)
{
    if (TB_UNLIKELY(!pool->n[class]))
        return TB_SLOT_NONE;
    return pool->free[class][--pool->n[class]];
}

static inline void tb_regpool_give(struct tb_regpool *pool, uint32_t slot)
{
    enum tb_class class = tb_regpool_class(&pool->plan, slot);

    pool->free[class][pool->n[class]++] = slot;
}

static inline void *tb_regpool_at(const struct tb_regpool *pool, uint32_t slot)
{
    return pool->base + tb_regpool_offset(&pool->plan, slot);
}

/* Registers every piece with a device; on failure nothing stays registered,
 * and the note says what was refused. */
tb_err tb_regpool_register(const struct tb_regpool *pool,
                           struct tb_device *device, struct tb_regions *out);
void tb_regpool_unregister(struct tb_device *device,
                           struct tb_regions *regions);

/* The key of the piece that holds a slot. */
uint32_t tb_regpool_key(const struct tb_regpool *pool,
                        const struct tb_regions *regions, uint32_t slot);

#endif
