/* SPDX-License-Identifier: MIT */
/*
 * Persistent point-to-point requests, and generalized ones: requests that are
 * started or completed by somebody else than the engine.
 */
#include "mpi/p2p.h"
#include "mpi/request.h"
#include "mpi/status.h"

enum form { FORM_RECV, FORM_SEND, FORM_SSEND, FORM_RSEND, FORM_BSEND };

struct persist {
    struct tb_more more;
    enum form form;
    struct tb_p2p args;   /* with references to type and communicator */
    struct tb_req *inner; /* of the last start; NULL: none. Kept when it is
                             done, since it may yet be cancelled */
    struct tb_held held;  /* buffered: the send of the last start */
};

static void inner_done(struct tb_req *inner)
{
    struct tb_req *req = inner->owner;
    req->result = inner->result;
    inner->on_done = NULL;
    tb_req_finish(req, req->result.err);
}

static void drop_inner(struct persist *p)
{
    if (p->inner)
        tb_req_free(p->inner);
    p->inner = NULL;
}

static tb_err start_inner(struct persist *p, struct tb_req **inner)
{
    static const enum tb_send_mode mode[] = {
        [FORM_SEND] = TB_SEND_STANDARD,
        [FORM_SSEND] = TB_SEND_SYNC,
        [FORM_RSEND] = TB_SEND_READY,
    };
    if (p->form == FORM_RECV)
        return tb_p2p_recv(&p->args, inner);
    if (p->form != FORM_BSEND)
        return tb_p2p_send(&p->args, mode[p->form], false, inner);
    tb_held_drop(&p->held);
    TB_TRY(tb_p2p_bsend(&p->args, &p->held));
    return tb_req_complete(inner);
}

static tb_err start(struct tb_req *req)
{
    struct persist *p = req->more;
    struct tb_req *inner;
    drop_inner(p);
    TB_TRY(start_inner(p, &inner));
    p->inner = inner;
    inner->owner = req;
    if (inner->done)
        inner_done(inner);
    else
        inner->on_done = inner_done;
    return TB_OK;
}

static tb_err cancel(struct tb_req *req)
{
    struct persist *p = req->more;
    if (p->form == FORM_BSEND)
        return tb_held_cancel(&p->held, req);
    if (!p->inner || (p->inner->done && p->inner->kind != TB_REQ_SEND))
        return TB_OK;
    /* A short send is done at once, and open again while it is asked back. */
    p->inner->on_done = inner_done;
    req->done = false;
    return tb_engine_cancel(p->inner);
}

static tb_err free_persist(struct tb_req *req)
{
    struct persist *p = req->more;
    tb_held_drop(&p->held);
    drop_inner(p);
    tb_type_unref(p->args.type);
    tb_comm_unref(p->args.comm);
    tb_free(p);
    return TB_OK;
}

static const struct tb_more_ops persist_ops = {
    .start = start, .cancel = cancel, .free = free_persist};

static tb_err make(enum form form, const struct tb_p2p *args,
                   struct tb_req **request)
{
    struct persist *p = tb_calloc(1, sizeof *p);
    if (!p)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a persistent request");
    tb_err err = tb_req_task(tb_world.engine, request);
    if (err) {
        tb_free(p);
        return err;
    }
    p->more.ops = &persist_ops;
    p->more.persistent = true;
    p->form = form;
    p->args = *args;
    tb_type_ref(args->type);
    tb_comm_ref(args->comm);
    (*request)->more = p;
    (*request)->done = true;
    return TB_OK;
}

#define TB_INIT_FORM(name, form, pointer)                                    \
    tb_err tb_##name(pointer buf, MPI_Count count, struct tb_type *datatype, \
                     int rank, int tag, struct tb_comm *comm,                \
                     struct tb_req **request)                                \
    {                                                                        \
        struct tb_p2p a = {buf, count, datatype, rank, tag, comm};           \
        return make(form, &a, request);                                      \
    }
TB_INIT_FORM(send_init, FORM_SEND, const void *)
TB_INIT_FORM(ssend_init, FORM_SSEND, const void *)
TB_INIT_FORM(rsend_init, FORM_RSEND, const void *)
TB_INIT_FORM(bsend_init, FORM_BSEND, const void *)
TB_INIT_FORM(recv_init, FORM_RECV, void *)
#undef TB_INIT_FORM

/* ------------------------------------------------------------ generalized */

struct grequest {
    struct tb_more more;
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *state;
};

/* The callbacks may call MPI, so the lock is not held over them. */

static tb_err grequest_query(struct tb_req *req, MPI_Status *status)
{
    struct grequest *g = req->more;
    MPI_Status own;
    MPI_Status *s = status == MPI_STATUS_IGNORE ? &own : status;
    tb_status_empty(s);
    if (!g->query)
        return TB_OK;
    tb_unlock();
    int code = g->query(g->state, s);
    tb_lock();
    return tb_err_foreign(code);
}

static tb_err grequest_cancel(struct tb_req *req)
{
    struct grequest *g = req->more;
    if (!g->cancel)
        return TB_OK;
    int complete = req->done;
    tb_unlock();
    int code = g->cancel(g->state, complete);
    tb_lock();
    return tb_err_foreign(code);
}

static tb_err grequest_free(struct tb_req *req)
{
    struct grequest *g = req->more;
    int code = MPI_SUCCESS;
    if (g->free) {
        tb_unlock();
        code = g->free(g->state);
        tb_lock();
    }
    tb_free(g);
    return tb_err_foreign(code);
}

static const struct tb_more_ops grequest_ops = {
    .query = grequest_query, .cancel = grequest_cancel, .free = grequest_free};

tb_err tb_grequest_start(MPI_Grequest_query_function *query_fn,
                         MPI_Grequest_free_function *free_fn,
                         MPI_Grequest_cancel_function *cancel_fn,
                         void *extra_state, struct tb_req **request)
{
    struct grequest *g = tb_calloc(1, sizeof *g);
    if (!g)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a generalized request");
    tb_err err = tb_req_task(tb_world.engine, request);
    if (err) {
        tb_free(g);
        return err;
    }
    g->more.ops = &grequest_ops;
    g->query = query_fn;
    g->free = free_fn;
    g->cancel = cancel_fn;
    g->state = extra_state;
    (*request)->more = g;
    return TB_OK;
}

tb_err tb_grequest_complete(struct tb_req *request)
{
    const struct tb_more *more = request->more;
    if (!more || more->ops != &grequest_ops)
        return tb_fail(TB_ERR_REQUEST, "the request was not made by "
                                       "MPI_Grequest_start");
    tb_req_finish(request, TB_OK);
    tb_net_wake(tb_engine_net(tb_world.engine));
    return TB_OK;
}
