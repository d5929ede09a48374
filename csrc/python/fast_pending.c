/* SPDX-License-Identifier: MIT */
/*
 * The bases of MPI.Request and MPI.Status.
 *
 * MPI writes to both. They hold what it writes in themselves, until Python code
 * asks for the address: then it moves to cffi's memory, for good. Calls work on
 * a copy, so the move may happen while one is under way in another thread.
 */
#include "fast.h"

#include <string.h>

PyTypeObject *fast_request_type, *fast_status_type;

/*
 * The address of cffi's memory for an object: that which *cell keeps, or new
 * memory from `make`, called with `argument` unless that is NULL. NULL with an
 * exception if there is none.
 */
static void *cell_address(PyObject **cell, enum told make, PyObject *argument)
{
    PyObject *made, *number;
    void *address;

    made = PyObject_CallFunctionObjArgs(fast_told(make), argument, NULL);
    if (!made)
        return NULL;
    number = PyObject_CallFunctionObjArgs(fast_told(TOLD_NUMBER), made, NULL);
    address = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    if (!address) {
        Py_DECREF(made);
        return NULL;
    }
    *cell = made;
    return address;
}

/* As above for memory that Python code has made. */
static void *given_address(PyObject *cell)
{
    PyObject *number =
        PyObject_CallFunctionObjArgs(fast_told(TOLD_NUMBER), cell, NULL);
    void *address = number ? PyLong_AsVoidPtr(number) : NULL;

    Py_XDECREF(number);
    return address;
}

/* ------------------------------------------------------------------ Request */

MPI_Request fast_request_get(const struct fast_request *self)
{
    MPI_Request handle = self->place ? *self->place : self->own;

    return handle ? handle : MPI_REQUEST_NULL;
}

void fast_request_set(struct fast_request *self, MPI_Request handle)
{
    if (self->place)
        *self->place = handle;
    else
        self->own = handle;
}

struct fast_request *fast_request_new(void)
{
    PyTypeObject *type = (PyTypeObject *)fast_told(TOLD_REQUEST);

    if (PyList_Size(fast_told(TOLD_DROPPED))) {
        PyObject *done =
            PyObject_CallFunctionObjArgs(fast_told(TOLD_TIDY), NULL);

        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    return (struct fast_request *)((allocfunc)PyType_GetSlot(
        type, Py_tp_alloc))(type, 0);
}

void fast_request_settle(struct fast_request *self)
{
    if (self->held.obj)
        PyBuffer_Release(&self->held);
    Py_CLEAR(self->keep);
    Py_CLEAR(self->load);
}

static PyObject *get_place(PyObject *object, void *unused)
{
    struct fast_request *self = (struct fast_request *)object;
    PyObject *handle;

    (void)unused;
    if (!self->place) {
        handle = PyLong_FromVoidPtr((void *)fast_request_get(self));
        if (!handle)
            return NULL;
        self->place =
            cell_address(&self->place_cell, TOLD_REQUEST_CELL, handle);
        Py_DECREF(handle);
        if (!self->place)
            return NULL;
    }
    return Py_NewRef(self->place_cell);
}

static int set_place(PyObject *object, PyObject *cell, void *unused)
{
    struct fast_request *self = (struct fast_request *)object;
    PyObject *old = self->place_cell;
    MPI_Request *place = cell ? given_address(cell) : NULL;

    (void)unused;
    if (!place)
        return -1;
    self->place = place;
    self->place_cell = Py_NewRef(cell);
    Py_XDECREF(old);
    return 0;
}

/* A dropped request stays, with its buffers, until the operation is done. */
static void request_finalize(PyObject *object)
{
    struct fast_request *self = (struct fast_request *)object;
    PyObject *type, *value, *trace;
    bool holds = self->held.obj || (self->keep && self->keep != Py_None);

    if (!holds || fast_request_get(self) == MPI_REQUEST_NULL)
        return;
    PyErr_Fetch(&type, &value, &trace);
    if (PyList_Append(fast_told(TOLD_DROPPED), object))
        PyErr_WriteUnraisable(object);
    PyErr_Restore(type, value, trace);
}

/* What `held` has is not visited: the collector must not take it away while MPI
 * uses it. */
static int request_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct fast_request *self = (struct fast_request *)object;

    Py_VISIT(self->place_cell);
    Py_VISIT(self->keep);
    Py_VISIT(self->load);
    return fast_handle_traverse(object, visit, arg);
}

static int request_clear(PyObject *object)
{
    struct fast_request *self = (struct fast_request *)object;

    fast_request_settle(self);
    self->place = NULL;
    Py_CLEAR(self->place_cell);
    return fast_handle_clear(object);
}

static void request_dealloc(PyObject *self)
{
    fast_free(self, request_clear);
}

static PyObject *let_go(PyObject *self, PyObject *unused)
{
    (void)unused;
    fast_request_settle((struct fast_request *)self);
    Py_RETURN_NONE;
}

static PyMethodDef request_methods[] = {
    {"_let_go", let_go, METH_NOARGS,
     "Lets go of what a finished operation held."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef request_attributes[] = {
    {"_p", get_place, set_place, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef request_members[] = {
    {"_keep", T_OBJECT, offsetof(struct fast_request, keep), 0, NULL},
    {"_load", T_OBJECT, offsetof(struct fast_request, load), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot request_slots[] = {
    {Py_tp_doc, "Base of requests."},
    {Py_tp_traverse, request_traverse},
    {Py_tp_clear, request_clear},
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_finalize, request_finalize},
    {Py_tp_methods, request_methods},
    {Py_tp_getset, request_attributes},
    {Py_tp_members, request_members},
    {0, NULL},
};

static PyType_Spec request_spec = {
    .name = "tbmpi._fast.Pending",
    .basicsize = sizeof(struct fast_request),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = request_slots,
};

/* ------------------------------------------------------------------- Status */

MPI_Status fast_status_get(const struct fast_status *self)
{
    MPI_Status found;

    if (self->place)
        return *self->place;
    if (self->is_set)
        return self->own;
    memset(&found, 0, sizeof found);
    found.MPI_SOURCE = MPI_ANY_SOURCE;
    found.MPI_TAG = MPI_ANY_TAG;
    return found;
}

void fast_status_set(struct fast_status *self, const MPI_Status *found)
{
    if (self->place)
        *self->place = *found;
    else
        self->own = *found;
    self->is_set = true;
}

static PyObject *get_status(PyObject *object, void *unused)
{
    struct fast_status *self = (struct fast_status *)object;
    MPI_Status *place;

    (void)unused;
    if (!self->place) {
        place = cell_address(&self->place_cell, TOLD_STATUS_CELL, NULL);
        if (!place)
            return NULL;
        *place = fast_status_get(self);
        self->place = place;
    }
    return Py_NewRef(self->place_cell);
}

static int set_status(PyObject *object, PyObject *cell, void *unused)
{
    struct fast_status *self = (struct fast_status *)object;
    PyObject *old = self->place_cell;
    MPI_Status *place = cell ? given_address(cell) : NULL;

    (void)unused;
    if (!place)
        return -1;
    self->place = place;
    self->place_cell = Py_NewRef(cell);
    Py_XDECREF(old);
    return 0;
}

static PyObject *get_field(PyObject *object, void *field)
{
    MPI_Status found = fast_status_get((struct fast_status *)object);
    const char *where = (const char *)&found + (size_t)field;
    int value;

    memcpy(&value, where, sizeof value);
    return PyLong_FromLong(value);
}

static int status_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct fast_status *)object)->place_cell);
    return 0;
}

static int status_clear(PyObject *object)
{
    struct fast_status *self = (struct fast_status *)object;

    self->place = NULL;
    Py_CLEAR(self->place_cell);
    return 0;
}

static void status_dealloc(PyObject *self)
{
    fast_free(self, status_clear);
}

static PyGetSetDef status_attributes[] = {
    {"_s", get_status, set_status, NULL, NULL},
    {"_source", get_field, NULL, NULL,
     (void *)offsetof(MPI_Status, MPI_SOURCE)},
    {"_tag", get_field, NULL, NULL, (void *)offsetof(MPI_Status, MPI_TAG)},
    {"_error", get_field, NULL, NULL, (void *)offsetof(MPI_Status, MPI_ERROR)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef status_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct fast_status, weakrefs),
     READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot status_slots[] = {
    {Py_tp_doc, "Base of statuses."},
    {Py_tp_traverse, status_traverse},
    {Py_tp_clear, status_clear},
    {Py_tp_dealloc, status_dealloc},
    {Py_tp_getset, status_attributes},
    {Py_tp_members, status_members},
    {0, NULL},
};

static PyType_Spec status_spec = {
    .name = "tbmpi._fast.Found",
    .basicsize = sizeof(struct fast_status),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = status_slots,
};

int fast_add_pending(PyObject *module)
{
    fast_request_type = fast_add_type(module, &request_spec, fast_handle_type);
    if (!fast_request_type)
        return -1;
    fast_status_type = fast_add_type(module, &status_spec, NULL);
    return fast_status_type ? 0 : -1;
}
