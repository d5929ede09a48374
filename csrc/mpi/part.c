/* SPDX-License-Identifier: MIT */
/*
 * Partitioned communication (MPI 5.0, chapter 4): a message in pieces, which
 * the sender gives away one by one.
 *
 * The two sides of an operation find each other without a word: the standard
 * matches their initialisations in order, so that both compute the same name
 * for a context of their own (comm_name.h). In it each of the sender's
 * partitions is one message, with its number as the tag, so that what the
 * receiver waits for never depends on a partition that is not ready. How many
 * there are the sender says in one more message before the first of them; the
 * receiver may divide the same data differently.
 */
#include <limits.h>

#include "mpi/api.h"
#include "mpi/comm_name.h"
#include "mpi/errh.h"
#include "mpi/request.h"
#include "mpi/world.h"

/* Receives are looked for by source and tag. Partitions pretend to come from
 * this many sources in turn, so that each is found quickly in any order. */
#define LANES 64
#define PARTITIONS_MOST (1 << 24)
#define TAG_HEAD INT_MAX /* no partition has this number */

/* How the sender divides the data. Little-endian as all on the wire. */
struct head {
    int64_t partitions;
    int64_t bytes; /* of one */
};

struct part {
    struct tb_more more;
    struct tb_req *req;
    bool sends;
    int rank; /* of the other side; MPI_PROC_NULL: there is none */
    int tag;
    char *buf;
    struct tb_type *type; /* a reference, as is the communicator */
    struct tb_comm *comm;
    int64_t count; /* elements in one of this side's partitions */
    int64_t bytes; /* in one of them */
    int partitions;
    struct tb_context *context;
    int lanes[LANES]; /* the other side's endpoint, LANES times */

    struct head head; /* the sender's */
    bool met;         /* it has been sent, or received */
    char *staging;    /* receiver: the stream, if partitions end in elements */

    /* Since the last start. */
    int64_t open; /* messages that are not done */
    tb_err err;
    bool *ready;  /* sender: of each partition */
    int *missing; /* receiver: messages that each of its partitions lacks */
};

/* The first of n partitions that has a part of partition i of m, and the one
 * after the last. Also right when there are no data at all. */
static int64_t first_of(int64_t i, int64_t m, int64_t n)
{
    return i * n / m;
}

static int64_t end_of(int64_t i, int64_t m, int64_t n)
{
    return ((i + 1) * n + m - 1) / m;
}

static tb_err check_partition(const struct part *p, int i)
{
    if (i >= 0 && i < p->partitions)
        return TB_OK;
    return tb_fail(TB_ERR_ARG, "partition %d is not in 0..%d", i,
                   p->partitions - 1);
}

/* One message less to wait for. The last one may free the request. */
static void advance(struct part *p, tb_err err)
{
    if (err && !p->err)
        p->err = err;
    if (--p->open > 0)
        return;
    tb_req_finish(p->req, p->err);
    /* The thread that waits for it may sleep while another has made it so. */
    if (tb_world.threaded)
        tb_net_wake(tb_engine_net(tb_world.engine));
}

/* ----------------------------------------------------------------- sending */

static void sent(struct tb_req *message)
{
    struct part *p = message->owner;
    tb_err err = message->result.err;
    tb_req_free(message);
    advance(p, err);
}

static tb_err send(struct part *p, const void *buf, struct tb_layout *layout,
                   int64_t count, int tag)
{
    struct tb_send_args args = {.context = p->context,
                                .buf = buf,
                                .layout = layout,
                                .count = count,
                                .source = tag % LANES,
                                .tag = tag,
                                .mode = TB_SEND_STANDARD};
    struct tb_req *message;
    TB_TRY(tb_engine_send(tb_world.engine, &args, true, &message));
    if (!message) {
        advance(p, TB_OK);
        return TB_OK;
    }
    message->owner = p;
    message->on_done = sent;
    if (message->done)
        sent(message);
    return TB_OK;
}

static tb_err start_send(struct part *p)
{
    p->open = p->partitions;
    memset(p->ready, 0, (size_t)p->partitions * sizeof *p->ready);
    if (p->met)
        return TB_OK;
    p->open++;
    TB_TRY(send(p, &p->head, &tb_layout_byte, sizeof p->head, TAG_HEAD));
    p->met = true;
    return TB_OK;
}

static tb_err make_ready(struct part *p, int i)
{
    TB_TRY(check_partition(p, i));
    if (p->rank == MPI_PROC_NULL)
        return TB_OK;
    if (p->ready[i])
        return tb_fail(TB_ERR_ARG, "partition %d is ready already", i);
    p->ready[i] = true;
    int64_t at = i * p->count * p->type->layout->extent;
    tb_err err = send(p, p->buf + at, p->type->layout, p->count, i);
    if (err)
        p->ready[i] = false;
    return err;
}

/* --------------------------------------------------------------- receiving */

static bool fits(const struct part *p)
{
    return p->head.partitions * p->head.bytes == p->partitions * p->bytes;
}

/* Where a message goes: elements of the receiver's type when it holds whole
 * ones, bytes when memory has the order of the stream, else aside. */
struct place {
    struct tb_layout *layout;
    char *at;
    int64_t count;
};

static struct place place_of(struct part *p, int64_t i)
{
    struct tb_layout *l = p->type->layout;
    int64_t each = p->head.bytes;

    if (!fits(p))
        return (struct place){&tb_layout_byte, NULL, 0};
    if (p->staging)
        return (struct place){&tb_layout_byte, p->staging + i * each, each};
    if (tb_layout_is_run(l, p->partitions * p->count))
        return (struct place){&tb_layout_byte,
                              (char *)tb_layout_at(l, p->buf) + i * each, each};
    int64_t n = l->size ? each / l->size : 0;
    return (struct place){l, p->buf + i * n * l->extent, n};
}

static tb_err make_staging(struct part *p)
{
    struct tb_layout *l = p->type->layout;

    if (p->staging || !fits(p) || l->size == 0 ||
        p->head.bytes % l->size == 0 ||
        tb_layout_is_run(l, p->partitions * p->count))
        return TB_OK;
    p->staging = tb_alloc((size_t)(p->partitions * p->bytes));
    if (p->staging)
        return TB_OK;
    return tb_fail(TB_ERR_NO_MEM, "no memory for partitions of %lld bytes",
                   (long long)p->head.bytes);
}

static void arrived(struct tb_req *message)
{
    struct part *p = message->owner;
    int64_t i = message->result.tag, each = p->head.bytes;
    tb_err err = p->err ? TB_OK : message->result.err;

    tb_req_free(message);
    if (p->staging && !err && fits(p))
        tb_layout_unpack(p->type->layout, p->buf, i * each,
                         p->staging + i * each, each);
    int64_t end = end_of(i, p->head.partitions, p->partitions);
    for (int64_t k = first_of(i, p->head.partitions, p->partitions); k < end;
         k++)
        p->missing[k]--;
    advance(p, err);
}

static tb_err receive(struct part *p, struct place to, int tag,
                      void (*on_done)(struct tb_req *))
{
    struct tb_recv_args args = {.context = p->context,
                                .buf = to.at,
                                .layout = to.layout,
                                .count = to.count,
                                .source = tag % LANES,
                                .tag = tag};
    struct tb_req *message;
    TB_TRY(tb_engine_recv(tb_world.engine, &args, &message));
    message->owner = p;
    message->on_done = on_done;
    if (message->done)
        on_done(message);
    return TB_OK;
}

/* The sender's partitions that do not make up what is expected are taken all
 * the same, so that it is not left waiting. */
static tb_err check_head(struct part *p)
{
    int64_t mine = p->partitions * p->bytes;
    int64_t theirs = p->head.partitions * p->head.bytes;

    p->req->result.bytes = TB_MIN(mine, theirs);
    p->req->result.sent = theirs;
    if (theirs > mine)
        return TB_ERR_TRUNCATE;
    if (theirs < mine)
        return tb_fail(TB_ERR_COUNT,
                       "the sender's partitions have %lld bytes together, the "
                       "receiver's %lld",
                       (long long)theirs, (long long)mine);
    return TB_OK;
}

/* `open` counts one more until all are posted. */
static void post_all(struct part *p)
{
    int64_t n = p->head.partitions;
    tb_err err = make_staging(p);

    p->open = n + 1;
    p->req->result.source = p->rank;
    p->req->result.tag = p->tag;
    for (int64_t k = 0; k < p->partitions; k++)
        p->missing[k] =
            (int)(end_of(k, p->partitions, n) - first_of(k, p->partitions, n));
    p->err = check_head(p);
    for (int64_t i = 0; i < n; i++) {
        if (!err)
            err = receive(p, place_of(p, i), (int)i, arrived);
        if (err)
            p->open--;
    }
    advance(p, err);
}

static bool is_sound(const struct head *h)
{
    return h->partitions > 0 && h->partitions <= PARTITIONS_MOST &&
           h->bytes >= 0 && h->bytes <= INT64_MAX / h->partitions;
}

static void meet(struct tb_req *message)
{
    struct part *p = message->owner;
    tb_err err = message->result.err;

    if (!err &&
        (message->result.bytes != sizeof p->head || !is_sound(&p->head)))
        err = TB_ERR_PROTOCOL;
    tb_req_free(message);
    if (err) {
        advance(p, err);
        return;
    }
    p->met = true;
    post_all(p);
}

static tb_err start_recv(struct part *p)
{
    const struct place head = {&tb_layout_byte, (char *)&p->head,
                               sizeof p->head};
    if (!p->met) {
        p->open = 1;
        return receive(p, head, TAG_HEAD, meet);
    }
    post_all(p);
    return TB_OK;
}

/* ------------------------------------------------------------- the request */

static tb_err start(struct tb_req *req)
{
    struct part *p = req->more;
    p->err = TB_OK;
    if (p->rank == MPI_PROC_NULL) {
        req->result.source = MPI_PROC_NULL;
        tb_req_finish(req, TB_OK);
        return TB_OK;
    }
    return p->sends ? start_send(p) : start_recv(p);
}

static void release(struct part *p)
{
    if (p->context)
        tb_context_close(p->context);
    tb_type_unref(p->type);
    tb_comm_unref(p->comm);
    tb_free(p->ready);
    tb_free(p->missing);
    tb_free(p->staging);
    tb_free(p);
}

static tb_err free_part(struct tb_req *req)
{
    release(req->more);
    return TB_OK;
}

static const struct tb_more_ops part_ops = {.start = start, .free = free_part};

static tb_err no_memory(void)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for a partitioned request");
}

/* Only the receiver's context can be received from; one process may be both
 * sides, and the two have one name. */
static tb_err open_context(struct part *p)
{
    int self = tb_net_self(tb_engine_net(tb_world.engine));
    int other = p->comm->peers->ranks[p->rank];
    int from = p->sends ? self : other, to = p->sends ? other : self;
    uint64_t name;

    TB_TRY(tb_name_part(p->comm, p->sends, from, to, p->tag, &name));
    for (int i = 0; i < LANES; i++)
        p->lanes[i] = other;
    if (p->sends)
        return tb_context_outward(tb_world.engine, name, p->lanes, &p->context);
    return tb_context_open(tb_world.engine, name, p->lanes, LANES, &p->context);
}

static tb_err prepare(struct part *p)
{
    size_t n = (size_t)p->partitions;

    TB_TRY(tb_type_stream(p->type, p->count, &p->bytes));
    if (p->bytes > INT64_MAX / p->partitions)
        return tb_fail(TB_ERR_COUNT, "%d partitions of %lld bytes are too much",
                       p->partitions, (long long)p->bytes);
    if (p->rank == MPI_PROC_NULL)
        return TB_OK;
    if (p->sends) {
        p->head = (struct head){p->partitions, p->bytes};
        p->ready = tb_calloc(n, sizeof *p->ready);
    } else {
        p->missing = tb_calloc(n, sizeof *p->missing);
    }
    if (!p->ready && !p->missing)
        return no_memory();
    return open_context(p);
}

/* Takes over `from`'s values, and references of its own. */
static tb_err make(const struct part *from, struct tb_req **request)
{
    if (from->partitions < 1 || from->partitions > PARTITIONS_MOST)
        return tb_fail(TB_ERR_ARG, "partitions is %d, not in 1..%d",
                       from->partitions, PARTITIONS_MOST);
    struct part *p = tb_alloc(sizeof *p);
    if (!p)
        return no_memory();
    *p = *from;
    p->more = (struct tb_more){.ops = &part_ops, .persistent = true};
    tb_type_ref(p->type);
    tb_comm_ref(p->comm);
    tb_err err = prepare(p);
    if (!err)
        err = tb_req_task(tb_world.engine, &p->req);
    if (err) {
        release(p);
        return err;
    }
    p->req->more = p;
    p->req->done = true;
    *request = p->req;
    return TB_OK;
}

tb_err tb_psend_init(const void *buf, int partitions, MPI_Count count,
                     struct tb_type *datatype, int dest, int tag,
                     struct tb_comm *comm, struct tb_info *info,
                     struct tb_req **request)
{
    const struct part p = {.sends = true,
                           .rank = dest,
                           .tag = tag,
                           .buf = (char *)(uintptr_t)buf,
                           .type = datatype,
                           .comm = comm,
                           .count = count,
                           .partitions = partitions};
    (void)info;
    return make(&p, request);
}

tb_err tb_precv_init(void *buf, int partitions, MPI_Count count,
                     struct tb_type *datatype, int source, int tag,
                     struct tb_comm *comm, struct tb_info *info,
                     struct tb_req **request)
{
    const struct part p = {.rank = source,
                           .tag = tag,
                           .buf = buf,
                           .type = datatype,
                           .comm = comm,
                           .count = count,
                           .partitions = partitions};
    (void)info;
    if (source == MPI_ANY_SOURCE)
        return tb_fail(TB_ERR_RANK, "source is MPI_ANY_SOURCE: partitioned "
                                    "receives name their sender");
    return make(&p, request);
}

/* --------------------------------------------------------- its partitions */

/* The communicator's error handler hears of what is wrong here. */
static tb_err blame(const struct tb_req *req, tb_err err)
{
    if (TB_UNLIKELY(err))
        tb_errh_blame(req->comm);
    return err;
}

static tb_err check_kind(const struct tb_req *req, bool sends)
{
    const struct tb_more *more = req->more;
    if (!more || more->ops != &part_ops)
        return tb_fail(TB_ERR_REQUEST, "the request is not partitioned");
    if (((const struct part *)more)->sends != sends)
        return tb_fail(TB_ERR_REQUEST, "the request %s",
                       sends ? "receives" : "sends");
    return TB_OK;
}

static tb_err find(MPI_Request handle, bool sends, struct part **out)
{
    struct tb_req *req;
    TB_TRY(tb_req_get(handle, &req));
    TB_TRY(blame(req, check_kind(req, sends)));
    *out = req->more;
    return TB_OK;
}

static tb_err check_started(const struct part *p)
{
    if (p->more.active)
        return TB_OK;
    return tb_fail(TB_ERR_REQUEST,
                   "the request is not active: start it before its partitions "
                   "are made ready");
}

static tb_err ready_range(struct part *p, int low, int high)
{
    TB_TRY(check_started(p));
    if (low > high)
        return tb_fail(TB_ERR_ARG, "partition_low is %d, partition_high %d",
                       low, high);
    for (int i = low; i <= high; i++)
        TB_TRY(make_ready(p, i));
    return TB_OK;
}

static tb_err ready_list(struct part *p, int length, const int *partitions)
{
    TB_TRY(check_started(p));
    if (length < 0)
        return tb_fail(TB_ERR_ARG, "length is %d: it must not be negative",
                       length);
    if (length > 0 && !partitions)
        return tb_fail(TB_ERR_ARG, "array_of_partitions must not be NULL");
    for (int i = 0; i < length; i++)
        TB_TRY(make_ready(p, partitions[i]));
    return TB_OK;
}

tb_err tb_pready(int partition, MPI_Request request)
{
    struct part *p;
    TB_TRY(find(request, true, &p));
    struct tb_req *req = p->req; /* p may end with its last partition */
    return blame(req, ready_range(p, partition, partition));
}

tb_err tb_pready_range(int partition_low, int partition_high,
                       MPI_Request request)
{
    struct part *p;
    TB_TRY(find(request, true, &p));
    struct tb_req *req = p->req; /* p may end with its last partition */
    return blame(req, ready_range(p, partition_low, partition_high));
}

tb_err tb_pready_list(int length, const int array_of_partitions[],
                      MPI_Request request)
{
    struct part *p;
    TB_TRY(find(request, true, &p));
    struct tb_req *req = p->req; /* p may end with its last partition */
    return blame(req, ready_list(p, length, array_of_partitions));
}

/* Everything is there in a request that is not active. */
static bool is_here(const struct part *p, int partition)
{
    if (!p->more.active || p->req->done)
        return true;
    return p->met && p->missing[partition] == 0;
}

tb_err tb_parrived(MPI_Request request, int partition, int *flag)
{
    struct part *p;
    TB_TRY(find(request, false, &p));
    TB_TRY(blame(p->req, check_partition(p, partition)));
    if (!is_here(p, partition))
        tb_engine_poll(tb_world.engine);
    *flag = is_here(p, partition);
    return *flag ? TB_OK : blame(p->req, tb_engine_tested(tb_world.engine));
}
