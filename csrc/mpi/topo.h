/* SPDX-License-Identifier: MIT */
/* Topologies: what the files of the chapter share. */
#ifndef TB_TOPO_H
#define TB_TOPO_H

#include "mpi/objects.h"

/* All arrays lie behind the struct itself. */
struct tb_topo {
    int refs;
    int kind; /* MPI_CART, MPI_GRAPH or MPI_DIST_GRAPH */

    int n_in, n_out; /* neighbours of this process, in the order */
    int *in, *out;   /* of the neighbourhood collectives */

    int ndims; /* cartesian */
    int *dims, *periods, *coords;

    int nnodes, nedges; /* graph */
    int *index, *edges;

    bool weighted; /* distributed graph */
    int *in_weights, *out_weights;

    size_t room, used; /* of `ints` */
    int ints[];
};

/* A topology with room for so many integers, and pieces of it. */
tb_err tb_topo_new(struct tb_topo **out, int kind, size_t ints);
int *tb_topo_array(struct tb_topo *t, size_t n);

/* The communicator's topology of that kind; TB_ERR_TOPOLOGY: it has none. */
tb_err tb_topo_get(const struct tb_comm *c, int kind, struct tb_topo **out);

/* Makes a communicator of the first n ranks of `old` with this topology, whose
 * reference it takes over. The others get none. */
tb_err tb_topo_publish(struct tb_comm *old, uint64_t name, int n,
                       struct tb_topo *t, struct tb_comm **out);

/* Whether the caller's array, of the size it says, can take `needed`. */
tb_err tb_topo_check_room(const char *arg, int room, int needed);

#endif
