/* SPDX-License-Identifier: MIT */
/* The MPI calls that begin, end and divide epochs. */
#include "rma/inside.h"

#include "coll/coll.h"

#define FENCE_ASSERTS                                         \
    (MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | \
     MPI_MODE_NOSUCCEED)
#define POST_ASSERTS (MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)

static tb_err check_assert(int given, int allowed, const char *names)
{
    if (given & ~allowed)
        return tb_fail(TB_ERR_ASSERT, "assert is %d: only %s may be given",
                       given, names);
    return TB_OK;
}

static const char *const epoch_names[] = {
    [TB_RMA_FENCED] = "MPI_Win_fence",
    [TB_RMA_STARTED] = "MPI_Win_start",
    [TB_RMA_LOCKED] = "MPI_Win_lock",
    [TB_RMA_LOCKED_ALL] = "MPI_Win_lock_all",
};

/* Another epoch may begin: none is open, or one between fences that nobody has
 * used. */
static tb_err need_none(const struct tb_rma *r)
{
    if (r->access == TB_RMA_NO_ACCESS ||
        (r->access == TB_RMA_FENCED && !r->used))
        return TB_OK;
    return tb_fail(TB_ERR_RMA_SYNC, "the epoch of %s is still open",
                   epoch_names[r->access]);
}

static tb_err need(const struct tb_rma *r, enum tb_rma_access access)
{
    if (r->access == access)
        return TB_OK;
    return tb_fail(TB_ERR_RMA_SYNC, "no epoch of %s is open",
                   epoch_names[access]);
}

static tb_err need_not_posted(const struct tb_rma *r)
{
    if (!r->posted)
        return TB_OK;
    return tb_fail(TB_ERR_RMA_SYNC, "the epoch of MPI_Win_post is still open: "
                                    "call MPI_Win_wait first");
}

tb_err tb_rma_may_close(const struct tb_rma *r)
{
    TB_TRY(need_not_posted(r));
    return need_none(r);
}

/* -------------------------------------------------------------------- fence */

tb_err tb_win_fence(int assert, struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    TB_TRY(check_assert(assert, FENCE_ASSERTS,
                        "MPI_MODE_NOSTORE, NOPUT, NOPRECEDE and NOSUCCEED"));
    TB_TRY(need_not_posted(r));
    if (r->access != TB_RMA_FENCED)
        TB_TRY(need_none(r));
    tb_err err = tb_rma_flush(r, -1);
    TB_TRY(tb_coll_barrier(r->comm));
    r->access = assert &MPI_MODE_NOSUCCEED ? TB_RMA_NO_ACCESS : TB_RMA_FENCED;
    r->used = false;
    return err;
}

/* ------------------------------------------- post, start, complete, wait */

/* The member's rank in the window. */
static tb_err find_member(const struct tb_rma *r, const struct tb_group *group,
                          int i, int *rank)
{
    *rank = tb_group_find(r->comm->group, group->ranks[i]);
    if (*rank != MPI_UNDEFINED)
        return TB_OK;
    return tb_fail(TB_ERR_GROUP,
                   "member %d of the group is not in the window's", i);
}

tb_err tb_win_post(struct tb_group *group, int assert, struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    int rank;
    TB_TRY(check_assert(assert, POST_ASSERTS,
                        "MPI_MODE_NOCHECK, NOSTORE and NOPUT"));
    TB_TRY(need_not_posted(r));
    if (r->access == TB_RMA_FENCED)
        TB_TRY(need_none(r));
    for (int i = 0; i < group->size; i++)
        TB_TRY(find_member(r, group, i, &rank));
    atomic_thread_fence(memory_order_seq_cst);
    r->posted = true;
    r->expected = group->size;
    for (int i = 0; !(assert &MPI_MODE_NOCHECK) && i < group->size; i++) {
        TB_TRY(find_member(r, group, i, &rank));
        if (rank == r->rank)
            r->targets[rank].posts++;
        else
            TB_TRY(tb_rma_answer(r, rank, TB_RMA_POSTED, TB_OK));
    }
    return TB_OK;
}

tb_err tb_win_start(struct tb_group *group, int assert, struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    int rank;
    TB_TRY(check_assert(assert, MPI_MODE_NOCHECK, "MPI_MODE_NOCHECK"));
    TB_TRY(need_none(r));
    for (int i = 0; i < group->size; i++)
        TB_TRY(find_member(r, group, i, &rank));
    r->access = TB_RMA_STARTED;
    r->nocheck = assert &MPI_MODE_NOCHECK;
    for (int i = 0; i < group->size; i++) {
        TB_TRY(find_member(r, group, i, &rank));
        r->targets[rank].started = true;
        r->targets[rank].met = false;
    }
    return TB_OK;
}

/* The target counts this message behind the operations before it. */
static tb_err complete_one(struct tb_rma *r, int target)
{
    struct tb_rma_target *t = &r->targets[target];
    TB_TRY(tb_rma_meet(r, target));
    t->started = false;
    t->dirty = false;
    if (target != r->rank)
        return tb_rma_say(r, target, TB_RMA_COMPLETE, 0);
    r->completed++;
    return TB_OK;
}

tb_err tb_win_complete(struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    TB_TRY(need(r, TB_RMA_STARTED));
    for (int i = 0; i < r->n; i++)
        if (r->targets[i].started)
            TB_TRY(complete_one(r, i));
    r->access = TB_RMA_NO_ACCESS;
    r->nocheck = false;
    return tb_rma_flush_local(r, -1);
}

static bool all_completed(void *arg)
{
    const struct tb_rma_wait *w = arg;
    return w->rma->completed >= w->rma->expected;
}

static tb_err need_posted(const struct tb_rma *r)
{
    if (r->posted)
        return TB_OK;
    return tb_fail(TB_ERR_RMA_SYNC, "no epoch of MPI_Win_post is open");
}

static void end_exposure(struct tb_rma *r)
{
    r->completed -= r->expected;
    r->posted = false;
    r->expected = 0;
    atomic_thread_fence(memory_order_seq_cst);
}

tb_err tb_win_wait(struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    TB_TRY(need_posted(r));
    TB_TRY(tb_rma_wait_until(all_completed, r, -1));
    end_exposure(r);
    return TB_OK;
}

tb_err tb_win_test(struct tb_win *win, int *flag)
{
    struct tb_rma *r = win->rma;
    struct tb_rma_wait w = {.rma = r};
    TB_TRY(need_posted(r));
    tb_engine_poll(r->engine);
    *flag = all_completed(&w);
    if (*flag)
        end_exposure(r);
    else
        return tb_engine_tested(r->engine);
    return TB_OK;
}

/* -------------------------------------------------------------------- locks */

static tb_err check_lock(const struct tb_rma *r, int type, int rank)
{
    if (type != MPI_LOCK_SHARED && type != MPI_LOCK_EXCLUSIVE)
        return tb_fail(TB_ERR_LOCKTYPE,
                       "lock_type is %d: it must be MPI_LOCK_SHARED or "
                       "MPI_LOCK_EXCLUSIVE",
                       type);
    TB_TRY(tb_rma_check_rank(r, rank));
    if (r->access != TB_RMA_LOCKED)
        return need_none(r);
    if (rank != MPI_PROC_NULL && r->targets[rank].lock)
        return tb_fail(TB_ERR_RMA_SYNC,
                       "rank %d is locked by this process already", rank);
    return TB_OK;
}

tb_err tb_win_lock(int lock_type, int rank, int assert, struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    bool exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
    TB_TRY(check_lock(r, lock_type, rank));
    TB_TRY(check_assert(assert, MPI_MODE_NOCHECK, "MPI_MODE_NOCHECK"));
    if (rank == MPI_PROC_NULL)
        return TB_OK;
    r->targets[rank].lock = exclusive ? TB_RMA_EXCLUSIVELY : TB_RMA_SHARED;
    r->access = TB_RMA_LOCKED;
    r->locked++;
    if (assert & MPI_MODE_NOCHECK)
        return TB_OK;
    TB_TRY(tb_rma_ask_lock(r, rank, exclusive));
    return tb_rma_await_lock(r, rank);
}

tb_err tb_win_unlock(int rank, struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    TB_TRY(tb_rma_check_rank(r, rank));
    if (rank == MPI_PROC_NULL)
        return TB_OK;
    TB_TRY(need(r, TB_RMA_LOCKED));
    if (!r->targets[rank].lock)
        return tb_fail(TB_ERR_RMA_SYNC, "rank %d is not locked", rank);
    TB_TRY(tb_rma_unlock(r, rank));
    r->targets[rank].lock = TB_RMA_UNLOCKED;
    if (--r->locked == 0)
        r->access = TB_RMA_NO_ACCESS;
    return tb_rma_flush(r, rank);
}

tb_err tb_win_lock_all(int assert, struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    TB_TRY(check_assert(assert, MPI_MODE_NOCHECK, "MPI_MODE_NOCHECK"));
    TB_TRY(need_none(r));
    r->access = TB_RMA_LOCKED_ALL;
    r->nocheck = assert &MPI_MODE_NOCHECK;
    if (r->nocheck)
        return TB_OK;
    for (int i = 0; i < r->n; i++)
        if (r->targets[i].direct)
            TB_TRY(tb_rma_ask_lock(r, i, false));
    for (int i = 0; i < r->n; i++)
        TB_TRY(tb_rma_await_lock(r, i));
    return TB_OK;
}

tb_err tb_win_unlock_all(struct tb_win *win)
{
    struct tb_rma *r = win->rma;
    TB_TRY(need(r, TB_RMA_LOCKED_ALL));
    for (int i = 0; i < r->n; i++)
        TB_TRY(tb_rma_unlock(r, i));
    r->access = TB_RMA_NO_ACCESS;
    r->nocheck = false;
    return tb_rma_flush(r, -1);
}

/* ----------------------------------------------------------------- flushing */

static tb_err need_passive(const struct tb_rma *r, int rank)
{
    if (rank >= 0)
        TB_TRY(tb_rma_check_rank(r, rank));
    if (r->access == TB_RMA_LOCKED_ALL ||
        (r->access == TB_RMA_LOCKED && (rank < 0 || r->targets[rank].lock)))
        return TB_OK;
    return tb_fail(TB_ERR_RMA_SYNC, "there is no lock that this would belong "
                                    "to: call MPI_Win_lock or "
                                    "MPI_Win_lock_all first");
}

static tb_err flush_one(struct tb_rma *r, int rank,
                        tb_err (*flush)(struct tb_rma *, int))
{
    TB_TRY(tb_rma_check_rank(r, rank));
    if (rank == MPI_PROC_NULL)
        return TB_OK;
    TB_TRY(need_passive(r, rank));
    return flush(r, rank);
}

tb_err tb_win_flush(int rank, struct tb_win *win)
{
    return flush_one(win->rma, rank, tb_rma_flush);
}

tb_err tb_win_flush_local(int rank, struct tb_win *win)
{
    return flush_one(win->rma, rank, tb_rma_flush_local);
}

tb_err tb_win_flush_all(struct tb_win *win)
{
    TB_TRY(need_passive(win->rma, -1));
    return tb_rma_flush(win->rma, -1);
}

tb_err tb_win_flush_local_all(struct tb_win *win)
{
    TB_TRY(need_passive(win->rma, -1));
    return tb_rma_flush_local(win->rma, -1);
}

/* Loads and stores on both sides of this are in order. A program may do
 * nothing but this while it waits for others, so they are served. */
tb_err tb_win_sync(struct tb_win *win)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!tb_engine_poll(win->rma->engine))
        return tb_engine_tested(win->rma->engine);
    return TB_OK;
}
