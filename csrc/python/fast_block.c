/* SPDX-License-Identifier: MIT */
/*
 * The common messages: a buffer, [buffer, count], [buffer, datatype] and
 * [buffer, count, datatype]. What tbmpi.buffers says of them holds here, too;
 * it reads all others, and says what is wrong with a bad one.
 */
#include "fast.h"

#include <string.h>

/* ------------------------------------------------------ formats of elements */

struct format {
    MPI_Datatype type;
    Py_ssize_t size; /* in bytes; 0 if there is no such format */
};

/* By the format's character; those of two, Z and another, have the other's. */
static struct format plain[128], complex_[128];

static struct format *format_place(const char *format)
{
    unsigned char first = (unsigned char)format[0];

    if (first == 'Z' && format[1]) {
        unsigned char second = (unsigned char)format[1];

        return format[2] || second > 127 ? NULL : &complex_[second];
    }
    return first > 127 || format[1] ? NULL : &plain[first];
}

int fast_learn_formats(PyObject *formats)
{
    PyObject *code, *what, *number;
    Py_ssize_t place = 0;

    while (PyDict_Next(formats, &place, &code, &what)) {
        const char *name = PyUnicode_AsUTF8AndSize(code, NULL);
        struct format *format;
        Py_ssize_t size;

        if (!name || !PyArg_ParseTuple(what, "On", &number, &size))
            return -1;
        format = format_place(name);
        if (!format)
            continue;
        format->type = (MPI_Datatype)PyLong_AsVoidPtr(number);
        if (PyErr_Occurred())
            return -1;
        format->size = size;
    }
    return 0;
}

/* ----------------------------------------------------------------- a buffer */

/*
 * Holds the buffer of an object that is contiguous in C order. It is asked for
 * everything and then looked at, since not every exporter (MLX) looks at what
 * is asked of it.
 */
static bool hold(struct fast_block *block, PyObject *thing, bool writable)
{
    Py_buffer *view = block->view;
    int flags = PyBUF_FULL_RO | (writable ? PyBUF_WRITABLE : 0);

    /* MPI.BOTTOM and the like mean something else. */
    if (PyObject_TypeCheck(thing, fast_exporter_type))
        return false;
    if (PyObject_GetBuffer(thing, view, flags)) {
        PyErr_Clear();
        view->obj = NULL;
        return false;
    }
    if ((writable && view->readonly) || !PyBuffer_IsContiguous(view, 'C'))
        return false;
    block->address = view->buf;
    return true;
}

static const struct format *format_of(const Py_buffer *view)
{
    const struct format *format =
        format_place(view->format ? view->format : "B");

    return format && format->size && format->size == view->itemsize ? format
                                                                    : NULL;
}

/* A count of `count` elements dealt out to `blocks` blocks. */
static bool share(struct fast_block *block, MPI_Count count, MPI_Count blocks)
{
    if (blocks != 1) {
        if (blocks < 1 || count % blocks)
            return false;
        count /= blocks;
    }
    block->count = count;
    return true;
}

/* ------------------------------------------------------------------- a list */

static bool read_type(struct fast_block *block, PyObject *thing,
                      MPI_Count *extent)
{
    struct fast_handle *datatype = (struct fast_handle *)thing;
    void *raw;

    if (!fast_raw(thing, &raw))
        return false;
    block->type = (MPI_Datatype)raw;
    if (!datatype->extent) {
        PyThreadState *thread = PyEval_SaveThread();
        MPI_Count found = fast_extent_from_zero(block->type);

        PyEval_RestoreThread(thread);
        datatype->extent = found;
    }
    *extent = datatype->extent;
    return *extent > 0;
}

static bool read_count(PyObject *thing, MPI_Count *count)
{
    if (!PyLong_CheckExact(thing))
        return false;
    *count = PyLong_AsLongLong(thing);
    if (*count == -1 && PyErr_Occurred())
        PyErr_Clear();
    return *count >= 0;
}

/* A datatype's count is what the list says, or as many as there is room for. */
static bool read_list(struct fast_block *block, PyObject *const *items,
                      Py_ssize_t length, bool writable, MPI_Count blocks)
{
    PyObject *last = items[length - 1], *datatype = NULL, *number = NULL;
    MPI_Count extent, count = 0;
    const struct format *format;

    if (PyObject_TypeCheck(last, (PyTypeObject *)fast_told(TOLD_DATATYPE)))
        datatype = last;
    if (length == 3 || !datatype)
        number = items[1];
    if ((length == 3 && !datatype) || (number && !read_count(number, &count)))
        return false;
    if (!hold(block, items[0], writable))
        return false;
    if (datatype) {
        if (!read_type(block, datatype, &extent))
            return false;
    } else {
        format = format_of(block->view);
        if (!format)
            return false;
        block->type = format->type;
        extent = format->size;
    }
    if (number) {
        block->count = count;
        return blocks > 0 && count <= block->view->len / extent / blocks;
    }
    return block->view->len % extent == 0 &&
           share(block, block->view->len / extent, blocks);
}

static bool read_items(struct fast_block *block, PyObject *message,
                       bool writable, MPI_Count blocks)
{
    bool is_list = PyList_CheckExact(message);
    Py_ssize_t length = is_list ? PyList_Size(message) : PyTuple_Size(message);
    PyObject *items[3] = {NULL, NULL, NULL};
    bool is_read;

    if (length < 2 || length > 3 || !fast_knows(TOLD_DATATYPE))
        return false;
    /* Held, since a list may be changed by what an exporter does. */
    for (Py_ssize_t i = 0; i < length; i++)
        items[i] = Py_NewRef(is_list ? PyList_GetItem(message, i)
                                     : PyTuple_GetItem(message, i));
    is_read = read_list(block, items, length, writable, blocks);
    for (Py_ssize_t i = 0; i < length; i++)
        Py_DECREF(items[i]);
    return is_read;
}

bool fast_read_block(struct fast_block *block, PyObject *message, bool writable,
                     MPI_Count blocks)
{
    const struct format *format;

    if (PyList_CheckExact(message) || PyTuple_CheckExact(message))
        return read_items(block, message, writable, blocks);
    if (!hold(block, message, writable))
        return false;
    format = format_of(block->view);
    if (!format)
        return false;
    block->type = format->type;
    return share(block, block->view->len / format->size, blocks);
}

bool fast_is_in_place(PyObject *message)
{
    return message == Py_None ||
           Py_IS_TYPE(message, (PyTypeObject *)fast_told(TOLD_IN_PLACE));
}
