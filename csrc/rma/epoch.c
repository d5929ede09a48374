/* SPDX-License-Identifier: MIT */
/*
 * Whether an operation may be started now, and when it is over. What an epoch
 * needs from the target is waited for by the first operation on it, not by the
 * call that begins the epoch; only memory that is mapped here has to be waited
 * for then, since the program may use it without a call.
 */
#include "rma/inside.h"

tb_err tb_rma_check_rank(const struct tb_rma *r, int rank)
{
    if ((unsigned)rank < (unsigned)r->n || rank == MPI_PROC_NULL)
        return TB_OK;
    return tb_fail(TB_ERR_RANK, "target rank %d is not in 0..%d", rank,
                   r->n - 1);
}

tb_err tb_rma_wait_until(bool (*done)(void *wait), struct tb_rma *r, int target)
{
    struct tb_rma_wait w = {.rma = r, .target = target};
    return tb_engine_wait_until(r->engine, done, &w);
}

/* ------------------------------------------------------------------- access */

static bool has_posted(void *arg)
{
    const struct tb_rma_wait *w = arg;
    const struct tb_rma_target *t = &w->rma->targets[w->target];
    return t->met || t->posts > 0;
}

static bool is_granted(void *arg)
{
    const struct tb_rma_wait *w = arg;
    return w->rma->targets[w->target].granted;
}

tb_err tb_rma_meet(struct tb_rma *r, int target)
{
    struct tb_rma_target *t = &r->targets[target];
    if (r->nocheck || t->met)
        return TB_OK;
    TB_TRY(tb_rma_wait_until(has_posted, r, target));
    if (!t->met) {
        t->met = true;
        t->posts--;
    }
    return TB_OK;
}

tb_err tb_rma_ask_lock(struct tb_rma *r, int target, bool exclusive)
{
    struct tb_rma_target *t = &r->targets[target];
    unsigned flags =
        (exclusive ? TB_RMA_EXCLUSIVE : 0) | (t->direct ? TB_RMA_TELL : 0);
    t->asked_for = true;
    t->granted = false;
    if (target != r->rank)
        return tb_rma_say(r, target, TB_RMA_LOCK, flags);
    tb_rma_lock_ask(r, target, exclusive, true);
    return TB_OK;
}

tb_err tb_rma_await_lock(struct tb_rma *r, int target)
{
    const struct tb_rma_target *t = &r->targets[target];
    if (!t->direct || !t->asked_for || t->granted)
        return TB_OK;
    return tb_rma_wait_until(is_granted, r, target);
}

static tb_err no_epoch(int target)
{
    return tb_fail(TB_ERR_RMA_SYNC,
                   "no epoch lets this process access rank %d: call "
                   "MPI_Win_fence, MPI_Win_start or MPI_Win_lock first",
                   target);
}

tb_err tb_rma_ready(struct tb_rma *r, int target)
{
    struct tb_rma_target *t = &r->targets[target];
    switch (r->access) {
    case TB_RMA_FENCED:
        r->used = true;
        return TB_OK;
    case TB_RMA_STARTED:
        return t->started ? tb_rma_meet(r, target) : no_epoch(target);
    case TB_RMA_LOCKED:
        return t->lock ? TB_OK : no_epoch(target);
    case TB_RMA_LOCKED_ALL:
        if (!r->nocheck && !t->asked_for)
            TB_TRY(tb_rma_ask_lock(r, target, false));
        return tb_rma_await_lock(r, target);
    default:
        return no_epoch(target);
    }
}

/* ----------------------------------------------------------------- flushing */

static bool is_here(const struct tb_rma_target *t)
{
    return t->pending == 0;
}

static bool is_there(const struct tb_rma_target *t)
{
    return is_here(t) && t->answered == t->asked;
}

static bool all_are(const struct tb_rma_wait *w,
                    bool (*is)(const struct tb_rma_target *))
{
    if (w->target >= 0)
        return is(&w->rma->targets[w->target]);
    for (int i = 0; i < w->rma->n; i++)
        if (!is(&w->rma->targets[i]))
            return false;
    return true;
}

static bool all_here(void *arg)
{
    return all_are(arg, is_here);
}

static bool all_there(void *arg)
{
    return all_are(arg, is_there);
}

/* What went wrong at the target since this was asked last. */
static tb_err take_error(struct tb_rma *r, int target)
{
    tb_err err = TB_OK;
    for (int i = target < 0 ? 0 : target; i < r->n; i++) {
        struct tb_rma_target *t = &r->targets[i];
        if (t->err && !err)
            err = tb_fail(t->err, "an operation failed at rank %d: %s", i,
                          tb_err_text(t->err));
        t->err = TB_OK;
        if (target >= 0)
            break;
    }
    return err;
}

/* A flush that has nothing to wait for may be all that a loop does: others
 * want to be served, and to run. */
static tb_err wait_all(struct tb_rma *r, int target, bool (*done)(void *))
{
    struct tb_rma_wait w = {.rma = r, .target = target};
    atomic_thread_fence(memory_order_seq_cst);
    if (!done(&w))
        TB_TRY(tb_rma_wait_until(done, r, target));
    else if (!tb_engine_poll(r->engine))
        TB_TRY(tb_engine_tested(r->engine));
    return take_error(r, target);
}

tb_err tb_rma_flush_local(struct tb_rma *r, int target)
{
    return wait_all(r, target, all_here);
}

tb_err tb_rma_flush(struct tb_rma *r, int target)
{
    for (int i = target < 0 ? 0 : target; i < r->n; i++) {
        struct tb_rma_target *t = &r->targets[i];
        if (t->dirty) {
            TB_TRY(tb_rma_say(r, i, TB_RMA_FLUSH, 0));
            t->asked++;
            t->dirty = false;
        }
        if (target >= 0)
            break;
    }
    return wait_all(r, target, all_there);
}

/* Asks for what tb_rma_flush then waits for. */
tb_err tb_rma_unlock(struct tb_rma *r, int target)
{
    struct tb_rma_target *t = &r->targets[target];
    if (!t->asked_for)
        return TB_OK;
    t->asked_for = false;
    t->granted = false;
    if (target == r->rank) {
        atomic_thread_fence(memory_order_seq_cst);
        tb_rma_lock_give_back(r, target);
        return TB_OK;
    }
    TB_TRY(tb_rma_say(r, target, TB_RMA_UNLOCK, 0));
    t->asked++;
    t->dirty = false;
    return TB_OK;
}
