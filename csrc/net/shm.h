/* SPDX-License-Identifier: MIT */
/*
 * shm: packets through memory that the ranks of one machine share.
 *
 * Each ordered pair of ranks has a pipe with one writer and one reader: a
 * ring of records and a slab for what is too long for the ring.
 *
 * Ring. A record is one 8-byte word (length, kind) and the packet behind it,
 * in whole grains (TB_GRAIN, one cache transfer), so a packet of up to 56
 * bytes costs one transfer. There is no shared tail: the reader looks at the
 * word where the next record will begin, which the writer has made zero
 * before it published the record before. (Polling the data itself is the idea
 * of FastForward: Giacomoni, Moseley, Vachharajani, PPoPP 2008.)
 *
 * Slab. A long packet leaves only its word in the ring, with the place of its
 * bytes in the slab. Slabs are used from end to end although a small part
 * would do: a line that the reader's cache has dropped since the last lap is
 * cheaper to write than one it still holds, by a factor of three where the
 * slab is larger than that cache. Rings are small, so that they stay close.
 *
 * The reader tells how far it has read only now and then, in a line of its
 * own; the writer looks there only when the room it knows of is used up. A
 * rank polls the pipes of those senders that have set their bit in its
 * `active` map, which each does once, with its first packet.
 */
#ifndef TB_SHM_H
#define TB_SHM_H

#include "net/pace.h"
#include "net/segment.h"
#include "net/transport.h"

#define WORD sizeof(uint64_t)
#define NOWHERE SIZE_MAX

/*
 * A record's word, from the low bits: bytes (18 bits), how long the sender
 * took to write them (12, ns a KiB, 0: not measured), kind (5), place in the
 * slab in grains (28), and a bit that makes it non-zero. A wrap has no bytes:
 * the next record begins at the start of the ring.
 */
#define WORD_PACE_SHIFT 18
#define WORD_PACE_MOST 4095
#define WORD_BULK ((uint64_t)1 << 30)
#define WORD_WRAP ((uint64_t)1 << 31)
#define WORD_SLAB ((uint64_t)1 << 32)
#define WORD_PLACE_SHIFT 35
#define WORD_FULL ((uint64_t)1 << 63)

static inline size_t word_bytes(uint64_t word)
{
    return word & (((size_t)1 << WORD_PACE_SHIFT) - 1);
}

static inline unsigned word_pace(uint64_t word)
{
    return (unsigned)(word >> WORD_PACE_SHIFT) & WORD_PACE_MOST;
}

static inline enum tb_channel word_channel(uint64_t word)
{
    return word & WORD_BULK ? TB_BULK : TB_CONTROL;
}

static inline size_t word_place(uint64_t word)
{
    return (size_t)((word & ~WORD_FULL) >> WORD_PLACE_SHIFT) * TB_GRAIN;
}

/* In the segment, before the ring. Written by the reader alone. */
struct pipe {
    _Alignas(TB_LINE) _Atomic uint64_t ring_read; /* bytes since the start */
    _Atomic uint64_t slab_read;
};
_Static_assert(sizeof(struct pipe) == TB_LINE, "a line of its own");

enum pull_state { PULL_UNTRIED, PULL_WORKS, PULL_REFUSED };

/* A part of a pipe as one of its ends sees it. */
struct part {
    char *data;
    size_t size;
    size_t pos;      /* where the next record or packet begins */
    uint64_t passed; /* bytes written or read since the start */
    uint64_t edge;   /* writer: what `passed` may reach; reader: last told */
};

/* The writing end. */
struct tb_link {
    struct part ring;
    size_t clean;      /* a later word that is zero already, or NOWHERE */
    size_t inline_max; /* longest packet for the ring */
    struct tb_bell *bell;
    bool announced;
    uint64_t lent_at; /* when the slot in use was reserved; 0: not measured */
    struct part slab;
    struct pipe *pipe;
    struct tb_port *port;
    int peer;     /* endpoint */
    int place;    /* in the segment; -1: not connected */
    bool starved; /* reserve said AGAIN; the reader's progress is news */
    bool lost;
    tb_err dying; /* why; to be reported lost by the next poll */
    enum pull_state pull;
    struct tb_pace pace; /* of what comes from this peer */
};

/* The reading end. */
struct inlet {
    struct part ring, slab;
    struct pipe *pipe;
    struct tb_bell *bell; /* the writer's */
    int from;
    int place;
};

struct tb_port {
    const struct tb_sink *up;
    const struct tb_config *config;
    void *segment;
    struct tb_segment_plan plan;
    struct tb_rank_block *block; /* this rank's */
    uint32_t news;               /* of block->news, seen */
    int place, places;
    const int *local;
    int actives;
    int *active; /* places whose inlets are polled */
    int starving, dying;
    struct inlet *inlets; /* by place */
    struct tb_link *links;
    const _Atomic bool *crowded; /* of tb_port_args */
    uint64_t nonce;              /* what peers read to see whether pull works */
};

static inline _Atomic uint64_t *word_at(const struct part *ring, size_t pos)
{
    return (_Atomic uint64_t *)(void *)(ring->data + pos);
}

static inline size_t grains(size_t bytes)
{
    return tb_round_up(bytes, TB_GRAIN);
}

/* shm_pipe.c: these four as in struct tb_transport. */
tb_err tb_shm_reserve(struct tb_link *link, enum tb_channel ch, size_t max,
                      struct tb_slot *out);
void tb_shm_commit(struct tb_link *link, const struct tb_slot *slot,
                   size_t bytes);
int tb_shm_poll(struct tb_port *port);
bool tb_shm_pending(struct tb_port *port);

/* The next poll reports the link lost, for `why`. */
void tb_shm_doom(struct tb_link *link, tb_err why);

#endif
