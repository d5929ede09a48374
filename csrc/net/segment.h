/* SPDX-License-Identifier: MIT */
/*
 * The job's shared segment on one machine. The launcher makes it (or, under
 * another launcher, the first rank), zero filled, with the head written; all
 * zero is the valid initial state of everything else. tools/factgen.py reads
 * the #defines of this file for the launcher, so keep them plain numbers.
 *
 *   head | board: one note a rank | ranks: bell and activity | commons | rings
 *
 * Sizes follow from the number of ranks and the length of the file alone, so
 * that nobody has to be told: tb_segment_plan() is the one place.
 */
#ifndef TB_SEGMENT_H
#define TB_SEGMENT_H

#include "base/base.h"

#define TB_SEGMENT_MAGIC 0x31474553504d4254 /* "TBMPSEG1", little-endian */
#define TB_SEGMENT_PER_RANK 2097152         /* the file: ranks times this */
#define TB_SEGMENT_HEAD 16384               /* bytes before the board */
#define TB_NOTE_BYTES 128                   /* one rank's note on the board */

/* Who makes the segment writes magic, ranks and maker, magic last. */
struct tb_segment_head {
    uint64_t magic;
    uint32_t ranks;
    uint32_t maker;        /* its process: an ancestor of the ranks; or 0 */
    _Atomic uint32_t ring; /* ring bytes, by the first rank that attaches */
    /* How many processes have put the processors they may use into `cpus`. */
    _Alignas(TB_LINE) _Atomic uint32_t present;
    _Atomic uint64_t cpus[TB_CPU_WORDS];
};
_Static_assert(sizeof(struct tb_segment_head) <= TB_SEGMENT_HEAD, "it fits");

/*
 * A rank's note on the job board: what the launcher tells people when the
 * rank dies or hangs. Written by that rank alone, read by anybody at any
 * time, also after the rank's death; a torn read only garbles a message.
 */
#define TB_NOTE_PID 0     /* uint32: process id; 0 before MPI_Init */
#define TB_NOTE_STATE 4   /* uint32: TB_STATE_* */
#define TB_NOTE_CALL 8    /* uint32: operation, 0: outside MPI */
#define TB_NOTE_PEER 12   /* int32: the peer waited for, or TB_PEER_NONE */
#define TB_NOTE_TAG 16    /* int32: the tag waited for */
#define TB_NOTE_POLLS 20  /* uint32: moves while the rank lives */
#define TB_NOTE_SINCE 24  /* uint64: tb_now() when the wait began; 0: none */
#define TB_NOTE_CODE 32   /* int32: MPI_Abort's code */
#define TB_NOTE_REASON 40 /* text of an abort, zero terminated */
#define TB_NOTE_REASON_BYTES 88

#define TB_STATE_ABSENT 0
#define TB_STATE_RUNNING 1
#define TB_STATE_FINALIZED 2
#define TB_STATE_ABORTED 3

#define TB_PEER_NONE -1000
#define TB_PEER_ANY -1

struct tb_note {
    _Alignas(TB_LINE) _Atomic uint32_t pid;
    _Atomic uint32_t state;
    _Atomic uint32_t call;
    int32_t peer;
    int32_t tag;
    uint32_t polls;
    uint64_t since;
    int32_t code;
    uint32_t reserved;
    char reason[TB_NOTE_REASON_BYTES];
};
_Static_assert(sizeof(struct tb_note) == TB_NOTE_BYTES, "one note, one record");
_Static_assert(offsetof(struct tb_note, since) == TB_NOTE_SINCE, "layout");
_Static_assert(offsetof(struct tb_note, reason) == TB_NOTE_REASON, "layout");

/* What a rank's neighbours need of it. Each line has its own writers. */
struct tb_rank_block {
    struct tb_bell bell;                      /* what the rank sleeps on */
    _Alignas(TB_LINE) _Atomic uint32_t news;  /* counts changes of `active` */
    _Alignas(TB_LINE) _Atomic uint64_t nonce; /* a number in its memory … */
    _Atomic uint64_t nonce_at;                /* … and where: see pull */
    _Alignas(TB_LINE) _Atomic uint64_t active[]; /* a bit per sender's place */
};

/* Offsets into the segment, bytes. */
struct tb_segment_plan {
    size_t board; /* ranks x TB_NOTE_BYTES */
    size_t ranks; /* ranks x rank_bytes: struct tb_rank_block */
    size_t rank_bytes;
    size_t commons; /* ranks x commons_bytes: see net.h */
    size_t commons_bytes;
    size_t rings;      /* ranks x (ranks - 1) x ring_bytes */
    size_t ring_bytes; /* ring, slab and counters; a multiple of TB_LINE */
};

/* Divides a segment of `bytes` between `ranks`; `ring` is TBMPI_RING or 0.
 * Fails with a note when the bytes cannot hold that many ranks. */
tb_err tb_segment_plan(struct tb_segment_plan *out, int ranks, size_t bytes,
                       size_t ring);

/*
 * Maps the segment for `ranks` ranks that descriptor `fd` of this process
 * refers to, or, where a wrapper has closed it on the way, that of an ancestor
 * (Linux). The descriptor stays open. On failure the note says what is wrong.
 */
tb_err tb_segment_find(void **out, size_t *bytes, int fd, int ranks);

/* Says which processors this process may use; and how many all that have said
 * so may use together, which changes as they come: with head->present. */
void tb_segment_join_cpus(struct tb_segment_head *head);
int tb_segment_cpus(const struct tb_segment_head *head);

static inline struct tb_note *
tb_segment_note(void *segment, const struct tb_segment_plan *plan, int place)
{
    return (struct tb_note *)((char *)segment + plan->board) + place;
}

static inline struct tb_rank_block *
tb_segment_rank(void *segment, const struct tb_segment_plan *plan, int place)
{
    return (struct tb_rank_block *)((char *)segment + plan->ranks +
                                    (size_t)place * plan->rank_bytes);
}

#endif
