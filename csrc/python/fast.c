/* SPDX-License-Identifier: MIT */
/*
 * tbmpi._fast: what Python code cannot do, within the stable ABI of 3.11.
 *
 * Exporter is a base class for objects that memoryview() accepts. From Python
 * 3.12 on a class can be that by a method (PEP 688); here its method _exported
 * returns the memoryview to export, or None for no bytes of nobody's.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

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

static PyMethodDef methods[] = {
    {"capsule_pointer", capsule_pointer, METH_VARARGS, capsule_doc},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&exporter_spec);
    int error;

    if (!type)
        return -1;
    error = PyModule_AddObjectRef(module, "Exporter", type);
    Py_DECREF(type);
    return error;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tbmpi._fast",
    .m_doc = "What Python code cannot do.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__fast(void)
{
    return PyModuleDef_Init(&definition);
}
