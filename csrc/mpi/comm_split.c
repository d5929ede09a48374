/* SPDX-License-Identifier: MIT */
/* Communicators of a part of another one's processes. */
#include <stdlib.h>

#include "coll/coll.h"
#include "mpi/api.h"
#include "mpi/comm.h"
#include "mpi/comm_name.h"
#include "mpi/errh.h"
#include "mpi/world.h"

/* ------------------------------------------------------- given by a group */

tb_err tb_comm_need_subset(const struct tb_comm *c, const struct tb_group *g)
{
    for (int i = 0; i < g->size; i++)
        if (tb_group_find(c->group, g->ranks[i]) == MPI_UNDEFINED)
            return tb_fail(TB_ERR_GROUP,
                           "rank %d of the group is not a member "
                           "of the communicator",
                           i);
    return TB_OK;
}

/* The name is taken before anything can fail, so that members that succeed and
 * those that do not go on agreeing about later names. */
tb_err tb_comm_create(struct tb_comm *comm, struct tb_group *group,
                      struct tb_comm **newcomm)
{
    uint64_t name = tb_comm_next_name(comm);

    if (comm->remote)
        return tb_comm_create_inter(comm, group, name, newcomm);
    TB_TRY(tb_comm_need_subset(comm, group));
    if (group->rank == MPI_UNDEFINED)
        return TB_OK;
    return tb_comm_publish(newcomm, name, group, NULL, comm);
}

tb_err tb_comm_create_group(struct tb_comm *comm, struct tb_group *group,
                            int tag, struct tb_comm **newcomm)
{
    uint64_t name;

    TB_TRY(tb_comm_need_intra(comm));
    TB_TRY(tb_comm_need_subset(comm, group));
    if (group->rank == MPI_UNDEFINED)
        return TB_OK;
    TB_TRY(tb_name_by_group(comm, group, (uint64_t)tag, &name));
    return tb_comm_publish(newcomm, name, group, NULL, comm);
}

/* Without a parent: MPI_COMM_WORLD counts, which has all there are. */
tb_err tb_comm_create_named(struct tb_group *group, const char *stringtag,
                            const struct tb_info *info,
                            struct tb_errh *errhandler,
                            struct tb_comm **newcomm)
{
    uint64_t name;

    if (group->rank == MPI_UNDEFINED)
        return TB_OK;
    TB_TRY(tb_name_by_group(tb_world.comm_world, group, tb_name_tag(stringtag),
                            &name));
    struct tb_comm *c;
    TB_TRY(tb_comm_publish(&c, name, group, NULL, NULL));
    tb_err err = tb_comm_set_errhandler(c, errhandler);
    if (!err)
        err = tb_comm_keep_hints(c, info);
    if (err)
        tb_comm_retract(c);
    else
        *newcomm = c;
    return err;
}

/* The new communicator's error handler hears of it when there will be none. */
tb_err tb_comm_create_from_group(struct tb_group *group, const char *stringtag,
                                 struct tb_info *info,
                                 struct tb_errh *errhandler,
                                 struct tb_comm **newcomm)
{
    tb_errh_give(errhandler);
    TB_TRY(tb_comm_create_named(group, stringtag, info, errhandler, newcomm));
    tb_errh_give(NULL);
    return TB_OK;
}

/* ------------------------------------------------- given by colour and key */

/* What a process says in a split, and afterwards its place in the order. */
struct vote {
    int color;
    int key;
    int rank;
};

static int by_key(const void *a, const void *b)
{
    const struct vote *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* The endpoints of those of a group with one colour, in their order. Sorts
 * the votes of that colour to the front. */
static tb_err pick(const struct tb_group *g, struct vote *votes, int color,
                   int **endpoints, int *n)
{
    *n = 0;
    for (int i = 0; i < g->size; i++)
        if (votes[i].color == color)
            votes[(*n)++] = votes[i];
    qsort(votes, (size_t)*n, sizeof *votes, by_key);
    *endpoints = tb_alloc((size_t)*n * sizeof **endpoints);
    if (!*endpoints)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", *n);
    for (int i = 0; i < *n; i++)
        (*endpoints)[i] = g->ranks[votes[i].rank];
    return TB_OK;
}

static tb_err pick_group(const struct tb_group *g, struct vote *votes,
                         int color, struct tb_group **out)
{
    int *endpoints;
    int n;
    TB_TRY(pick(g, votes, color, &endpoints, &n));
    return tb_group_make(out, endpoints, n);
}

/* Everybody's vote; of an intercommunicator's remote group too. */
static tb_err collect(struct tb_comm *c, struct vote mine, struct vote *local,
                      struct vote *remote)
{
    struct tb_comm *half = c->remote ? c->local : c;

    TB_TRY(tb_coll_allgather_bytes(half, &mine, local, sizeof mine));
    if (!c->remote)
        return TB_OK;
    return tb_comm_swap(c, local, (int64_t)sizeof mine * c->size, remote,
                        (int64_t)sizeof mine * c->remote_size);
}

static tb_err publish(struct tb_comm *c, uint64_t name, int color,
                      struct vote *local, struct vote *remote,
                      struct tb_comm **out)
{
    struct tb_group *group, *other = NULL;

    if (color == MPI_UNDEFINED)
        return TB_OK;
    TB_TRY(pick_group(c->group, local, color, &group));
    tb_err err =
        c->remote ? pick_group(c->remote, remote, color, &other) : TB_OK;
    if (!err && !(other && other->size == 0))
        err = tb_comm_publish(out, name, group, other, c);
    tb_group_unref(group);
    tb_group_unref(other);
    return err;
}

/* Colours are disjoint, so all may have one name. An invalid colour counts as
 * MPI_UNDEFINED, and the caller fails afterwards: nobody waits for it. */
static tb_err split(struct tb_comm *c, int color, int key, struct tb_comm **out)
{
    uint64_t name = tb_comm_next_name(c);
    struct vote mine = {color < 0 ? MPI_UNDEFINED : color, key, c->rank};
    struct vote *votes =
        tb_calloc((size_t)c->size + (size_t)c->remote_size, sizeof *votes);
    if (!votes)
        return tb_fail(TB_ERR_NO_MEM, "no memory to split a communicator of %d",
                       c->size);
    tb_err err = collect(c, mine, votes, votes + c->size);
    if (!err)
        err = publish(c, name, mine.color, votes, votes + c->size, out);
    tb_free(votes);
    return err;
}

tb_err tb_comm_split(struct tb_comm *comm, int color, int key,
                     struct tb_comm **newcomm)
{
    TB_TRY(split(comm, color, key, newcomm));
    if (color < 0 && color != MPI_UNDEFINED)
        return tb_fail(TB_ERR_ARG,
                       "color is %d: it must be MPI_UNDEFINED or "
                       "not negative",
                       color);
    return TB_OK;
}

/* ------------------------------------------------------ given by hardware */

#define RESOURCE_KEY "mpi_hw_resource_type"
#define RESOURCE_NODE "mpi_shared_memory"

/* Processes that share memory have equal numbers. */
static int node_of_self(void)
{
    struct tb_net *net = tb_engine_net(tb_world.engine);
    return tb_net_node(net, tb_net_self(net));
}

/* The one resource known is the machine. */
static int guided_color(const struct tb_info *info)
{
    const char *resource = info ? tb_info_look(info, RESOURCE_KEY) : NULL;
    bool node = resource && strcmp(resource, RESOURCE_NODE) == 0;
    return node ? node_of_self() : MPI_UNDEFINED;
}

static int color_of(int split_type, const struct tb_info *info)
{
    switch (split_type) {
    case MPI_COMM_TYPE_SHARED:
    case MPI_COMM_TYPE_HW_UNGUIDED:
        return node_of_self();
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
        return guided_color(info);
    default:
        return MPI_UNDEFINED;
    }
}

static bool is_split_type(int split_type)
{
    return split_type == MPI_UNDEFINED ||
           (split_type >= MPI_COMM_TYPE_SHARED &&
            split_type <= MPI_COMM_TYPE_RESOURCE_GUIDED);
}

/* Unguided: only a communicator smaller than its parent counts as one. */
static tb_err finish_unguided(struct tb_comm *parent, struct tb_info *info,
                              struct tb_comm **newcomm)
{
    if (*newcomm && (*newcomm)->size == parent->size) {
        tb_comm_retract(*newcomm);
        *newcomm = NULL;
    }
    if (*newcomm && info)
        return tb_info_set(info, RESOURCE_KEY, RESOURCE_NODE);
    return TB_OK;
}

/* All take part in the exchange whatever they ask for, since they cannot know
 * what the others ask for. */
tb_err tb_comm_split_type(struct tb_comm *comm, int split_type, int key,
                          struct tb_info *info, struct tb_comm **newcomm)
{
    TB_TRY(split(comm, color_of(split_type, info), key, newcomm));
    if (!is_split_type(split_type))
        return tb_fail(TB_ERR_ARG,
                       "split_type is %d, which is no "
                       "MPI_COMM_TYPE_*",
                       split_type);
    if (split_type == MPI_COMM_TYPE_HW_UNGUIDED)
        TB_TRY(finish_unguided(comm, info, newcomm));
    return *newcomm ? tb_comm_keep_hints(*newcomm, info) : TB_OK;
}
