/* SPDX-License-Identifier: MIT */
/*
 * Start and end of MPI in this process, and how it ends a job.
 */
#include "mpi/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"
#include "mpi/api.h"
#include "mpi/life.h"

/* Before there is a job board, calls are noted here. */
static struct tb_note own_note;

struct tb_world tb_world = {.note = &own_note};

static pthread_t main_thread;
static pid_t owner; /* who initialised: a forked child is somebody else */

/* Guards the rest, and start and end. Taken after the global lock, never
 * before it: there is no such lock before the start. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
static int users;
static bool loaded;
static bool up;
static bool ended;   /* it was up, and can never be again */
static bool lasting; /* there was a session: it rests until the process ends */

/* ------------------------------------------------------------------ abort */

void tb_world_abort(int code, const char *why)
{
    struct tb_note *note = tb_world.note;
    int status = code & 0xff;
    if (owner && owner != getpid())
        _exit(status ? status : 1);
    note->code = code;
    snprintf(note->reason, sizeof note->reason, "%s", why);
    /* The state last: who reads ABORTED reads the reason too. */
    atomic_thread_fence(memory_order_release);
    note->state = TB_STATE_ABORTED;
    fflush(NULL);
    if (tb_world.boot)
        tb_boot_abort(tb_world.boot, code, why);
    _exit(status ? status : 1);
}

void tb_world_await_end(void)
{
    const struct timespec step = {.tv_nsec = 20 * 1000 * 1000};
    bool launched = tb_world.boot && tb_boot_size(tb_world.boot) > 1;
    for (int i = 0; launched && i < 100 && tb_boot_alive(tb_world.boot); i++)
        nanosleep(&step, NULL);
}

tb_err tb_abort(struct tb_comm *comm, int errorcode)
{
    char why[TB_NOTE_REASON_BYTES];
    (void)comm; /* a job that loses some ranks cannot go on: all end */
    snprintf(why, sizeof why, "MPI_Abort(%d)", errorcode);
    tb_world_abort(errorcode, why);
}

/* ------------------------------------------------------------------- fork */

/* The child of a fork shares the parent's descriptors but is nobody: every
 * call says so instead of speaking in the parent's name. */
static void become_inert(void)
{
    tb_world.ready = false;
    tb_world.threaded = false;
    tb_world.phase = TB_AFTER_FINALIZE;
    tb_world.note = &own_note;
    tb_world.boot = NULL;
    tb_world.engine = NULL;
    up = false;
    ended = true;
    life = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it */
}

/* ------------------------------------------------- the library's own life */

/* The chapters with state of their own, in the order of their start. */
static const struct chapter {
    tb_err (*init)(void);
    void (*fini)(void);
} chapters[] = {
    {tb_handle_init, tb_handle_fini}, {tb_errh_init, tb_errh_fini},
    {tb_info_init, tb_info_fini},     {tb_attr_init, tb_attr_fini},
    {tb_type_init, tb_type_fini},     {tb_op_init, tb_op_fini},
    {tb_p2p_init, tb_p2p_fini},       {tb_group_init, tb_group_fini},
    {tb_comm_init, tb_comm_fini},     {tb_win_init, tb_win_fini},
};

static tb_err start_chapters(void)
{
    for (size_t i = 0; i < TB_COUNT_OF(chapters); i++)
        TB_TRY(chapters[i].init());
    return TB_OK;
}

/* Everything back, the launcher told. The global lock is held. */
static void end(void)
{
    up = false;
    ended = true;
    tb_world.threaded = false;
    for (size_t i = TB_COUNT_OF(chapters); i-- > 0;)
        chapters[i].fini();
    tb_coll_fini(); /* after the communicators, which give their lanes back */
    tb_world.note->state = TB_STATE_FINALIZED;
    tb_world.note = &own_note;
    tb_engine_close(tb_world.engine);
    tb_world.engine = NULL;
    tb_boot_close(tb_world.boot);
    tb_world.boot = NULL;
}

/* A library that rests owes its launcher a goodbye. One that is in use does
 * not get here by an orderly way: that is for the launcher to report. */
static void at_exit(void)
{
    if (owner != getpid() || !up || users > 0)
        return;
    tb_lock();
    end();
}

/* Once, so that what a tool has changed before the start stays changed. */
static tb_err load_settings(void)
{
    if (!loaded)
        TB_TRY(tb_config_load(&tb_world.config));
    loaded = true;
    return TB_OK;
}

tb_err tb_world_settings(void)
{
    pthread_mutex_lock(&life);
    tb_err err = load_settings();
    pthread_mutex_unlock(&life);
    return err;
}

static tb_err open_engine(void)
{
    TB_TRY(load_settings());
    TB_TRY(tb_boot_open(&tb_world.boot, &tb_world.config));
    char name[MPI_MAX_PROCESSOR_NAME], prefix[MPI_MAX_PROCESSOR_NAME + 32];
    tb_host_name(name, sizeof name);
    snprintf(prefix, sizeof prefix, "tbmpi %d@%s", tb_boot_rank(tb_world.boot),
             name);
    tb_log_name(prefix);
    TB_TRY(tb_engine_open(&tb_world.engine, &tb_world.config, tb_world.boot));
    tb_world.note = tb_net_note(tb_engine_net(tb_world.engine));
    return start_chapters();
}

static tb_err start(bool threaded)
{
    if (ended)
        return tb_fail(TB_ERR_OTHER, "MPI has ended in this process, or could "
                                     "not start: it cannot be started again");
    owner = getpid();
    ended = true; /* unless all goes well */
    TB_TRY(open_engine());
    ended = false;
    pthread_atfork(NULL, NULL, become_inert);
    atexit(at_exit);
    tb_world.note->pid = (uint32_t)getpid();
    tb_world.note->state = TB_STATE_RUNNING;
    if (threaded)
        tb_engine_threaded(tb_world.engine);
    up = true;
    /* Last: who sees it takes the engine's lock. */
    atomic_store_explicit(&tb_world.threaded, threaded, memory_order_release);
    return TB_OK;
}

tb_err tb_world_join(bool threaded, bool session)
{
    pthread_mutex_lock(&life);
    tb_err err = up ? TB_OK : start(threaded);
    if (!err) {
        lasting |= session;
        if (users++ == 0) /* else others may be reading it */
            tb_world.ready = true;
    }
    pthread_mutex_unlock(&life);
    return err;
}

void tb_world_leave(void)
{
    pthread_mutex_lock(&life);
    if (--users == 0) {
        tb_world.ready = false;
        if (!lasting)
            end();
    }
    pthread_mutex_unlock(&life);
}

/* ------------------------------------------------------ init and finalize */

tb_err tb_init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc;
    (void)argv;
    if (tb_world.phase == TB_RUNNING)
        return tb_fail(TB_ERR_OTHER, "MPI is initialised already");
    if (tb_world.phase == TB_AFTER_FINALIZE)
        return tb_fail(TB_ERR_OTHER, "MPI was finalised: it cannot be "
                                     "initialised again");
    if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE)
        return tb_fail(TB_ERR_ARG, "required thread level is %d", required);
    main_thread = pthread_self();
    TB_TRY(tb_world_join(required == MPI_THREAD_MULTIPLE, false));
    tb_world.thread_level = required;
    tb_comm_show_world();
    tb_world.phase = TB_RUNNING;
    *provided = required;
    return TB_OK;
}

tb_err tb_init(int *argc, char ***argv)
{
    int provided;
    return tb_init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

/*
 * Attributes of MPI_COMM_SELF first, while everything still works (MPI 5.0,
 * section 11.2.4); then a barrier, so that no rank goes while another still
 * needs its memory or its acknowledgements.
 */
tb_err tb_finalize(void)
{
    TB_TRY(
        tb_attrs_free(&tb_world.comm_self->attrs, MPI_COMM_SELF, TB_KIND_COMM));
    TB_TRY(tb_coll_barrier(tb_world.comm_world));
    tb_world.phase = TB_AFTER_FINALIZE;
    tb_comm_hide_world();
    tb_world_leave();
    return TB_OK;
}

tb_err tb_initialized(int *flag)
{
    *flag = tb_world.phase != TB_BEFORE_INIT;
    return TB_OK;
}

tb_err tb_finalized(int *flag)
{
    *flag = tb_world.phase == TB_AFTER_FINALIZE;
    return TB_OK;
}

tb_err tb_query_thread(int *provided)
{
    *provided = tb_world.thread_level;
    return TB_OK;
}

tb_err tb_is_thread_main(int *flag)
{
    *flag = pthread_equal(main_thread, pthread_self()) != 0;
    return TB_OK;
}
