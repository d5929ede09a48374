/* SPDX-License-Identifier: MIT */
/*
 * Sessions (MPI 5.0, section 11.3): MPI for a part of a program that does not
 * want to know whether others have initialised it. A session names sets of
 * processes; groups and communicators are made from those.
 */
#include <stdio.h>
#include <strings.h>

#include "mpi/api.h"
#include "mpi/errh.h"
#include "mpi/world.h"

struct tb_session *tb_session_ref(struct tb_session *s)
{
    if (s)
        s->obj.refs++;
    return s;
}

void tb_session_unref(struct tb_session *s)
{
    if (!s || --s->obj.refs > 0)
        return;
    tb_errh_unref(s->errh);
    tb_free(s);
}

/* ---------------------------------------------------------- thread levels */

static const struct level {
    const char *name;
    int value;
} levels[] = {
    {"MPI_THREAD_SINGLE", MPI_THREAD_SINGLE},
    {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED},
    {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
    {"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE},
};

/* What the program asks for only has to be a level: it gets the highest, or
 * what MPI_Init_thread was granted before. */
static tb_err check_level(const struct tb_info *info)
{
    const char *text = tb_info_look(info, "thread_level");
    if (!text)
        return TB_OK;
    for (size_t i = 0; i < TB_COUNT_OF(levels); i++)
        if (strcmp(text, levels[i].name) == 0)
            return TB_OK;
    return tb_fail(TB_ERR_INFO_VALUE,
                   "thread_level is \"%s\", none of MPI_THREAD_SINGLE, "
                   "_FUNNELED, _SERIALIZED and _MULTIPLE",
                   text);
}

static const char *level_name(void)
{
    int level = tb_world.threaded ? MPI_THREAD_MULTIPLE : tb_world.thread_level;
    for (size_t i = 0; i < TB_COUNT_OF(levels); i++)
        if (levels[i].value == level)
            return levels[i].name;
    return levels[0].name;
}

/* ----------------------------------------------------------------- a life */

static tb_err open_session(const struct tb_info *info, struct tb_errh *errh,
                           struct tb_session **out)
{
    TB_TRY(check_level(info));
    if (errh->what == TB_ERRH_CALL && errh->of != TB_KIND_SESSION)
        return tb_fail(TB_ERR_ERRHANDLER,
                       "the error handler was made for another kind of object");
    struct tb_session *s = tb_calloc(1, sizeof *s);
    if (!s)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a session");
    tb_err err = tb_world_join(true, true);
    if (err) {
        tb_free(s);
        return err;
    }
    err = tb_handle_new(&s->obj, TB_KIND_SESSION);
    if (err) {
        tb_world_leave();
        tb_free(s);
        return err;
    }
    s->errh = tb_errh_ref(errh);
    *out = s;
    return TB_OK;
}

tb_err tb_session_init(struct tb_info *info, struct tb_errh *errhandler,
                       struct tb_session **session)
{
    tb_errh_give(errhandler);
    TB_TRY(open_session(info, errhandler, session));
    tb_errh_give(NULL);
    return TB_OK;
}

static bool is_settled(void *engine)
{
    return tb_engine_settled(engine);
}

/*
 * The program has completed what it started; what is still to be put out are
 * answers that others wait for. If that cannot be done the job is ending.
 */
tb_err tb_session_finalize(struct tb_session *session)
{
    void *buffer;
    MPI_Count bytes;

    if (session->buffer)
        TB_TRY(tb_session_detach_buffer(session, &buffer, &bytes));
    TB_TRY(tb_engine_wait_until(tb_world.engine, is_settled, tb_world.engine));
    tb_handle_drop(&session->obj);
    tb_session_unref(session);
    tb_world_leave();
    return TB_OK;
}

/* Hints that are in use: this library has the kinds of memory that all have. */
tb_err tb_session_get_info(struct tb_session *session,
                           struct tb_info **info_used)
{
    struct tb_info *made;
    (void)session;
    TB_TRY(tb_info_create(&made));
    tb_err err = tb_info_set(made, "thread_level", level_name());
    if (!err)
        err = tb_info_set(made, "mpi_memory_alloc_kinds", "mpi,system");
    if (err)
        tb_info_release(made);
    else
        *info_used = made;
    return err;
}

/* ------------------------------------------------------ sets of processes */

static const char *const sets[] = {"mpi://WORLD", "mpi://SELF"};
enum { SET_WORLD, SET_SELF };

static struct tb_group *group_of(int set)
{
    return set == SET_WORLD ? tb_world.comm_world->group
                            : tb_world.comm_self->group;
}

/* Names are URIs, of which the case does not matter. */
static tb_err find_set(const char *name, int *set)
{
    for (size_t i = 0; i < TB_COUNT_OF(sets); i++)
        if (strcasecmp(name, sets[i]) == 0) {
            *set = (int)i;
            return TB_OK;
        }
    return tb_fail(TB_ERR_ARG,
                   "there is no process set \"%s\": MPI_Session_get_nth_pset "
                   "tells which there are",
                   name);
}

tb_err tb_session_get_num_psets(struct tb_session *session,
                                struct tb_info *info, int *npset_names)
{
    (void)session;
    (void)info;
    *npset_names = (int)TB_COUNT_OF(sets);
    return TB_OK;
}

/* *pset_len counts the terminator: the room there is, then what it takes. */
tb_err tb_session_get_nth_pset(struct tb_session *session, struct tb_info *info,
                               int n, int *pset_len, char *pset_name)
{
    (void)session;
    (void)info;
    if (n < 0 || n >= (int)TB_COUNT_OF(sets))
        return tb_fail(TB_ERR_ARG, "n is %d: process sets are 0..%d", n,
                       (int)TB_COUNT_OF(sets) - 1);
    if (*pset_len < 0)
        return tb_fail(TB_ERR_ARG, "*pset_len is %d: it must not be negative",
                       *pset_len);
    if (*pset_len > 0 && !pset_name)
        return tb_fail(TB_ERR_ARG, "pset_name is NULL, and *pset_len is %d",
                       *pset_len);
    if (*pset_len > 0)
        snprintf(pset_name, (size_t)*pset_len, "%s", sets[n]);
    *pset_len = (int)strlen(sets[n]) + 1;
    return TB_OK;
}

tb_err tb_session_get_pset_info(struct tb_session *session,
                                const char *pset_name, struct tb_info **info)
{
    char size[16];
    int set;
    struct tb_info *made;

    (void)session;
    TB_TRY(find_set(pset_name, &set));
    snprintf(size, sizeof size, "%d", group_of(set)->size);
    TB_TRY(tb_info_create(&made));
    tb_err err = tb_info_set(made, "mpi_size", size);
    if (err)
        tb_info_release(made);
    else
        *info = made;
    return err;
}

tb_err tb_group_from_session_pset(struct tb_session *session,
                                  const char *pset_name,
                                  struct tb_group **newgroup)
{
    int set;

    TB_TRY(find_set(pset_name, &set));
    const struct tb_group *g = group_of(set);
    int *ranks = tb_alloc((size_t)g->size * sizeof *ranks);
    if (!ranks)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a group of %d", g->size);
    memcpy(ranks, g->ranks, (size_t)g->size * sizeof *ranks);
    return tb_group_publish(newgroup, ranks, g->size, session);
}
