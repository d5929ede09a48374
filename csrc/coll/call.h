/* SPDX-License-Identifier: MIT */
/*
 * A collective call as data: what the program asked for, whichever of the
 * blocking, nonblocking, persistent and neighbourhood calls it used.
 *
 * Words. A *block* is what one rank gives to or gets from one other (or all of
 * them); a buffer is an array of blocks. A *part* is one block's memory: where
 * it is, how many elements of which layout.
 */
#ifndef TB_CALL_H
#define TB_CALL_H

#include "mpi/api.h"
#include "mpi/objects.h"

#define TB_COLLS(X)                                                         \
    X(BARRIER, "Barrier", "barrier")                                        \
    X(BCAST, "Bcast", "bcast")                                              \
    X(GATHER, "Gather", "gather")                                           \
    X(GATHERV, "Gatherv", "gatherv")                                        \
    X(SCATTER, "Scatter", "scatter")                                        \
    X(SCATTERV, "Scatterv", "scatterv")                                     \
    X(ALLGATHER, "Allgather", "allgather")                                  \
    X(ALLGATHERV, "Allgatherv", "allgatherv")                               \
    X(ALLTOALL, "Alltoall", "alltoall")                                     \
    X(ALLTOALLV, "Alltoallv", "alltoallv")                                  \
    X(ALLTOALLW, "Alltoallw", "alltoallw")                                  \
    X(REDUCE, "Reduce", "reduce")                                           \
    X(ALLREDUCE, "Allreduce", "allreduce")                                  \
    X(REDUCE_SCATTER_BLOCK, "Reduce_scatter_block", "reduce_scatter_block") \
    X(REDUCE_SCATTER, "Reduce_scatter", "reduce_scatter")                   \
    X(SCAN, "Scan", "scan")                                                 \
    X(EXSCAN, "Exscan", "exscan")                                           \
    X(NEIGHBOR_ALLGATHER, "Neighbor_allgather", "neighbor_allgather")       \
    X(NEIGHBOR_ALLGATHERV, "Neighbor_allgatherv", "neighbor_allgatherv")    \
    X(NEIGHBOR_ALLTOALL, "Neighbor_alltoall", "neighbor_alltoall")          \
    X(NEIGHBOR_ALLTOALLV, "Neighbor_alltoallv", "neighbor_alltoallv")       \
    X(NEIGHBOR_ALLTOALLW, "Neighbor_alltoallw", "neighbor_alltoallw")

enum tb_coll_kind {
#define X(kind, name, word) TB_COLL_##kind,
    TB_COLLS(X)
#undef X
        TB_COLL_LIMIT
};

/* "Bcast" as the standard writes it; never NULL. call.c */
const char *tb_coll_name(enum tb_coll_kind kind);

/*
 * An array of blocks. Block i holds `count` elements, or counts[i]; it lies at
 * i x count, or at displs[i], in extents of the layout. With `types` each
 * block has a layout of its own and displs[i] is in bytes. With `total` the
 * array is a total of so many elements cut into blocks of `count`, of which
 * the last ones may be short or empty.
 */
struct tb_blocks {
    void *base;
    struct tb_layout *layout;
    int64_t count;
    int64_t total; /* 0: not cut */
    struct tb_counts counts, displs;
    const MPI_Datatype *types;
};

struct tb_part {
    void *buf;
    int64_t count;
    struct tb_layout *layout;
};

struct tb_call {
    enum tb_coll_kind kind;
    bool in_place; /* what is sent is in its place in the other buffer */
    int root;
    struct tb_comm *comm;
    struct tb_blocks send, recv; /* Bcast: recv at all ranks */
    struct tb_type *type;        /* reductions */
    struct tb_op *op;
};

/* Runs the call to its end. */
tb_err tb_coll_run(struct tb_call *call);
/* Starts it; the request is done when the call is. */
tb_err tb_coll_begin(struct tb_call *call, struct tb_req **out);
/* Makes an inactive persistent request for it. */
tb_err tb_coll_prepare(struct tb_call *call, struct tb_req **out);

/* args.c: what the bindings cannot check alone. Sets call->in_place and puts
 * the in-place buffer where builders look for it: send is like recv then. */
tb_err tb_coll_check(struct tb_call *call);

/* The address `bytes` from `buf`; buf may be MPI_BOTTOM. */
static inline void *tb_at(const void *buf, int64_t bytes)
{
    return (void *)((uintptr_t)buf + (uintptr_t)bytes);
}

static inline int64_t tb_part_bytes(struct tb_part p)
{
    return p.count * (p.count ? p.layout->size : 0);
}

/* Block i. */
struct tb_part tb_block(const struct tb_blocks *b, int i);
/* Blocks i to i + n - 1 of an array whose blocks are adjacent: not v or w. */
struct tb_part tb_block_range(const struct tb_blocks *b, int i, int n);

/* to = from; the layouts may differ. When the bytes do too, as many as fit are
 * copied, and that is an error: TRUNCATE or NOT_SAME. */
tb_err tb_part_copy(struct tb_part from, struct tb_part to);

/* `count` elements at `base`, cut evenly for `n` ranks. */
static inline struct tb_blocks tb_cut(void *base, int64_t count,
                                      struct tb_layout *layout, int n)
{
    return (struct tb_blocks){.base = base,
                              .layout = layout,
                              .count = (count + n - 1) / n,
                              .total = count};
}

/* ------------------------------------------------------- roles of a rank */

/* In an intercommunicator the root says MPI_ROOT, its group MPI_PROC_NULL, and
 * the other group the root's rank. */
static inline bool tb_call_is_root(const struct tb_call *c)
{
    return c->comm->remote ? c->root == MPI_ROOT : c->root == c->comm->rank;
}

/* Whether this rank gives to or gets from the root. */
static inline bool tb_call_is_leaf(const struct tb_call *c)
{
    return !c->comm->remote || c->root >= 0;
}

/* Ranks whom this one exchanges blocks with. */
static inline int tb_call_peers(const struct tb_call *c)
{
    return c->comm->peers->size;
}

#endif
