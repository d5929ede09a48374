/* SPDX-License-Identifier: MIT */
/*
 * The objects behind MPI's handles, and the look-up from one to the other.
 *
 * A handle is a number in a pointer (mpi.h's ABI; handle.h), so that a freed,
 * foreign or garbage handle is an error and never a wild pointer.
 *
 * Ownership: an object is born with one reference, that of its maker, which
 * becomes that of its handle (tb_handle_new). Whoever stores a pointer beyond a
 * call takes one; tb_X_free (the MPI call) gives the handle's back. Predefined
 * objects are never freed; references to them are harmless. The counts change
 * only under the lock.
 */
#ifndef TB_OBJECTS_H
#define TB_OBJECTS_H

#include "base/base.h"
#include "engine/engine.h"
#include "include/mpi.h"
#include "mpi/handle.h"

/* ------------------------------------------------------------- the objects */

struct tb_attrs;   /* attr.c: cached attributes; NULL when there are none */
struct tb_topo;    /* topo.c */
struct tb_buffer;  /* bsend.c: an attached buffer */
struct tb_uses;    /* comm_name.c */
struct tb_commons; /* coll/commons.c */
struct tb_rma;     /* rma/rma.h */

struct tb_errh {
    struct tb_obj obj;
    enum tb_errh_what {
        TB_ERRH_FATAL,
        TB_ERRH_ABORT,
        TB_ERRH_RETURN,
        TB_ERRH_CALL
    } what;
    enum tb_kind of;    /* comm, win, file or session */
    void (*call)(void); /* cast to the kind's function type */
};

struct tb_group {
    struct tb_obj obj;
    int size;
    int rank;                   /* of this process, or MPI_UNDEFINED */
    int *ranks;                 /* endpoint of each member */
    struct tb_session *session; /* it comes from; NULL: from MPI_Init */
};

struct tb_info {
    struct tb_obj obj;
    int n, room;
    struct tb_info_pair {
        char *key, *value;
    } * pairs;
};

struct tb_comm {
    struct tb_obj obj;
    uint64_t name_id;     /* agreed name; also of its point-to-point context */
    uint32_t children;    /* collective creations made from this one so far */
    struct tb_uses *uses; /* creations by groups of it: Comm_create_group */
    int rank, size;
    int remote_size;         /* intracommunicator: 0 */
    struct tb_group *group;  /* local */
    struct tb_group *remote; /* NULL: intracommunicator */
    struct tb_group *peers;  /* whom ranks in send and receive name: remote
                                or, without one, local. Not a reference. */
    struct tb_context *p2p;
    struct tb_context *coll;
    struct tb_comm *local; /* intercommunicator: its local half, private */
    uint32_t coll_seq;     /* tag of the next collective */
    bool low_first;        /* intercommunicator: see Intercomm_merge */
    struct tb_errh *errh;
    struct tb_attrs *attrs;
    struct tb_topo *topo;
    struct tb_commons *commons;
    struct tb_shape *shape; /* coll/shape.h; NULL: nobody has asked yet */
    struct tb_info *info;
    struct tb_session *session;      /* as that of its group */
    struct tb_buffer *buffer;        /* bsend.c: of MPI_Comm_attach_buffer */
    char label[MPI_MAX_OBJECT_NAME]; /* MPI_Comm_set_name */
};

/* How the values of a predefined type are represented: what reductions compute
 * with. Pairs are a value and an index; DOUBLE_INT is struct tb_pair_DOUBLE_INT
 * (type.h). */
enum tb_basic {
    TB_BASIC_NONE, /* derived, or a number this platform does not have */
    TB_BASIC_INT8,
    TB_BASIC_INT16,
    TB_BASIC_INT32,
    TB_BASIC_INT64,
    TB_BASIC_INT128,
    TB_BASIC_UINT8,
    TB_BASIC_UINT16,
    TB_BASIC_UINT32,
    TB_BASIC_UINT64,
    TB_BASIC_UINT128,
    TB_BASIC_FLOAT16,
    TB_BASIC_BFLOAT16,
    TB_BASIC_FLOAT,
    TB_BASIC_DOUBLE,
    TB_BASIC_LONG_DOUBLE,
    TB_BASIC_FLOAT128,
    TB_BASIC_COMPLEX_FLOAT16,
    TB_BASIC_COMPLEX_FLOAT,
    TB_BASIC_COMPLEX_DOUBLE,
    TB_BASIC_COMPLEX_LONG_DOUBLE,
    TB_BASIC_COMPLEX_FLOAT128,
    TB_BASIC_FLOAT_INT,
    TB_BASIC_DOUBLE_INT,
    TB_BASIC_LONG_INT,
    TB_BASIC_INT_INT,
    TB_BASIC_SHORT_INT,
    TB_BASIC_LONG_DOUBLE_INT,
    TB_BASIC_FLOAT_FLOAT,
    TB_BASIC_DOUBLE_DOUBLE,
    TB_BASIC_LIMIT
};

/* What a predefined type is to the standard's table of reductions (MPI 5.0,
 * section 6.9.2). */
enum tb_family {
    TB_FAMILY_NONE, /* derived, characters, MPI_PACKED: no reductions */
    TB_FAMILY_C_INTEGER,
    TB_FAMILY_FORTRAN_INTEGER,
    TB_FAMILY_FLOATING,
    TB_FAMILY_LOGICAL,
    TB_FAMILY_COMPLEX,
    TB_FAMILY_BYTE,
    TB_FAMILY_MULTI, /* of no one language: MPI_AINT and its like */
    TB_FAMILY_PAIR
};

struct tb_type_args; /* type.h: envelope and contents */

struct tb_type {
    struct tb_obj obj;
    struct tb_layout *layout;
    bool committed;
    uint8_t basic;        /* enum tb_basic */
    uint8_t family;       /* enum tb_family */
    int combiner;         /* MPI_COMBINER_* */
    int64_t elements;     /* basic elements in one element */
    struct tb_type *only; /* predefined type that they all are; NULL: mixed */
    struct tb_type_args *args; /* NULL: predefined and not a pair */
    struct tb_attrs *attrs;
    char label[MPI_MAX_OBJECT_NAME];
};

struct tb_op {
    struct tb_obj obj;
    bool commutes;
    int which; /* predefined: the standard's constant; user's: 0 */
    MPI_User_function *fn;
    MPI_User_function_c *fn_c;
};

/* A matched message (Mprobe) waiting for its Mrecv. */
struct tb_msg {
    struct tb_obj obj;
    struct tb_comm *comm;
    struct tb_arrival *arrival; /* NULL: MPI_MESSAGE_NO_PROC */
};

struct tb_win {
    struct tb_obj obj;
    struct tb_errh *errh;
    struct tb_comm *comm; /* its own: nobody else talks there */
    struct tb_rma *rma;   /* rma/rma.h */
    struct tb_attrs *attrs;
    struct tb_info *info;
    void *base; /* these are the values of attributes */
    MPI_Aint size;
    int disp_unit, flavor, model;
    char label[MPI_MAX_OBJECT_NAME];
};
struct tb_file {
    struct tb_obj obj;
    struct tb_errh *errh;
};
/* Groups and communicators that come from a session hold a reference, so that
 * it outlives its end by MPI_Session_finalize. */
struct tb_session {
    struct tb_obj obj;
    struct tb_errh *errh;
    struct tb_buffer *buffer; /* bsend.c: of MPI_Session_attach_buffer */
};

/* Adds and drops a reference; dropping the last one frees. NULL is fine. */
struct tb_comm *tb_comm_ref(struct tb_comm *c);
void tb_comm_unref(struct tb_comm *c);
struct tb_group *tb_group_ref(struct tb_group *g);
void tb_group_unref(struct tb_group *g);
struct tb_type *tb_type_ref(struct tb_type *t);
void tb_type_unref(struct tb_type *t);
struct tb_op *tb_op_ref(struct tb_op *o);
void tb_op_unref(struct tb_op *o);
struct tb_errh *tb_errh_ref(struct tb_errh *h);
void tb_errh_unref(struct tb_errh *h);
struct tb_session *tb_session_ref(struct tb_session *s);
void tb_session_unref(struct tb_session *s);

/* --------------------------------------------- between the files of mpi/ */

/* group.c: a group of these endpoints, without a handle yet, taking over the
 * array (of tb_alloc) also when it fails. */
tb_err tb_group_make(struct tb_group **out, int *endpoints, int n);
/* The same, with a handle, and the session of what it was made from (NULL:
 * none): the end of every creation of a group. */
tb_err tb_group_publish(struct tb_group **out, int *endpoints, int n,
                        struct tb_session *session);
/* Where an endpoint is in the group; MPI_UNDEFINED: nowhere. */
int tb_group_find(const struct tb_group *g, int endpoint);
extern struct tb_group tb_group_empty; /* MPI_GROUP_EMPTY */

/* comm.c: a communicator named `name_id`, without a handle yet. Takes no
 * reference away from its arguments. `remote` NULL: an intracommunicator. The
 * error handler is the parent's, or MPI_ERRORS_ARE_FATAL without one. */
tb_err tb_comm_make(struct tb_comm **out, uint64_t name_id,
                    struct tb_group *group, struct tb_group *remote,
                    const struct tb_comm *parent);
/* The name of the next communicator made collectively from this one: equal in
 * all members without talking, since creations are ordered (comm_name.c). */
uint64_t tb_comm_next_name(struct tb_comm *parent);
/* What messages call a communicator: its name, or what it is. Into `out`. */
const char *tb_comm_describe(const struct tb_comm *c, char *out, size_t size);

/* errcode.c: MPI's class of an internal error. What goes into a status. */
int tb_err_class(tb_err err);
/* errh.c: MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT, MPI_ERRORS_RETURN. */
extern struct tb_errh tb_errors_fatal, tb_errors_abort, tb_errors_return;

/* attr.c. Copy runs the copy callbacks into a new set; an error of a callback
 * is returned and *out is left NULL. Free runs the delete callbacks. */
tb_err tb_attrs_copy(const struct tb_attrs *from, void *old_handle,
                     enum tb_kind kind, struct tb_attrs **out);
tb_err tb_attrs_free(struct tb_attrs **attrs, void *handle, enum tb_kind kind);
/* Frees them without callbacks: where they have run, or it is too late. */
void tb_attrs_forget(struct tb_attrs **attrs);

/* topo.c: a topology never changes; duplicates of a communicator share it.
 * NULL is fine. */
struct tb_topo *tb_topo_ref(struct tb_topo *t);
void tb_topo_unref(struct tb_topo *t);
/* Neighbours in the order of the neighbourhood collectives; arrays stay the
 * topology's. Ranks may be MPI_PROC_NULL. TB_ERR_TOPOLOGY without one. */
tb_err tb_topo_neighbours(const struct tb_comm *c, int *n_in, const int **in,
                          int *n_out, const int **out);

/* coll/commons.c: gives back what a communicator holds of the machine's shared
 * memory. NULL is fine. */
void tb_commons_free(struct tb_commons *commons);
void tb_shape_free(struct tb_shape *shape);

/* info.c. New objects and copies have no handle; release takes it away, if
 * there is one, and frees; NULL is fine. look: the value, or NULL. */
tb_err tb_info_make(struct tb_info **out);
tb_err tb_info_copy(const struct tb_info *from, struct tb_info **out);
void tb_info_release(struct tb_info *info);
const char *tb_info_look(const struct tb_info *info, const char *key);
extern struct tb_info tb_info_env; /* MPI_INFO_ENV */

/* op.c: inout[i] = in[i] op inout[i], count elements. The one place that runs
 * reductions; type and op were checked by tb_op_check, or are what one-sided
 * communication allows. The memories do not overlap. */
void tb_op_apply(struct tb_op *op, const void *in, void *inout, int64_t count,
                 struct tb_type *type);
/* Whether a reduction of this type by `op` exists; TB_ERR_OP otherwise. Not
 * for MPI_REPLACE and MPI_NO_OP, which are no reductions. */
tb_err tb_op_check(const struct tb_op *op, const struct tb_type *type);

/* type.c: basic elements in `bytes` leading bytes of a stream of this type;
 * MPI_UNDEFINED when they end within one. */
int64_t tb_type_elements(const struct tb_type *t, int64_t bytes);
/* The predefined type that all of a datatype consists of; NULL: several. A pair
 * is one, whatever its parts are. */
struct tb_type *tb_type_element(struct tb_type *t);
/* Bytes in the stream of `count` elements; TB_ERR_COUNT if too many. */
tb_err tb_type_stream(const struct tb_type *t, int64_t count, int64_t *bytes);

/* ----------------------------------------------------- handles <-> objects */

/* handle.c: says what is wrong with a handle. */
tb_err tb_wrong_handle(uintptr_t value, enum tb_kind kind);

/* tb_X_get(handle, &object): the object, not a reference; an error for a
 * handle that is null, freed, of another kind, or never was one. */
#define TB_HANDLE_GET(Type, name, KIND)                                       \
    static inline tb_err tb_##name##_get(Type handle, struct tb_##name **out) \
    {                                                                         \
        *out = tb_handle_find((uintptr_t)handle, KIND);                       \
        return TB_LIKELY(*out != NULL)                                        \
                   ? TB_OK                                                    \
                   : tb_wrong_handle((uintptr_t)handle, KIND);                \
    }
TB_HANDLE_GET(MPI_Comm, comm, TB_KIND_COMM)
TB_HANDLE_GET(MPI_Group, group, TB_KIND_GROUP)
TB_HANDLE_GET(MPI_Datatype, type, TB_KIND_TYPE)
TB_HANDLE_GET(MPI_Op, op, TB_KIND_OP)
TB_HANDLE_GET(MPI_Errhandler, errh, TB_KIND_ERRH)
TB_HANDLE_GET(MPI_Info, info, TB_KIND_INFO)
TB_HANDLE_GET(MPI_Request, req, TB_KIND_REQ)
TB_HANDLE_GET(MPI_Message, msg, TB_KIND_MSG)
TB_HANDLE_GET(MPI_Win, win, TB_KIND_WIN)
TB_HANDLE_GET(MPI_File, file, TB_KIND_FILE)
TB_HANDLE_GET(MPI_Session, session, TB_KIND_SESSION)
#undef TB_HANDLE_GET

#define TB_HANDLE_OF(Type, name, null, field)                        \
    static inline Type tb_##name##_handle(const struct tb_##name *x) \
    {                                                                \
        return x ? (Type)(uintptr_t)x->field : null;                 \
    }
TB_HANDLE_OF(MPI_Comm, comm, MPI_COMM_NULL, obj.handle)
TB_HANDLE_OF(MPI_Group, group, MPI_GROUP_NULL, obj.handle)
TB_HANDLE_OF(MPI_Datatype, type, MPI_DATATYPE_NULL, obj.handle)
TB_HANDLE_OF(MPI_Op, op, MPI_OP_NULL, obj.handle)
TB_HANDLE_OF(MPI_Errhandler, errh, MPI_ERRHANDLER_NULL, obj.handle)
TB_HANDLE_OF(MPI_Info, info, MPI_INFO_NULL, obj.handle)
TB_HANDLE_OF(MPI_Request, req, MPI_REQUEST_NULL, handle)
TB_HANDLE_OF(MPI_Message, msg, MPI_MESSAGE_NULL, obj.handle)
TB_HANDLE_OF(MPI_Win, win, MPI_WIN_NULL, obj.handle)
TB_HANDLE_OF(MPI_File, file, MPI_FILE_NULL, obj.handle)
TB_HANDLE_OF(MPI_Session, session, MPI_SESSION_NULL, obj.handle)
#undef TB_HANDLE_OF

#endif
