/* SPDX-License-Identifier: MIT */
/*
 * The parts of tbmpi._fast, within the stable ABI of Python 3.11.
 *
 * All functions are called with the GIL held unless they say otherwise. What
 * belongs to the process (the library's functions, what Python has told) is
 * static: there is one MPI in a process.
 */
#ifndef TBMPI_PYTHON_FAST_H
#define TBMPI_PYTHON_FAST_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <structmember.h>

#define TBMPI_REMOVED_NAMES 0
#include "mpi.h"

/* ----------------------------------------------------- what Python has told */

enum told {
    TOLD_NUMBER,       /* cdata -> int: a handle, or an address */
    TOLD_FAIL,         /* raises MPI.Exception for an error code */
    TOLD_REQUEST_CELL, /* int -> cdata: new memory of a request's handle */
    TOLD_STATUS_CELL,  /* () -> cdata: new memory of a status */
    TOLD_TIDY,         /* lets go of dropped requests, now and then */
    TOLD_DROPPED,      /* the list of dropped requests */
    TOLD_REQUEST,      /* the classes of these names */
    TOLD_DATATYPE,
    TOLD_OP,
    TOLD_IN_PLACE,
    TOLD_FORMATS, /* format -> (handle as int, size in bytes) */
    TOLD_DUMPS,   /* pickle's functions and protocol, None if not to be */
    TOLD_LOADS,   /* called from here */
    TOLD_PROTOCOL,
    TOLD_THRESHOLD,
    TOLD_TAKE, /* (message as int, size, status or None): a large object */
    TOLD_LOAD, /* an object whose buffers are apart from its pickle */
    TOLD_COUNT
};

/* What Python has told last, NULL if nothing; borrowed. */
PyObject *fast_told(enum told what);
/* True if it is an object, not None. */
bool fast_knows(enum told what);

/* ------------------------------------------------------------------ objects */

/*
 * A type's slots call these. `value` is the C handle as cffi's object; when
 * `cell` is set and `value` is not, the handle is cell[0].
 */
struct fast_handle {
    PyObject head;
    PyObject *weakrefs;
    PyObject *value;
    PyObject *cell;
    void *raw;        /* the C handle, if is_known */
    MPI_Count extent; /* of a datatype that begins at 0; 0 if not known */
    bool is_known;
};

/* A communicator, which never changes: what it was asked once. */
struct fast_comm {
    struct fast_handle base;
    PyObject *known; /* the four below as Python has them, NULL if not asked */
    int size, others, is_inter, rank;
};

/*
 * A request. Its handle is in `own` until Python asks for its address; then it
 * is in cffi's memory `place`, which `cell` keeps.
 */
struct fast_request {
    struct fast_handle base;
    MPI_Request own; /* NULL: as MPI_REQUEST_NULL */
    MPI_Request *place;
    PyObject *place_cell;
    PyObject *keep; /* what must live as long as the operation */
    PyObject *load; /* from the status to the received object */
    Py_buffer held; /* the buffer of the operation; held.obj is NULL if none */
};

/* A status, as a request in memory of its own or of cffi's. */
struct fast_status {
    PyObject head;
    PyObject *weakrefs;
    MPI_Status own;
    MPI_Status *place;
    PyObject *place_cell;
    bool is_set; /* own is not as it was made */
};

extern PyTypeObject *fast_handle_type, *fast_comm_type, *fast_request_type;
extern PyTypeObject *fast_status_type, *fast_exporter_type;

/* Makes a type and adds it to the module by the name after its last dot. NULL
 * with an exception if that fails. The module holds it, and the process. */
PyTypeObject *fast_add_type(PyObject *module, PyType_Spec *spec,
                            PyTypeObject *base);
/* Add the types of their files. -1 with an exception if that fails. */
int fast_add_handles(PyObject *module);
int fast_add_pending(PyObject *module);
int fast_add_method(PyObject *module);

/* What the slots of Handle's subtypes do, too. */
int fast_handle_traverse(PyObject *self, visitproc visit, void *arg);
int fast_handle_clear(PyObject *self);
/* What tp_dealloc does, with tp_clear given. For all types that begin as
 * fast_handle does up to its weakrefs. */
void fast_free(PyObject *self, inquiry clear);

/* Makes raw known. False without an exception if that takes Python. */
bool fast_learn_raw(struct fast_handle *self);

/* The C handle of an object. False likewise. */
static inline bool fast_raw(PyObject *thing, void **raw)
{
    struct fast_handle *self = (struct fast_handle *)thing;

    if (!self->is_known && !fast_learn_raw(self))
        return false;
    *raw = self->raw;
    return true;
}

MPI_Request fast_request_get(const struct fast_request *request);
void fast_request_set(struct fast_request *request, MPI_Request handle);
/* A new request of class MPI.Request, null; NULL with an exception if not. */
struct fast_request *fast_request_new(void);
/* Lets go of what a finished operation held. */
void fast_request_settle(struct fast_request *request);

MPI_Status fast_status_get(const struct fast_status *status);
void fast_status_set(struct fast_status *status, const MPI_Status *found);

/* ----------------------------------------------------------------- messages */

/* A message as MPI takes it. */
struct fast_block {
    const void *address;
    MPI_Count count;
    MPI_Datatype type;
    Py_buffer *view; /* where to hold the buffer; view->obj is NULL if none */
};

/*
 * Reads a message of `blocks` equal blocks, whose count is that of one. Holds
 * its buffer in block->view, which the caller releases, also after a failure.
 * False, without an exception, if it is none of the common kinds, or bad.
 */
bool fast_read_block(struct fast_block *block, PyObject *message, bool writable,
                     MPI_Count blocks);
/* Whether a message is MPI.IN_PLACE or None. */
bool fast_is_in_place(PyObject *message);
/* Takes TOLD_FORMATS in. -1 with an exception if it is no such dict. */
int fast_learn_formats(PyObject *formats);

/* ------------------------------------------------------ the library's calls */

/* open(path): the module's function. */
PyObject *fast_open(PyObject *module, PyObject *args);
/* The extent of a datatype whose elements lie within it and begin at 0; 0 if
 * they do not. Without the GIL. */
MPI_Count fast_extent_from_zero(MPI_Datatype type);

/* The arguments of a call, in the order of the Python function's. */
enum {
    FAST_MOST_MESSAGES = 2,
    FAST_MOST_NUMBERS = 4,
    FAST_MOST_PARAMETERS = 8,
    FAST_ROOM = 1024
};

struct fast_values {
    struct fast_comm *self;       /* NULL for a call of a request */
    struct fast_request *request; /* started by the call, or what it is about */
    MPI_Comm comm;
    PyObject *message[FAST_MOST_MESSAGES];
    int number[FAST_MOST_NUMBERS];
    MPI_Op op;
    struct fast_status *status; /* NULL to ignore it */
    MPI_Status found;           /* a copy for the call */
    MPI_Request handle;         /* likewise */
    int flag;
    PyObject *pickled;   /* bytes, NULL if none; a reference */
    MPI_Message matched; /* an object's message, and its size in bytes */
    MPI_Count size;
    char *room; /* of FAST_ROOM bytes, for a small one */
    struct fast_block block[FAST_MOST_MESSAGES];
    Py_buffer view[FAST_MOST_MESSAGES];
};

/* What the Python method gives back. */
enum fast_result {
    FAST_NONE,
    FAST_TRUE,
    FAST_FLAG,
    FAST_REQUEST,
    FAST_NUMBER, /* number[0] */
    FAST_OBJECT  /* what was received in room, or is matched */
};

/*
 * A call: `name` is the Python function's. `kinds` has a letter for each of
 * its parameters: m a message, i an int, o an MPI.Op, s a status or None.
 * `read` makes blocks of the messages, false as fast_read_block. `run` is the
 * MPI call, without the GIL; NULL if `read` does all.
 */
struct fast_call {
    const char *name;
    const char *kinds;
    bool (*read)(struct fast_values *);
    int (*run)(struct fast_values *);
    size_t function; /* its place in the library's table */
    enum fast_result result;
    bool is_of_request;
    bool asks_known; /* of the communicator: self->known */
};

/* An object becomes bytes in values->pickled. False with an exception if pickle
 * raised one, without if Python must do it. */
bool fast_read_object(struct fast_values *values);
/* The object that was received; NULL with an exception if not. */
PyObject *fast_received_object(struct fast_values *values);
/* MPI_Mrecv_c of values->matched. Without the GIL. */
int fast_take(struct fast_values *values, void *address);

/* The call of that name, NULL if there is none. */
const struct fast_call *fast_find_call(const char *name);
/* Whether the library has its function. */
bool fast_is_bound(const struct fast_call *call);

#endif
