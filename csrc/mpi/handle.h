/* SPDX-License-Identifier: MIT */
/*
 * Handles: the numbers that programs hold in place of objects.
 *
 * A predefined handle is the standard's constant, below 4096. Any other is
 *
 *     kind (4 bits) | generation (7 bits) | index (20 bits)
 *
 * of a slot in the table of its kind. The generation grows each time a slot
 * is given up, and slots wait in a queue of at least TB_HANDLE_REST before
 * they are used again, so a stale handle is told from a live one for the next
 * 8192 objects of its kind and longer.
 *
 * Look-ups take no lock: chunks of a table never move, and a slot's object is
 * published last. Changes are made under the global lock, except for the
 * kinds that exist before MPI_Init, which have one of their own.
 */
#ifndef TB_HANDLE_H
#define TB_HANDLE_H

#include "base/base.h"

enum tb_kind {
    TB_KIND_NONE,
    TB_KIND_COMM,
    TB_KIND_GROUP,
    TB_KIND_TYPE,
    TB_KIND_OP,
    TB_KIND_ERRH,
    TB_KIND_INFO,
    TB_KIND_REQ,
    TB_KIND_MSG,
    TB_KIND_WIN,
    TB_KIND_FILE,
    TB_KIND_SESSION,
    TB_KIND_KEYVAL,
    TB_KIND_LIMIT
};

/* First in each object, so that a table of objects is a table of these. */
struct tb_obj {
    uint32_t handle; /* 0: has none (internal, or freed but in use) */
    int32_t refs;
    int32_t users; /* how often the program was given the handle */
    uint8_t kind;
    bool predefined;
};

struct tb_req;

#define TB_HANDLE_INDEX_BITS 20
#define TB_HANDLE_GENERATION_BITS 7
#define TB_HANDLE_KIND_SHIFT 27
#define TB_HANDLE_PREDEFINED 1024 /* the ABI's constants are all below */
#define TB_HANDLE_CHUNK 1024      /* slots */
#define TB_HANDLE_CHUNKS 1024
#define TB_HANDLE_REST 64

struct tb_handle_slot {
    _Atomic(void *) object;  /* NULL: free */
    _Atomic uint32_t handle; /* the present one, or that of the next object */
    uint32_t next;           /* in the queue of free slots */
};

struct tb_handle_table {
    _Atomic(struct tb_handle_slot *) chunks[TB_HANDLE_CHUNKS];
    uint32_t used;       /* slots that were ever used */
    uint32_t free;       /* length of the queue of free slots */
    uint32_t head, tail; /* indices, when free is not 0 */
};

extern struct tb_handle_table tb_handle_tables[TB_KIND_LIMIT];
extern struct tb_obj *tb_handle_predefined[TB_HANDLE_PREDEFINED];

/* Gives the object a handle of its kind, and with it its first reference:
 * refs and users become 1. */
tb_err tb_handle_new(struct tb_obj *obj, enum tb_kind kind);
/* Gives the program one more right to the object's handle, making one if it
 * has none, and takes a reference for it. */
tb_err tb_handle_share(struct tb_obj *obj, enum tb_kind kind);
/* Takes one such right back; look-ups fail when it was the last. The caller
 * gives the reference back. Nothing for predefined objects. */
void tb_handle_drop(struct tb_obj *obj);
/* Binds a predefined object to the standard's constant. */
void tb_handle_predefine(struct tb_obj *obj, enum tb_kind kind,
                         uintptr_t value);
/* Takes the handle from every object of that kind and hands them, one by one,
 * to `drop`: what the program left behind when MPI ends. */
void tb_handle_sweep(enum tb_kind kind, void (*drop)(void *object));
/* The same as new and drop for requests, which are not tb_obj: the value is
 * req->handle, and there is one right only. */
tb_err tb_handle_new_req(struct tb_req *req);
void tb_handle_drop_req(struct tb_req *req);

/* The object of a handle value; NULL: there is none of that kind. */
static inline void *tb_handle_find(uintptr_t value, enum tb_kind kind)
{
    if (value < TB_HANDLE_PREDEFINED) {
        struct tb_obj *obj = tb_handle_predefined[value];
        return obj && obj->kind == kind ? obj : NULL;
    }
    if (value >> TB_HANDLE_KIND_SHIFT != (uintptr_t)kind)
        return NULL;
    uint32_t index = value & ((1u << TB_HANDLE_INDEX_BITS) - 1);
    struct tb_handle_slot *chunk = atomic_load_explicit(
        &tb_handle_tables[kind].chunks[index / TB_HANDLE_CHUNK],
        memory_order_acquire);
    if (TB_UNLIKELY(!chunk))
        return NULL;
    struct tb_handle_slot *slot = &chunk[index % TB_HANDLE_CHUNK];
    void *object = atomic_load_explicit(&slot->object, memory_order_acquire);
    uint32_t handle = atomic_load_explicit(&slot->handle, memory_order_relaxed);
    return TB_LIKELY(handle == value) ? object : NULL;
}

#endif
