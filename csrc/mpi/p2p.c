/* SPDX-License-Identifier: MIT */
/*
 * Point-to-point communication: from communicators and datatypes to the
 * engine's contexts and layouts. Persistent and buffered forms are in
 * persist.c and bsend.c.
 */
#include "mpi/p2p.h"

#include "mpi/life.h"
#include "mpi/request.h"
#include "mpi/status.h"

static struct tb_msg no_proc; /* MPI_MESSAGE_NO_PROC */

tb_err tb_p2p_init(void)
{
    tb_handle_predefine(&no_proc.obj, TB_KIND_MSG,
                        (uintptr_t)MPI_MESSAGE_NO_PROC);
    return TB_OK;
}

void tb_p2p_fini(void) {}

/* The status of a receive from, or a probe of, MPI_PROC_NULL. */
static void status_proc_null(MPI_Status *status)
{
    tb_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
}

tb_err tb_p2p_send(const struct tb_p2p *a, enum tb_send_mode mode, bool quick,
                   struct tb_req **out)
{
    struct tb_send_args args = {.context = a->comm->p2p,
                                .buf = a->buf,
                                .layout = a->type->layout,
                                .count = a->count,
                                .dest = a->rank,
                                .source = a->comm->rank,
                                .tag = a->tag,
                                .mode = mode};
    if (TB_LIKELY(a->rank != MPI_PROC_NULL))
        return tb_engine_send(tb_world.engine, &args, quick, out);
    *out = NULL;
    return quick ? TB_OK : tb_req_complete(out);
}

tb_err tb_p2p_recv(const struct tb_p2p *a, struct tb_req **out)
{
    struct tb_recv_args args = {.context = a->comm->p2p,
                                .buf = (void *)(uintptr_t)a->buf,
                                .layout = a->type->layout,
                                .count = a->count,
                                .source = a->rank,
                                .tag = a->tag};
    if (TB_LIKELY(a->rank != MPI_PROC_NULL))
        return tb_engine_recv(tb_world.engine, &args, out);
    TB_TRY(tb_req_complete(out));
    (*out)->result.source = MPI_PROC_NULL;
    return TB_OK;
}

/* Waits, tells, frees. When waiting is pointless the request stays behind. */
static tb_err finish(struct tb_req *req, MPI_Status *status)
{
    tb_err err = tb_engine_wait(tb_world.engine, req);
    if (TB_LIKELY(!err)) {
        tb_status_result(status, &req->result);
        err = tb_result_error(&req->result);
    }
    tb_req_free(req);
    return err;
}

static tb_err send_blocking(const struct tb_p2p *a, enum tb_send_mode mode)
{
    struct tb_req *req;
    TB_TRY(tb_p2p_send(a, mode, true, &req));
    return TB_LIKELY(!req) ? TB_OK : finish(req, MPI_STATUS_IGNORE);
}

tb_err tb_send(const void *buf, MPI_Count count, struct tb_type *datatype,
               int dest, int tag, struct tb_comm *comm)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return send_blocking(&a, TB_SEND_STANDARD);
}

tb_err tb_ssend(const void *buf, MPI_Count count, struct tb_type *datatype,
                int dest, int tag, struct tb_comm *comm)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return send_blocking(&a, TB_SEND_SYNC);
}

tb_err tb_rsend(const void *buf, MPI_Count count, struct tb_type *datatype,
                int dest, int tag, struct tb_comm *comm)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return send_blocking(&a, TB_SEND_READY);
}

tb_err tb_isend(const void *buf, MPI_Count count, struct tb_type *datatype,
                int dest, int tag, struct tb_comm *comm,
                struct tb_req **request)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return tb_p2p_send(&a, TB_SEND_STANDARD, false, request);
}

tb_err tb_issend(const void *buf, MPI_Count count, struct tb_type *datatype,
                 int dest, int tag, struct tb_comm *comm,
                 struct tb_req **request)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return tb_p2p_send(&a, TB_SEND_SYNC, false, request);
}

tb_err tb_irsend(const void *buf, MPI_Count count, struct tb_type *datatype,
                 int dest, int tag, struct tb_comm *comm,
                 struct tb_req **request)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return tb_p2p_send(&a, TB_SEND_READY, false, request);
}

tb_err tb_recv(void *buf, MPI_Count count, struct tb_type *datatype, int source,
               int tag, struct tb_comm *comm, MPI_Status *status)
{
    struct tb_p2p a = {buf, count, datatype, source, tag, comm};
    struct tb_req *req;
    TB_TRY(tb_p2p_recv(&a, &req));
    return finish(req, status);
}

tb_err tb_irecv(void *buf, MPI_Count count, struct tb_type *datatype,
                int source, int tag, struct tb_comm *comm,
                struct tb_req **request)
{
    struct tb_p2p a = {buf, count, datatype, source, tag, comm};
    return tb_p2p_recv(&a, request);
}

/* ------------------------------------------------------ send and receive */

tb_err tb_sendrecv(const void *sendbuf, MPI_Count sendcount,
                   struct tb_type *sendtype, int dest, int sendtag,
                   void *recvbuf, MPI_Count recvcount, struct tb_type *recvtype,
                   int source, int recvtag, struct tb_comm *comm,
                   MPI_Status *status)
{
    struct tb_p2p in = {recvbuf, recvcount, recvtype, source, recvtag, comm};
    struct tb_p2p out = {sendbuf, sendcount, sendtype, dest, sendtag, comm};
    struct tb_req *recv, *send;
    TB_TRY(tb_p2p_recv(&in, &recv));
    tb_err err = tb_p2p_send(&out, TB_SEND_STANDARD, true, &send);
    if (err) {
        tb_engine_cancel(recv);
        tb_req_free(recv);
        return err;
    }
    err = send ? finish(send, MPI_STATUS_IGNORE) : TB_OK;
    tb_err in_err = finish(recv, status);
    return err ? err : in_err;
}

/* The data to send, packed, so that the buffer is free for what comes in. */
static tb_err pack_out(const struct tb_p2p *a, void **out, struct tb_p2p *bytes)
{
    int64_t n = a->count * a->type->layout->size;
    *out = tb_alloc((size_t)n);
    if (!*out)
        return tb_fail(TB_ERR_NO_MEM, "no memory to hold %lld bytes to send",
                       (long long)n);
    tb_layout_pack(a->type->layout, a->buf, 0, *out, n);
    *bytes = *a;
    bytes->buf = *out;
    bytes->count = n;
    bytes->type = tb_type_bytes();
    return TB_OK;
}

tb_err tb_sendrecv_replace(void *buf, MPI_Count count, struct tb_type *datatype,
                           int dest, int sendtag, int source, int recvtag,
                           struct tb_comm *comm, MPI_Status *status)
{
    struct tb_p2p out = {buf, count, datatype, dest, sendtag, comm}, packed;
    void *copy;
    TB_TRY(pack_out(&out, &copy, &packed));
    tb_err err =
        tb_sendrecv(copy, packed.count, packed.type, dest, sendtag, buf, count,
                    datatype, source, recvtag, comm, status);
    tb_free(copy);
    return err;
}

/* Both halves behind one request, which has the receive's status. */
struct both {
    struct tb_more more;
    struct tb_req *request; /* NULL: freed by the user */
    int left;
    void *copy; /* Isendrecv_replace's */
    tb_err err;
};

static void half_done(struct tb_req *half)
{
    struct both *b = half->owner;
    if (half->kind == TB_REQ_RECV || half->result.source == MPI_PROC_NULL)
        b->request->result = half->result;
    if (half->result.err && !b->err)
        b->err = half->result.err;
    half->on_done = NULL;
    tb_req_free(half);
    if (--b->left)
        return;
    tb_free(b->copy);
    b->copy = NULL;
    tb_req_finish(b->request, b->err);
}

/* A half that is done at once has told nobody yet. */
static void adopt(struct both *b, struct tb_req *half)
{
    half->owner = b;
    if (half->done)
        half_done(half);
    else
        half->on_done = half_done;
}

static tb_err free_both(struct tb_req *req)
{
    tb_free(req->more);
    return TB_OK;
}

static const struct tb_more_ops both_ops = {.free = free_both};

static tb_err start_both(const struct tb_p2p *out, const struct tb_p2p *in,
                         void *copy, struct tb_req **request)
{
    struct both *b = tb_calloc(1, sizeof *b);
    struct tb_req *recv, *send;
    if (!b)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a request");
    tb_err err = tb_req_task(tb_world.engine, &b->request);
    if (err) {
        tb_free(b);
        return err;
    }
    b->more.ops = &both_ops;
    b->request->more = b;
    b->left = 2;
    b->copy = copy;
    err = tb_p2p_recv(in, &recv);
    if (!err) {
        err = tb_p2p_send(out, TB_SEND_STANDARD, false, &send);
        if (err) {
            tb_engine_cancel(recv);
            tb_req_free(recv);
        }
    }
    if (err) {
        tb_req_free(b->request);
        tb_free(b);
        return err;
    }
    *request = b->request;
    adopt(b, send);
    adopt(b, recv);
    return TB_OK;
}

tb_err tb_isendrecv(const void *sendbuf, MPI_Count sendcount,
                    struct tb_type *sendtype, int dest, int sendtag,
                    void *recvbuf, MPI_Count recvcount,
                    struct tb_type *recvtype, int source, int recvtag,
                    struct tb_comm *comm, struct tb_req **request)
{
    struct tb_p2p in = {recvbuf, recvcount, recvtype, source, recvtag, comm};
    struct tb_p2p out = {sendbuf, sendcount, sendtype, dest, sendtag, comm};
    return start_both(&out, &in, NULL, request);
}

tb_err tb_isendrecv_replace(void *buf, MPI_Count count,
                            struct tb_type *datatype, int dest, int sendtag,
                            int source, int recvtag, struct tb_comm *comm,
                            struct tb_req **request)
{
    struct tb_p2p in = {buf, count, datatype, source, recvtag, comm};
    struct tb_p2p out = {buf, count, datatype, dest, sendtag, comm}, packed;
    void *copy;
    TB_TRY(pack_out(&out, &copy, &packed));
    tb_err err = start_both(&packed, &in, copy, request);
    if (err)
        tb_free(copy);
    return err;
}

/* ------------------------------------------------------------------ probe */

struct look {
    struct tb_comm *comm;
    int source, tag;
    bool found;
    struct tb_result result;
    struct tb_arrival *arrival;
    tb_err err;
};

/* With threads, whoever makes progress asks these for others as well, so they
 * may be asked again after they have said yes. */
static bool look_once(void *arg)
{
    struct look *l = arg;
    if (l->found)
        return true;
    l->err = tb_engine_probe(tb_world.engine, l->comm->p2p, l->source, l->tag,
                             &l->found, &l->result);
    return l->found || l->err;
}

static bool take_once(void *arg)
{
    struct look *l = arg;
    if (l->found)
        return true;
    l->err = tb_engine_mprobe(tb_world.engine, l->comm->p2p, l->source, l->tag,
                              &l->arrival, &l->result);
    l->found = l->arrival != NULL;
    return l->found || l->err;
}

static tb_err look_until(struct look *l, bool (*once)(void *))
{
    TB_TRY(tb_engine_wait_until(tb_world.engine, once, l));
    return l->err;
}

tb_err tb_probe(int source, int tag, struct tb_comm *comm, MPI_Status *status)
{
    struct look l = {.comm = comm, .source = source, .tag = tag};
    if (source == MPI_PROC_NULL) {
        status_proc_null(status);
        return TB_OK;
    }
    TB_TRY(look_until(&l, look_once));
    tb_status_result(status, &l.result);
    return TB_OK;
}

tb_err tb_iprobe(int source, int tag, struct tb_comm *comm, int *flag,
                 MPI_Status *status)
{
    struct look l = {.comm = comm, .source = source, .tag = tag};
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        status_proc_null(status);
        return TB_OK;
    }
    look_once(&l);
    *flag = l.found;
    if (l.found)
        tb_status_result(status, &l.result);
    else if (!l.err)
        l.err = tb_engine_tested(tb_world.engine);
    return l.err;
}

/* The object behind MPI_Message. */
static tb_err make_message(struct tb_comm *comm, struct tb_arrival *arrival,
                           struct tb_msg **message)
{
    struct tb_msg *m = tb_calloc(1, sizeof *m);
    if (!m)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a matched message");
    tb_err err = tb_handle_new(&m->obj, TB_KIND_MSG);
    if (err) {
        tb_free(m);
        return err;
    }
    m->comm = tb_comm_ref(comm);
    m->arrival = arrival;
    *message = m;
    return TB_OK;
}

tb_err tb_mprobe(int source, int tag, struct tb_comm *comm,
                 struct tb_msg **message, MPI_Status *status)
{
    struct look l = {.comm = comm, .source = source, .tag = tag};
    if (source == MPI_PROC_NULL) {
        status_proc_null(status);
        return tb_msg_get(MPI_MESSAGE_NO_PROC, message);
    }
    TB_TRY(look_until(&l, take_once));
    tb_status_result(status, &l.result);
    return make_message(comm, l.arrival, message);
}

tb_err tb_improbe(int source, int tag, struct tb_comm *comm, int *flag,
                  struct tb_msg **message, MPI_Status *status)
{
    struct look l = {.comm = comm, .source = source, .tag = tag};
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        status_proc_null(status);
        return tb_msg_get(MPI_MESSAGE_NO_PROC, message);
    }
    take_once(&l);
    *flag = l.found;
    if (l.err)
        return l.err;
    if (!l.found)
        return tb_engine_tested(tb_world.engine);
    tb_status_result(status, &l.result);
    return make_message(comm, l.arrival, message);
}

/* Starts the receive of a matched message; the handle is used up. */
static tb_err recv_message(void *buf, MPI_Count count, struct tb_type *datatype,
                           MPI_Message *message, struct tb_req **request,
                           struct tb_comm **comm)
{
    struct tb_msg *m;
    *comm = NULL;
    TB_TRY(tb_msg_get(*message, &m));
    *message = MPI_MESSAGE_NULL;
    if (!m->arrival) {
        TB_TRY(tb_req_complete(request));
        (*request)->result.source = MPI_PROC_NULL;
        return TB_OK;
    }
    tb_err err = tb_engine_recv_arrival(tb_world.engine, m->arrival, buf,
                                        datatype->layout, count, request);
    *comm = m->comm;
    tb_handle_drop(&m->obj);
    tb_free(m);
    return err;
}

tb_err tb_mrecv(void *buf, MPI_Count count, struct tb_type *datatype,
                MPI_Message *message, MPI_Status *status)
{
    struct tb_req *req;
    struct tb_comm *comm;
    tb_err err = recv_message(buf, count, datatype, message, &req, &comm);
    if (!err)
        err = finish(req, status);
    tb_comm_unref(comm);
    return err;
}

tb_err tb_imrecv(void *buf, MPI_Count count, struct tb_type *datatype,
                 MPI_Message *message, struct tb_req **request)
{
    struct tb_comm *comm;
    tb_err err = recv_message(buf, count, datatype, message, request, &comm);
    if (!err)
        (*request)->comm = comm;
    else
        tb_comm_unref(comm);
    return err;
}
