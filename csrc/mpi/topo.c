/* SPDX-License-Identifier: MIT */
/* Topologies in general. */
#include "mpi/topo.h"

#include "mpi/api.h"
#include "mpi/comm.h"

struct tb_topo *tb_topo_ref(struct tb_topo *t)
{
    if (t)
        t->refs++;
    return t;
}

void tb_topo_unref(struct tb_topo *t)
{
    if (t && --t->refs == 0)
        tb_free(t);
}

tb_err tb_topo_new(struct tb_topo **out, int kind, size_t ints)
{
    struct tb_topo *t = tb_calloc(1, sizeof *t + ints * sizeof t->ints[0]);
    if (!t)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a topology");
    t->refs = 1;
    t->kind = kind;
    t->room = ints;
    *out = t;
    return TB_OK;
}

int *tb_topo_array(struct tb_topo *t, size_t n)
{
    int *array = t->ints + t->used;

    t->used += n;
    return array;
}

static const char *kind_name(int kind)
{
    return kind == MPI_CART    ? "Cartesian"
           : kind == MPI_GRAPH ? "graph"
                               : "distributed graph";
}

tb_err tb_topo_get(const struct tb_comm *c, int kind, struct tb_topo **out)
{
    if (!c->topo)
        return tb_fail(TB_ERR_TOPOLOGY, "the communicator has no topology");
    if (c->topo->kind != kind)
        return tb_fail(TB_ERR_TOPOLOGY,
                       "the communicator has a %s topology, "
                       "and a %s one is needed",
                       kind_name(c->topo->kind), kind_name(kind));
    *out = c->topo;
    return TB_OK;
}

tb_err tb_topo_publish(struct tb_comm *old, uint64_t name, int n,
                       struct tb_topo *t, struct tb_comm **out)
{
    tb_err err;

    if (n == old->size) {
        err = tb_comm_publish(out, name, old->group, NULL, old);
    } else {
        int *ranks = tb_alloc((size_t)n * sizeof *ranks);
        if (ranks)
            memcpy(ranks, old->group->ranks, (size_t)n * sizeof *ranks);
        err = ranks ? tb_comm_publish_ranks(out, name, ranks, n, old)
                    : tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", n);
    }
    if (err)
        tb_topo_unref(t);
    else
        (*out)->topo = t;
    return err;
}

tb_err tb_topo_check_room(const char *arg, int room, int needed)
{
    if (room < needed)
        return tb_fail(TB_ERR_ARG, "%s is %d: there are %d to store", arg, room,
                       needed);
    return TB_OK;
}

tb_err tb_topo_neighbours(const struct tb_comm *c, int *n_in, const int **in,
                          int *n_out, const int **out)
{
    const struct tb_topo *t = c->topo;
    if (!t)
        return tb_fail(TB_ERR_TOPOLOGY,
                       "the communicator has no topology: "
                       "make one with MPI_Cart_create or a graph");
    *n_in = t->n_in;
    *in = t->in;
    *n_out = t->n_out;
    *out = t->out;
    return TB_OK;
}

tb_err tb_topo_test(struct tb_comm *comm, int *status)
{
    *status = comm->topo ? comm->topo->kind : MPI_UNDEFINED;
    return TB_OK;
}
