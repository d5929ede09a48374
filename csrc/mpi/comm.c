/* SPDX-License-Identifier: MIT */
/* Communicators: their life, duplicates, names, hints, and what they tell. */
#include "mpi/comm.h"

#include <stdio.h>

#include "mpi/api.h"
#include "mpi/comm_name.h"
#include "mpi/life.h"
#include "mpi/request.h"
#include "mpi/world.h"

#define NAME_WORLD 0x776f726c64u
#define NAME_SELF 0x73656c66u

/* ----------------------------------------------------------------- life */

static tb_err open_contexts(struct tb_comm *c)
{
    const struct tb_group *peers = c->peers;

    TB_TRY(tb_context_open(tb_world.engine, c->name_id, peers->ranks,
                           peers->size, &c->p2p));
    return tb_context_open(tb_world.engine, tb_name_coll(c->name_id),
                           peers->ranks, peers->size, &c->coll);
}

static void destroy(struct tb_comm *c)
{
    tb_comm_unref(c->local);
    tb_commons_free(c->commons);
    tb_shape_free(c->shape);
    if (c->coll)
        tb_context_close(c->coll);
    if (c->p2p)
        tb_context_close(c->p2p);
    tb_attrs_forget(&c->attrs);
    tb_topo_unref(c->topo);
    tb_info_release(c->info);
    tb_uses_free(c->uses);
    tb_errh_unref(c->errh);
    tb_session_unref(c->session);
    tb_group_unref(c->group);
    tb_group_unref(c->remote);
    tb_free(c);
}

tb_err tb_comm_make(struct tb_comm **out, uint64_t name_id,
                    struct tb_group *group, struct tb_group *remote,
                    const struct tb_comm *parent)
{
    struct tb_comm *c = tb_calloc(1, sizeof *c);
    if (!c)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a communicator");
    c->obj.kind = TB_KIND_COMM;
    c->obj.refs = 1;
    c->name_id = name_id;
    c->rank = group->rank;
    c->size = group->size;
    c->remote_size = remote ? remote->size : 0;
    c->group = tb_group_ref(group);
    c->remote = tb_group_ref(remote);
    c->peers = remote ? remote : group;
    c->session = tb_session_ref(parent ? parent->session : group->session);
    c->low_first = parent ? parent->low_first : false;
    c->errh = tb_errh_ref(parent ? parent->errh : &tb_errors_fatal);
    tb_err err = open_contexts(c);
    if (!err && remote)
        err = tb_comm_make(&c->local, tb_name_local(name_id), group, NULL,
                           parent);
    if (err)
        destroy(c);
    else
        *out = c;
    return err;
}

struct tb_comm *tb_comm_ref(struct tb_comm *c)
{
    if (c)
        c->obj.refs++;
    return c;
}

void tb_comm_unref(struct tb_comm *c)
{
    if (c && --c->obj.refs == 0)
        destroy(c);
}

tb_err tb_comm_publish(struct tb_comm **out, uint64_t name,
                       struct tb_group *group, struct tb_group *remote,
                       const struct tb_comm *parent)
{
    struct tb_comm *c;
    TB_TRY(tb_comm_make(&c, name, group, remote, parent));
    tb_err err = tb_handle_new(&c->obj, TB_KIND_COMM);
    if (err)
        tb_comm_unref(c);
    else
        *out = c;
    return err;
}

tb_err tb_comm_publish_ranks(struct tb_comm **out, uint64_t name,
                             int *endpoints, int n,
                             const struct tb_comm *parent)
{
    struct tb_group *group;
    TB_TRY(tb_group_make(&group, endpoints, n));
    tb_err err = tb_comm_publish(out, name, group, NULL, parent);
    tb_group_unref(group);
    return err;
}

void tb_comm_retract(struct tb_comm *c)
{
    tb_handle_drop(&c->obj);
    tb_comm_unref(c);
}

tb_err tb_comm_free(struct tb_comm *comm)
{
    void *buffer;
    MPI_Count bytes;

    if (comm->obj.predefined)
        return tb_fail(TB_ERR_COMM, "%s cannot be freed", comm->label);
    if (comm->buffer)
        TB_TRY(tb_comm_detach_buffer(comm, &buffer, &bytes));
    TB_TRY(tb_attrs_free(&comm->attrs, tb_comm_handle(comm), TB_KIND_COMM));
    tb_comm_retract(comm);
    return TB_OK;
}

/* The standard has the program complete all its operations before, so what is
 * left to wait for are the other members. */
tb_err tb_comm_disconnect(struct tb_comm *comm)
{
    if (comm->obj.predefined)
        return tb_fail(TB_ERR_COMM, "%s cannot be disconnected", comm->label);
    TB_TRY(tb_barrier(comm));
    return tb_comm_free(comm);
}

/* ------------------------------------------------------------ duplicates */

static tb_err furnish(struct tb_comm *c, const struct tb_comm *from,
                      const struct tb_info *info)
{
    c->topo = tb_topo_ref(from->topo);
    TB_TRY(tb_comm_keep_hints(c, info));
    return tb_attrs_copy(from->attrs, tb_comm_handle(from), TB_KIND_COMM,
                         &c->attrs);
}

/* Needs no message: all members compute the name alike. Hints are not
 * inherited (MPI 5.0, section 7.4.2). */
tb_err tb_comm_dup_with_info(struct tb_comm *comm, struct tb_info *info,
                             struct tb_comm **newcomm)
{
    uint64_t name = tb_comm_next_name(comm);
    struct tb_comm *c;

    TB_TRY(tb_comm_publish(&c, name, comm->group, comm->remote, comm));
    tb_err err = furnish(c, comm, info);
    if (err)
        tb_comm_retract(c);
    else
        *newcomm = c;
    return err;
}

tb_err tb_comm_dup(struct tb_comm *comm, struct tb_comm **newcomm)
{
    return tb_comm_dup_with_info(comm, NULL, newcomm);
}

tb_err tb_comm_idup_with_info(struct tb_comm *comm, struct tb_info *info,
                              struct tb_comm **newcomm, struct tb_req **request)
{
    struct tb_comm *c;
    TB_TRY(tb_comm_dup_with_info(comm, info, &c));
    tb_err err = tb_req_complete(request);
    if (err)
        tb_comm_retract(c);
    else
        *newcomm = c;
    return err;
}

tb_err tb_comm_idup(struct tb_comm *comm, struct tb_comm **newcomm,
                    struct tb_req **request)
{
    return tb_comm_idup_with_info(comm, NULL, newcomm, request);
}

/* ----------------------------------------------------------------- hints */

static const char *const known_hints[] = {
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
    "mpi_assert_memory_alloc_kinds",
};

tb_err tb_comm_keep_hints(struct tb_comm *c, const struct tb_info *info)
{
    if (!info)
        return TB_OK;
    for (size_t i = 0; i < TB_COUNT_OF(known_hints); i++) {
        const char *value = tb_info_look(info, known_hints[i]);
        if (!value)
            continue;
        if (!c->info)
            TB_TRY(tb_info_make(&c->info));
        TB_TRY(tb_info_set(c->info, known_hints[i], value));
    }
    return TB_OK;
}

tb_err tb_comm_set_info(struct tb_comm *comm, struct tb_info *info)
{
    return tb_comm_keep_hints(comm, info);
}

tb_err tb_comm_get_info(struct tb_comm *comm, struct tb_info **info_used)
{
    return comm->info ? tb_info_dup(comm->info, info_used)
                      : tb_info_create(info_used);
}

/* ---------------------------------------------------------------- inquiry */

tb_err tb_comm_rank(struct tb_comm *comm, int *rank)
{
    *rank = comm->rank;
    return TB_OK;
}

tb_err tb_comm_size(struct tb_comm *comm, int *size)
{
    *size = comm->size;
    return TB_OK;
}

static tb_err need_inter(const struct tb_comm *c)
{
    if (!c->remote)
        return tb_fail(TB_ERR_COMM, "an intracommunicator has no remote group");
    return TB_OK;
}

tb_err tb_comm_need_intra(const struct tb_comm *c)
{
    if (c->remote)
        return tb_fail(TB_ERR_COMM, "an intracommunicator is needed, and this "
                                    "is an intercommunicator");
    return TB_OK;
}

tb_err tb_comm_remote_size(struct tb_comm *comm, int *size)
{
    TB_TRY(need_inter(comm));
    *size = comm->remote_size;
    return TB_OK;
}

tb_err tb_comm_test_inter(struct tb_comm *comm, int *flag)
{
    *flag = comm->remote != NULL;
    return TB_OK;
}

static tb_err share_group(struct tb_comm *c, struct tb_group *g,
                          struct tb_group **out)
{
    TB_TRY(tb_handle_share(&g->obj, TB_KIND_GROUP));
    if (!g->session && !g->obj.predefined)
        g->session = tb_session_ref(c->session);
    *out = g;
    return TB_OK;
}

tb_err tb_comm_group(struct tb_comm *comm, struct tb_group **group)
{
    return share_group(comm, comm->group, group);
}

tb_err tb_comm_remote_group(struct tb_comm *comm, struct tb_group **group)
{
    TB_TRY(need_inter(comm));
    return share_group(comm, comm->remote, group);
}

tb_err tb_comm_compare(struct tb_comm *comm1, struct tb_comm *comm2,
                       int *result)
{
    int local, remote = MPI_IDENT;

    *result = comm1 == comm2 ? MPI_IDENT : MPI_UNEQUAL;
    if (comm1 == comm2 || !comm1->remote != !comm2->remote)
        return TB_OK;
    TB_TRY(tb_group_compare(comm1->group, comm2->group, &local));
    if (comm1->remote)
        TB_TRY(tb_group_compare(comm1->remote, comm2->remote, &remote));
    if (local == MPI_UNEQUAL || remote == MPI_UNEQUAL)
        *result = MPI_UNEQUAL;
    else if (local == MPI_SIMILAR || remote == MPI_SIMILAR)
        *result = MPI_SIMILAR;
    else
        *result = MPI_CONGRUENT;
    return TB_OK;
}

/* Nobody spawned this process. */
tb_err tb_comm_get_parent(struct tb_comm **parent)
{
    *parent = NULL;
    return TB_OK;
}

/* ------------------------------------------------------------------ names */

tb_err tb_comm_set_name(struct tb_comm *comm, const char *comm_name)
{
    snprintf(comm->label, sizeof(comm->label), "%s", comm_name);
    return TB_OK;
}

tb_err tb_comm_get_name(struct tb_comm *comm, char *comm_name, int *resultlen)
{
    *resultlen = snprintf(comm_name, MPI_MAX_OBJECT_NAME, "%s",
                          comm ? comm->label : "MPI_COMM_NULL");
    return TB_OK;
}

const char *tb_comm_describe(const struct tb_comm *c, char *out, size_t size)
{
    if (c->label[0])
        snprintf(out, size, "%s", c->label);
    else if (c->remote)
        snprintf(out, size, "an intercommunicator of %d and %d", c->size,
                 c->remote_size);
    else
        snprintf(out, size, "a communicator of %d", c->size);
    return out;
}

/* ---------------------------------------------------------- start and end */

static tb_err make_predefined(struct tb_comm **out, uint64_t name, int *ranks,
                              int n)
{
    struct tb_group *group;
    if (!ranks)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", n);
    TB_TRY(tb_group_make(&group, ranks, n));
    tb_err err = tb_comm_make(out, tb_name_mix(name, 0) & ~(uint64_t)1, group,
                              NULL, NULL);
    tb_group_unref(group);
    return err;
}

static tb_err make_world(int n)
{
    int *ranks = tb_alloc((size_t)n * sizeof *ranks);

    for (int i = 0; ranks && i < n; i++)
        ranks[i] = i;
    TB_TRY(make_predefined(&tb_world.comm_world, NAME_WORLD, ranks, n));
    tb_world.comm_world->obj.predefined = true;
    return tb_comm_set_name(tb_world.comm_world, "MPI_COMM_WORLD");
}

/* All processes give their MPI_COMM_SELF one name; only they themselves ever
 * send to it. */
static tb_err make_self(int self)
{
    int *ranks = tb_alloc(sizeof *ranks);

    if (ranks)
        ranks[0] = self;
    TB_TRY(make_predefined(&tb_world.comm_self, NAME_SELF, ranks, 1));
    tb_world.comm_self->obj.predefined = true;
    return tb_comm_set_name(tb_world.comm_self, "MPI_COMM_SELF");
}

tb_err tb_comm_init(void)
{
    struct tb_net *net = tb_engine_net(tb_world.engine);

    TB_TRY(make_world(tb_net_endpoints(net)));
    return make_self(tb_net_self(net));
}

void tb_comm_show_world(void)
{
    tb_handle_predefine(&tb_world.comm_world->obj, TB_KIND_COMM,
                        (uintptr_t)MPI_COMM_WORLD);
    tb_handle_predefine(&tb_world.comm_self->obj, TB_KIND_COMM,
                        (uintptr_t)MPI_COMM_SELF);
}

void tb_comm_hide_world(void)
{
    tb_handle_predefined[(uintptr_t)MPI_COMM_SELF] = NULL;
    tb_handle_predefined[(uintptr_t)MPI_COMM_WORLD] = NULL;
}

static void drop(void *object)
{
    tb_comm_unref(object);
}

void tb_comm_fini(void)
{
    tb_handle_sweep(TB_KIND_COMM, drop);
    tb_comm_hide_world();
    tb_comm_unref(tb_world.comm_self);
    tb_comm_unref(tb_world.comm_world);
    tb_world.comm_self = NULL;
    tb_world.comm_world = NULL;
}
