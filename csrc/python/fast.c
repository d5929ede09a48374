/* SPDX-License-Identifier: MIT */
/*
 * tbmpi._fast: what Python code cannot do, or not as fast.
 *
 * Exporter is a base class for objects that memoryview() accepts. From Python
 * 3.12 on a class can be that by a method (PEP 688); here its method _exported
 * returns the memoryview to export, or None for no bytes of nobody's.
 *
 * Pin holds the memory of an object. cffi's from_buffer does so, too, but the
 * garbage collector may clear a memoryview before the cdata that holds it,
 * which ends in a crash. It cannot see through a Pin, so what is pinned is no
 * garbage.
 */
#include "fast.h"

#include <string.h>

PyTypeObject *fast_exporter_type;

static int exporter_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    PyObject *source = PyObject_CallMethod(self, "_exported", NULL);
    int error;

    view->obj = NULL;
    if (!source)
        return -1;
    if (source == Py_None)
        error = PyBuffer_FillInfo(view, NULL, NULL, 0, 0, flags);
    else
        error = PyObject_GetBuffer(source, view, flags);
    Py_DECREF(source);
    return error;
}

/*
 * Never called, since the buffer belongs to the memoryview. It is there for
 * numpy, which keeps the exporter itself, and not its buffer, without it.
 */
static void exporter_releasebuffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    (void)view;
}

static PyType_Slot exporter_slots[] = {
    {Py_tp_doc, "Base of objects that export memory by their _exported()."},
    {Py_bf_getbuffer, exporter_getbuffer},
    {Py_bf_releasebuffer, exporter_releasebuffer},
    {0, NULL},
};

static PyType_Spec exporter_spec = {
    .name = "tbmpi._fast.Exporter",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = exporter_slots,
};

/* ---------------------------------------------------------------------- Pin */

struct pin {
    PyObject head;
    Py_buffer view;
};

static PyObject *pin_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *source;
    int writable = 0;
    struct pin *self;

    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O|p", &source, &writable))
        return NULL;
    self =
        (struct pin *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    if (PyObject_GetBuffer(source, &self->view,
                           writable ? PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE
                                    : PyBUF_ANY_CONTIGUOUS)) {
        self->view.obj = NULL;
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void pin_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyBuffer_Release(&((struct pin *)self)->view);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int pin_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    const Py_buffer *held = &((struct pin *)self)->view;

    return PyBuffer_FillInfo(view, self, held->buf, held->len, held->readonly,
                             flags);
}

static PyType_Slot pin_slots[] = {
    {Py_tp_doc, "Pin(buffer, writable=False)\n--\n\n"
                "Holds a buffer's memory, which is contiguous in C or Fortran "
                "order."},
    {Py_tp_new, pin_new},
    {Py_tp_dealloc, pin_dealloc},
    {Py_bf_getbuffer, pin_getbuffer},
    {0, NULL},
};

static PyType_Spec pin_spec = {
    .name = "tbmpi._fast.Pin",
    .basicsize = sizeof(struct pin),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = pin_slots,
};

/* ----------------------------------------------------- what Python has told */

static const char *const told_names[TOLD_COUNT] = {
    [TOLD_NUMBER] = "number",
    [TOLD_FAIL] = "fail",
    [TOLD_REQUEST_CELL] = "request_cell",
    [TOLD_STATUS_CELL] = "status_cell",
    [TOLD_TIDY] = "tidy",
    [TOLD_DROPPED] = "dropped",
    [TOLD_REQUEST] = "Request",
    [TOLD_DATATYPE] = "Datatype",
    [TOLD_OP] = "Op",
    [TOLD_IN_PLACE] = "InPlaceType",
    [TOLD_FORMATS] = "formats",
    [TOLD_DUMPS] = "dumps",
    [TOLD_LOADS] = "loads",
    [TOLD_PROTOCOL] = "protocol",
    [TOLD_THRESHOLD] = "threshold",
    [TOLD_TAKE] = "take",
    [TOLD_LOAD] = "load",
};
static PyObject *told[TOLD_COUNT];

PyObject *fast_told(enum told what)
{
    return told[what];
}

bool fast_knows(enum told what)
{
    return told[what] && told[what] != Py_None;
}

PyDoc_STRVAR(tell_doc, "tell(name, value)\n--\n\n"
                       "Tells C code about something of Python's.");

static PyObject *tell(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *value, *old;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO", &name, &value))
        return NULL;
    for (int i = 0; i < TOLD_COUNT; i++)
        if (!strcmp(told_names[i], name)) {
            if (i == TOLD_FORMATS && fast_learn_formats(value))
                return NULL;
            old = told[i];
            told[i] = Py_NewRef(value);
            Py_XDECREF(old);
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_KeyError, "nothing is to be told of %s", name);
}

/* --------------------------------------------------------------- the module */

PyDoc_STRVAR(capsule_doc,
             "capsule_pointer(capsule, name)\n--\n\n"
             "The address in a capsule of that name, 0 if it is no such.");

static PyObject *capsule_pointer(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    const char *name;

    (void)module;
    if (!PyArg_ParseTuple(args, "Os", &capsule, &name))
        return NULL;
    if (!PyCapsule_IsValid(capsule, name))
        return PyLong_FromLong(0);
    return PyLong_FromVoidPtr(PyCapsule_GetPointer(capsule, name));
}

PyDoc_STRVAR(open_doc, "open(path)\n--\n\n"
                       "Finds the MPI library's functions for quick calls.");

static PyMethodDef methods[] = {
    {"open", fast_open, METH_VARARGS, open_doc},
    {"tell", tell, METH_VARARGS, tell_doc},
    {"capsule_pointer", capsule_pointer, METH_VARARGS, capsule_doc},
    {NULL, NULL, 0, NULL},
};

PyTypeObject *fast_add_type(PyObject *module, PyType_Spec *spec,
                            PyTypeObject *base)
{
    PyObject *type = PyType_FromSpecWithBases(spec, (PyObject *)base);
    const char *name = strrchr(spec->name, '.') + 1;

    if (type && PyModule_AddObjectRef(module, name, type))
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int module_exec(PyObject *module)
{
    fast_exporter_type = fast_add_type(module, &exporter_spec, NULL);
    if (!fast_exporter_type || !fast_add_type(module, &pin_spec, NULL) ||
        fast_add_handles(module) || fast_add_pending(module) ||
        fast_add_method(module))
        return -1;
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tbmpi._fast",
    .m_doc = "What Python code cannot do, or not as fast.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__fast(void)
{
    return PyModuleDef_Init(&definition);
}
