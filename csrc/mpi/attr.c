/* SPDX-License-Identifier: MIT */
/*
 * Attributes cached on communicators, datatypes and windows.
 *
 * A keyval lives until it was freed and no attribute uses it any more; until
 * then a freed one still works, as the standard wants. Callbacks run without
 * the lock, since they may call MPI; so the code around them never keeps a
 * position in a list across one.
 */
#include "mpi/api.h"
#include "mpi/check.h"
#include "mpi/errcode.h"
#include "mpi/life.h"
#include "mpi/world.h"

struct tb_keyval {
    struct tb_obj obj; /* refs: the program's, until freed, and attributes' */
    enum tb_kind of;
    bool freed;
    union {
        MPI_Comm_copy_attr_function *comm;
        MPI_Type_copy_attr_function *type;
        MPI_Win_copy_attr_function *win;
    } copy;
    union {
        MPI_Comm_delete_attr_function *comm;
        MPI_Type_delete_attr_function *type;
        MPI_Win_delete_attr_function *win;
    } delete;
    enum { COPY_NOT, COPY_VALUE, COPY_CALL } how;
    bool calls_delete;
    void *extra;
};

struct attr {
    struct tb_keyval *key; /* a reference */
    void *value;
};

/* In the order in which they were set. */
struct tb_attrs {
    int n, room;
    struct attr *list;
};

/* --------------------------------------------------------------- keyvals */

static void keyval_unref(struct tb_keyval *k)
{
    if (--k->obj.refs > 0)
        return;
    tb_handle_drop(&k->obj);
    tb_free(k);
}

static const char *kind_name(enum tb_kind kind)
{
    return kind == TB_KIND_COMM   ? "communicators"
           : kind == TB_KIND_TYPE ? "datatypes"
                                  : "windows";
}

static tb_err find_keyval(int keyval, enum tb_kind of, struct tb_keyval **out)
{
    if (keyval == MPI_KEYVAL_INVALID)
        return tb_fail(TB_ERR_KEYVAL, "the attribute key is "
                                      "MPI_KEYVAL_INVALID");
    if (keyval >= MPI_TAG_UB && keyval <= MPI_WIN_MODEL)
        return tb_fail(TB_ERR_KEYVAL,
                       "attribute %d is predefined: it cannot "
                       "be set, deleted or freed",
                       keyval);
    struct tb_keyval *k = tb_handle_find((uintptr_t)keyval, TB_KIND_KEYVAL);
    if (!k)
        return tb_wrong_handle((uintptr_t)keyval, TB_KIND_KEYVAL);
    if (k->of != of)
        return tb_fail(TB_ERR_KEYVAL,
                       "attribute key %d is one for %s, and one "
                       "for %s is needed",
                       keyval, kind_name(k->of), kind_name(of));
    *out = k;
    return TB_OK;
}

/* The ABI's sentinels: 0 does nothing, 1 copies the value. */
static int how_to_copy(uintptr_t fn)
{
    return fn == 0 ? COPY_NOT : fn == 1 ? COPY_VALUE : COPY_CALL;
}

static tb_err publish(struct tb_keyval *k, enum tb_kind of, void *extra,
                      int *keyval)
{
    k->of = of;
    k->extra = extra;
    tb_err err = tb_handle_new(&k->obj, TB_KIND_KEYVAL);
    if (err)
        tb_free(k);
    else
        *keyval = (int)k->obj.handle;
    return err;
}

static tb_err make_keyval(struct tb_keyval **out)
{
    *out = tb_calloc(1, sizeof **out);
    return *out ? TB_OK
                : tb_fail(TB_ERR_NO_MEM, "no memory for an attribute "
                                         "key");
}

tb_err tb_comm_create_keyval(MPI_Comm_copy_attr_function *copy,
                             MPI_Comm_delete_attr_function *delete, int *keyval,
                             void *extra_state)
{
    struct tb_keyval *k = NULL;
    TB_TRY(make_keyval(&k));
    k->copy.comm = copy;
    k->delete.comm = delete;
    k->how = how_to_copy((uintptr_t)copy);
    k->calls_delete = delete != MPI_COMM_NULL_DELETE_FN;
    return publish(k, TB_KIND_COMM, extra_state, keyval);
}

tb_err tb_type_create_keyval(MPI_Type_copy_attr_function *copy,
                             MPI_Type_delete_attr_function *delete, int *keyval,
                             void *extra_state)
{
    struct tb_keyval *k = NULL;
    TB_TRY(make_keyval(&k));
    k->copy.type = copy;
    k->delete.type = delete;
    k->how = how_to_copy((uintptr_t)copy);
    k->calls_delete = delete != MPI_TYPE_NULL_DELETE_FN;
    return publish(k, TB_KIND_TYPE, extra_state, keyval);
}

tb_err tb_win_create_keyval(MPI_Win_copy_attr_function *copy,
                            MPI_Win_delete_attr_function *delete, int *keyval,
                            void *extra_state)
{
    struct tb_keyval *k = NULL;
    TB_TRY(make_keyval(&k));
    k->copy.win = copy;
    k->delete.win = delete;
    k->how = how_to_copy((uintptr_t)copy);
    k->calls_delete = delete != MPI_WIN_NULL_DELETE_FN;
    return publish(k, TB_KIND_WIN, extra_state, keyval);
}

/* A key may be freed again while attributes still use it: programs do that in
 * delete callbacks. */
static tb_err free_keyval(int *keyval, enum tb_kind of)
{
    struct tb_keyval *k = NULL;
    TB_TRY(find_keyval(*keyval, of, &k));
    *keyval = MPI_KEYVAL_INVALID;
    if (!k->freed) {
        k->freed = true;
        keyval_unref(k);
    }
    return TB_OK;
}

tb_err tb_comm_free_keyval(int *keyval)
{
    return free_keyval(keyval, TB_KIND_COMM);
}

tb_err tb_type_free_keyval(int *keyval)
{
    return free_keyval(keyval, TB_KIND_TYPE);
}

tb_err tb_win_free_keyval(int *keyval)
{
    return free_keyval(keyval, TB_KIND_WIN);
}

/* -------------------------------------------------------------- callbacks */

static tb_err call_delete(struct tb_keyval *k, void *handle, void *value)
{
    int key = (int)k->obj.handle;
    int code = MPI_SUCCESS;

    if (!k->calls_delete)
        return TB_OK;
    tb_unlock();
    if (k->of == TB_KIND_COMM)
        code = k->delete.comm(handle, key, value, k->extra);
    else if (k->of == TB_KIND_TYPE)
        code = k->delete.type(handle, key, value, k->extra);
    else
        code = k->delete.win(handle, key, value, k->extra);
    tb_lock();
    return tb_err_foreign(code);
}

/* *copied says whether the new object gets the attribute, as *value. */
static tb_err call_copy(struct tb_keyval *k, void *handle, void *old,
                        void **value, int *copied)
{
    int key = (int)k->obj.handle;
    int code = MPI_SUCCESS;

    *value = old;
    *copied = k->how == COPY_VALUE;
    if (k->how != COPY_CALL)
        return TB_OK;
    tb_unlock();
    if (k->of == TB_KIND_COMM)
        code = k->copy.comm(handle, key, k->extra, old, value, copied);
    else if (k->of == TB_KIND_TYPE)
        code = k->copy.type(handle, key, k->extra, old, value, copied);
    else
        code = k->copy.win(handle, key, k->extra, old, value, copied);
    tb_lock();
    return tb_err_foreign(code);
}

/* -------------------------------------------------------------- the lists */

static int find(const struct tb_attrs *attrs, const struct tb_keyval *k)
{
    for (int i = 0; attrs && i < attrs->n; i++)
        if (attrs->list[i].key == k)
            return i;
    return -1;
}

static void take_out(struct tb_attrs *attrs, int i)
{
    struct tb_keyval *k = attrs->list[i].key;

    attrs->n--;
    memmove(&attrs->list[i], &attrs->list[i + 1],
            (size_t)(attrs->n - i) * sizeof attrs->list[0]);
    keyval_unref(k);
}

static tb_err add(struct tb_attrs **at, struct tb_keyval *k, void *value)
{
    struct tb_attrs *attrs = *at ? *at : tb_calloc(1, sizeof *attrs);
    if (!attrs)
        return tb_fail(TB_ERR_NO_MEM, "no memory for an attribute");
    *at = attrs;
    if (attrs->n == attrs->room) {
        int room = attrs->room ? 2 * attrs->room : 4;
        void *more =
            tb_realloc(attrs->list, (size_t)room * sizeof attrs->list[0]);
        if (!more)
            return tb_fail(TB_ERR_NO_MEM, "no memory for an attribute");
        attrs->list = more;
        attrs->room = room;
    }
    k->obj.refs++;
    attrs->list[attrs->n++] = (struct attr){k, value};
    return TB_OK;
}

/* Runs the delete callback and, if that agrees, takes the attribute out. */
static tb_err delete_key(struct tb_attrs **at, struct tb_keyval *k,
                         void *handle)
{
    int i = find(*at, k);

    k->obj.refs++;
    tb_err err = call_delete(k, handle, (*at)->list[i].value);
    i = err ? -1 : find(*at, k);
    if (i >= 0)
        take_out(*at, i);
    keyval_unref(k);
    return err;
}

void tb_attrs_forget(struct tb_attrs **attrs)
{
    while (*attrs && (*attrs)->n)
        take_out(*attrs, (*attrs)->n - 1);
    if (*attrs)
        tb_free((*attrs)->list);
    tb_free(*attrs);
    *attrs = NULL;
}

tb_err tb_attrs_free(struct tb_attrs **attrs, void *handle, enum tb_kind kind)
{
    (void)kind; /* each key knows its own */
    while (*attrs && (*attrs)->n)
        TB_TRY(delete_key(attrs, (*attrs)->list[(*attrs)->n - 1].key, handle));
    tb_attrs_forget(attrs);
    return TB_OK;
}

tb_err tb_attrs_copy(const struct tb_attrs *from, void *old_handle,
                     enum tb_kind kind, struct tb_attrs **out)
{
    (void)kind;
    *out = NULL;
    for (int i = 0; from && i < from->n; i++) {
        struct attr old = from->list[i];
        void *value;
        int copied;
        old.key->obj.refs++;
        tb_err err = call_copy(old.key, old_handle, old.value, &value, &copied);
        if (!err && copied)
            err = add(out, old.key, value);
        keyval_unref(old.key);
        if (err) {
            tb_attrs_forget(out);
            return err;
        }
    }
    return TB_OK;
}

/* A new value for a key comes after those of all other keys. */
static tb_err set_attr(struct tb_attrs **at, void *handle, enum tb_kind kind,
                       int keyval, void *value)
{
    struct tb_keyval *k = NULL;
    TB_TRY(find_keyval(keyval, kind, &k));
    k->obj.refs++;
    tb_err err = find(*at, k) >= 0 ? delete_key(at, k, handle) : TB_OK;
    if (!err)
        err = add(at, k, value);
    keyval_unref(k);
    return err;
}

static tb_err get_attr(const struct tb_attrs *attrs, enum tb_kind kind,
                       int keyval, void *out, int *flag)
{
    struct tb_keyval *k = NULL;
    TB_TRY(find_keyval(keyval, kind, &k));
    int i = find(attrs, k);
    *flag = i >= 0;
    if (i >= 0)
        memcpy(out, &attrs->list[i].value, sizeof(void *));
    return TB_OK;
}

static tb_err delete_attr(struct tb_attrs **at, void *handle, enum tb_kind kind,
                          int keyval)
{
    struct tb_keyval *k = NULL;
    TB_TRY(find_keyval(keyval, kind, &k));
    if (find(*at, k) < 0)
        return tb_fail(TB_ERR_KEYVAL, "no attribute of key %d is set here",
                       keyval);
    return delete_key(at, k, handle);
}

/* ------------------------------------------------------- predefined ones */

static struct {
    int tag_ub, io, host, wtime_is_global, appnum, last_used, universe;
} values = {
    .tag_ub = TB_TAG_UB,
    .io = MPI_ANY_SOURCE, /* any process can do input and output */
    .host = MPI_PROC_NULL,
};

tb_err tb_attr_init(void)
{
    struct tb_net *net = tb_engine_net(tb_world.engine);
    int local;

    tb_net_local(net, &local);
    values.wtime_is_global = local == tb_net_endpoints(net);
    values.appnum = tb_boot_appnum(tb_world.boot);
    values.universe = tb_boot_universe(tb_world.boot);
    return TB_OK;
}

/* Attributes of objects that end later still use some. */
static void drop(void *object)
{
    struct tb_keyval *k = object;

    if (!k->freed) {
        k->freed = true;
        keyval_unref(k);
    }
}

void tb_attr_fini(void)
{
    tb_handle_sweep(TB_KIND_KEYVAL, drop);
}

/* NULL: not such a key, or nothing is known. */
static int *predefined(int keyval)
{
    switch (keyval) {
    case MPI_TAG_UB:
        return &values.tag_ub;
    case MPI_IO:
        return &values.io;
    case MPI_HOST:
        return &values.host;
    case MPI_WTIME_IS_GLOBAL:
        return &values.wtime_is_global;
    case MPI_APPNUM:
        return values.appnum >= 0 ? &values.appnum : NULL;
    case MPI_LASTUSEDCODE:
        values.last_used = tb_err_last_used();
        return &values.last_used;
    case MPI_UNIVERSE_SIZE:
        return values.universe >= 0 ? &values.universe : NULL;
    default:
        return NULL;
    }
}

/* ----------------------------------------------------------- the MPI calls */

tb_err tb_comm_get_attr(struct tb_comm *comm, int keyval, void *attribute_val,
                        int *flag)
{
    if (keyval < MPI_TAG_UB || keyval > MPI_UNIVERSE_SIZE)
        return get_attr(comm->attrs, TB_KIND_COMM, keyval, attribute_val, flag);
    int *value = predefined(keyval);
    *flag = value != NULL;
    if (value)
        memcpy(attribute_val, &value, sizeof value);
    return TB_OK;
}

tb_err tb_comm_set_attr(struct tb_comm *comm, int keyval, void *attribute_val)
{
    return set_attr(&comm->attrs, tb_comm_handle(comm), TB_KIND_COMM, keyval,
                    attribute_val);
}

tb_err tb_comm_delete_attr(struct tb_comm *comm, int keyval)
{
    return delete_attr(&comm->attrs, tb_comm_handle(comm), TB_KIND_COMM,
                       keyval);
}

tb_err tb_type_get_attr(struct tb_type *datatype, int keyval,
                        void *attribute_val, int *flag)
{
    return get_attr(datatype->attrs, TB_KIND_TYPE, keyval, attribute_val, flag);
}

tb_err tb_type_set_attr(struct tb_type *datatype, int keyval,
                        void *attribute_val)
{
    return set_attr(&datatype->attrs, tb_type_handle(datatype), TB_KIND_TYPE,
                    keyval, attribute_val);
}

tb_err tb_type_delete_attr(struct tb_type *datatype, int keyval)
{
    return delete_attr(&datatype->attrs, tb_type_handle(datatype), TB_KIND_TYPE,
                       keyval);
}

/* ----------------------------------------------------------------- windows */

/* Where a predefined attribute's value is: the attribute is the address of an
 * integer, or of the memory itself. */
static void *win_value(struct tb_win *win, int keyval)
{
    switch (keyval) {
    case MPI_WIN_BASE:
        return win->base;
    case MPI_WIN_SIZE:
        return &win->size;
    case MPI_WIN_DISP_UNIT:
        return &win->disp_unit;
    case MPI_WIN_CREATE_FLAVOR:
        return &win->flavor;
    default:
        return &win->model;
    }
}

tb_err tb_win_get_attr(struct tb_win *win, int keyval, void *attribute_val,
                       int *flag)
{
    if (keyval < MPI_WIN_BASE || keyval > MPI_WIN_MODEL)
        return get_attr(win->attrs, TB_KIND_WIN, keyval, attribute_val, flag);
    void *value = win_value(win, keyval);
    *flag = 1;
    memcpy(attribute_val, &value, sizeof value);
    return TB_OK;
}

tb_err tb_win_set_attr(struct tb_win *win, int keyval, void *attribute_val)
{
    return set_attr(&win->attrs, tb_win_handle(win), TB_KIND_WIN, keyval,
                    attribute_val);
}

tb_err tb_win_delete_attr(struct tb_win *win, int keyval)
{
    return delete_attr(&win->attrs, tb_win_handle(win), TB_KIND_WIN, keyval);
}
