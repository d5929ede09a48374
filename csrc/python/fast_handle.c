/* SPDX-License-Identifier: MIT */
/* The bases of MPI's classes: a C handle, and what C code needs beside it. */
#include "fast.h"

PyTypeObject *fast_handle_type, *fast_comm_type;

/* ------------------------------------------------------------------- Handle */

static void forget_raw(struct fast_handle *self)
{
    self->is_known = false;
    self->extent = 0;
}

bool fast_learn_raw(struct fast_handle *self)
{
    PyObject *number;

    if (!self->value || !fast_knows(TOLD_NUMBER))
        return false;
    number =
        PyObject_CallFunctionObjArgs(fast_told(TOLD_NUMBER), self->value, NULL);
    self->raw = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    self->is_known = !PyErr_Occurred();
    PyErr_Clear();
    return self->is_known;
}

static PyObject *get_value(PyObject *object, void *unused)
{
    struct fast_handle *self = (struct fast_handle *)object;
    PyObject *zero, *value = NULL;

    (void)unused;
    if (self->value)
        return Py_NewRef(self->value);
    if (!self->cell) {
        PyErr_SetString(PyExc_AttributeError, "_h");
        return NULL;
    }
    zero = PyLong_FromLong(0);
    if (zero)
        value = PyObject_GetItem(self->cell, zero);
    Py_XDECREF(zero);
    return value;
}

static int set_value(PyObject *object, PyObject *value, void *unused)
{
    struct fast_handle *self = (struct fast_handle *)object;
    PyObject *old = self->value;

    (void)unused;
    forget_raw(self);
    self->value = value ? Py_NewRef(value) : NULL;
    Py_XDECREF(old);
    return 0;
}

int fast_handle_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct fast_handle *self = (struct fast_handle *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->value);
    Py_VISIT(self->cell);
    return 0;
}

int fast_handle_clear(PyObject *object)
{
    struct fast_handle *self = (struct fast_handle *)object;

    forget_raw(self);
    Py_CLEAR(self->value);
    Py_CLEAR(self->cell);
    return 0;
}

void fast_free(PyObject *self, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (((struct fast_handle *)self)->weakrefs)
        PyObject_ClearWeakRefs(self);
    clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void handle_dealloc(PyObject *self)
{
    fast_free(self, fast_handle_clear);
}

static PyGetSetDef handle_attributes[] = {
    {"_h", get_value, set_value, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef handle_members[] = {
    {"_value", T_OBJECT, offsetof(struct fast_handle, value), READONLY, NULL},
    {"_cell", T_OBJECT, offsetof(struct fast_handle, cell), 0, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct fast_handle, weakrefs),
     READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, "Base of objects with a C handle."},
    {Py_tp_traverse, fast_handle_traverse},
    {Py_tp_clear, fast_handle_clear},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_getset, handle_attributes},
    {Py_tp_members, handle_members},
    {0, NULL},
};

static PyType_Spec handle_spec = {
    .name = "tbmpi._fast.Handle",
    .basicsize = sizeof(struct fast_handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = handle_slots,
};

/* ------------------------------------------------------------- Communicator */

static PyObject *get_known(PyObject *object, void *unused)
{
    PyObject *known = ((struct fast_comm *)object)->known;

    (void)unused;
    return Py_NewRef(known ? known : Py_None);
}

static int set_known(PyObject *object, PyObject *known, void *unused)
{
    struct fast_comm *self = (struct fast_comm *)object;
    PyObject *old = self->known;

    (void)unused;
    if (known && known != Py_None) {
        if (!PyArg_ParseTuple(known, "iipi", &self->size, &self->others,
                              &self->is_inter, &self->rank))
            return -1;
        self->known = Py_NewRef(known);
    } else {
        self->known = NULL;
    }
    Py_XDECREF(old);
    return 0;
}

static int comm_clear(PyObject *object)
{
    Py_CLEAR(((struct fast_comm *)object)->known);
    return fast_handle_clear(object);
}

static void comm_dealloc(PyObject *self)
{
    fast_free(self, comm_clear);
}

static PyGetSetDef comm_attributes[] = {
    {"_known", get_known, set_known, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot comm_slots[] = {
    {Py_tp_doc, "Base of communicators."},
    {Py_tp_traverse, fast_handle_traverse},
    {Py_tp_clear, comm_clear},
    {Py_tp_dealloc, comm_dealloc},
    {Py_tp_getset, comm_attributes},
    {0, NULL},
};

static PyType_Spec comm_spec = {
    .name = "tbmpi._fast.Communicator",
    .basicsize = sizeof(struct fast_comm),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = comm_slots,
};

int fast_add_handles(PyObject *module)
{
    fast_handle_type = fast_add_type(module, &handle_spec, NULL);
    if (!fast_handle_type)
        return -1;
    fast_comm_type = fast_add_type(module, &comm_spec, fast_handle_type);
    return fast_comm_type ? 0 : -1;
}
