/* SPDX-License-Identifier: MIT */
/*
 * Intercommunicators: two groups, each process of one seeing the other as its
 * peers. What the groups must tell each other goes through their leaders,
 * rank 0 of each, and from there through the private communicator of each
 * group (comm->local).
 */
#include "coll/coll.h"
#include "mpi/api.h"
#include "mpi/comm.h"
#include "mpi/comm_name.h"
#include "mpi/errh.h"
#include "mpi/world.h"

/* Leaders of groups that have no common communicator yet talk over that of
 * their peers, with tags that no collective has (those are not negative). */
#define TAG_LEADERS 0x80000000u
#define TAG_MASK 0x3fffffffu

/* ------------------------------------------------------ talk of the leaders */

/* One leader's view of the other. */
struct line {
    struct tb_comm *comm;
    int peer;
    int tag;
};

static tb_err finish(struct tb_req *req)
{
    tb_err err = tb_engine_wait(tb_world.engine, req);
    if (!err)
        err = req->result.err;
    tb_req_free(req);
    return err;
}

/* Both send and both receive. */
static tb_err talk(struct line l, const void *out, int64_t bytes_out, void *in,
                   int64_t bytes_in)
{
    struct tb_send_args send = {.context = l.comm->coll,
                                .buf = out,
                                .layout = &tb_layout_byte,
                                .count = bytes_out,
                                .dest = l.peer,
                                .source = l.comm->rank,
                                .tag = l.tag};
    struct tb_recv_args recv = {.context = l.comm->coll,
                                .buf = in,
                                .layout = &tb_layout_byte,
                                .count = bytes_in,
                                .source = l.peer,
                                .tag = l.tag};
    struct tb_req *sent, *received;

    TB_TRY(tb_engine_recv(tb_world.engine, &recv, &received));
    tb_err err = tb_engine_send(tb_world.engine, &send, true, &sent);
    if (err) {
        tb_engine_cancel(received);
        finish(received);
        return err;
    }
    if (sent)
        err = finish(sent);
    tb_err other = finish(received);
    return err ? err : other;
}

tb_err tb_comm_swap(struct tb_comm *c, const void *out, int64_t bytes_out,
                    void *in, int64_t bytes_in)
{
    struct line l = {c, 0, (int)(c->coll_seq++ & TAG_MASK)};
    tb_err err = TB_OK;
    int32_t failed;

    if (c->rank == 0)
        err = talk(l, out, bytes_out, in, bytes_in);
    failed = err != TB_OK;
    tb_err heard = tb_coll_bcast_bytes(c->local, &failed, sizeof failed, 0);
    if (err || heard)
        return err ? err : heard;
    if (failed)
        return tb_fail(TB_ERR_OTHER, "rank 0 could not talk to the remote "
                                     "group");
    return tb_coll_bcast_bytes(c->local, in, bytes_in, 0);
}

/* ----------------------------------------------------------------- create */

/* What a group tells the other one. */
struct card {
    uint64_t name;
    int32_t leader; /* endpoint */
    int32_t size;   /* 0: there was an error */
};

static tb_err make_list(int **out, int n)
{
    *out = tb_alloc((size_t)n * sizeof **out);
    return *out ? TB_OK
                : tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", n);
}

static tb_err find_line(MPI_Comm peer_comm, int remote_leader, uint32_t tag,
                        struct line *out)
{
    struct tb_comm *peer;
    TB_TRY(tb_comm_get(peer_comm, &peer));
    if (remote_leader < 0 || remote_leader >= peer->peers->size)
        return tb_fail(TB_ERR_RANK,
                       "remote_leader %d is not in 0..%d, the "
                       "ranks of peer_comm",
                       remote_leader, peer->peers->size - 1);
    *out = (struct line){peer, remote_leader, (int)(TAG_LEADERS | tag)};
    return TB_OK;
}

static bool is_group(const struct card *theirs)
{
    int all = tb_net_endpoints(tb_engine_net(tb_world.engine));
    return theirs->size > 0 && theirs->size <= all;
}

/* The local leader asks the remote one. */
static tb_err ask(struct line l, const struct tb_comm *local,
                  const struct card *mine, struct card *theirs, int **ranks)
{
    TB_TRY(talk(l, mine, sizeof *mine, theirs, sizeof *theirs));
    if (!is_group(theirs))
        return tb_fail(TB_ERR_OTHER, "the remote leader reports an error");
    TB_TRY(make_list(ranks, theirs->size));
    return talk(l, local->group->ranks, (int64_t)sizeof(int) * local->size,
                *ranks, (int64_t)sizeof(int) * theirs->size);
}

/* Gives all of the local group what their leader, `root`, learnt. */
static tb_err spread(struct tb_comm *local, int root, tb_err err,
                     struct card *theirs, int **ranks)
{
    if (err)
        theirs->size = 0;
    tb_err heard = tb_coll_bcast_bytes(local, theirs, sizeof *theirs, root);
    if (err || heard)
        return err ? err : heard;
    if (!is_group(theirs))
        return tb_fail(TB_ERR_OTHER,
                       "local_leader (rank %d) could not reach "
                       "the remote leader",
                       root);
    if (!*ranks)
        TB_TRY(make_list(ranks, theirs->size));
    return tb_coll_bcast_bytes(local, *ranks,
                               (int64_t)sizeof(int) * theirs->size, root);
}

static tb_err check_disjoint(const struct tb_comm *local, const int *ranks,
                             int n)
{
    for (int i = 0; i < n; i++)
        if (tb_group_find(local->group, ranks[i]) != MPI_UNDEFINED)
            return tb_fail(TB_ERR_COMM,
                           "the two groups are not disjoint: rank "
                           "%d of the remote one is in the local one too",
                           i);
    return TB_OK;
}

/* Takes over `ranks`. */
static tb_err publish(struct tb_comm *local, struct card mine,
                      struct card theirs, int *ranks, struct tb_comm **out)
{
    struct tb_name_offer a = {mine.name, mine.leader};
    struct tb_name_offer b = {theirs.name, theirs.leader};
    struct tb_group *remote;

    TB_TRY(tb_group_make(&remote, ranks, theirs.size));
    tb_err err =
        tb_comm_publish(out, tb_name_inter(a, b), local->group, remote, local);
    if (!err)
        (*out)->low_first = mine.leader < theirs.leader;
    tb_group_unref(remote);
    return err;
}

/* The end of both creations: `l` is the local leader's line, unless it has
 * none for the reason `err`. */
static tb_err join(struct tb_comm *local, int local_leader, struct line l,
                   tb_err err, struct tb_comm **out)
{
    struct card theirs = {0, 0, 0};
    struct card mine = {tb_comm_next_name(local),
                        local->group->ranks[local_leader], local->size};
    int *ranks = NULL;

    if (!err && local->rank == local_leader)
        err = ask(l, local, &mine, &theirs, &ranks);
    err = spread(local, local_leader, err, &theirs, &ranks);
    if (!err)
        err = check_disjoint(local, ranks, theirs.size);
    if (err) {
        tb_free(ranks);
        return err;
    }
    return publish(local, mine, theirs, ranks, out);
}

static tb_err check_leader(int local_leader, int size)
{
    if (local_leader < 0 || local_leader >= size)
        return tb_fail(TB_ERR_RANK, "local_leader %d is not in 0..%d",
                       local_leader, size - 1);
    return TB_OK;
}

tb_err tb_intercomm_create(struct tb_comm *local_comm, int local_leader,
                           MPI_Comm peer_comm, int remote_leader, int tag,
                           struct tb_comm **newintercomm)
{
    struct line l = {NULL, 0, 0};
    tb_err err = TB_OK;

    TB_TRY(tb_comm_need_intra(local_comm));
    TB_TRY(check_leader(local_leader, local_comm->size));
    if (local_comm->rank == local_leader)
        err = find_line(peer_comm, remote_leader, (uint32_t)tag, &l);
    return join(local_comm, local_leader, l, err, newintercomm);
}

/* The leaders meet in MPI_COMM_WORLD, whose ranks are the endpoints. */
static tb_err find_world_line(const struct tb_group *remote, int remote_leader,
                              uint64_t tag, struct line *out)
{
    if (!remote)
        return tb_fail(TB_ERR_GROUP, "remote_group is MPI_GROUP_NULL at the "
                                     "local leader");
    if (remote_leader < 0 || remote_leader >= remote->size)
        return tb_fail(TB_ERR_RANK,
                       "remote_leader %d is not in 0..%d, the "
                       "ranks of remote_group",
                       remote_leader, remote->size - 1);
    *out = (struct line){tb_world.comm_world, remote->ranks[remote_leader],
                         (int)(TAG_LEADERS | ((uint32_t)tag & TAG_MASK))};
    return TB_OK;
}

static tb_err create_named(struct tb_group *local_group, int local_leader,
                           const struct tb_group *remote_group,
                           int remote_leader, const char *stringtag,
                           const struct tb_info *info,
                           struct tb_errh *errhandler,
                           struct tb_comm **newintercomm)
{
    struct line l = {NULL, 0, 0};
    struct tb_comm *local = NULL;
    tb_err err = TB_OK;

    if (local_group->rank == MPI_UNDEFINED)
        return tb_fail(TB_ERR_GROUP, "this process is not in local_group");
    TB_TRY(check_leader(local_leader, local_group->size));
    TB_TRY(
        tb_comm_create_named(local_group, stringtag, info, errhandler, &local));
    if (local->rank == local_leader)
        err = find_world_line(remote_group, remote_leader,
                              tb_name_tag(stringtag), &l);
    err = join(local, local_leader, l, err, newintercomm);
    tb_comm_retract(local);
    return err ? err : tb_comm_keep_hints(*newintercomm, info);
}

/* As in MPI_Comm_create_from_group, the handler to be hears of an error. */
tb_err tb_intercomm_create_from_groups(struct tb_group *local_group,
                                       int local_leader,
                                       struct tb_group *remote_group,
                                       int remote_leader, const char *stringtag,
                                       struct tb_info *info,
                                       struct tb_errh *errhandler,
                                       struct tb_comm **newintercomm)
{
    tb_errh_give(errhandler);
    TB_TRY(create_named(local_group, local_leader, remote_group, remote_leader,
                        stringtag, info, errhandler, newintercomm));
    tb_errh_give(NULL);
    return TB_OK;
}

/* ------------------------------------------------------- from another one */

tb_err tb_comm_create_inter(struct tb_comm *c, struct tb_group *group,
                            uint64_t name, struct tb_comm **out)
{
    tb_err err = tb_comm_need_subset(c, group);
    int32_t mine = err ? 0 : group->size, theirs;
    struct tb_group *remote;

    tb_err swapped =
        tb_comm_swap(c, &mine, sizeof mine, &theirs, sizeof theirs);
    if (err || swapped)
        return err ? err : swapped;
    if (mine == 0 || theirs <= 0 || theirs > c->remote_size)
        return TB_OK;
    int *ranks;
    TB_TRY(make_list(&ranks, theirs));
    err = tb_comm_swap(c, group->ranks, (int64_t)sizeof(int) * mine, ranks,
                       (int64_t)sizeof(int) * theirs);
    if (err || group->rank == MPI_UNDEFINED) {
        tb_free(ranks);
        return err;
    }
    TB_TRY(tb_group_make(&remote, ranks, theirs));
    err = tb_comm_publish(out, name, group, remote, c);
    tb_group_unref(remote);
    return err;
}

static void append(int *list, int *n, const struct tb_group *g)
{
    memcpy(list + *n, g->ranks, (size_t)g->size * sizeof *list);
    *n += g->size;
}

/* All processes of a group must say the same; the order is what their leader
 * says, so that at least all members agree about the new group. */
tb_err tb_intercomm_merge(struct tb_comm *intercomm, int high,
                          struct tb_comm **newintracomm)
{
    struct tb_comm *c = intercomm;
    int32_t mine = high != 0, theirs;
    int n = 0;

    if (!c->remote)
        return tb_fail(TB_ERR_COMM, "only an intercommunicator can be merged");
    uint64_t name = tb_comm_next_name(c);
    TB_TRY(tb_coll_bcast_bytes(c->local, &mine, sizeof mine, 0));
    TB_TRY(tb_comm_swap(c, &mine, sizeof mine, &theirs, sizeof theirs));
    if (mine != (high != 0))
        return tb_fail(TB_ERR_NOT_SAME,
                       "high is %d, and rank 0 of this group "
                       "says %d",
                       high != 0, mine);
    bool first = mine == theirs ? c->low_first : !mine;
    int *ranks;
    TB_TRY(make_list(&ranks, c->size + c->remote_size));
    append(ranks, &n, first ? c->group : c->remote);
    append(ranks, &n, first ? c->remote : c->group);
    return tb_comm_publish_ranks(newintracomm, name, ranks, n, c);
}
