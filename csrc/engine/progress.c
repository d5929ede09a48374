/* SPDX-License-Identifier: MIT */
/*
 * Progress: polling, the rest of the work, waiting, threads.
 *
 * One thread at a time holds the progress baton (`polling`). The others that
 * wait sleep on a condition of their own and are woken when what they wait for
 * has come, or when the baton is free.
 */
#include "engine/internal.h"

#include <stdio.h>

/* ---------------------------------------------------------------- polling */

static void flush_stalled(struct tb_engine *e)
{
    struct tb_peer *p = e->stalled;
    e->stalled = NULL;
    while (p) {
        struct tb_peer *next = p->next_stalled;
        p->stalled = false;
        tb_peer_flush(e, p);
        if (!tb_list_empty(&p->outbox) || !tb_list_empty(&p->sends))
            tb_peer_stall(e, p);
        p = next;
    }
}

static bool push_streams(struct tb_engine *e)
{
    bool moved = false;
    for (struct tb_list *l = e->streams.next; l != &e->streams;) {
        struct tb_req *req = TB_CONTAINER(l, struct tb_req, link);
        l = l->next;
        moved |= tb_stream_push(e, req);
    }
    return moved;
}

/* One piece of the oldest pull, then on to the next: long messages share. */
static bool pull(struct tb_engine *e)
{
    if (tb_list_empty(&e->pulls))
        return false;
    struct tb_req *req = TB_CONTAINER(e->pulls.next, struct tb_req, link);
    tb_list_remove(&req->link);
    tb_list_append(&e->pulls, &req->link);
    tb_pull_some(e, req);
    return true;
}

static bool run_tasks(struct tb_engine *e)
{
    bool ran = false;
    while (!tb_list_empty(&e->tasks)) {
        struct tb_task *t = TB_CONTAINER(e->tasks.next, struct tb_task, link);
        tb_list_remove(&t->link);
        t->posted = false;
        t->run(t);
        ran = true;
    }
    return ran;
}

static bool poll_watches(struct tb_engine *e)
{
    bool any = false;
    for (struct tb_list *l = e->watches.next; l != &e->watches;) {
        struct tb_watch *w = TB_CONTAINER(l, struct tb_watch, link);
        struct tb_list *next = l->next;
        tb_list_remove(l);
        if (w->poll(w))
            any = true;
        else
            tb_list_append(next, l);
        l = next;
    }
    return any;
}

static bool has_work(const struct tb_engine *e)
{
    return e->stalled || !tb_list_empty(&e->streams) ||
           !tb_list_empty(&e->pulls) || !tb_list_empty(&e->tasks) ||
           !tb_list_empty(&e->watches);
}

bool tb_engine_settled(const struct tb_engine *e)
{
    return !e->stalled && tb_list_empty(&e->streams) &&
           tb_list_empty(&e->pulls);
}

static bool work(struct tb_engine *e)
{
    bool moved = false;
    if (e->stalled)
        flush_stalled(e);
    moved |= push_streams(e);
    moved |= pull(e);
    moved |= poll_watches(e);
    moved |= run_tasks(e);
    e->busy = has_work(e);
    return moved;
}

bool tb_engine_poll(struct tb_engine *e)
{
    bool moved = tb_net_poll(e->net) > 0;
    if (TB_UNLIKELY(e->busy))
        moved |= work(e);
    return moved;
}

void tb_engine_post(struct tb_engine *e, struct tb_task *task)
{
    if (task->posted)
        return;
    task->posted = true;
    tb_list_append(&e->tasks, &task->link);
    e->busy = true;
}

void tb_engine_watch(struct tb_engine *e, struct tb_watch *watch)
{
    tb_list_append(&e->watches, &watch->link);
    e->busy = true;
    if (TB_UNLIKELY(e->asleep))
        tb_net_wake(e->net);
}

/* The last look before sleep. */
static bool ready(void *arg)
{
    struct tb_engine *e = arg;
    return tb_net_pending(e->net) || !tb_list_empty(&e->pulls) ||
           !tb_list_empty(&e->tasks) ||
           (!tb_list_empty(&e->watches) && poll_watches(e));
}

static bool ready_locked(void *arg)
{
    struct tb_engine *e = arg;
    tb_engine_lock(e);
    bool is = ready(e);
    tb_engine_unlock(e);
    return is;
}

/* ---------------------------------------------------------------- waiting */

static void wake_done(struct tb_engine *e)
{
    for (struct tb_list *l = e->waiters.next; l != &e->waiters; l = l->next) {
        struct tb_waiter *w = TB_CONTAINER(l, struct tb_waiter, link);
        if (w->done(w->arg))
            pthread_cond_signal(&w->wake);
    }
}

/* Idles once. The lock is free meanwhile, so that other threads may start
 * operations; what they or a watch have completed is told to those who wait. */
static tb_err idle(struct tb_engine *e, unsigned *count)
{
    ++*count;
    if (TB_LIKELY(!e->threaded))
        return tb_net_idle(e->net, *count, ready, e);
    e->asleep = true;
    tb_engine_unlock(e);
    tb_err err = tb_net_idle(e->net, *count, ready_locked, e);
    while (atomic_load_explicit(&e->contenders, memory_order_relaxed) > 0)
        tb_yield();
    tb_engine_lock(e);
    e->asleep = false;
    wake_done(e);
    return err;
}

/* The baton lies on the ground: wakes one who may take it up. */
static void offer_baton(struct tb_engine *e)
{
    if (e->polling || tb_list_empty(&e->waiters))
        return;
    struct tb_waiter *w = TB_CONTAINER(e->waiters.next, struct tb_waiter, link);
    pthread_cond_signal(&w->wake);
}

/* Waits until the baton is free or `done`; another thread makes progress. */
static void wait_for_baton(struct tb_engine *e, bool (*done)(void *), void *arg)
{
    struct tb_waiter w = {.done = done, .arg = arg};
    pthread_cond_init(&w.wake, NULL);
    tb_list_append(&e->waiters, &w.link);
    while (e->polling && !done(arg))
        pthread_cond_wait(&w.wake, &e->lock);
    tb_list_remove(&w.link);
    pthread_cond_destroy(&w.wake);
    /* One that is done goes without it: it was perhaps the only one woken. */
    offer_baton(e);
}

static tb_err wait_threaded(struct tb_engine *e, bool (*done)(void *),
                            void *arg)
{
    unsigned count = 0;
    tb_err err = TB_OK;
    while (!done(arg) && !err) {
        if (e->polling) {
            wait_for_baton(e, done, arg);
            continue;
        }
        e->polling = true;
        while (!done(arg) && !err) {
            if (tb_engine_poll(e)) {
                count = 0;
                wake_done(e);
            } else {
                err = tb_fatal(e);
                if (!err)
                    err = idle(e, &count);
            }
        }
        e->polling = false;
        offer_baton(e);
    }
    return err;
}

tb_err tb_engine_wait_until(struct tb_engine *e, bool (*done)(void *arg),
                            void *arg)
{
    unsigned count = 0;
    e->tested = 0;
    if (TB_UNLIKELY(e->threaded))
        return wait_threaded(e, done, arg);
    while (!done(arg)) {
        if (tb_engine_poll(e)) {
            count = 0;
            continue;
        }
        TB_TRY(tb_fatal(e));
        TB_TRY(idle(e, &count));
    }
    e->note->since = 0;
    return TB_OK;
}

static bool is_done(void *arg)
{
    return ((const struct tb_req *)arg)->done;
}

/* Whom and what the job board says this rank waits for. */
static void note_wait(struct tb_engine *e, const struct tb_req *req)
{
    if (req->kind == TB_REQ_TASK) {
        e->note->peer = TB_PEER_NONE;
        return;
    }
    e->note->peer = req->kind == TB_REQ_SEND ? req->peer : req->source;
    e->note->tag = req->tag;
}

tb_err tb_engine_wait(struct tb_engine *e, struct tb_req *req)
{
    /* Most waits are short: a few polls before the general way. */
    if (TB_LIKELY(!e->threaded))
        for (int i = 0; i < 4; i++) {
            if (req->done)
                return TB_OK;
            tb_engine_poll(e);
        }
    note_wait(e, req);
    return tb_engine_wait_until(e, is_done, req);
}

void tb_engine_fail(struct tb_engine *e, tb_err why)
{
    if (e->fatal)
        return;
    e->fatal = why;
    snprintf(e->fatal_why, sizeof e->fatal_why, "%s", tb_fail_note());
}

/* Twice in a row may be chance; a loop over Test is waiting, and yields as
 * waiting does, but never sleeps: the caller may have other things to do. */
tb_err tb_engine_tested(struct tb_engine *e)
{
    if (++e->tested % 16 == 0 || tb_net_crowded(e->net))
        tb_yield();
    return tb_fatal(e);
}

/* ---------------------------------------------------------------- threads */

void tb_engine_threaded(struct tb_engine *e)
{
    e->threaded = true;
}

void tb_engine_lock(struct tb_engine *e)
{
    atomic_fetch_add_explicit(&e->contenders, 1, memory_order_relaxed);
    pthread_mutex_lock(&e->lock);
    atomic_fetch_sub_explicit(&e->contenders, 1, memory_order_relaxed);
}

void tb_engine_unlock(struct tb_engine *e)
{
    pthread_mutex_unlock(&e->lock);
}
