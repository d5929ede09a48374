/* SPDX-License-Identifier: MIT */
/*
 * What origins and targets say to each other. Messages of the context `ops`,
 * by tag:
 *
 *   REQUEST  origin to target: a head, groups that describe the target's
 *            memory, and data unless they come by themselves; carried out in
 *            the order of sending
 *   ANSWER   about synchronisation, and at once
 *
 * Data that travel by themselves are messages on the point-to-point context of
 * the window's communicator, with the number of their request as tag.
 */
#ifndef TB_RMA_WIRE_H
#define TB_RMA_WIRE_H

#include "engine/engine.h"

enum tb_rma_tag { TB_RMA_REQUEST, TB_RMA_ANSWER };

enum tb_rma_kind {
    TB_RMA_PUT = 1,
    TB_RMA_GET,
    TB_RMA_ACC,     /* accumulate; with FETCH get_accumulate */
    TB_RMA_SWAP,    /* compare and swap: the new value, what to compare with */
    TB_RMA_LOCK,    /* begins an access epoch */
    TB_RMA_UNLOCK,  /* ends it; answered with DONE */
    TB_RMA_FLUSH,   /* answered with DONE when all before is carried out */
    TB_RMA_COMPLETE /* ends an epoch of MPI_Win_start */
};

#define TB_RMA_SEPARATE 1  /* the data come by themselves */
#define TB_RMA_FETCH 2     /* ACC: send back what was there before */
#define TB_RMA_EXCLUSIVE 4 /* LOCK */
#define TB_RMA_TELL 8      /* LOCK: answer GRANTED */

struct tb_rma_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t type; /* ACC, SWAP: handle of the predefined type */
    uint16_t op;   /* ACC: handle of the operation */
    uint16_t spare;
    uint32_t number; /* of the request, between these two ranks */
    uint32_t groups; /* 0: the memory is one run */
    int64_t at;      /* bytes from the window's base on, or the address */
    int64_t count;   /* elements of the shape that groups describe */
    int64_t bytes;   /* of the stream */
    int64_t extent;  /* of an element */
};

/* `n` runs of `bytes` bytes, `stride` apart, the first at `displ`. */
struct tb_rma_group {
    int64_t displ;
    int64_t n;
    int64_t bytes;
    int64_t stride;
};

enum tb_rma_answer_kind {
    TB_RMA_DONE = 1, /* of UNLOCK and FLUSH, in their order */
    TB_RMA_GRANTED,
    TB_RMA_POSTED /* MPI_Win_post: begin */
};

struct tb_rma_answer {
    uint32_t kind;
    int32_t err; /* DONE: what has gone wrong since the last */
};

_Static_assert(sizeof(struct tb_rma_head) == 48, "no padding");
_Static_assert(sizeof(struct tb_rma_group) == 32, "no padding");

/* Data up to this length travel with their request. */
#define TB_RMA_INLINE 4096
/* So many requests may wait for room at the origin: then operations do. */
#define TB_RMA_UNSENT_MOST 4096
/* No request is longer: what may be received into memory made for it. */
#define TB_RMA_REQUEST_MOST ((int64_t)256 << 20)

/* The tag of a request's data, to the target or back. */
static inline int tb_rma_data_tag(uint32_t number, bool back)
{
    return (int)((number & 0x1fffffff) << 1 | back);
}

/* Describes one element of a layout, in the order of its stream. Returns how
 * many groups that takes, and fills in at most `room` of them. */
int64_t tb_rma_describe(const struct tb_layout *l, struct tb_rma_group *out,
                        int64_t room);

/* The layout that groups describe, which may say anything. */
tb_err tb_rma_layout(const struct tb_rma_group *groups, int64_t n,
                     int64_t extent, struct tb_layout **out);

/* The bytes that `count` elements lie in, from *low to *high, relative to
 * where they are placed. False: no memory has so many. */
bool tb_rma_reach(const struct tb_layout *l, int64_t count, int64_t *low,
                  int64_t *high);

#endif
