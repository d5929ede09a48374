/* SPDX-License-Identifier: MIT */
/*
 * What can be wrong with a collective call beyond single arguments: buffers
 * that must not be MPI_IN_PLACE, NULL or the same, arrays of counts and types,
 * operations that do not fit the type, communicators of the wrong sort.
 */
#include "coll/call.h"
#include "mpi/check.h"

/* No program has data below this address. */
#define LOWEST_ADDRESS 4096

static bool is_reduction(enum tb_coll_kind kind)
{
    return kind >= TB_COLL_REDUCE && kind <= TB_COLL_EXSCAN;
}

static bool is_neighbor(enum tb_coll_kind kind)
{
    return kind >= TB_COLL_NEIGHBOR_ALLGATHER;
}

/* --------------------------------------------------------------- in place */

static tb_err wrong_in_place(const struct tb_call *c, const char *arg)
{
    const char *why = "it has no meaning here";
    if (c->comm->remote)
        why = "an intercommunicator allows it nowhere";
    else if (c->kind == TB_COLL_GATHER || c->kind == TB_COLL_GATHERV ||
             c->kind == TB_COLL_SCATTER || c->kind == TB_COLL_SCATTERV ||
             c->kind == TB_COLL_REDUCE)
        why = "only the root may give it";
    return tb_fail(TB_ERR_BUFFER, "%s must not be MPI_IN_PLACE: %s", arg, why);
}

static bool may_send_in_place(const struct tb_call *c)
{
    switch (c->kind) {
    case TB_COLL_GATHER:
    case TB_COLL_GATHERV:
    case TB_COLL_REDUCE:
        return !c->comm->remote && tb_call_is_root(c);
    case TB_COLL_SCATTER:
    case TB_COLL_SCATTERV:
    case TB_COLL_BCAST:
    case TB_COLL_BARRIER:
        return false;
    default:
        return !c->comm->remote && !is_neighbor(c->kind);
    }
}

static bool may_receive_in_place(const struct tb_call *c)
{
    return (c->kind == TB_COLL_SCATTER || c->kind == TB_COLL_SCATTERV) &&
           !c->comm->remote && tb_call_is_root(c);
}

/* Buffers that mean nothing at this rank may have any value. */
static bool reads_send(const struct tb_call *c)
{
    switch (c->kind) {
    case TB_COLL_BARRIER:
    case TB_COLL_BCAST:
        return false;
    case TB_COLL_SCATTER:
    case TB_COLL_SCATTERV:
        return tb_call_is_root(c);
    case TB_COLL_GATHER:
    case TB_COLL_GATHERV:
    case TB_COLL_REDUCE:
        return tb_call_is_leaf(c);
    default:
        return true;
    }
}

static bool writes_recv(const struct tb_call *c)
{
    switch (c->kind) {
    case TB_COLL_BARRIER:
        return false;
    case TB_COLL_BCAST:
        return tb_call_is_root(c) || tb_call_is_leaf(c);
    case TB_COLL_SCATTER:
    case TB_COLL_SCATTERV:
        return tb_call_is_leaf(c);
    case TB_COLL_GATHER:
    case TB_COLL_GATHERV:
    case TB_COLL_REDUCE:
        return tb_call_is_root(c);
    default:
        return true;
    }
}

static tb_err check_in_place(struct tb_call *c)
{
    if (c->send.base == MPI_IN_PLACE && reads_send(c)) {
        if (!may_send_in_place(c))
            return wrong_in_place(c, "sendbuf");
        c->in_place = true;
        c->send.base = c->recv.base;
    }
    if (c->recv.base == MPI_IN_PLACE && writes_recv(c)) {
        if (!may_receive_in_place(c))
            return wrong_in_place(c, c->kind == TB_COLL_BCAST ? "buffer"
                                                              : "recvbuf");
        c->in_place = true;
    }
    return TB_OK;
}

/* ----------------------------------------------------------------- arrays */

static bool has_counts(enum tb_coll_kind kind, bool sends)
{
    switch (kind) {
    case TB_COLL_ALLTOALLV:
    case TB_COLL_ALLTOALLW:
    case TB_COLL_NEIGHBOR_ALLTOALLV:
    case TB_COLL_NEIGHBOR_ALLTOALLW:
        return true;
    case TB_COLL_SCATTERV:
        return sends;
    case TB_COLL_GATHERV:
    case TB_COLL_ALLGATHERV:
    case TB_COLL_NEIGHBOR_ALLGATHERV:
    case TB_COLL_REDUCE_SCATTER:
        return !sends;
    default:
        return false;
    }
}

static bool has_types(enum tb_coll_kind kind)
{
    return kind == TB_COLL_ALLTOALLW || kind == TB_COLL_NEIGHBOR_ALLTOALLW;
}

static tb_err check_types(const MPI_Datatype *types, int n, const char *side)
{
    if (!types)
        return tb_fail(TB_ERR_ARG, "%stypes must not be NULL", side);
    for (int i = 0; i < n; i++) {
        struct tb_type *type;
        TB_TRY(tb_type_get(types[i], &type));
        TB_TRY(tb_check_type(type));
    }
    return TB_OK;
}

static tb_err check_arrays(const struct tb_call *c, const struct tb_blocks *b,
                           int n, const char *side)
{
    if (n == 0)
        return TB_OK;
    if (!tb_counts_given(b->counts))
        return tb_fail(TB_ERR_ARG, "%scounts must not be NULL", side);
    if (!tb_counts_given(b->displs) && c->kind != TB_COLL_REDUCE_SCATTER)
        return tb_fail(TB_ERR_ARG, "%s must not be NULL",
                       has_counts(c->kind, true) && has_counts(c->kind, false)
                           ? (side[0] == 's' ? "sdispls" : "rdispls")
                           : "displs");
    for (int i = 0; i < n; i++) {
        long long count = tb_count_at(b->counts, i);
        if (count < 0)
            return tb_fail(TB_ERR_COUNT, "%scounts[%d] is %lld", side, i,
                           count);
    }
    return has_types(c->kind) ? check_types(b->types, n, side) : TB_OK;
}

/* How many blocks there are to send and to receive. */
static tb_err count_blocks(const struct tb_call *c, int *sends, int *receives)
{
    *sends = *receives = tb_call_peers(c);
    if (c->kind == TB_COLL_REDUCE_SCATTER)
        *receives = c->comm->size;
    if (is_neighbor(c->kind)) {
        const int *in, *out;
        return tb_topo_neighbours(c->comm, receives, &in, sends, &out);
    }
    return TB_OK;
}

static tb_err check_all_arrays(const struct tb_call *c)
{
    int sends, receives;
    TB_TRY(count_blocks(c, &sends, &receives));
    if (has_counts(c->kind, true) && reads_send(c) && !c->in_place)
        TB_TRY(check_arrays(c, &c->send, sends, "send"));
    if (has_counts(c->kind, false) && writes_recv(c))
        TB_TRY(check_arrays(c, &c->recv, receives, "recv"));
    return TB_OK;
}

/* ---------------------------------------------------------------- buffers */

/* Only arrays of equal blocks are looked at. */
static tb_err check_memory(const struct tb_blocks *b, const char *arg)
{
    if (TB_LIKELY(b->base != NULL) || !b->layout || b->count <= 0 ||
        tb_counts_given(b->counts) || b->layout->size == 0)
        return TB_OK;
    if ((uint64_t)b->layout->true_lb >= LOWEST_ADDRESS)
        return TB_OK;
    return tb_fail(TB_ERR_BUFFER,
                   "%s is NULL (MPI_BOTTOM), but count is %lld and the "
                   "datatype has no absolute addresses",
                   arg, (long long)b->count);
}

static tb_err check_alias(const struct tb_call *c)
{
    if (c->in_place || c->send.base != c->recv.base || !c->send.base ||
        c->send.count <= 0 || tb_counts_given(c->send.counts))
        return TB_OK;
    if (!is_reduction(c->kind) && c->kind != TB_COLL_ALLTOALL)
        return TB_OK;
    return tb_fail(TB_ERR_BUFFER, "sendbuf and recvbuf are the same; give "
                                  "MPI_IN_PLACE as sendbuf instead");
}

static tb_err check_buffers(const struct tb_call *c)
{
    bool reads = reads_send(c), writes = writes_recv(c);
    if (c->kind == TB_COLL_SCATTER && c->in_place)
        writes = false;
    if (reads && !c->in_place)
        TB_TRY(check_memory(&c->send, "sendbuf"));
    if (writes)
        TB_TRY(check_memory(&c->recv,
                            c->kind == TB_COLL_BCAST ? "buffer" : "recvbuf"));
    return reads && writes ? check_alias(c) : TB_OK;
}

tb_err tb_coll_check(struct tb_call *c)
{
    if (c->comm->remote &&
        (c->kind == TB_COLL_SCAN || c->kind == TB_COLL_EXSCAN))
        return tb_fail(TB_ERR_COMM, "comm is an intercommunicator, on which "
                                    "there are no prefix reductions");
    TB_TRY(check_in_place(c));
    if (is_reduction(c->kind) && (reads_send(c) || writes_recv(c)))
        TB_TRY(tb_op_check(c->op, c->type));
    if (has_counts(c->kind, true) || has_counts(c->kind, false))
        TB_TRY(check_all_arrays(c));
    return check_buffers(c);
}
