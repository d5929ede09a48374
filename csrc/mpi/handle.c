/* SPDX-License-Identifier: MIT */
/* The tables of handles: slots, generations, and the queue of free slots. */
#include "mpi/life.h"
#include "mpi/objects.h"

#include <pthread.h>

struct tb_handle_table tb_handle_tables[TB_KIND_LIMIT];

/* Those of errh, info and group exist before anybody could register them. The
 * indices are the ABI's; C does not take its constants, casts, in this place.
 */
struct tb_obj *tb_handle_predefined[TB_HANDLE_PREDEFINED] = {
    [0x109] = &tb_group_empty.obj,   /* MPI_GROUP_EMPTY */
    [0x131] = &tb_info_env.obj,      /* MPI_INFO_ENV */
    [0x141] = &tb_errors_fatal.obj,  /* MPI_ERRORS_ARE_FATAL */
    [0x142] = &tb_errors_abort.obj,  /* MPI_ERRORS_ABORT */
    [0x143] = &tb_errors_return.obj, /* MPI_ERRORS_RETURN */
};

static const char *const kind_names[TB_KIND_LIMIT] = {
    [TB_KIND_COMM] = "communicator",  [TB_KIND_GROUP] = "group",
    [TB_KIND_TYPE] = "datatype",      [TB_KIND_OP] = "operation",
    [TB_KIND_ERRH] = "error handler", [TB_KIND_INFO] = "info object",
    [TB_KIND_REQ] = "request",        [TB_KIND_MSG] = "message",
    [TB_KIND_WIN] = "window",         [TB_KIND_FILE] = "file",
    [TB_KIND_SESSION] = "session",    [TB_KIND_KEYVAL] = "attribute key",
};

/* For the kinds that MPI lets any thread make before MPI_Init, when there is
 * no global lock. */
static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER;

static bool is_early(enum tb_kind kind)
{
    return kind == TB_KIND_INFO || kind == TB_KIND_ERRH ||
           kind == TB_KIND_SESSION;
}

static void lock(enum tb_kind kind)
{
    if (is_early(kind))
        pthread_mutex_lock(&early);
}

static void unlock(enum tb_kind kind)
{
    if (is_early(kind))
        pthread_mutex_unlock(&early);
}

static struct tb_handle_slot *slot_at(struct tb_handle_table *t, uint32_t index)
{
    struct tb_handle_slot *chunk = atomic_load_explicit(
        &t->chunks[index / TB_HANDLE_CHUNK], memory_order_relaxed);
    return &chunk[index % TB_HANDLE_CHUNK];
}

/* A slot that was never used; NULL: no memory, or the table is full. */
static struct tb_handle_slot *fresh(struct tb_handle_table *t,
                                    enum tb_kind kind)
{
    uint32_t index = t->used;
    if (index == TB_HANDLE_CHUNK * TB_HANDLE_CHUNKS)
        return NULL;
    if (index % TB_HANDLE_CHUNK == 0) {
        struct tb_handle_slot *chunk =
            tb_calloc(TB_HANDLE_CHUNK, sizeof *chunk);
        if (!chunk)
            return NULL;
        for (uint32_t i = 0; i < TB_HANDLE_CHUNK; i++)
            atomic_init(&chunk[i].handle,
                        (uint32_t)kind << TB_HANDLE_KIND_SHIFT | (index + i));
        atomic_store_explicit(&t->chunks[index / TB_HANDLE_CHUNK], chunk,
                              memory_order_release);
    }
    t->used++;
    return slot_at(t, index);
}

static struct tb_handle_slot *reuse(struct tb_handle_table *t)
{
    if (t->free == 0)
        return NULL;
    struct tb_handle_slot *slot = slot_at(t, t->head);
    t->head = slot->next;
    t->free--;
    return slot;
}

/* Inline, and take() too, so that requests, which come and go with every
 * message, get copies that know their kind. */
static TB_INLINE tb_err give(void *object, enum tb_kind kind, uint32_t *handle)
{
    struct tb_handle_table *t = &tb_handle_tables[kind];
    struct tb_handle_slot *slot;

    lock(kind);
    slot = t->free >= TB_HANDLE_REST ? reuse(t) : fresh(t, kind);
    if (!slot)
        slot = reuse(t);
    if (slot) {
        *handle = atomic_load_explicit(&slot->handle, memory_order_relaxed);
        atomic_store_explicit(&slot->object, object, memory_order_release);
    }
    unlock(kind);
    if (slot)
        return TB_OK;
    return tb_fail(TB_ERR_NO_MEM, "no room for one more %s: %u exist already",
                   kind_names[kind], t->used);
}

static TB_INLINE void take(uint32_t handle, enum tb_kind kind)
{
    const uint32_t index_mask = (1u << TB_HANDLE_INDEX_BITS) - 1;
    const uint32_t one = 1u << TB_HANDLE_INDEX_BITS;
    const uint32_t kind_mask = ~0u << TB_HANDLE_KIND_SHIFT;
    struct tb_handle_table *t = &tb_handle_tables[kind];
    uint32_t index = handle & index_mask;
    struct tb_handle_slot *slot = slot_at(t, index);

    lock(kind);
    atomic_store_explicit(&slot->object, NULL, memory_order_relaxed);
    atomic_store_explicit(&slot->handle,
                          (handle & kind_mask) | ((handle + one) & ~kind_mask),
                          memory_order_release);
    if (t->free == 0)
        t->head = index;
    else
        slot_at(t, t->tail)->next = index;
    t->tail = index;
    t->free++;
    unlock(kind);
}

tb_err tb_handle_new(struct tb_obj *obj, enum tb_kind kind)
{
    obj->kind = (uint8_t)kind;
    TB_TRY(give(obj, kind, &obj->handle));
    obj->refs = 1;
    obj->users = 1;
    return TB_OK;
}

tb_err tb_handle_share(struct tb_obj *obj, enum tb_kind kind)
{
    if (obj->predefined)
        return TB_OK;
    if (!obj->handle) {
        obj->kind = (uint8_t)kind;
        obj->users = 0;
        TB_TRY(give(obj, kind, &obj->handle));
    }
    obj->users++;
    obj->refs++;
    return TB_OK;
}

void tb_handle_drop(struct tb_obj *obj)
{
    if (obj->predefined || !obj->handle || --obj->users > 0)
        return;
    take(obj->handle, (enum tb_kind)obj->kind);
    obj->handle = 0;
}

void tb_handle_predefine(struct tb_obj *obj, enum tb_kind kind, uintptr_t value)
{
    obj->handle = (uint32_t)value;
    obj->kind = (uint8_t)kind;
    obj->predefined = true;
    tb_handle_predefined[value] = obj;
}

void tb_handle_sweep(enum tb_kind kind, void (*drop)(void *object))
{
    struct tb_handle_table *t = &tb_handle_tables[kind];

    for (uint32_t i = 0; i < t->used; i++) {
        struct tb_handle_slot *slot = slot_at(t, i);
        void *object =
            atomic_load_explicit(&slot->object, memory_order_relaxed);
        if (!object)
            continue;
        take(atomic_load_explicit(&slot->handle, memory_order_relaxed), kind);
        if (kind != TB_KIND_REQ)
            ((struct tb_obj *)object)->handle = 0;
        drop(object);
    }
}

/* Tables grow as they are needed, and some before MPI_Init. */
tb_err tb_handle_init(void)
{
    return TB_OK;
}

static void forget(void *object)
{
    (void)object;
}

/* Handles that are still out stay invalid for ever: the slots live on. */
void tb_handle_fini(void)
{
    for (enum tb_kind kind = 1; kind < TB_KIND_LIMIT; kind++)
        if (!is_early(kind))
            tb_handle_sweep(kind, forget);
}

tb_err tb_handle_new_req(struct tb_req *req)
{
    return give(req, TB_KIND_REQ, &req->handle);
}

void tb_handle_drop_req(struct tb_req *req)
{
    if (!req->handle)
        return;
    take(req->handle, TB_KIND_REQ);
    req->handle = 0;
}

/* --------------------------------------------------------------- messages */

/* The constants that are never an object of their kind. */
static const struct {
    uintptr_t value;
    const char *name;
} nulls[] = {
    {(uintptr_t)MPI_COMM_NULL, "MPI_COMM_NULL"},
    {(uintptr_t)MPI_GROUP_NULL, "MPI_GROUP_NULL"},
    {(uintptr_t)MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL"},
    {(uintptr_t)MPI_OP_NULL, "MPI_OP_NULL"},
    {(uintptr_t)MPI_ERRHANDLER_NULL, "MPI_ERRHANDLER_NULL"},
    {(uintptr_t)MPI_INFO_NULL, "MPI_INFO_NULL"},
    {(uintptr_t)MPI_REQUEST_NULL, "MPI_REQUEST_NULL"},
    {(uintptr_t)MPI_MESSAGE_NULL, "MPI_MESSAGE_NULL"},
    {(uintptr_t)MPI_WIN_NULL, "MPI_WIN_NULL"},
    {(uintptr_t)MPI_FILE_NULL, "MPI_FILE_NULL"},
    {(uintptr_t)MPI_SESSION_NULL, "MPI_SESSION_NULL"},
};

static const tb_err kind_errors[TB_KIND_LIMIT] = {
    [TB_KIND_COMM] = TB_ERR_COMM,       [TB_KIND_GROUP] = TB_ERR_GROUP,
    [TB_KIND_TYPE] = TB_ERR_TYPE,       [TB_KIND_OP] = TB_ERR_OP,
    [TB_KIND_ERRH] = TB_ERR_ERRHANDLER, [TB_KIND_INFO] = TB_ERR_INFO,
    [TB_KIND_REQ] = TB_ERR_REQUEST,     [TB_KIND_MSG] = TB_ERR_REQUEST,
    [TB_KIND_WIN] = TB_ERR_WIN,         [TB_KIND_FILE] = TB_ERR_FILE,
    [TB_KIND_SESSION] = TB_ERR_SESSION, [TB_KIND_KEYVAL] = TB_ERR_KEYVAL,
};

tb_err tb_wrong_handle(uintptr_t value, enum tb_kind kind)
{
    tb_err err = kind_errors[kind];

    for (size_t i = 0; i < TB_COUNT_OF(nulls); i++)
        if (nulls[i].value == value)
            return tb_fail(err, "%s where a %s is needed", nulls[i].name,
                           kind_names[kind]);
    for (enum tb_kind k = 1; k < TB_KIND_LIMIT; k++)
        if (k != kind && tb_handle_find(value, k))
            return tb_fail(err, "handle 0x%llx is a %s, and a %s is needed",
                           (unsigned long long)value, kind_names[k],
                           kind_names[kind]);
    if (value == (uintptr_t)MPI_COMM_WORLD || value == (uintptr_t)MPI_COMM_SELF)
        return tb_fail(err,
                       "%s exists from MPI_Init to MPI_Finalize only: in a "
                       "session make a communicator of a process set",
                       value == (uintptr_t)MPI_COMM_SELF ? "MPI_COMM_SELF"
                                                         : "MPI_COMM_WORLD");
    if (value >> TB_HANDLE_KIND_SHIFT == (uintptr_t)kind)
        return tb_fail(err, "%s 0x%llx has been freed", kind_names[kind],
                       (unsigned long long)value);
    return tb_fail(err, "0x%llx is not a %s: was the variable ever set?",
                   (unsigned long long)value, kind_names[kind]);
}
