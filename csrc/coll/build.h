/* SPDX-License-Identifier: MIT */
/*
 * Builders: each writes the steps of one algorithm for this rank.
 *
 * The upper half are the algorithms themselves, among a team of ranks; they
 * combine (a broadcast is a scatter and an allgather, a call on an
 * intercommunicator is one on each half and a message between them). The lower
 * half are whole calls, as select.c picks them.
 *
 * n: ranks; m: bytes of the message, or of each block; costs count rounds, and
 * bytes that a rank sends.
 */
#ifndef TB_BUILD_H
#define TB_BUILD_H

#include "coll/call.h"
#include "coll/sched.h"

/* ------------------------------------------------------------- algorithms */

/* bcast.c: from rank 0 of the team. */
void tb_bcast_binomial(struct tb_sched *s, const struct tb_team *t,
                       struct tb_part what);

/* bcast.c: the message as bytes in one piece, for whoever cuts it: ranks need
 * not have cut it into the same elements. When the program's is not one piece,
 * it is packed at rank 0 of the team here, and unpacked elsewhere at the end,
 * which also ends the round. */
struct tb_part tb_stream_begin(struct tb_sched *s, const struct tb_team *t,
                               struct tb_part what);
void tb_stream_end(struct tb_sched *s, const struct tb_team *t,
                   struct tb_part stream, struct tb_part what);

/* scatter.c: block i of rank 0 goes to rank i of the team. All blocks of the
 * array lie in rank 0's memory; the others have room for the whole array and
 * get their own block and those of the ranks they pass it on to. */
void tb_scatter_cut(struct tb_sched *s, const struct tb_team *t,
                    const struct tb_blocks *b);

/* allgather.c: block i is at rank i, then all are everywhere. */
void tb_allgather_ring(struct tb_sched *s, const struct tb_team *t,
                       const struct tb_blocks *b);

/*
 * reduce.c: to rank 0 of the team, which leaves the result in `out`; the
 * others may pass NULL. Contributions are combined in the order of the team's
 * ranks. `in` may be `out`.
 */
void tb_reduce_binomial(struct tb_sched *s, const struct tb_team *t,
                        const void *in, void *out, int64_t count);

/*
 * reduce.c: the recursive halving that Rabenseifner's algorithms begin with.
 * Afterwards rank id of the 2^k ranks that take part has block id of the
 * result in `acc`. Where n is not a power of two, each of the first ranks with
 * an odd number hands its contribution to the one before it and sits out.
 * For operations that commute.
 */
struct tb_halves {
    const struct tb_team *t;
    const int64_t *edge; /* block i: elements edge[i] to edge[i + 1] - 1 */
    void *acc;           /* room for all elements; may be the input */
    int parts;           /* 2^k: ranks that take part, and blocks */
    int extra;           /* ranks that sit out */
    int id;              /* -1: sits out */
};

/* Rank of the team that has this id. */
static inline int tb_halves_rank(const struct tb_halves *h, int id)
{
    return id < h->extra ? 2 * id : id + h->extra;
}

/* Cuts `count` elements evenly. */
void tb_halves_init(struct tb_halves *h, struct tb_sched *s,
                    const struct tb_team *t, int64_t count);
/* `in` is the contribution of this rank. */
void tb_halves_build(const struct tb_halves *h, struct tb_sched *s,
                     const void *in);
/* Blocks i to i + n - 1 in acc. */
struct tb_part tb_halves_part(const struct tb_halves *h,
                              const struct tb_sched *s, int i, int n);

/* `count` elements of the reduction's type at `buf`. */
static inline struct tb_part tb_elements(const struct tb_sched *s,
                                         const void *buf, int64_t count)
{
    return (struct tb_part){(void *)(uintptr_t)buf, count, s->type->layout};
}

static inline struct tb_part tb_bytes(const void *buf, int64_t bytes)
{
    return (struct tb_part){(void *)(uintptr_t)buf, bytes, &tb_layout_byte};
}

/* The largest power of two that is not above n. */
static inline int tb_pow2_below(int n)
{
    int p = 1;
    while (p <= n / 2)
        p *= 2;
    return p;
}

/* ------------------------------------------------------------------ calls */

typedef void tb_builder(struct tb_sched *s, const struct tb_call *c);

tb_builder tb_build_barrier_dissemination;
tb_builder tb_build_barrier_inter;
tb_builder tb_build_barrier_nodes;

tb_builder tb_build_bcast_binomial;
tb_builder tb_build_bcast_flat;
tb_builder tb_build_bcast_scatter_ring;
tb_builder tb_build_bcast_chain;
tb_builder tb_build_bcast_inter;
tb_builder tb_build_bcast_nodes;
tb_builder tb_build_bcast_mesh;
tb_builder tb_build_bcast_both_ways;

tb_builder tb_build_gather_binomial;
tb_builder tb_build_gather_linear;
tb_builder tb_build_scatter_binomial;
tb_builder tb_build_scatter_linear;

tb_builder tb_build_allgather_bruck;
tb_builder tb_build_allgather_doubling;
tb_builder tb_build_allgather_ring;
tb_builder tb_build_allgather_spread;
tb_builder tb_build_allgather_nodes;

tb_builder tb_build_alltoall_bruck;
tb_builder tb_build_alltoall_spread;
tb_builder tb_build_alltoall_pairwise;

tb_builder tb_build_reduce_binomial;
tb_builder tb_build_reduce_ordered;
tb_builder tb_build_reduce_halving;
tb_builder tb_build_reduce_inter;
tb_builder tb_build_reduce_nodes;
tb_builder tb_build_reduce_mesh;

tb_builder tb_build_allreduce_doubling;
tb_builder tb_build_allreduce_halving;
tb_builder tb_build_allreduce_ring;
tb_builder tb_build_allreduce_tree;
tb_builder tb_build_allreduce_inter;
tb_builder tb_build_allreduce_nodes;
tb_builder tb_build_allreduce_mesh_once;
tb_builder tb_build_allreduce_mesh;
tb_builder tb_build_allreduce_both_ways;
tb_builder tb_build_allreduce_one_way;

tb_builder tb_build_reduce_scatter_halving;
tb_builder tb_build_reduce_scatter_pairwise;
tb_builder tb_build_reduce_scatter_tree;
tb_builder tb_build_reduce_scatter_inter;
tb_builder tb_build_reduce_scatter_mesh;

tb_builder tb_build_scan_doubling;
tb_builder tb_build_exscan_doubling;

tb_builder tb_build_neighbor;

#endif
