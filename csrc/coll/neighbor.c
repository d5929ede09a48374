/* SPDX-License-Identifier: MIT */
/*
 * Neighbourhood collectives: one message along each edge of the topology, all
 * at once. The n-th edge to a rank meets the n-th edge from it, which follows
 * from the order of messages; but in a Cartesian grid what goes in the
 * negative direction arrives at the other end as coming from the positive one,
 * also where both neighbours are one and the same rank (a periodic dimension
 * of size 1 or 2). So there the two receives of a dimension change places.
 * (MPI 4.1, section 8.6, with its example and advice to implementors.)
 */
#include "coll/build.h"

static bool gives_the_same_to_all(const struct tb_call *c)
{
    return c->kind == TB_COLL_NEIGHBOR_ALLGATHER ||
           c->kind == TB_COLL_NEIGHBOR_ALLGATHERV;
}

void tb_build_neighbor(struct tb_sched *s, const struct tb_call *c)
{
    struct tb_team t = tb_team_of(c->comm, 0);
    const int *in, *out;
    int n_in, n_out, kind;
    tb_err err = tb_topo_neighbours(c->comm, &n_in, &in, &n_out, &out);
    if (!err)
        err = tb_topo_test(c->comm, &kind);
    if (err) {
        tb_sched_fail(s, err);
        return;
    }
    for (int k = 0; k < n_in; k++) {
        int i = kind == MPI_CART ? k ^ 1 : k;
        if (in[i] != MPI_PROC_NULL)
            tb_sched_recv(s, &t, in[i], tb_block(&c->recv, i));
    }
    for (int i = 0; i < n_out; i++)
        if (out[i] != MPI_PROC_NULL)
            tb_sched_send(s, &t, out[i],
                          tb_block(&c->send, gives_the_same_to_all(c) ? 0 : i));
    tb_sched_round(s);
}
