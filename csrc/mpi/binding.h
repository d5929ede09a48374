/* SPDX-License-Identifier: MIT */
/*
 * The frame of every binding: enter, take each step or leave at the first
 * error, leave. When all goes well and the process is not threaded that costs
 * two predictable branches and two stores, and calls nothing.
 */
#ifndef TB_BINDING_H
#define TB_BINDING_H

#include "mpi/api.h"
#include "mpi/request.h"
#include "mpi/world.h"

#include <limits.h>

#define TB_WEAK __attribute__((weak))

/* Marks of an operation (csrc/api/functions.txt). */
#define TB_ANYTIME 1u /* legal before MPI_Init and after MPI_Finalize */
#define TB_NOLOCK 2u  /* does not take the global lock */

/* Whose error handler a failed call invokes. */
struct tb_errctx {
    enum {
        TB_ON_NONE,    /* no object: the rule for MPI_COMM_SELF */
        TB_ON_COMM_,   /* object: struct tb_comm */
        TB_ON_WIN_,    /* struct tb_win */
        TB_ON_FILE_,   /* struct tb_file; NULL: MPI_FILE_NULL's handler */
        TB_ON_SESSION_ /* struct tb_session */
    } kind;
    void *object;
};

/* The communicator whose handler hears of errors; NULL: none. */
static inline struct tb_comm *tb_on_comm(const struct tb_errctx *on)
{
    return on->kind == TB_ON_COMM_ ? on->object : NULL;
}

/* errh.c. The call was made before MPI_Init or after MPI_Finalize: notes which
 * and returns the error. */
tb_err tb_not_ready(int call);

/* errh.c. Ends a failed call: invokes the error handler of `on` and returns the
 * MPI code for `err`. Called without the lock, since a handler may call MPI.
 * Does not return when the handler is a fatal one. */
int tb_leave(int call, const struct tb_errctx *on, tb_err err);

/* Says on the board which call this process is in. */
static inline void tb_note_call(uint32_t call)
{
    struct tb_note *note =
        atomic_load_explicit(&tb_world.note, memory_order_relaxed);
    atomic_store_explicit(&note->call, call, memory_order_relaxed);
}

/* Takes the lock if the process is threaded; whether it did. Init changes
 * that in mid-call, so the answer is kept until the end of the call. */
static inline bool tb_enter(unsigned marks, int call)
{
    if (marks & TB_NOLOCK)
        return false;
    bool locked = TB_UNLIKELY(
        atomic_load_explicit(&tb_world.threaded, memory_order_relaxed));
    if (locked) {
        /* After the engine, which another thread may have opened just now. */
        atomic_thread_fence(memory_order_acquire);
        tb_lock();
    }
    tb_note_call((uint32_t)call);
    return locked;
}

static inline void tb_exit(unsigned marks, bool locked)
{
    if (marks & TB_NOLOCK)
        return;
    tb_note_call(TB_CALL_NONE);
    if (locked)
        tb_unlock();
}

#define TB_ENTER(op, marks)                                       \
    enum { call_ = TB_CALL_##op, marks_ = (marks) };              \
    struct tb_errctx on_ = {TB_ON_NONE, NULL};                    \
    tb_err err_ = TB_OK;                                          \
    const bool locked_ = tb_enter(marks_, call_);                 \
    if (!(marks_ & TB_ANYTIME) && TB_UNLIKELY(!tb_world.ready)) { \
        err_ = tb_not_ready(call_);                               \
        goto leave_;                                              \
    }

/* One step. An error ends the call. */
#define TB_TAKE(expr)                   \
    do {                                \
        err_ = (expr);                  \
        if (TB_UNLIKELY(err_ != TB_OK)) \
            goto leave_;                \
    } while (0)

/* From here on errors go to the handler of this object. */
#define TB_ON(what, it) (on_.kind = (what), on_.object = (it))
#define TB_ON_COMM(comm) TB_ON(TB_ON_COMM_, comm)
#define TB_ON_WIN(win) TB_ON(TB_ON_WIN_, win)
#define TB_ON_FILE(file) TB_ON(TB_ON_FILE_, file)
#define TB_ON_SESSION(session) TB_ON(TB_ON_SESSION_, session)

#define TB_LEAVE()            \
    leave_:                   \
    tb_exit(marks_, locked_); \
    return TB_LIKELY(err_ == TB_OK) ? MPI_SUCCESS : tb_leave(call_, &on_, err_)

/* ------------------------------------------------------ rooted collectives */

/* Whether this process is the root. In an intercommunicator that is the one
 * that gave MPI_ROOT. */
static inline bool tb_is_root(const struct tb_comm *comm, int root)
{
    return comm->remote ? root == MPI_ROOT : root == comm->rank;
}

/* Whether it gives to or gets from the root. In an intracommunicator all do,
 * in an intercommunicator the group that does not have the root. */
static inline bool tb_is_leaf(const struct tb_comm *comm, int root)
{
    return comm->remote ? root >= 0 : true;
}

/* ---------------------------------------------- int and 64-bit parameters */

static inline struct tb_counts tb_view_int(const int *v)
{
    return (struct tb_counts){v, NULL};
}

static inline struct tb_counts tb_view_count(const MPI_Count *v)
{
    return (struct tb_counts){NULL, v};
}

static inline struct tb_counts tb_view_aint(const MPI_Aint *v)
{
    return (struct tb_counts){NULL, (const MPI_Count *)v};
}

/* Where a wide result goes: the caller's int, MPI_Aint or MPI_Count. All NULL
 * when the form of the function has no such result. */
struct tb_count_out {
    int *i;
    MPI_Aint *a;
    MPI_Count *c;
};

static inline struct tb_count_out tb_out_int(int *p)
{
    return (struct tb_count_out){p, NULL, NULL};
}

static inline struct tb_count_out tb_out_aint(MPI_Aint *p)
{
    return (struct tb_count_out){NULL, p, NULL};
}

static inline struct tb_count_out tb_out_count(MPI_Count *p)
{
    return (struct tb_count_out){NULL, NULL, p};
}

static inline struct tb_count_out tb_out_none(void)
{
    return (struct tb_count_out){NULL, NULL, NULL};
}

static inline tb_err tb_check_out(const char *arg, struct tb_count_out out)
{
    if (TB_LIKELY(out.i || out.a || out.c))
        return TB_OK;
    return tb_fail(TB_ERR_ARG, "%s must not be NULL", arg);
}

/* The present value of a parameter that is read and written. */
static inline tb_err tb_out_get(const char *arg, struct tb_count_out out,
                                MPI_Count *value)
{
    tb_err err = tb_check_out(arg, out);
    if (err == TB_OK)
        *value = out.i ? *out.i : out.a ? (MPI_Count)*out.a : *out.c;
    return err;
}

/* Stores a result; MPI_UNDEFINED stands for one too large. */
static inline tb_err tb_out_put(const char *arg, struct tb_count_out out,
                                MPI_Count value)
{
    (void)arg;
    if (out.i)
        *out.i = value > INT_MAX ? MPI_UNDEFINED : (int)value;
    else if (out.a)
        *out.a = (MPI_Aint)value;
    else
        *out.c = value;
    return TB_OK;
}

/* Stores a result that must arrive whole. */
static inline tb_err tb_out_put_exact(const char *arg, struct tb_count_out out,
                                      MPI_Count value)
{
    bool none = !out.i && !out.a && !out.c;
    if (TB_UNLIKELY((out.i && value > INT_MAX) || (none && value != 0)))
        return tb_fail(TB_ERR_VALUE_TOO_LARGE,
                       "%s is %lld: call the _c form of this function", arg,
                       (long long)value);
    return none ? TB_OK : tb_out_put(arg, out, value);
}

/* ------------------------------------------------------ address arithmetic */

static inline MPI_Aint tb_aint_add(MPI_Aint base, MPI_Aint disp)
{
    return (MPI_Aint)((uintptr_t)base + (uintptr_t)disp);
}

static inline MPI_Aint tb_aint_diff(MPI_Aint addr1, MPI_Aint addr2)
{
    return (MPI_Aint)((uintptr_t)addr1 - (uintptr_t)addr2);
}

#endif
