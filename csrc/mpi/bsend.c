/* SPDX-License-Identifier: MIT */
/*
 * Buffered sends: the data is copied into memory the program attached, to a
 * communicator, a session or the process, and goes from there.
 *
 * An attached buffer is divided first-fit: a list of pieces in the order of
 * their addresses, each with its header in front. Finished pieces are given
 * back whenever somebody looks. With MPI_BUFFER_AUTOMATIC each piece is
 * allocated by itself.
 */
#include "mpi/p2p.h"
#include "mpi/request.h"

struct tb_piece {
    struct tb_list link;
    size_t bytes; /* with this header */
    struct tb_req *req;
    struct tb_held *held; /* NULL: nobody asks about it any more */
    _Alignas(16) char data[];
};
_Static_assert(sizeof(struct tb_piece) <= MPI_BSEND_OVERHEAD,
               "room for a header");

struct tb_buffer {
    char *base;
    int64_t bytes;
    bool automatic;
    struct tb_list pieces;
};

static struct tb_piece *piece_of(struct tb_list *l)
{
    return TB_CONTAINER(l, struct tb_piece, link);
}

/* Gives back the pieces whose sends are done: `all` of them, or only those that
 * nobody may want to cancel any more. */
static void reap(struct tb_buffer *b, bool all)
{
    for (struct tb_list *l = b->pieces.next; l != &b->pieces;) {
        struct tb_piece *p = piece_of(l);
        l = l->next;
        if (!p->req->done || (p->held && !all))
            continue;
        tb_held_drop(p->held);
        tb_req_free(p->req);
        tb_list_remove(&p->link);
        if (b->automatic)
            tb_free(p);
    }
}

/* Room for `bytes` of data: the first gap that is large enough. */
static struct tb_piece *place(struct tb_buffer *b, size_t bytes)
{
    size_t need = tb_round_up(sizeof(struct tb_piece) + bytes, 16);
    if (b->automatic) {
        struct tb_piece *p = tb_alloc(need);
        if (p)
            tb_list_append(&b->pieces, &p->link);
        return p;
    }
    uintptr_t at = tb_round_up((uintptr_t)b->base, 16);
    uintptr_t end = (uintptr_t)b->base + (size_t)b->bytes;
    struct tb_list *l = b->pieces.next;
    for (; l != &b->pieces; l = l->next) {
        if ((uintptr_t)piece_of(l) - at >= need)
            break;
        at = (uintptr_t)piece_of(l) + piece_of(l)->bytes;
    }
    if (l == &b->pieces && (at > end || end - at < need))
        return NULL;
    struct tb_piece *p = (struct tb_piece *)at;
    p->bytes = need;
    tb_list_append(l, &p->link);
    return p;
}

static tb_err attach(struct tb_buffer **at, void *buffer, MPI_Count size)
{
    if (*at)
        return tb_fail(TB_ERR_BUFFER,
                       "a buffer is attached already: detach it first");
    struct tb_buffer *b = tb_calloc(1, sizeof *b);
    if (!b)
        return tb_fail(TB_ERR_NO_MEM, "no memory to attach a buffer");
    b->automatic = buffer == MPI_BUFFER_AUTOMATIC;
    b->base = buffer;
    b->bytes = b->automatic ? 0 : size;
    tb_list_init(&b->pieces);
    *at = b;
    return TB_OK;
}

static bool is_empty(void *arg)
{
    struct tb_buffer *b = arg;
    reap(b, true);
    return tb_list_empty(&b->pieces);
}

static tb_err flush(struct tb_buffer *b)
{
    return b ? tb_engine_wait_until(tb_world.engine, is_empty, b) : TB_OK;
}

static tb_err detach(struct tb_buffer **at, void *buffer_addr, MPI_Count *size)
{
    if (!*at)
        return tb_fail(TB_ERR_BUFFER, "no buffer is attached");
    TB_TRY(flush(*at));
    *(void **)buffer_addr = (*at)->base;
    *size = (*at)->bytes;
    tb_free(*at);
    *at = NULL;
    return TB_OK;
}

/* Completes once the sends that are on their way now have left. */
struct flushing {
    struct tb_more more;
    struct tb_watch watch;
    struct tb_buffer **at;
    struct tb_req *req;
};

static bool flushed(struct tb_watch *watch)
{
    struct flushing *f = TB_CONTAINER(watch, struct flushing, watch);
    if (*f->at && !is_empty(*f->at))
        return false;
    tb_req_finish(f->req, TB_OK);
    return true;
}

static tb_err free_flushing(struct tb_req *req)
{
    tb_free(req->more);
    return TB_OK;
}

static const struct tb_more_ops flushing_ops = {.free = free_flushing};

static tb_err iflush(struct tb_buffer **at, struct tb_req **request)
{
    if (!*at || is_empty(*at))
        return tb_req_complete(request);
    struct flushing *f = tb_calloc(1, sizeof *f);
    if (!f)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a request");
    tb_err err = tb_req_task(tb_world.engine, &f->req);
    if (err) {
        tb_free(f);
        return err;
    }
    f->more.ops = &flushing_ops;
    f->at = at;
    f->watch.poll = flushed;
    f->req->more = f;
    *request = f->req;
    tb_engine_watch(tb_world.engine, &f->watch);
    return TB_OK;
}

tb_err tb_buffer_attach(void *buffer, MPI_Count size)
{
    return attach(&tb_world.buffer, buffer, size);
}

tb_err tb_buffer_detach(void *buffer_addr, MPI_Count *size)
{
    return detach(&tb_world.buffer, buffer_addr, size);
}

tb_err tb_buffer_flush(void)
{
    return flush(tb_world.buffer);
}

tb_err tb_buffer_iflush(struct tb_req **request)
{
    return iflush(&tb_world.buffer, request);
}

tb_err tb_comm_attach_buffer(struct tb_comm *comm, void *buffer, MPI_Count size)
{
    return attach(&comm->buffer, buffer, size);
}

tb_err tb_comm_detach_buffer(struct tb_comm *comm, void *buffer_addr,
                             MPI_Count *size)
{
    return detach(&comm->buffer, buffer_addr, size);
}

tb_err tb_comm_flush_buffer(struct tb_comm *comm)
{
    return flush(comm->buffer);
}

tb_err tb_comm_iflush_buffer(struct tb_comm *comm, struct tb_req **request)
{
    return iflush(&comm->buffer, request);
}

tb_err tb_session_attach_buffer(struct tb_session *session, void *buffer,
                                MPI_Count size)
{
    return attach(&session->buffer, buffer, size);
}

tb_err tb_session_detach_buffer(struct tb_session *session, void *buffer_addr,
                                MPI_Count *size)
{
    return detach(&session->buffer, buffer_addr, size);
}

tb_err tb_session_flush_buffer(struct tb_session *session)
{
    return flush(session->buffer);
}

tb_err tb_session_iflush_buffer(struct tb_session *session,
                                struct tb_req **request)
{
    return iflush(&session->buffer, request);
}

/* The one nearest to the communicator (MPI 5.0, section 3.6). */
static tb_err find_buffer(const struct tb_comm *c, struct tb_buffer **out)
{
    const struct tb_session *s = c->session;
    *out = c->buffer ? c->buffer : s ? s->buffer : tb_world.buffer;
    if (*out)
        return TB_OK;
    return tb_fail(TB_ERR_BUFFER, "no buffer is attached: call %s first",
                   s ? "MPI_Session_attach_buffer" : "MPI_Buffer_attach");
}

tb_err tb_p2p_bsend(const struct tb_p2p *a, struct tb_held *held)
{
    struct tb_buffer *b;
    if (a->rank == MPI_PROC_NULL)
        return TB_OK;
    int64_t n = a->count * a->type->layout->size;
    TB_TRY(find_buffer(a->comm, &b));
    reap(b, false);
    struct tb_piece *p = place(b, (size_t)n);
    if (!p) {
        /* Finished sends may only wait to be noticed. */
        tb_engine_poll(tb_world.engine);
        reap(b, true);
        p = place(b, (size_t)n);
    }
    if (!p)
        return tb_fail(TB_ERR_BUFFER,
                       "no room for %lld bytes in the attached buffer of %lld",
                       (long long)n, (long long)b->bytes);
    p->held = held;
    if (held)
        held->piece = p;
    tb_layout_pack(a->type->layout, a->buf, 0, p->data, n);
    struct tb_p2p packed = *a;
    packed.buf = p->data;
    packed.count = n;
    packed.type = tb_type_bytes();
    tb_err err = tb_p2p_send(&packed, TB_SEND_STANDARD, false, &p->req);
    if (err) {
        tb_held_drop(held);
        tb_list_remove(&p->link);
        if (b->automatic)
            tb_free(p);
        return err;
    }
    reap(b, false);
    return TB_OK;
}

void tb_held_drop(struct tb_held *held)
{
    if (held && held->piece)
        held->piece->held = NULL;
    if (held)
        held->piece = NULL;
}

/* The answer to a cancel has come. */
static void recalled(struct tb_req *send)
{
    struct tb_req *req = send->owner;
    send->on_done = NULL;
    req->result.cancelled = send->result.cancelled;
    tb_req_finish(req, TB_OK);
}

tb_err tb_held_cancel(struct tb_held *held, struct tb_req *req)
{
    if (!held->piece)
        return TB_OK;
    struct tb_req *send = held->piece->req;
    send->owner = req;
    send->on_done = recalled;
    req->done = false;
    return tb_engine_cancel(send);
}

tb_err tb_bsend(const void *buf, MPI_Count count, struct tb_type *datatype,
                int dest, int tag, struct tb_comm *comm)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    return tb_p2p_bsend(&a, NULL);
}

struct ibsend {
    struct tb_more more;
    struct tb_held held;
};

static tb_err cancel_ibsend(struct tb_req *req)
{
    struct ibsend *i = req->more;
    return tb_held_cancel(&i->held, req);
}

static tb_err free_ibsend(struct tb_req *req)
{
    struct ibsend *i = req->more;
    tb_held_drop(&i->held);
    tb_free(i);
    return TB_OK;
}

static const struct tb_more_ops ibsend_ops = {.cancel = cancel_ibsend,
                                              .free = free_ibsend};

tb_err tb_ibsend(const void *buf, MPI_Count count, struct tb_type *datatype,
                 int dest, int tag, struct tb_comm *comm,
                 struct tb_req **request)
{
    struct tb_p2p a = {buf, count, datatype, dest, tag, comm};
    struct ibsend *i = tb_calloc(1, sizeof *i);
    if (!i)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a request");
    i->more.ops = &ibsend_ops;
    tb_err err = tb_req_complete(request);
    if (!err) {
        (*request)->more = i;
        err = tb_p2p_bsend(&a, &i->held);
        if (err)
            tb_req_free(*request);
    }
    if (err)
        tb_free(i);
    return err;
}
