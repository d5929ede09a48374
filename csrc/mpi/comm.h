/* SPDX-License-Identifier: MIT */
/* What the files of the communicator chapter share. */
#ifndef TB_COMM_H
#define TB_COMM_H

#include "mpi/objects.h"

/* Makes a communicator and gives it a handle: the end of every creation. The
 * groups' references stay the caller's. */
tb_err tb_comm_publish(struct tb_comm **out, uint64_t name,
                       struct tb_group *group, struct tb_group *remote,
                       const struct tb_comm *parent);

/* The same for a new group of these endpoints, which it takes over. */
tb_err tb_comm_publish_ranks(struct tb_comm **out, uint64_t name,
                             int *endpoints, int n,
                             const struct tb_comm *parent);

/* Takes back a communicator that nobody saw yet. */
void tb_comm_retract(struct tb_comm *c);

/* Keeps those hints of `info` (NULL: none) that this library knows. */
tb_err tb_comm_keep_hints(struct tb_comm *c, const struct tb_info *info);

/* TB_ERR_COMM for an intercommunicator, TB_ERR_GROUP if a member of the group
 * is not in the communicator's local group. */
tb_err tb_comm_need_intra(const struct tb_comm *c);
tb_err tb_comm_need_subset(const struct tb_comm *c, const struct tb_group *g);

/* comm_split.c. MPI_Comm_create_from_group, but for whose handler hears of an
 * error. */
tb_err tb_comm_create_named(struct tb_group *group, const char *stringtag,
                            const struct tb_info *info,
                            struct tb_errh *errhandler,
                            struct tb_comm **newcomm);

/* comm_inter.c. The groups of an intercommunicator swap `bytes_out` bytes, of
 * which each process has a copy, for `bytes_in`. Blocking, collective. */
tb_err tb_comm_swap(struct tb_comm *c, const void *out, int64_t bytes_out,
                    void *in, int64_t bytes_in);
/* Comm_create for an intercommunicator. */
tb_err tb_comm_create_inter(struct tb_comm *c, struct tb_group *group,
                            uint64_t name, struct tb_comm **out);

#endif
