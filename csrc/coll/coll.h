/* SPDX-License-Identifier: MIT */
/*
 * coll: the collective operations. The MPI calls themselves are declared in
 * mpi/api.h; this is what the rest of the library uses of them.
 *
 * The first three block, must be called by every member of the communicator in
 * the same order as any other collective on it, and take an intracommunicator:
 * of an intercommunicator the local half, c->local.
 *
 *   calls.c                     the MPI calls, as data (call.h)
 *   args.c call.c               what may be wrong with them, what they mean
 *   select.c                    which algorithm: one table
 *   barrier.c bcast.c …         the algorithms (build.h), one file a family
 *   sched.c scratch.c           schedules (sched.h): what algorithms produce
 *   run.c                       from the call to its end
 *   shape.c levels.c            where ranks are, and collectives in two levels
 *   mesh.c ways.c               … between nodes, along the cables
 *   direct.c slots.c pull.c     through memory, for ranks of one machine
 *   commons.c                   … and what such ranks share: lanes
 */
#ifndef TB_COLL_H
#define TB_COLL_H

#include "mpi/objects.h"

/* Returns when all members have called it. */
tb_err tb_coll_barrier(struct tb_comm *c);

/* Rank `root`'s `bytes` at `buf` arrive at everybody's `buf`. */
tb_err tb_coll_bcast_bytes(struct tb_comm *c, void *buf, int64_t bytes,
                           int root);

/* Everybody's `bytes_each` at `in` arrive at `out`, in rank order. `in` may
 * be NULL: then this rank's bytes are in their place in `out` already. */
tb_err tb_coll_allgather_bytes(struct tb_comm *c, const void *in, void *out,
                               int64_t bytes_each);

/* Gives kept memory back to the system; at the end of the library. */
void tb_coll_fini(void);

#endif
