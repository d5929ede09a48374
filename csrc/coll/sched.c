/* SPDX-License-Identifier: MIT */
#include "coll/sched.h"

#include <string.h>

#include "coll/scratch.h"
#include "mpi/world.h"

/* Persistent schedules have the upper half of the tags. */
#define TAG_MASK 0x3fffffff
#define TAG_PERSISTENT 0x40000000

/* A layout made for this schedule alone; lies in its scratch memory. */
struct tb_adopted {
    struct tb_adopted *next;
    struct tb_layout *layout;
};

static struct tb_pool schedules;

/* ------------------------------------------------------------------- life */

static void open_way(struct tb_sched *s, enum tb_way way, struct tb_comm *c,
                     bool persistent)
{
    uint32_t seq = c->coll_seq++ & TAG_MASK;
    s->ways[way].context = c->coll;
    s->ways[way].self = c->rank;
    s->ways[way].tag = (int)(persistent ? seq | TAG_PERSISTENT : seq);
}

void tb_sched_init(struct tb_sched *s, struct tb_comm *comm, bool persistent)
{
    memset(s, 0, offsetof(struct tb_sched, few));
    s->engine = tb_world.engine;
    s->comm = comm;
    s->steps = s->few;
    s->room = TB_STEPS_INLINE;
    open_way(s, TB_WAY_MAIN, comm, persistent);
    if (comm->remote)
        open_way(s, TB_WAY_LOCAL, comm->local, persistent);
}

/* Whatever the program may free while the schedule still needs it. */
static void hold(struct tb_sched *s)
{
    s->lasting = true;
    tb_comm_ref(s->comm);
    if (s->op) {
        tb_type_ref(s->type);
        tb_op_ref(s->op);
    }
    for (int i = 0; i < s->n; i++) {
        if (s->steps[i].layout)
            tb_layout_ref(s->steps[i].layout);
        if (s->steps[i].to_layout)
            tb_layout_ref(s->steps[i].to_layout);
    }
}

static void release(struct tb_sched *s)
{
    for (int i = 0; i < s->n; i++) {
        if (s->steps[i].layout)
            tb_layout_unref(s->steps[i].layout);
        if (s->steps[i].to_layout)
            tb_layout_unref(s->steps[i].to_layout);
    }
    if (s->op) {
        tb_op_unref(s->op);
        tb_type_unref(s->type);
    }
    tb_comm_unref(s->comm);
}

void tb_sched_fini(struct tb_sched *s)
{
    if (s->lasting)
        release(s);
    for (struct tb_adopted *a = s->adopted; a; a = a->next)
        tb_layout_unref(a->layout);
    while (s->scratch && !s->abandoned) {
        struct tb_scratch *block = s->scratch;
        s->scratch = block->next;
        tb_scratch_put(block);
    }
    if (s->steps != s->few)
        tb_free(s->steps);
}

tb_err tb_sched_new(struct tb_sched **out, struct tb_comm *comm,
                    bool persistent)
{
    if (!schedules.size)
        tb_pool_init(&schedules, sizeof(struct tb_sched));
    struct tb_sched *s = tb_pool_get(&schedules);
    if (!s)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a collective operation");
    tb_sched_init(s, comm, persistent);
    *out = s;
    return TB_OK;
}

static void discard(struct tb_sched *s)
{
    tb_sched_fini(s);
    tb_pool_put(&schedules, s);
}

void tb_sched_cleanup(void)
{
    tb_scratch_drop();
    if (schedules.size)
        tb_pool_fini(&schedules);
    schedules = (struct tb_pool){0};
}

/* ---------------------------------------------------------------- building */

void tb_sched_fail(struct tb_sched *s, tb_err err)
{
    if (!s->err)
        s->err = err;
}

static struct tb_step *add(struct tb_sched *s, enum tb_step_kind kind)
{
    static struct tb_step nowhere; /* what follows a failure goes here */
    if (s->n == s->room) {
        size_t bytes = (size_t)s->room * 2 * sizeof *s->steps;
        struct tb_step *more =
            tb_realloc(s->steps == s->few ? NULL : s->steps, bytes);
        if (!more) {
            tb_sched_fail(s, tb_fail(TB_ERR_NO_MEM,
                                     "no memory for a collective operation"));
            return &nowhere;
        }
        if (s->steps == s->few)
            memcpy(more, s->few, sizeof s->few);
        s->steps = more;
        s->room *= 2;
    }
    struct tb_step *step = &s->steps[s->n++];
    *step = (struct tb_step){.kind = (uint8_t)kind};
    return step;
}

static void message(struct tb_sched *s, enum tb_step_kind kind,
                    const struct tb_team *t, int peer, struct tb_part what)
{
    struct tb_step *step = add(s, kind);
    step->way = (uint8_t)t->way;
    step->peer = tb_team_rank(t, peer);
    step->to = what.buf;
    step->count = what.count;
    step->layout = what.layout;
}

void tb_sched_send(struct tb_sched *s, const struct tb_team *t, int peer,
                   struct tb_part what)
{
    if (tb_part_bytes(what))
        message(s, TB_STEP_SEND, t, peer, what);
}

void tb_sched_recv(struct tb_sched *s, const struct tb_team *t, int peer,
                   struct tb_part what)
{
    if (tb_part_bytes(what))
        message(s, TB_STEP_RECV, t, peer, what);
}

static const struct tb_part nothing = {.layout = &tb_layout_byte};

void tb_sched_signal(struct tb_sched *s, const struct tb_team *t, int peer)
{
    message(s, TB_STEP_SEND, t, peer, nothing);
}

void tb_sched_await(struct tb_sched *s, const struct tb_team *t, int peer)
{
    message(s, TB_STEP_RECV, t, peer, nothing);
}

void tb_sched_copy(struct tb_sched *s, struct tb_part from, struct tb_part to)
{
    if (!tb_part_bytes(from) && !tb_part_bytes(to))
        return;
    struct tb_step *step = add(s, TB_STEP_COPY);
    step->from = from.buf;
    step->count = from.count;
    step->layout = from.layout;
    step->to = to.buf;
    step->to_count = to.count;
    step->to_layout = to.layout;
}

void tb_sched_reduce(struct tb_sched *s, const void *in, void *inout,
                     int64_t count)
{
    if (!count)
        return;
    struct tb_step *step = add(s, TB_STEP_REDUCE);
    step->from = in;
    step->to = inout;
    step->count = count;
}

void tb_sched_direct(struct tb_sched *s, const struct tb_call *call,
                     enum tb_direct_how how)
{
    struct tb_direct *d = tb_sched_bytes(s, sizeof *d);
    struct tb_call *copy = tb_sched_bytes(s, sizeof *copy);
    if (!d || !copy)
        return;
    *copy = *call;
    tb_direct_init(d, copy, how);
    struct tb_step *step = add(s, TB_STEP_DIRECT);
    step->to = d;
    step->layout = call->send.layout;
    step->to_layout = call->recv.layout;
}

void tb_sched_round(struct tb_sched *s)
{
    if (s->n > s->at)
        s->steps[s->n - 1].ends_round = true;
    s->at = s->n;
}

void *tb_sched_bytes(struct tb_sched *s, int64_t bytes)
{
    size_t need = tb_round_up((size_t)bytes, 16);
    if (need <= TB_SCRATCH_INLINE - s->scratch_used) {
        void *p = s->small + s->scratch_used;
        s->scratch_used += need;
        return p;
    }
    struct tb_scratch *block = tb_scratch_get(need);
    if (!block) {
        tb_sched_fail(s, tb_fail(TB_ERR_NO_MEM,
                                 "no memory for the %lld bytes that a "
                                 "collective operation needs in between",
                                 (long long)bytes));
        return NULL;
    }
    block->next = s->scratch;
    s->scratch = block;
    return block->data;
}

void *tb_sched_elements(struct tb_sched *s, const struct tb_layout *layout,
                        int64_t count)
{
    if (!count)
        return NULL;
    int64_t last = (count - 1) * layout->extent;
    int64_t low = layout->true_lb + TB_MIN(last, 0);
    int64_t high = layout->true_ub + TB_MAX(last, 0);
    void *p = tb_sched_bytes(s, high - low);
    return p ? tb_at(p, -low) : NULL;
}

void tb_sched_adopt(struct tb_sched *s, struct tb_layout *layout)
{
    struct tb_adopted *a = tb_sched_bytes(s, sizeof *a);
    if (!a) {
        tb_layout_unref(layout);
        return;
    }
    a->layout = layout;
    a->next = s->adopted;
    s->adopted = a;
}

/* ----------------------------------------------------------------- running */

/* After these the data is wrong but the schedule goes on, so that no other
 * rank waits in vain. */
static bool is_survivable(tb_err err)
{
    return err == TB_ERR_TRUNCATE || err == TB_ERR_NOT_SAME;
}

static void note_error(struct tb_sched *s, tb_err err)
{
    if (!s->err)
        s->err = err;
    if (!is_survivable(err))
        s->broken = true;
}

static void copy(struct tb_sched *s, const struct tb_step *step)
{
    struct tb_part from = {(void *)(uintptr_t)step->from, step->count,
                           step->layout};
    struct tb_part to = {step->to, step->to_count, step->to_layout};
    tb_err err = tb_part_copy(from, to);
    if (err)
        note_error(s, err);
}

/* Whether the round has nothing more to wait for, or a failure has to be
 * dealt with. */
static bool is_settled(void *arg)
{
    const struct tb_sched *s = arg;
    return !s->open || (s->broken && !s->withdrawn);
}

static void on_inner_done(struct tb_req *req)
{
    struct tb_sched *s = req->owner;
    s->open--;
    if (req->result.err && !is_survivable(req->result.err))
        s->broken = true;
    if (s->req && is_settled(s))
        tb_engine_post(s->engine, &s->task);
}

static tb_err start_message(struct tb_sched *s, struct tb_step *step)
{
    if (step->kind == TB_STEP_SEND) {
        struct tb_send_args args = {
            .context = s->ways[step->way].context,
            .buf = step->to,
            .layout = step->layout,
            .count = step->count,
            .dest = step->peer,
            .source = s->ways[step->way].self,
            .tag = s->ways[step->way].tag,
            .mode = TB_SEND_STANDARD,
        };
        return tb_engine_send(s->engine, &args, true, &step->req);
    }
    struct tb_recv_args args = {
        .context = s->ways[step->way].context,
        .buf = step->to,
        .layout = step->layout,
        .count = step->count,
        .source = step->peer,
        .tag = s->ways[step->way].tag,
    };
    return tb_engine_recv(s->engine, &args, &step->req);
}

static void start_step(struct tb_sched *s, struct tb_step *step)
{
    if (step->kind == TB_STEP_COPY) {
        copy(s, step);
    } else if (step->kind == TB_STEP_DIRECT) {
        tb_direct_advance(step->to);
    } else if (step->kind == TB_STEP_REDUCE) {
        tb_op_apply(s->op, step->from, step->to, step->count, s->type);
    } else {
        tb_err err = start_message(s, step);
        if (err) {
            step->req = NULL;
            note_error(s, err);
        }
    }
}

static void on_direct_done(struct tb_direct *d)
{
    struct tb_sched *s = d->owner;
    s->open--;
    if (s->req && is_settled(s))
        tb_engine_post(s->engine, &s->task);
}

/* Counts the step if it has not ended. */
static void expect_end(struct tb_sched *s, struct tb_step *step)
{
    struct tb_req *req = step->req;
    if (step->kind == TB_STEP_DIRECT) {
        struct tb_direct *d = step->to;
        if (d->done)
            return;
        d->owner = s;
        d->on_done = on_direct_done;
        tb_direct_watch(d);
        s->open++;
    } else if (req && !req->done) {
        req->owner = s;
        req->on_done = on_inner_done;
        s->open++;
    }
}

/*
 * Requests report their end only once the whole round is started: a message to
 * this very rank may end a receive of the same round that was posted before.
 */
static void start_round(struct tb_sched *s)
{
    bool is_last = false;
    while (s->at < s->n && !is_last && !s->broken) {
        struct tb_step *step = &s->steps[s->at++];
        is_last = step->ends_round;
        start_step(s, step);
    }
    for (int i = s->round; i < s->at; i++)
        expect_end(s, &s->steps[i]);
}

static void collect(struct tb_sched *s, const struct tb_step *step)
{
    const struct tb_result *r = &step->req->result;
    long long want = (long long)(step->count * step->layout->size);
    if (r->err == TB_ERR_TRUNCATE)
        note_error(s, tb_fail(TB_ERR_TRUNCATE,
                              "rank %d sent more than the %lld bytes expected "
                              "from it: counts and datatypes must agree "
                              "between ranks",
                              step->peer, want));
    else if (r->err)
        note_error(s, r->err);
    else if (step->kind == TB_STEP_RECV && !r->cancelled && r->bytes != want)
        note_error(s, tb_fail(TB_ERR_NOT_SAME,
                              "rank %d sent %lld bytes where %lld are "
                              "expected: counts and datatypes must agree "
                              "between ranks",
                              step->peer, (long long)r->bytes, want));
}

static void finish_round(struct tb_sched *s)
{
    for (; s->round < s->at; s->round++) {
        struct tb_step *step = &s->steps[s->round];
        if (step->kind == TB_STEP_DIRECT) {
            const struct tb_direct *d = step->to;
            if (d->err)
                note_error(s, d->err);
        }
        if (!step->req)
            continue;
        collect(s, step);
        tb_req_free(step->req);
        step->req = NULL;
    }
}

/* Takes back what can be taken back, so that the rest of the round ends soon
 * and nothing uses the buffers any more. */
static void withdraw(struct tb_sched *s)
{
    s->withdrawn = true;
    for (int i = s->round; i < s->at; i++)
        if (s->steps[i].req && !s->steps[i].req->done)
            tb_engine_cancel(s->steps[i].req);
}

/* Goes as far as it can without waiting; true: the schedule has ended. */
static bool drive(struct tb_sched *s)
{
    for (;;) {
        if (s->broken && s->open && !s->withdrawn)
            withdraw(s);
        if (s->open)
            return false;
        finish_round(s);
        if (s->broken || s->at == s->n)
            return true;
        start_round(s);
    }
}

static void rewind(struct tb_sched *s)
{
    s->at = s->round = 0;
    s->broken = s->withdrawn = false;
}

/* No progress is possible any more: the process is about to end. */
static void abandon(struct tb_sched *s, tb_err err)
{
    s->err = err;
    s->abandoned = true;
    for (; s->round < s->at; s->round++) {
        struct tb_req *req = s->steps[s->round].req;
        if (!req)
            continue;
        req->on_done = NULL;
        if (!req->done)
            tb_engine_cancel(req);
        tb_req_free(req);
    }
}

tb_err tb_sched_run(struct tb_sched *s)
{
    if (s->err)
        return s->err;
    rewind(s);
    while (!drive(s)) {
        tb_err err = tb_engine_wait_until(s->engine, is_settled, s);
        if (err) {
            abandon(s, err);
            break;
        }
    }
    return s->err;
}

/* --------------------------------------------------- without waiting for it */

static void end(struct tb_sched *s)
{
    struct tb_req *req = s->req;
    tb_err err = s->err;
    s->req = NULL;
    if (!s->more.persistent)
        discard(s);
    tb_req_finish(req, err);
}

/* While it is driven, s->req is NULL: ends of messages need not tell. */
static void proceed(struct tb_sched *s, struct tb_req *req)
{
    s->req = NULL;
    bool has_ended = drive(s);
    s->req = req;
    if (has_ended)
        end(s);
}

static void go_on(struct tb_task *task)
{
    struct tb_sched *s = TB_CONTAINER(task, struct tb_sched, task);
    proceed(s, s->req);
}

static void start(struct tb_sched *s, struct tb_req *req)
{
    s->task.run = go_on;
    rewind(s);
    proceed(s, req);
}

tb_err tb_sched_begin(struct tb_sched *s, struct tb_req **out)
{
    struct tb_req *req;
    tb_err err = s->err ? s->err : tb_req_task(s->engine, &req);
    if (err) {
        discard(s);
        return err;
    }
    hold(s);
    *out = req;
    start(s, req);
    return TB_OK;
}

static tb_err start_again(struct tb_req *req)
{
    struct tb_sched *s = TB_CONTAINER(req->more, struct tb_sched, more);
    s->err = TB_OK;
    start(s, req);
    return TB_OK;
}

static tb_err free_persistent(struct tb_req *req)
{
    discard(TB_CONTAINER(req->more, struct tb_sched, more));
    return TB_OK;
}

static const struct tb_more_ops persistent_ops = {
    .start = start_again,
    .free = free_persistent,
};

tb_err tb_sched_prepare(struct tb_sched *s, struct tb_req **out)
{
    struct tb_req *req;
    tb_err err = s->err ? s->err : tb_req_task(s->engine, &req);
    if (err) {
        discard(s);
        return err;
    }
    hold(s);
    s->more.ops = &persistent_ops;
    s->more.persistent = true;
    req->more = &s->more;
    *out = req;
    return TB_OK;
}
