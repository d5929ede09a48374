/* SPDX-License-Identifier: MIT */
/* Error handlers, and the end of every call that failed. */
#include "mpi/binding.h"
#include "mpi/errcode.h"
#include "mpi/errh.h"
#include "mpi/life.h"

#include <stdio.h>

#define PREDEFINED(value_, what_)     \
    {                                 \
        .obj = {.handle = (value_),   \
                .refs = 1,            \
                .kind = TB_KIND_ERRH, \
                .predefined = true},  \
        .what = (what_)               \
    }

/* Initialised here since they are needed before MPI_Init. */
struct tb_errh tb_errors_fatal = PREDEFINED(0x141, TB_ERRH_FATAL);
struct tb_errh tb_errors_abort = PREDEFINED(0x142, TB_ERRH_ABORT);
struct tb_errh tb_errors_return = PREDEFINED(0x143, TB_ERRH_RETURN);

/* The handler of MPI_FILE_NULL, which new files begin with. */
static struct tb_errh *file_errh = &tb_errors_return;

struct tb_errh *tb_errh_ref(struct tb_errh *h)
{
    if (h && !h->obj.predefined)
        h->obj.refs++;
    return h;
}

void tb_errh_unref(struct tb_errh *h)
{
    if (h && !h->obj.predefined && --h->obj.refs == 0)
        tb_free(h);
}

/* --------------------------------------------------------- calling them */

/* Where the handler of an object is kept; NULL: the object has none. */
static struct tb_errh **place_of(const struct tb_errctx *on)
{
    switch (on->kind) {
    case TB_ON_COMM_:
        return on->object ? &((struct tb_comm *)on->object)->errh : NULL;
    case TB_ON_WIN_:
        return on->object ? &((struct tb_win *)on->object)->errh : NULL;
    case TB_ON_FILE_:
        return on->object ? &((struct tb_file *)on->object)->errh : &file_errh;
    case TB_ON_SESSION_:
        return on->object ? &((struct tb_session *)on->object)->errh : NULL;
    case TB_ON_NONE:
        break;
    }
    return NULL;
}

/* Whose handler hears of an error on `on`. What belongs to no object belongs to
 * MPI_COMM_SELF since MPI 4.0, and belonged to MPI_COMM_WORLD before: while
 * nobody has given SELF a handler, that of WORLD counts. */
static struct tb_errctx owner_of(const struct tb_errctx *on)
{
    struct tb_comm *self = tb_world.comm_self;

    if (place_of(on))
        return *on;
    if (!self)
        return (struct tb_errctx){TB_ON_NONE, NULL};
    if (self->errh == &tb_errors_fatal)
        return (struct tb_errctx){TB_ON_COMM_, tb_world.comm_world};
    return (struct tb_errctx){TB_ON_COMM_, self};
}

/* With a reference. Fatal while there is no communicator. */
static struct tb_errh *handler_of(const struct tb_errctx *owner)
{
    struct tb_errh **place = place_of(owner);

    return place && *place ? tb_errh_ref(*place) : &tb_errors_fatal;
}

static void call_user(const struct tb_errh *h, const struct tb_errctx *on,
                      int *code)
{
    switch (h->of) {
    case TB_KIND_WIN: {
        MPI_Win win = tb_win_handle(on->object);
        ((MPI_Win_errhandler_function *)h->call)(&win, code);
        break;
    }
    case TB_KIND_FILE: {
        MPI_File file = tb_file_handle(on->object);
        ((MPI_File_errhandler_function *)h->call)(&file, code);
        break;
    }
    case TB_KIND_SESSION: {
        MPI_Session session = tb_session_handle(on->object);
        ((MPI_Session_errhandler_function *)h->call)(&session, code);
        break;
    }
    default: {
        MPI_Comm comm = tb_comm_handle(on->object);
        ((MPI_Comm_errhandler_function *)h->call)(&comm, code);
        break;
    }
    }
}

/* Without the lock: the handler may call MPI. `given`, NULL or a reference,
 * takes the place of the owner's handler. */
static void invoke(const struct tb_errctx *on, struct tb_errh *given, int code,
                   const char *text)
{
    const struct tb_errctx none = {TB_ON_NONE, NULL};
    int class = MPI_ERR_UNKNOWN;

    tb_lock();
    const struct tb_errctx owner = given ? none : owner_of(on);
    struct tb_errh *h = given ? given : handler_of(&owner);
    tb_unlock();
    switch (h->what) {
    case TB_ERRH_FATAL:
    case TB_ERRH_ABORT:
        tb_error_class(code, &class);
        if (class == MPI_ERR_PROC_ABORTED)
            tb_world_await_end();
        fprintf(stderr, "tbmpi: %s\n", text);
        /* The job's exit code has 8 bits; the program's classes are larger. */
        tb_world_abort(class <= MPI_ERR_ABI ? class : MPI_ERR_OTHER, text);
    case TB_ERRH_RETURN:
        break;
    case TB_ERRH_CALL:
        call_user(h, &owner, &code);
        break;
    }
    tb_lock();
    tb_errh_unref(h);
    tb_unlock();
}

/* ------------------------------------------------------------- messages */

/* What this thread's present call found out before it failed. */
static _Thread_local struct {
    struct tb_comm *blamed; /* a reference */
    struct tb_errh *given;  /* a reference */
    tb_err status_err;      /* the first error that went into a status */
    char status_note[MPI_MAX_ERROR_STRING];
} thread;

void tb_errh_blame(struct tb_comm *comm)
{
    tb_comm_ref(comm);
    tb_comm_unref(thread.blamed);
    thread.blamed = comm;
}

void tb_errh_give(struct tb_errh *h)
{
    tb_errh_ref(h);
    tb_errh_unref(thread.given);
    thread.given = h;
}

/* "rank 2 on host: MPI_Send failed on MPI_COMM_WORLD", as much as is known. */
static size_t describe_call(int call, const struct tb_errctx *on, char *out,
                            size_t size)
{
    char host[64], object[MPI_MAX_OBJECT_NAME + 32] = "";
    char rank[24] = "";

    tb_host_name(host, sizeof(host));
    if (tb_world.comm_world)
        snprintf(rank, sizeof(rank), "rank %d on ", tb_world.comm_world->rank);
    if (on->kind == TB_ON_COMM_ && on->object)
        tb_comm_describe(on->object, object, sizeof(object));
    snprintf(out, size, "%s%s: %s failed%s%s", rank, host, tb_call_name[call],
             object[0] ? " on " : "", object);
    return strlen(out);
}

static void describe_error(tb_err err, const char *note, char *out, size_t size)
{
    char reason[MPI_MAX_ERROR_STRING];
    int length;

    if (err >= TB_ERR_FOREIGN) {
        tb_error_string(err - TB_ERR_FOREIGN, reason, &length);
        snprintf(out, size, ": a callback returned %d (%s)",
                 err - TB_ERR_FOREIGN, reason);
    } else if (note[0]) {
        snprintf(out, size, ": %s (%s)", note, tb_err_text(err));
    } else {
        snprintf(out, size, ": %s", tb_err_text(err));
    }
}

/* The whole message; uses up the note. */
static void describe(int call, const struct tb_errctx *on, tb_err err,
                     char *out, size_t size)
{
    size_t used = describe_call(call, on, out, size);

    if (err == TB_ERR_IN_STATUS && thread.status_err)
        describe_error(thread.status_err, thread.status_note, out + used,
                       size - used);
    else
        describe_error(err, tb_fail_note(), out + used, size - used);
    tb_fail_clear();
}

int tb_errh_code(tb_err err)
{
    const struct tb_errctx on = {TB_ON_COMM_, thread.blamed};
    char text[MPI_MAX_ERROR_STRING];

    if (!err)
        return MPI_SUCCESS;
    if (!thread.status_err && err != TB_ERR_PENDING) {
        thread.status_err = err;
        snprintf(thread.status_note, sizeof(thread.status_note), "%s",
                 tb_fail_note());
    }
    describe((int)tb_world.note->call, &on, err, text, sizeof(text));
    return tb_err_code(err, text);
}

int tb_leave(int call, const struct tb_errctx *on, tb_err err)
{
    const struct tb_errctx blamed = {TB_ON_COMM_, thread.blamed};
    char text[MPI_MAX_ERROR_STRING];

    if (on->kind == TB_ON_NONE && blamed.object)
        on = &blamed;
    describe(call, on, err, text, sizeof(text));
    struct tb_errh *given = thread.given;
    thread.status_err = TB_OK;
    thread.blamed = NULL;
    thread.given = NULL;
    int code = tb_err_code(err, text);
    invoke(on, given, code, text);
    tb_lock();
    tb_comm_unref(blamed.object);
    tb_unlock();
    return code;
}

tb_err tb_not_ready(int call)
{
    (void)call;
    if (tb_world.phase == TB_AFTER_FINALIZE)
        return tb_fail(TB_ERR_OTHER, "it was called after MPI_Finalize");
    return tb_fail(TB_ERR_OTHER,
                   "it was called before MPI_Init: call MPI_Init, or open "
                   "a session, first");
}

/* MPI_X_call_errhandler: runs the handler as if the code were an error. */
static tb_err call_errhandler(int call, const struct tb_errctx *on, int code)
{
    char text[MPI_MAX_ERROR_STRING], reason[MPI_MAX_ERROR_STRING];
    int length;

    size_t used = describe_call(call, on, text, sizeof(text));
    tb_error_string(code, reason, &length);
    snprintf(text + used, sizeof(text) - used, ": %s (error code %d)", reason,
             code);
    tb_unlock();
    invoke(on, NULL, code, text);
    tb_lock();
    return TB_OK;
}

/* ------------------------------------------------------- the MPI calls */

static tb_err create(enum tb_kind of, void (*call)(void), struct tb_errh **out)
{
    if (!call)
        return tb_fail(TB_ERR_ARG, "the error handler function is NULL");
    struct tb_errh *h = tb_calloc(1, sizeof *h);
    if (!h)
        return tb_fail(TB_ERR_NO_MEM, "no memory for an error handler");
    h->what = TB_ERRH_CALL;
    h->of = of;
    h->call = call;
    tb_err err = tb_handle_new(&h->obj, TB_KIND_ERRH);
    if (err)
        tb_free(h);
    else
        *out = h;
    return err;
}

tb_err tb_comm_create_errhandler(MPI_Comm_errhandler_function *fn,
                                 struct tb_errh **errhandler)
{
    return create(TB_KIND_COMM, (void (*)(void))fn, errhandler);
}

tb_err tb_win_create_errhandler(MPI_Win_errhandler_function *fn,
                                struct tb_errh **errhandler)
{
    return create(TB_KIND_WIN, (void (*)(void))fn, errhandler);
}

tb_err tb_session_create_errhandler(MPI_Session_errhandler_function *fn,
                                    struct tb_errh **errhandler)
{
    return create(TB_KIND_SESSION, (void (*)(void))fn, errhandler);
}

tb_err tb_file_create_errhandler(MPI_File_errhandler_function *fn,
                                 struct tb_errh **errhandler)
{
    return create(TB_KIND_FILE, (void (*)(void))fn, errhandler);
}

tb_err tb_errhandler_free(struct tb_errh *h)
{
    tb_handle_drop(&h->obj);
    tb_errh_unref(h);
    return TB_OK;
}

static tb_err set(struct tb_errh **place, enum tb_kind of, struct tb_errh *h)
{
    if (h->what == TB_ERRH_CALL && h->of != of)
        return tb_fail(TB_ERR_ERRHANDLER,
                       "the error handler was made for "
                       "another kind of object than this one");
    struct tb_errh *old = *place;
    *place = tb_errh_ref(h);
    tb_errh_unref(old);
    return TB_OK;
}

static tb_err get(struct tb_errh *h, struct tb_errh **out)
{
    TB_TRY(tb_handle_share(&h->obj, TB_KIND_ERRH));
    *out = h;
    return TB_OK;
}

tb_err tb_comm_set_errhandler(struct tb_comm *comm, struct tb_errh *errhandler)
{
    return set(&comm->errh, TB_KIND_COMM, errhandler);
}

tb_err tb_comm_get_errhandler(struct tb_comm *comm, struct tb_errh **errhandler)
{
    return get(comm->errh, errhandler);
}

tb_err tb_comm_call_errhandler(struct tb_comm *comm, int errorcode)
{
    const struct tb_errctx on = {TB_ON_COMM_, comm};
    return call_errhandler(TB_CALL_Comm_call_errhandler, &on, errorcode);
}

tb_err tb_win_set_errhandler(struct tb_win *win, struct tb_errh *errhandler)
{
    return set(&win->errh, TB_KIND_WIN, errhandler);
}

tb_err tb_win_get_errhandler(struct tb_win *win, struct tb_errh **errhandler)
{
    return get(win->errh, errhandler);
}

tb_err tb_win_call_errhandler(struct tb_win *win, int errorcode)
{
    const struct tb_errctx on = {TB_ON_WIN_, win};
    return call_errhandler(TB_CALL_Win_call_errhandler, &on, errorcode);
}

tb_err tb_file_set_errhandler(struct tb_file *file, struct tb_errh *errhandler)
{
    return set(file ? &file->errh : &file_errh, TB_KIND_FILE, errhandler);
}

tb_err tb_file_get_errhandler(struct tb_file *file, struct tb_errh **errhandler)
{
    return get(file ? file->errh : file_errh, errhandler);
}

tb_err tb_file_call_errhandler(struct tb_file *fh, int errorcode)
{
    const struct tb_errctx on = {TB_ON_FILE_, fh};
    return call_errhandler(TB_CALL_File_call_errhandler, &on, errorcode);
}

tb_err tb_session_set_errhandler(struct tb_session *session,
                                 struct tb_errh *errhandler)
{
    return set(&session->errh, TB_KIND_SESSION, errhandler);
}

tb_err tb_session_get_errhandler(struct tb_session *session,
                                 struct tb_errh **errhandler)
{
    return get(session->errh, errhandler);
}

tb_err tb_session_call_errhandler(struct tb_session *session, int errorcode)
{
    const struct tb_errctx on = {TB_ON_SESSION_, session};
    return call_errhandler(TB_CALL_Session_call_errhandler, &on, errorcode);
}

/* ------------------------------------------------------------ start and end */

tb_err tb_errh_init(void)
{
    return TB_OK;
}

/* Handlers stay: they are legal after MPI_Finalize. */
void tb_errh_fini(void)
{
    tb_errh_unref(file_errh);
    file_errh = &tb_errors_return;
}
