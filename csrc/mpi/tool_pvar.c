/* SPDX-License-Identifier: MIT */
/*
 * Performance variables: what the engine counts and what waits in its queues.
 * Counters run in a handle between start and stop; what is in a queue is read
 * as it is. All are MPI_UNSIGNED_LONG_LONG and bound to no object, and all
 * are 0 while the library is not up.
 */
#include "mpi/tool.h"

struct variable {
    const char *name, *desc;
    int class;
    enum tb_tool_category category;
    size_t at; /* in struct tb_engine_stats */
};

#define COUNTER(name, field, desc)                             \
    {                                                          \
        name, desc, MPI_T_PVAR_CLASS_COUNTER, TB_TOOL_TRAFFIC, \
            offsetof(struct tb_engine_stats, field)            \
    }
#define LEVEL(name, field, desc)                            \
    {                                                       \
        name, desc, MPI_T_PVAR_CLASS_LEVEL, TB_TOOL_QUEUES, \
            offsetof(struct tb_engine_stats, field)         \
    }

static const struct variable variables[] = {
    COUNTER("messages_sent_machine", inside.messages_out,
            "messages to processes of this machine, itself included"),
    COUNTER("bytes_sent_machine", inside.bytes_out, "bytes of data in them"),
    COUNTER("messages_received_machine", inside.messages_in,
            "messages from processes of this machine, itself included"),
    COUNTER("bytes_received_machine", inside.bytes_in, "bytes of data in them"),
    COUNTER("messages_sent_network", outside.messages_out,
            "messages to other machines"),
    COUNTER("bytes_sent_network", outside.bytes_out, "bytes of data in them"),
    COUNTER("messages_received_network", outside.messages_in,
            "messages from other machines"),
    COUNTER("bytes_received_network", outside.bytes_in,
            "bytes of data in them"),
    COUNTER("idle", idle, "times that a wait was long enough to sleep"),
    LEVEL("unexpected_messages", unexpected,
          "messages that have come before their receives"),
    LEVEL("unexpected_bytes", unexpected_bytes, "bytes of data in them"),
    LEVEL("posted_receives", posted, "receives that wait for a message"),
    LEVEL("requests", requests, "operations that are open"),
    LEVEL("contexts", contexts,
          "separate spaces of messages: two for each communicator"),
};

static bool is_counter(const struct variable *v)
{
    return v->class == MPI_T_PVAR_CLASS_COUNTER;
}

static uint64_t value_now(const struct variable *v)
{
    struct tb_engine_stats stats = {0};
    uint64_t value;

    tb_lock();
    if (tb_world.engine)
        tb_engine_stats(tb_world.engine, &stats);
    tb_unlock();
    memcpy(&value, (const char *)&stats + v->at, sizeof value);
    return value;
}

/* --------------------------------------------------------------- inquiries */

int tb_tool_pvars(void)
{
    return (int)TB_COUNT_OF(variables);
}

int tb_tool_pvar_category(int i)
{
    return (int)variables[i].category;
}

static bool is_index(int i)
{
    return i >= 0 && i < tb_tool_pvars();
}

int tb_t_pvar_get_num(int *num_pvar)
{
    TB_TOOL_READY();
    if (!num_pvar)
        return MPI_T_ERR_INVALID;
    *num_pvar = tb_tool_pvars();
    return MPI_SUCCESS;
}

int tb_t_pvar_get_index(const char *name, int var_class, int *pvar_index)
{
    TB_TOOL_READY();
    if (!name || !pvar_index)
        return MPI_T_ERR_INVALID;
    for (size_t i = 0; i < TB_COUNT_OF(variables); i++)
        if (variables[i].class == var_class &&
            strcmp(name, variables[i].name) == 0) {
            *pvar_index = (int)i;
            return MPI_SUCCESS;
        }
    return MPI_T_ERR_INVALID_NAME;
}

int tb_t_pvar_get_info(int pvar_index, char *name, int *name_len,
                       int *verbosity, int *var_class, MPI_Datatype *datatype,
                       MPI_T_enum *enumtype, char *desc, int *desc_len,
                       int *bind, int *readonly, int *continuous, int *atomic)
{
    TB_TOOL_READY();
    if (!is_index(pvar_index))
        return MPI_T_ERR_INVALID_INDEX;
    const struct variable *v = &variables[pvar_index];
    tb_tool_text(v->name, name, name_len);
    tb_tool_text(v->desc, desc, desc_len);
    tb_tool_put(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    tb_tool_put(var_class, v->class);
    if (datatype)
        *datatype = MPI_UNSIGNED_LONG_LONG;
    if (enumtype)
        *enumtype = MPI_T_ENUM_NULL;
    tb_tool_put(bind, MPI_T_BIND_NO_OBJECT);
    tb_tool_put(readonly, !is_counter(v));
    tb_tool_put(continuous, !is_counter(v));
    tb_tool_put(atomic, is_counter(v));
    return MPI_SUCCESS;
}

/* ---------------------------------------------------- sessions and handles */

/* A counter shows `value` and, while it runs, what has come since `since`. */
struct MPI_ABI_T_pvar_handle {
    struct MPI_ABI_T_pvar_handle *next;
    const struct variable *variable;
    bool running;
    uint64_t value;
    uint64_t since;
};

struct MPI_ABI_T_pvar_session {
    struct MPI_ABI_T_pvar_session *next;
    struct MPI_ABI_T_pvar_handle *handles;
};

static struct MPI_ABI_T_pvar_session *sessions;

/* Where the list points to it; NULL: it is not a session. Under the lock, as
 * all that follows. */
static struct MPI_ABI_T_pvar_session **find_session(MPI_T_pvar_session session)
{
    for (struct MPI_ABI_T_pvar_session **at = &sessions; *at; at = &(*at)->next)
        if (*at == session)
            return at;
    return NULL;
}

static struct MPI_ABI_T_pvar_handle **find_handle(MPI_T_pvar_session session,
                                                  MPI_T_pvar_handle handle)
{
    struct MPI_ABI_T_pvar_handle **at = &session->handles;
    for (; *at; at = &(*at)->next)
        if (*at == handle)
            return at;
    return NULL;
}

static void free_session(struct MPI_ABI_T_pvar_session **at)
{
    struct MPI_ABI_T_pvar_session *s = *at;
    *at = s->next;
    while (s->handles) {
        struct MPI_ABI_T_pvar_handle *h = s->handles;
        s->handles = h->next;
        tb_free(h);
    }
    tb_free(s);
}

void tb_tool_pvar_end(void)
{
    while (sessions)
        free_session(&sessions);
}

int tb_t_pvar_session_create(MPI_T_pvar_session *session)
{
    TB_TOOL_READY();
    if (!session)
        return MPI_T_ERR_INVALID;
    struct MPI_ABI_T_pvar_session *s = tb_calloc(1, sizeof *s);
    if (!s)
        return MPI_T_ERR_OUT_OF_SESSIONS;
    tb_tool_lock();
    s->next = sessions;
    sessions = s;
    tb_tool_unlock();
    *session = s;
    return MPI_SUCCESS;
}

int tb_t_pvar_session_free(MPI_T_pvar_session *session)
{
    TB_TOOL_READY();
    if (!session)
        return MPI_T_ERR_INVALID;
    tb_tool_lock();
    struct MPI_ABI_T_pvar_session **at = find_session(*session);
    if (at)
        free_session(at);
    tb_tool_unlock();
    if (!at)
        return MPI_T_ERR_INVALID_SESSION;
    *session = MPI_T_PVAR_SESSION_NULL;
    return MPI_SUCCESS;
}

int tb_t_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index,
                           void *obj_handle, MPI_T_pvar_handle *handle,
                           int *count)
{
    (void)obj_handle; /* no variable is bound to one */
    TB_TOOL_READY();
    if (!is_index(pvar_index))
        return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count)
        return MPI_T_ERR_INVALID;
    struct MPI_ABI_T_pvar_handle *h = tb_calloc(1, sizeof *h);
    if (!h)
        return MPI_T_ERR_OUT_OF_HANDLES;
    h->variable = &variables[pvar_index];
    tb_tool_lock();
    bool known = find_session(session) != NULL;
    if (known) {
        h->next = session->handles;
        session->handles = h;
    }
    tb_tool_unlock();
    if (!known) {
        tb_free(h);
        return MPI_T_ERR_INVALID_SESSION;
    }
    *handle = h;
    *count = 1;
    return MPI_SUCCESS;
}

int tb_t_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
    int code = MPI_SUCCESS;
    TB_TOOL_READY();
    if (!handle)
        return MPI_T_ERR_INVALID;
    tb_tool_lock();
    struct MPI_ABI_T_pvar_handle **at = NULL, *h = NULL;
    if (!find_session(session))
        code = MPI_T_ERR_INVALID_SESSION;
    else if (!(at = find_handle(session, *handle)))
        code = MPI_T_ERR_INVALID_HANDLE;
    if (at) {
        h = *at;
        *at = h->next;
    }
    tb_tool_unlock();
    tb_free(h);
    if (!code)
        *handle = MPI_T_PVAR_HANDLE_NULL;
    return code;
}

/* ------------------------------------------------------ what handles can do */

typedef int action(struct MPI_ABI_T_pvar_handle *h, void *buf);

static uint64_t value_of(const struct MPI_ABI_T_pvar_handle *h)
{
    if (!is_counter(h->variable))
        return value_now(h->variable);
    return h->running ? h->value + value_now(h->variable) - h->since : h->value;
}

static int start(struct MPI_ABI_T_pvar_handle *h, void *buf)
{
    (void)buf;
    if (!is_counter(h->variable))
        return MPI_T_ERR_PVAR_NO_STARTSTOP;
    if (!h->running)
        h->since = value_now(h->variable);
    h->running = true;
    return MPI_SUCCESS;
}

static int stop(struct MPI_ABI_T_pvar_handle *h, void *buf)
{
    (void)buf;
    if (!is_counter(h->variable))
        return MPI_T_ERR_PVAR_NO_STARTSTOP;
    h->value = value_of(h);
    h->running = false;
    return MPI_SUCCESS;
}

static int set(struct MPI_ABI_T_pvar_handle *h, uint64_t value)
{
    if (!is_counter(h->variable))
        return MPI_T_ERR_PVAR_NO_WRITE;
    h->value = value;
    if (h->running)
        h->since = value_now(h->variable);
    return MPI_SUCCESS;
}

static int reset(struct MPI_ABI_T_pvar_handle *h, void *buf)
{
    (void)buf;
    return set(h, 0);
}

static int write_value(struct MPI_ABI_T_pvar_handle *h, void *buf)
{
    unsigned long long value;
    memcpy(&value, buf, sizeof value);
    return set(h, value);
}

static int read_value(struct MPI_ABI_T_pvar_handle *h, void *buf)
{
    unsigned long long value = value_of(h);
    memcpy(buf, &value, sizeof value);
    return MPI_SUCCESS;
}

/* Nothing comes between the two: what has been counted is in one of them. */
static int read_and_reset(struct MPI_ABI_T_pvar_handle *h, void *buf)
{
    if (!is_counter(h->variable))
        return MPI_T_ERR_PVAR_NO_WRITE;
    uint64_t now = h->running ? value_now(h->variable) : h->since;
    unsigned long long value = h->value + (now - h->since);
    memcpy(buf, &value, sizeof value);
    h->value = 0;
    h->since = now;
    return MPI_SUCCESS;
}

static int act_on_one(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
                      action *what, void *buf)
{
    int code;
    TB_TOOL_READY();
    tb_tool_lock();
    if (!find_session(session))
        code = MPI_T_ERR_INVALID_SESSION;
    else if (!find_handle(session, handle))
        code = MPI_T_ERR_INVALID_HANDLE;
    else
        code = what(handle, buf);
    tb_tool_unlock();
    return code;
}

/* MPI_T_PVAR_ALL_HANDLES means those that can do it. */
static int act(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
               action *what)
{
    if (handle != MPI_T_PVAR_ALL_HANDLES)
        return act_on_one(session, handle, what, NULL);
    TB_TOOL_READY();
    tb_tool_lock();
    bool known = find_session(session) != NULL;
    for (MPI_T_pvar_handle h = known ? session->handles : NULL; h; h = h->next)
        if (is_counter(h->variable))
            what(h, NULL);
    tb_tool_unlock();
    return known ? MPI_SUCCESS : MPI_T_ERR_INVALID_SESSION;
}

int tb_t_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return act(session, handle, start);
}

int tb_t_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return act(session, handle, stop);
}

int tb_t_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return act(session, handle, reset);
}

int tb_t_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
                   void *buf)
{
    return buf ? act_on_one(session, handle, read_value, buf)
               : MPI_T_ERR_INVALID;
}

int tb_t_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
                        void *buf)
{
    return buf ? act_on_one(session, handle, read_and_reset, buf)
               : MPI_T_ERR_INVALID;
}

int tb_t_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
                    const void *buf)
{
    return buf ? act_on_one(session, handle, write_value,
                            (void *)(uintptr_t)buf)
               : MPI_T_ERR_INVALID;
}
