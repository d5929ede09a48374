/* SPDX-License-Identifier: MIT */
/*
 * Python objects as messages, as tbmpi._pickle has them: the pickle and nothing
 * else. Those with large buffers, and large messages, are left to Python.
 */
#include "fast.h"

#include <string.h>

/* What is looked at, at most, to see that an object is plain. */
enum { MOST_ITEMS = 64, MOST_DEPTH = 4 };
/* A larger message is received by Python code, where its arrays can stay. */
enum { LARGEST_COPIED = 64 << 10 };

static inline bool is_scalar(PyObject *obj)
{
    return PyUnicode_CheckExact(obj) || PyLong_CheckExact(obj) ||
           PyFloat_CheckExact(obj) || obj == Py_None || PyBool_Check(obj) ||
           PyBytes_CheckExact(obj) || PyComplex_CheckExact(obj);
}

static bool is_plain_container(PyObject *obj, int depth, int *left);

static inline bool is_plain(PyObject *obj, int depth, int *left)
{
    return is_scalar(obj) || is_plain_container(obj, depth, left);
}

/*
 * Whether a container is made of builtin types whose pickle is all in one
 * piece. It runs no Python code, so nothing changes meanwhile.
 */
static bool is_plain_container(PyObject *obj, int depth, int *left)
{
    bool is_list = PyList_CheckExact(obj);
    PyObject *key, *value;
    Py_ssize_t place = 0;

    if (--*left < 0 || depth > MOST_DEPTH)
        return false;
    if (PyDict_CheckExact(obj)) {
        while (PyDict_Next(obj, &place, &key, &value))
            if (--*left < 0 || !is_plain(key, depth + 1, left) ||
                !is_plain(value, depth + 1, left))
                return false;
        return true;
    }
    if (!is_list && !PyTuple_CheckExact(obj))
        return false;
    for (Py_ssize_t i = 0, n = PyObject_Size(obj); i < n; i++) {
        value = is_list ? PyList_GetItem(obj, i) : PyTuple_GetItem(obj, i);
        if (--*left < 0 || !is_plain(value, depth + 1, left))
            return false;
    }
    return true;
}

/* What pickle asks of each buffer: true if it goes along, in the pickle. */
static PyObject *goes_along(PyObject *apart, PyObject *piece)
{
    PyObject *raw = PyObject_CallMethod(piece, "raw", NULL);
    Py_ssize_t size = raw ? PyObject_Size(raw) : -1;
    bool is_small = size < PyLong_AsSsize_t(fast_told(TOLD_THRESHOLD));
    int error = size < 0 || (!is_small && PyList_Append(apart, raw));

    Py_XDECREF(raw);
    return error ? NULL : PyBool_FromLong(is_small);
}

static PyMethodDef goes_along_definition = {"goes_along", goes_along, METH_O,
                                            NULL};

/* pickle's arguments by keyword, with a callback that appends to *apart; new
 * references, NULL with an exception if there are none. */
static PyObject *new_keywords(PyObject **apart)
{
    PyObject *ask, *keywords = NULL;

    *apart = PyList_New(0);
    ask = *apart ? PyCFunction_New(&goes_along_definition, *apart) : NULL;
    if (ask)
        keywords = Py_BuildValue("{sO}", "buffer_callback", ask);
    Py_XDECREF(ask);
    if (!keywords)
        Py_CLEAR(*apart);
    return keywords;
}

/* The pickle of any object. NULL without an exception if it has buffers apart,
 * with one if pickle raised it. */
static PyObject *pickled_whole(PyObject *obj)
{
    /* Of the last call, if its list is still empty; taken while in use. */
    static PyObject *spare_apart, *spare_keywords;
    PyObject *apart = spare_apart, *keywords = spare_keywords;
    PyObject *args, *bytes;

    spare_apart = spare_keywords = NULL;
    if (!keywords)
        keywords = new_keywords(&apart);
    args = keywords ? PyTuple_Pack(2, obj, fast_told(TOLD_PROTOCOL)) : NULL;
    bytes = args ? PyObject_Call(fast_told(TOLD_DUMPS), args, keywords) : NULL;
    Py_XDECREF(args);
    if (bytes && !PyList_Size(apart) && !spare_keywords) {
        spare_apart = apart;
        spare_keywords = keywords;
        return bytes;
    }
    if (bytes && PyList_Size(apart))
        Py_CLEAR(bytes);
    Py_XDECREF(apart);
    Py_XDECREF(keywords);
    return bytes;
}

/* Whether all of an object is a small piece of memory, without references. */
static bool is_small_memory(PyObject *obj)
{
    Py_buffer view;
    bool is_small;

    if (!PyObject_CheckBuffer(obj))
        return false;
    if (PyObject_GetBuffer(obj, &view, PyBUF_FULL_RO)) {
        PyErr_Clear();
        return false;
    }
    is_small = view.len < PyLong_AsSsize_t(fast_told(TOLD_THRESHOLD)) &&
               view.format && !strchr(view.format, 'O');
    PyBuffer_Release(&view);
    return is_small;
}

bool fast_read_object(struct fast_values *v)
{
    struct fast_block *block = &v->block[0];
    int left = MOST_ITEMS;
    Py_ssize_t size;
    char *bytes;

    if (v->number[0] == MPI_PROC_NULL || !fast_knows(TOLD_DUMPS))
        return false;
    if (is_plain(v->message[0], 0, &left) || is_small_memory(v->message[0]))
        v->pickled =
            PyObject_CallFunctionObjArgs(fast_told(TOLD_DUMPS), v->message[0],
                                         fast_told(TOLD_PROTOCOL), NULL);
    else
        v->pickled = pickled_whole(v->message[0]);
    if (!v->pickled || PyBytes_AsStringAndSize(v->pickled, &bytes, &size))
        return false;
    block->address = bytes;
    block->count = size;
    block->type = MPI_BYTE;
    return true;
}

static PyObject *take_large(struct fast_values *v)
{
    PyObject *status = v->status ? (PyObject *)v->status : Py_None;
    PyObject *message = PyLong_FromVoidPtr((void *)v->matched);
    PyObject *obj;

    if (!message)
        return NULL;
    obj = PyObject_CallFunction(fast_told(TOLD_TAKE), "OLO", message,
                                (long long)v->size, status);
    Py_DECREF(message);
    return obj;
}

/* The bytes of the message; NULL with an exception if there are none. */
static PyObject *received_bytes(struct fast_values *v)
{
    PyThreadState *thread;
    PyObject *bytes;
    int error;

    if (v->size <= FAST_ROOM)
        return PyBytes_FromStringAndSize(v->room, (Py_ssize_t)v->size);
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)v->size);
    if (!bytes)
        return NULL;
    thread = PyEval_SaveThread();
    error = fast_take(v, PyBytes_AsString(bytes));
    PyEval_RestoreThread(thread);
    if (!error)
        return bytes;
    Py_DECREF(bytes);
    return PyObject_CallFunction(fast_told(TOLD_FAIL), "i", error);
}

PyObject *fast_received_object(struct fast_values *v)
{
    PyObject *bytes, *obj;

    if (v->size > LARGEST_COPIED)
        return take_large(v);
    bytes = received_bytes(v);
    if (!bytes)
        return NULL;
    if (v->status)
        fast_status_set(v->status, &v->found);
    if (!v->size)
        obj = Py_NewRef(Py_None);
    else if (PyBytes_AsString(bytes)[0])
        obj = PyObject_CallFunctionObjArgs(fast_told(TOLD_LOADS), bytes, NULL);
    else /* no pickle begins so: its buffers are apart */
        obj = PyObject_CallFunctionObjArgs(fast_told(TOLD_LOAD), bytes, NULL);
    Py_DECREF(bytes);
    return obj;
}
