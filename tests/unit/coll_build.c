/* SPDX-License-Identifier: MIT */
/*
 * Every algorithm of every collective, on a simulated machine: the schedules
 * of all ranks are built here and their steps carried out one by one, so that
 * results are compared for any number of ranks, and a schedule that only works
 * because messages are buffered is caught as a deadlock.
 *
 * An element is a pair (a, b); as a map x -> a x + b pairs compose, which is
 * associative and does not commute.
 */
#include <string.h>

#include "coll/select.h"
#include "coll/shape.h"
#include "mpi/life.h"
#include "mpi/world.h"
#include "unit/check.h"

#define MAX_RANKS 40
#define MAX_BLOCKS MAX_RANKS
#define PRIME 1000003

struct value {
    int64_t a, b;
};

/* The two element types: dense pairs, and pairs with holes. */
static struct tb_layout dense = TB_LAYOUT_RUN(16, 16, 8);
static struct tb_layout *holes;
static struct tb_type types[2];
static int which; /* of the types is used now */

static int64_t gap(void)
{
    return which ? 24 : 8;
}
static int64_t extent(void)
{
    return types[which].layout->extent;
}

static struct value get(const void *buf, int64_t i)
{
    const char *p = (const char *)buf + i * extent();
    struct value v;
    memcpy(&v.a, p, 8);
    memcpy(&v.b, p + gap(), 8);
    return v;
}

static void put(void *buf, int64_t i, struct value v)
{
    char *p = (char *)buf + i * extent();
    memcpy(p, &v.a, 8);
    memcpy(p + gap(), &v.b, 8);
}

static void *elements(int64_t n)
{
    size_t bytes = (size_t)((n + 1) * extent());
    return memset(tb_alloc(bytes), 0x5a, bytes);
}

/* ------------------------------------------------------------- reductions */

static struct value sum(struct value x, struct value y)
{
    return (struct value){(x.a + y.a) % PRIME, (x.b + y.b) % PRIME};
}

static struct value compose(struct value x, struct value y)
{
    return (struct value){x.a * y.a % PRIME, (x.a * y.b + x.b) % PRIME};
}

static struct value (*combine)(struct value, struct value);

static void user_op(void *in, void *inout, MPI_Count *n, MPI_Datatype *type)
{
    (void)type;
    for (MPI_Count i = 0; i < *n; i++)
        put(inout, i, combine(get(in, i), get(inout, i)));
}

static struct tb_op ops[2] = {{.commutes = true, .fn_c = user_op},
                              {.commutes = false, .fn_c = user_op}};

/* -------------------------------------------------------------- the machine */

struct message {
    struct message *next;
    enum tb_way way;
    int from, to;
    const struct tb_step *step;
    char *packed; /* NULL: the sender waits until it is taken */
    bool taken;
};

struct rank {
    struct tb_comm comm, local;
    struct tb_group group, remote;
    int side, first, other_first; /* number of the side's rank 0 */
    struct tb_call call;
    struct tb_sched sched;
    int round, at;
    bool started;
    void *in, *out;
};

static struct rank ranks[MAX_RANKS];
static int sizes[2];
static struct message *messages;
static bool buffered;
static const struct tb_choice *trying; /* for failures */

static int n_ranks(void)
{
    return sizes[0] + sizes[1];
}

static void failed(const char *why, int rank)
{
    fprintf(stderr, "%s by %s, %d + %d ranks, rank %d: %s\n",
            tb_coll_name((enum tb_coll_kind)trying->kind), trying->name,
            sizes[0], sizes[1], rank, why);
    exit(1);
}

static int number_of(const struct rank *r, const struct tb_step *step)
{
    bool across = sizes[1] && step->way == TB_WAY_MAIN;
    return (across ? r->other_first : r->first) + step->peer;
}

static int64_t bytes_of(const struct tb_step *s)
{
    return s->count * s->layout->size;
}

static void post_send(struct rank *r, const struct tb_step *step)
{
    struct message *m = tb_calloc(1, sizeof *m), **last = &messages;
    m->way = (enum tb_way)step->way;
    m->from = (int)(r - ranks);
    m->to = number_of(r, step);
    m->step = step;
    if (buffered) {
        m->packed = tb_alloc((size_t)bytes_of(step));
        tb_layout_pack(step->layout, step->to, 0, m->packed, bytes_of(step));
    }
    while (*last)
        last = &(*last)->next;
    *last = m;
}

/* Whether the message has come; takes it. */
static bool receive(struct rank *r, const struct tb_step *step)
{
    int from = number_of(r, step), to = (int)(r - ranks);
    for (struct message *m = messages; m; m = m->next) {
        if (m->taken || m->way != (enum tb_way)step->way || m->from != from ||
            m->to != to)
            continue;
        int64_t n = bytes_of(step);
        if (bytes_of(m->step) != n)
            failed("sizes of a message differ", to);
        char *data = m->packed ? m->packed : tb_alloc((size_t)n);
        if (!m->packed)
            tb_layout_pack(m->step->layout, m->step->to, 0, data, n);
        tb_layout_unpack(step->layout, step->to, 0, data, n);
        tb_free(data);
        m->packed = NULL;
        m->taken = true;
        return true;
    }
    return false;
}

static void run_local(struct rank *r, const struct tb_step *step)
{
    if (step->kind == TB_STEP_REDUCE) {
        tb_op_apply(r->sched.op, step->from, step->to, step->count,
                    r->sched.type);
        return;
    }
    int64_t n = bytes_of(step);
    char *data = tb_alloc((size_t)n);
    if (n != step->to_count * step->to_layout->size)
        failed("sizes of a copy differ", (int)(r - ranks));
    tb_layout_pack(step->layout, step->from, 0, data, n);
    tb_layout_unpack(step->to_layout, step->to, 0, data, n);
    tb_free(data);
}

static bool is_sent(const struct rank *r, const struct tb_step *step)
{
    for (const struct message *m = messages; m; m = m->next)
        if (m->step == step && m->from == (int)(r - ranks))
            return m->taken || m->packed;
    return true;
}

static void start_round(struct rank *r)
{
    bool last = false;
    for (r->at = r->round; r->at < r->sched.n && !last; r->at++) {
        struct tb_step *step = &r->sched.steps[r->at];
        last = step->ends_round;
        if (step->kind == TB_STEP_SEND)
            post_send(r, step);
        else if (step->kind != TB_STEP_RECV)
            run_local(r, step);
    }
    r->started = true;
}

/* True when something happened. Receives are marked as done by their req. */
static bool advance(struct rank *r)
{
    static struct tb_req done;
    bool moved = false, open = false;
    if (r->round == r->sched.n)
        return false;
    if (!r->started) {
        start_round(r);
        moved = true;
    }
    for (int i = r->round; i < r->at; i++) {
        struct tb_step *step = &r->sched.steps[i];
        if (step->kind == TB_STEP_SEND) {
            open |= !is_sent(r, step);
        } else if (step->kind == TB_STEP_RECV && !step->req) {
            if (receive(r, step)) {
                step->req = &done;
                moved = true;
            } else {
                open = true;
            }
        }
    }
    if (!open) {
        r->round = r->at;
        r->started = false;
        moved = true;
    }
    return moved;
}

static void forget_messages(void)
{
    while (messages) {
        struct message *m = messages;
        messages = m->next;
        if (!m->taken)
            failed("a message nobody takes", m->to);
        tb_free(m);
    }
}

/* Runs all ranks' schedules, in an order that changes all the time. */
static void simulate(const struct tb_choice *choice)
{
    unsigned turn = 12345;
    trying = choice;
    for (int i = 0; i < n_ranks(); i++) {
        struct rank *r = &ranks[i];
        CHECK_EQ(tb_coll_check(&r->call), TB_OK);
        tb_sched_init(&r->sched, &r->comm, false);
        r->sched.type = r->call.type;
        r->sched.op = r->call.op;
        choice->build(&r->sched, &r->call);
        tb_sched_round(&r->sched);
        CHECK_EQ(r->sched.err, TB_OK);
        r->round = 0;
        r->started = false;
    }
    for (int idle = 0; idle < 20 * n_ranks(); idle++) {
        turn = turn * 1103515245 + 12345;
        if (advance(&ranks[(turn >> 16) % (unsigned)n_ranks()]))
            idle = -1;
    }
    for (int i = 0; i < n_ranks(); i++)
        while (advance(&ranks[i]))
            ;
    for (int i = 0; i < n_ranks(); i++) {
        if (ranks[i].round != ranks[i].sched.n)
            failed("deadlock", i);
        for (int k = 0; k < ranks[i].sched.n; k++)
            ranks[i].sched.steps[k].req = NULL;
        tb_sched_fini(&ranks[i].sched);
    }
    forget_messages();
}

static void make_comm(struct tb_comm *c, struct tb_group *mine,
                      struct tb_group *other, int rank)
{
    *c = (struct tb_comm){.rank = rank,
                          .size = mine->size,
                          .remote_size = other ? other->size : 0,
                          .group = mine,
                          .remote = other,
                          .peers = other ? other : mine};
}

static void make_ranks(int n, int remote)
{
    sizes[0] = n;
    sizes[1] = remote;
    for (int i = 0; i < n + remote; i++) {
        struct rank *r = &ranks[i];
        r->side = i >= n;
        r->first = r->side ? n : 0;
        r->other_first = r->side ? 0 : n;
        r->group.size = sizes[r->side];
        r->remote.size = sizes[!r->side];
        make_comm(&r->local, &r->group, NULL, i - r->first);
        make_comm(&r->comm, &r->group, remote ? &r->remote : NULL,
                  i - r->first);
        r->comm.local = remote ? &r->local : NULL;
    }
}

/* ----------------------------------------------------------------- shapes */

/*
 * The ranks on nodes: `each` on one, the last may have fewer; dealt out one by
 * one where `scattered`. Nodes stand in an order that is not the ranks'.
 */
static struct tb_shape shapes[MAX_RANKS];
static int first[MAX_RANKS + 1], placed[MAX_RANKS];

static int node_of(int rank, int each, int nodes, bool scattered)
{
    int node = scattered ? rank % nodes : rank / each;
    return (node + 1) % nodes;
}

static bool make_shapes(int n, int each, enum tb_cabling cabling,
                        bool scattered)
{
    int nodes = (n + each - 1) / each, at = 0, most = 0;
    int least = cabling == TB_CABLING_RING ? 4 : 2;
    if (nodes < least + (cabling == TB_CABLING_LINE))
        return false;
    for (int node = 0; node < nodes; node++) {
        first[node] = at;
        for (int r = 0; r < n; r++)
            if (node_of(r, each, nodes, scattered) == node)
                placed[at++] = r;
        most = TB_MAX(most, at - first[node]);
    }
    first[nodes] = at;
    for (int r = 0; r < n; r++) {
        shapes[r] = (struct tb_shape){
            .cabling = cabling,
            .nodes = nodes,
            .node = node_of(r, each, nodes, scattered),
            .most = most,
            .in_order = !scattered || most == 1,
            .first = first,
            .ranks = placed,
        };
        ranks[r].comm.shape = &shapes[r];
    }
    return true;
}

/* ------------------------------------------------------------- one call */

/* What is being tried. */
struct trial {
    enum tb_coll_kind kind;
    int root; /* on side 0 */
    bool in_place;
    int op;
    int64_t count;
};

/* Blocks of different sizes, some empty; the same for every rank. */
static int64_t block_count(const struct trial *t, int from, int to)
{
    switch (t->kind) {
    case TB_COLL_ALLTOALLV:
    case TB_COLL_ALLTOALLW:
        return (from * to + from + to) % 4 * t->count;
    case TB_COLL_GATHERV:
    case TB_COLL_ALLGATHERV:
        return from % 3 * t->count;
    case TB_COLL_SCATTERV:
        return to % 3 * t->count;
    case TB_COLL_REDUCE_SCATTER:
        return sizes[1] ? t->count * sizes[!(from >= sizes[0])]
                        : to % 3 * t->count;
    default:
        return t->count;
    }
}

static struct value value_of(int from, int to, int64_t i)
{
    int64_t x = from * 7919 + to * 104729 + i * 31 + 1;
    return (struct value){x % PRIME, x * 17 % PRIME};
}

/* The arrays that a rank passes; block i lies at displs[i]. */
static MPI_Count counts[2][MAX_RANKS][MAX_BLOCKS];
static MPI_Count displs[2][MAX_RANKS][MAX_BLOCKS];
static MPI_Datatype handles[MAX_BLOCKS];

static bool is_w(const struct trial *t)
{
    return t->kind == TB_COLL_ALLTOALLW;
}

static bool is_v(const struct trial *t, int receives)
{
    switch (t->kind) {
    case TB_COLL_ALLTOALLV:
    case TB_COLL_ALLTOALLW:
        return true;
    case TB_COLL_SCATTERV:
        return !receives;
    case TB_COLL_GATHERV:
    case TB_COLL_ALLGATHERV:
        return receives;
    default:
        return false;
    }
}

/* Fills block arrays of one buffer, from the last block to the first with an
 * unused element between; returns the elements of the buffer. */
static int64_t lay_out(const struct trial *t, int rank, int receives, int n,
                       int first)
{
    int64_t at = 0;
    for (int k = 0; k < n; k++) {
        int i = is_v(t, receives) ? n - 1 - k : k, peer = first + i;
        int64_t count =
            receives ? block_count(t, peer, rank) : block_count(t, rank, peer);
        counts[receives][rank][i] = count;
        displs[receives][rank][i] = at * (is_w(t) ? extent() : 1);
        at += count + is_v(t, receives);
    }
    return at;
}

static struct tb_blocks blocks_of(const struct trial *t, int rank, int receives,
                                  void *buf, int64_t count)
{
    struct tb_blocks b = {
        .base = buf, .layout = types[which].layout, .count = count};
    if (is_v(t, receives)) {
        b.count = 0;
        b.counts.c = counts[receives][rank];
        b.displs.c = displs[receives][rank];
        b.types = is_w(t) ? handles : NULL;
    }
    return b;
}

/* Element i of block `peer` in a rank's buffer. */
static int64_t place(const struct trial *t, int rank, int receives, int peer,
                     int64_t i)
{
    return displs[receives][rank][peer] / (is_w(t) ? extent() : 1) + i;
}

static bool is_root(const struct trial *t, int i)
{
    return i == t->root;
}

static int root_argument(const struct trial *t, const struct rank *r)
{
    if (!sizes[1] || r->side == 1)
        return t->root;
    return is_root(t, (int)(r - ranks)) ? MPI_ROOT : MPI_PROC_NULL;
}

static void end(void)
{
    for (int i = 0; i < n_ranks(); i++) {
        tb_free(ranks[i].in);
        tb_free(ranks[i].out);
    }
}

static void begin(const struct trial *t, struct rank *r)
{
    r->call = (struct tb_call){.kind = t->kind,
                               .comm = &r->comm,
                               .root = root_argument(t, r),
                               .type = &types[which],
                               .op = &ops[t->op]};
}

static void expect(const void *buf, int64_t at, struct value want, int rank)
{
    struct value v = get(buf, at);
    if (v.a != want.a || v.b != want.b)
        failed("wrong result", rank);
}

/* ---------------------------------------------- calls that move blocks */

static bool gives(const struct trial *t, int i)
{
    switch (t->kind) {
    case TB_COLL_SCATTER:
    case TB_COLL_SCATTERV:
        return is_root(t, i);
    case TB_COLL_GATHER:
    case TB_COLL_GATHERV:
        return !sizes[1] || ranks[i].side == 1;
    default:
        return true;
    }
}

static bool takes(const struct trial *t, int i)
{
    switch (t->kind) {
    case TB_COLL_SCATTER:
    case TB_COLL_SCATTERV:
        return !sizes[1] || ranks[i].side == 1;
    case TB_COLL_GATHER:
    case TB_COLL_GATHERV:
        return is_root(t, i);
    default:
        return true;
    }
}

/* Gathers send, and scatters receive, one block. */
static bool gives_one(const struct trial *t)
{
    return t->kind == TB_COLL_GATHER || t->kind == TB_COLL_GATHERV ||
           t->kind == TB_COLL_ALLGATHER || t->kind == TB_COLL_ALLGATHERV;
}

static bool takes_one(const struct trial *t)
{
    return t->kind == TB_COLL_SCATTER || t->kind == TB_COLL_SCATTERV;
}

static int peers_of(int i)
{
    return ranks[i].comm.peers->size;
}
static int first_peer(int i)
{
    return sizes[1] ? ranks[i].other_first : 0;
}

static void fill_blocks(const struct trial *t, int i)
{
    struct rank *r = &ranks[i];
    bool in_place = t->in_place && takes(t, i) && gives(t, i);
    int64_t n_in = lay_out(t, i, 0, peers_of(i), first_peer(i));
    int64_t n_out = lay_out(t, i, 1, peers_of(i), first_peer(i));
    r->in = elements(n_in + block_count(t, i, 0));
    r->out = elements(n_out + block_count(t, t->root, i));
    begin(t, r);
    int64_t one_in = gives_one(t) ? block_count(t, i, t->root) : t->count;
    int64_t one_out = takes_one(t) ? block_count(t, t->root, i) : t->count;
    r->call.send = blocks_of(t, i, 0, r->in, one_in);
    r->call.recv = blocks_of(t, i, 1, r->out, one_out);
    if (in_place && takes_one(t))
        r->call.recv.base = MPI_IN_PLACE;
    else if (in_place)
        r->call.send.base = MPI_IN_PLACE;
    if (gives_one(t)) {
        int64_t at = in_place ? place(t, i, 1, i - first_peer(i), 0) : 0;
        for (int64_t k = 0; k < one_in; k++)
            put(in_place ? r->out : r->in, at + k, value_of(i, 0, k));
        return;
    }
    for (int p = 0; p < peers_of(i); p++)
        for (int64_t k = 0; k < counts[0][i][p]; k++) {
            bool there = in_place && !takes_one(t);
            put(there ? r->out : r->in, place(t, i, there, p, k),
                value_of(i, first_peer(i) + p, k));
        }
}

static void check_blocks(const struct trial *t, int i)
{
    struct rank *r = &ranks[i];
    if (takes_one(t)) {
        if (t->in_place && is_root(t, i))
            return;
        for (int64_t k = 0; k < block_count(t, t->root, i); k++)
            expect(r->out, k, value_of(t->root, i, k), i);
        return;
    }
    for (int p = 0; p < peers_of(i); p++) {
        int from = first_peer(i) + p;
        for (int64_t k = 0; k < counts[1][i][p]; k++)
            expect(r->out, place(t, i, 1, p, k),
                   value_of(from, gives_one(t) ? 0 : i, k), i);
    }
}

static void move_blocks(const struct trial *t, const struct tb_choice *choice)
{
    for (int i = 0; i < n_ranks(); i++)
        fill_blocks(t, i);
    simulate(choice);
    for (int i = 0; i < n_ranks(); i++)
        if (takes(t, i))
            check_blocks(t, i);
    end();
}

/* ------------------------------------------------------------- broadcasts */

static void broadcast(const struct trial *t, const struct tb_choice *choice)
{
    for (int i = 0; i < n_ranks(); i++) {
        struct rank *r = &ranks[i];
        r->in = NULL;
        r->out = elements(t->count);
        begin(t, r);
        r->call.recv = blocks_of(t, i, 1, r->out, t->count);
        for (int64_t k = 0; k < t->count && is_root(t, i); k++)
            put(r->out, k, value_of(i, 0, k));
    }
    simulate(choice);
    for (int i = 0; i < n_ranks(); i++)
        for (int64_t k = 0; k < t->count; k++)
            if (!sizes[1] || ranks[i].side == 1)
                expect(ranks[i].out, k, value_of(t->root, 0, k), i);
    end();
}

/* ------------------------------------------------------------- reductions */

static bool scatters(const struct trial *t)
{
    return t->kind == TB_COLL_REDUCE_SCATTER ||
           t->kind == TB_COLL_REDUCE_SCATTER_BLOCK;
}

/* Elements that each rank contributes. */
static int64_t total(const struct trial *t, int rank)
{
    int64_t n = 0;
    if (!scatters(t))
        return t->count;
    for (int i = 0; i < ranks[rank].comm.size; i++)
        n += counts[1][rank][i];
    return n;
}

/* Combination of the contributions of ranks `first` to `last`. */
static struct value combined(int first, int last, int64_t i)
{
    struct value v = value_of(last, 0, i);
    for (int r = last - 1; r >= first; r--)
        v = combine(value_of(r, 0, i), v);
    return v;
}

static bool reads(const struct trial *t, int i)
{
    return t->kind != TB_COLL_REDUCE || !sizes[1] || ranks[i].side == 1;
}

static bool writes(const struct trial *t, int i)
{
    if (t->kind == TB_COLL_REDUCE)
        return is_root(t, i);
    return t->kind != TB_COLL_EXSCAN || i > 0;
}

/* Intercommunicators: so many elements that both sides have the same total. */
static void fill_counts(const struct trial *t, int i)
{
    for (int k = 0; k < ranks[i].comm.size; k++)
        counts[1][i][k] =
            sizes[1] ? t->count * sizes[!ranks[i].side] : block_count(t, i, k);
}

static void fill_reduction(const struct trial *t, int i)
{
    struct rank *r = &ranks[i];
    bool in_place = t->in_place && (t->kind != TB_COLL_REDUCE || is_root(t, i));
    fill_counts(t, i);
    int64_t n = total(t, i);
    r->in = elements(n);
    r->out = elements(n);
    begin(t, r);
    struct tb_blocks b = {.layout = types[which].layout, .count = t->count};
    if (t->kind == TB_COLL_REDUCE_SCATTER) {
        b.count = 0;
        b.counts.c = counts[1][i];
    } else if (scatters(t)) {
        b.count = counts[1][i][0];
    }
    r->call.send = r->call.recv = b;
    r->call.send.base = in_place ? MPI_IN_PLACE : r->in;
    r->call.recv.base = r->out;
    for (int64_t k = 0; k < n && reads(t, i); k++)
        put(in_place ? r->out : r->in, k, value_of(i, 0, k));
}

static void check_reduction(const struct trial *t, int i)
{
    struct rank *r = &ranks[i];
    int first = sizes[1] ? r->other_first : 0;
    int last = first + (sizes[1] ? sizes[!r->side] : sizes[0]) - 1;
    int64_t from = 0, n = total(t, i);
    if (scatters(t)) {
        for (int k = 0; k < r->comm.rank; k++)
            from += counts[1][i][k];
        n = counts[1][i][r->comm.rank];
    }
    if (t->kind == TB_COLL_SCAN)
        last = i;
    if (t->kind == TB_COLL_EXSCAN)
        last = i - 1;
    for (int64_t k = 0; k < n; k++)
        expect(r->out, k, combined(first, last, from + k), i);
}

static void reduce(const struct trial *t, const struct tb_choice *choice)
{
    combine = t->op ? compose : sum;
    for (int i = 0; i < n_ranks(); i++)
        fill_reduction(t, i);
    simulate(choice);
    for (int i = 0; i < n_ranks(); i++)
        if (writes(t, i))
            check_reduction(t, i);
    end();
}

/* ------------------------------------------------------------------ trials */

static void try_one(const struct trial *t, const struct tb_choice *choice)
{
    if (t->kind == TB_COLL_BARRIER) {
        for (int i = 0; i < n_ranks(); i++)
            begin(t, &ranks[i]);
        simulate(choice);
    } else if (t->kind == TB_COLL_BCAST) {
        broadcast(t, choice);
    } else if (t->kind < TB_COLL_REDUCE) {
        move_blocks(t, choice);
    } else {
        reduce(t, choice);
    }
}

static bool has_root(enum tb_coll_kind kind)
{
    return kind == TB_COLL_BCAST || kind == TB_COLL_GATHER ||
           kind == TB_COLL_GATHERV || kind == TB_COLL_SCATTER ||
           kind == TB_COLL_SCATTERV || kind == TB_COLL_REDUCE;
}

static bool has_in_place(enum tb_coll_kind kind)
{
    return !sizes[1] && kind != TB_COLL_BCAST && kind != TB_COLL_BARRIER;
}

static void try_roots(struct trial *t, const struct tb_choice *choice)
{
    int roots = has_root(t->kind) ? sizes[0] : 1;
    for (t->root = 0; t->root < roots; t->root += 1 + roots / 4)
        for (int place = 0; place <= has_in_place(t->kind); place++) {
            t->in_place = place;
            buffered = !buffered;
            try_one(t, choice);
        }
}

/* Alltoallw looks its types up by their handles. */
static void use_type(int i)
{
    which = i;
    for (int k = 0; k < MAX_BLOCKS; k++)
        handles[k] = tb_type_handle(&types[i]);
}

static void try_choice(const struct tb_choice *choice)
{
    /* The last is for algorithms that cut messages to pieces. */
    static const int64_t many[] = {0, 1, 3, 50, 5000};
    struct trial t = {.kind = (enum tb_coll_kind)choice->kind};
    bool reduces = t.kind >= TB_COLL_REDUCE;
    for (int type = 0; type < 2; type++)
        for (t.op = 0; t.op <= reduces; t.op++)
            for (size_t i = 0; i < TB_COUNT_OF(many); i++) {
                struct tb_call probe = {.kind = t.kind,
                                        .comm = &ranks[0].comm,
                                        .op = reduces ? &ops[t.op] : NULL};
                t.count = many[i];
                if (t.count > 50 && t.kind != TB_COLL_BCAST)
                    continue;
                use_type(type);
                if (tb_choice_suits(choice, &probe))
                    try_roots(&t, choice);
            }
}

static void make_types(void)
{
    static struct tb_layout word = TB_LAYOUT_BYTES(8);
    struct tb_layout *vector;
    for (int i = 0; i < 2; i++)
        types[i] = (struct tb_type){.committed = true};
    CHECK_EQ(tb_layout_vector(&vector, 2, 1, 24, &word), TB_OK);
    CHECK_EQ(tb_layout_resized(&holes, 0, 40, vector), TB_OK);
    tb_layout_unref(vector);
    types[0].layout = &dense;
    types[1].layout = holes;
}

#define OF_NODES                                                        \
    (TB_IF_NODES | TB_IF_MESH | TB_IF_RING | TB_IF_LINE | TB_IF_ALONE | \
     TB_IF_SHARED)

/* With `needs`: the choices that need some of those; else the others. */
static void try_choices(unsigned needs)
{
    const struct tb_choice *choice;
    for (size_t i = 0; (choice = tb_choice_at(i)); i++)
        if (choice->build && choice->kind < TB_COLL_NEIGHBOR_ALLGATHER &&
            (needs ? choice->needs & needs : !(choice->needs & OF_NODES)))
            try_choice(choice);
}

static void try_nodes(void)
{
    for (int n = 2; n <= 13; n++)
        for (int each = 1; each <= 3; each++)
            for (int scattered = 0; scattered < 2; scattered++)
                for (int cabling = TB_CABLING_MESH; cabling <= TB_CABLING_OTHER;
                     cabling++) {
                    make_ranks(n, 0);
                    if (make_shapes(n, each, (enum tb_cabling)cabling,
                                    scattered))
                        try_choices(OF_NODES);
                }
}

int main(void)
{
    make_types();
    CHECK_EQ(tb_handle_init(), TB_OK);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(tb_handle_new(&types[i].obj, TB_KIND_TYPE), TB_OK);
    for (int n = 1; n <= 17; n++)
        for (int remote = 0; remote <= 5; remote += 1 + remote) {
            if (remote && n > 5)
                continue;
            make_ranks(n, remote);
            try_choices(0);
        }
    try_nodes();
    tb_layout_unref(holes);
    return 0;
}
