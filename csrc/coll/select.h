/* SPDX-License-Identifier: MIT */
/*
 * Which algorithm runs a call. All that the choice depends on is equal on all
 * ranks of the communicator: its size and placement, the bytes where the
 * standard demands that they agree, settings of the job.
 */
#ifndef TB_SELECT_H
#define TB_SELECT_H

#include "coll/build.h"
#include "coll/direct.h"

struct tb_choice {
    uint8_t kind;
    uint16_t needs; /* TB_IF_*: all must hold */
    int min_ranks, max_ranks;
    int64_t min_bytes, max_bytes;
    const char *name;  /* for TBMPI_COLL */
    tb_builder *build; /* NULL: a direct operation */
    enum tb_direct_how how;
};

/* What may be needed. */
#define TB_IF_INTRA 1     /* an intracommunicator */
#define TB_IF_INTER 2     /* an intercommunicator */
#define TB_IF_COMMUTES 4  /* the reduction may take any order */
#define TB_IF_POW2 8      /* the number of ranks is a power of two */
#define TB_IF_FREE 16     /* the order may depend on where the ranks are */
#define TB_IF_SLOTS 32    /* there is a lane, and its slots can carry it */
#define TB_IF_PULL 64     /* there is a lane, and ranks can read each other */
#define TB_IF_SHORT 128   /* slots can carry it in one turn */
#define TB_IF_NODES 256   /* ranks are on several nodes, … */
#define TB_IF_MESH 512    /* … of which any two are joined, … */
#define TB_IF_RING 1024   /* … or that stand in a ring … */
#define TB_IF_LINE 2048   /* … or in a line; … */
#define TB_IF_ALONE 4096  /* … one rank on each, … */
#define TB_IF_SHARED 8192 /* … or several on some */

/* Row i of the table; NULL behind the last one. */
const struct tb_choice *tb_choice_at(size_t i);

/* Whether the row computes what the call asks for, whatever the sizes. */
bool tb_choice_suits(const struct tb_choice *row, const struct tb_call *call);

/* The first choice of the table that fits, or that TBMPI_COLL names.
 * `in_order`: all members start it in the same order, so that it may use the
 * lane. Fails only when TBMPI_COLL cannot be read. */
tb_err tb_select(const struct tb_call *call, bool in_order,
                 const struct tb_choice **out);

#endif
