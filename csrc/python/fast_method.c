/* SPDX-License-Identifier: MIT */
/*
 * Method: a Python method whose common uses run in C.
 *
 * Method(function) looks like the function, signature and docstring included.
 * When it is called, the arguments are read as the table's row says, and the
 * MPI function is called without the GIL. Whatever is not as expected before
 * that call (a subclass, an odd message, a wrong type) is left to the function.
 */
#include "fast.h"

#include <string.h>

/* Of CPython's vectorcall protocol, which is there from 3.8 on, but in the
 * stable ABI's headers from 3.12 on only. */
#define VECTORCALL_FLAG (1UL << 11)
#define OFFSET_BIT ((size_t)1 << (8 * sizeof(size_t) - 1))

struct method {
    PyObject head;
    PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    PyObject *function;
    const struct fast_call *call;
    bool is_bound;
    PyTypeObject *subject; /* self must be of this type */
    PyTypeObject *seen;    /* the one of the last self, which was */
    PyObject *names;       /* of the parameters, self's first */
    PyObject *defaults;    /* of the last ones */
    Py_ssize_t count;      /* of the parameters without self */
    Py_ssize_t required;
    PyObject *given[FAST_MOST_PARAMETERS]; /* defaults by place; borrowed */
};

/* ---------------------------------------------------------- to the function */

static PyObject *call_function(struct method *self, PyObject *const *args,
                               Py_ssize_t count, PyObject *keywords)
{
    Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
    PyObject *some = PyTuple_New(count);
    PyObject *more = named ? PyDict_New() : NULL;
    PyObject *result = NULL;

    if (!some || (named && !more))
        goto out;
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SetItem(some, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < named; i++)
        if (PyDict_SetItem(more, PyTuple_GetItem(keywords, i), args[count + i]))
            goto out;
    result = PyObject_Call(self->function, some, more);
out:
    Py_XDECREF(some);
    Py_XDECREF(more);
    return result;
}

/* ---------------------------------------------------------------- arguments */

/* The place of a parameter, -1 if there is none of that name. */
static Py_ssize_t place_of(const struct method *self, PyObject *name)
{
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (PyTuple_GetItem(self->names, i + 1) == name)
            return i;
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (!PyUnicode_Compare(PyTuple_GetItem(self->names, i + 1), name))
            return i;
    return -1;
}

/* Sorts the arguments by parameter; false if they do not fit. */
static bool sort_arguments(const struct method *self, PyObject *const *args,
                           Py_ssize_t count, PyObject *keywords,
                           PyObject **given)
{
    Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;

    if (count > self->count)
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        given[i] = args[i];
    for (Py_ssize_t i = count; i < self->count; i++)
        given[i] = self->given[i];
    for (Py_ssize_t i = 0; i < named; i++) {
        Py_ssize_t place = place_of(self, PyTuple_GetItem(keywords, i));

        if (place < count)
            return false;
        given[place] = args[count + i];
    }
    for (Py_ssize_t i = count; i < self->required; i++)
        if (!given[i])
            return false;
    return true;
}

static bool read_number(PyObject *thing, int *number)
{
    long value;

    if (!PyLong_CheckExact(thing))
        return false;
    value = PyLong_AsLong(thing);
    if (value == -1 && PyErr_Occurred())
        PyErr_Clear();
    else if (value == (int)value) {
        *number = (int)value;
        return true;
    }
    return false;
}

static bool read_op(PyObject *thing, MPI_Op *op)
{
    void *raw;

    if (!fast_knows(TOLD_OP) ||
        !PyObject_TypeCheck(thing, (PyTypeObject *)fast_told(TOLD_OP)) ||
        !fast_raw(thing, &raw))
        return false;
    *op = (MPI_Op)raw;
    return true;
}

static bool read_status(PyObject *thing, struct fast_status **status)
{
    if (thing == Py_None)
        return true;
    if (!PyObject_TypeCheck(thing, fast_status_type))
        return false;
    *status = (struct fast_status *)thing;
    return true;
}

/* All but the messages, which are kept for the call's `read`. */
static bool read_arguments(const struct method *self, PyObject *const *given,
                           struct fast_values *values)
{
    PyObject **message = values->message;
    int *number = values->number;

    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyObject *thing = given[i];
        bool is_read = true;

        switch (self->call->kinds[i]) {
        case 'm':
            *message++ = thing;
            break;
        case 'i':
            is_read = read_number(thing, number++);
            break;
        case 'o':
            is_read = read_op(thing, &values->op);
            break;
        default:
            is_read = read_status(thing, &values->status);
        }
        if (!is_read)
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------- the call */

static void release(struct fast_values *values)
{
    for (int i = 0; i < FAST_MOST_MESSAGES; i++)
        if (values->view[i].obj)
            PyBuffer_Release(&values->view[i]);
    Py_CLEAR(values->pickled);
}

static PyObject *fail(struct fast_values *values, PyObject *subject, int error)
{
    if (values->self)
        return PyObject_CallFunction(fast_told(TOLD_FAIL), "i", error);
    return PyObject_CallMethod(subject, "_fail", "i", error);
}

/* Takes over what MPI has written, and makes the method's result. */
static PyObject *finish(const struct fast_call *call,
                        struct fast_values *values)
{
    struct fast_request *request = values->request;

    if (call->is_of_request && values->handle == MPI_REQUEST_NULL)
        fast_request_settle(request);
    switch (call->result) {
    case FAST_TRUE:
        Py_RETURN_TRUE;
    case FAST_FLAG:
        return PyBool_FromLong(values->flag);
    case FAST_REQUEST:
        values->request = NULL;
        return (PyObject *)request;
    case FAST_NUMBER:
        return PyLong_FromLong(values->number[0]);
    case FAST_OBJECT:
        return fast_received_object(values);
    default:
        Py_RETURN_NONE;
    }
}

static int run(const struct fast_call *call, struct fast_values *values)
{
    PyThreadState *thread = PyEval_SaveThread();
    int error = call->run(values);

    PyEval_RestoreThread(thread);
    if (values->request)
        fast_request_set(values->request, values->handle);
    if (values->status && call->result != FAST_OBJECT)
        fast_status_set(values->status, &values->found);
    return error;
}

static bool is_subject(struct method *self, PyObject *thing)
{
    PyTypeObject *type = Py_TYPE(thing), *old = self->seen;

    if (type == old)
        return true;
    if (!PyType_IsSubtype(type, self->subject))
        return false;
    self->seen = (PyTypeObject *)Py_NewRef((PyObject *)type);
    Py_XDECREF((PyObject *)old);
    return true;
}

/* Has a communicator find out what it is asked once. False, without an
 * exception, if it cannot. */
static bool ask_known(PyObject *comm)
{
    PyObject *done = PyObject_CallMethod(comm, "_ask", NULL);

    PyErr_Clear();
    Py_XDECREF(done);
    return done != NULL;
}

/* The subject's handle; what the call needs of it is known. */
static bool read_subject(struct method *self, PyObject *subject,
                         struct fast_values *values)
{
    void *raw;

    if (!is_subject(self, subject))
        return false;
    if (self->call->is_of_request) {
        values->request = (struct fast_request *)subject;
        values->handle = fast_request_get(values->request);
        return true;
    }
    if (!fast_raw(subject, &raw))
        return false;
    values->self = (struct fast_comm *)subject;
    values->comm = (MPI_Comm)raw;
    return !self->call->asks_known || values->self->known || ask_known(subject);
}

/* As try_call below, for a call of a communicator without arguments. */
static PyObject *try_simple_call(struct method *self, PyObject *subject)
{
    const struct fast_call *call = self->call;
    PyThreadState *thread;
    struct fast_values values;
    int error;

    if (!read_subject(self, subject, &values))
        return NULL;
    if (!call->run)
        return call->read(&values) ? PyLong_FromLong(values.number[0]) : NULL;
    thread = PyEval_SaveThread();
    error = call->run(&values);
    PyEval_RestoreThread(thread);
    if (error)
        return fail(&values, subject, error);
    Py_RETURN_NONE;
}

/* Makes room for what the call writes. False with an exception if it fails. */
static bool prepare(const struct fast_call *call, struct fast_values *values)
{
    values->block[0].view = &values->view[0];
    values->block[1].view = &values->view[1];
    if (call->result == FAST_REQUEST) {
        values->request = fast_request_new();
        if (!values->request)
            return false;
        values->block[0].view = &values->request->held;
    }
    if (values->status)
        values->found = fast_status_get(values->status);
    return true;
}

/* NULL without an exception if Python must do it; no call was made then. */
static PyObject *try_call(struct method *self, PyObject *const *args,
                          Py_ssize_t count, PyObject *keywords)
{
    const struct fast_call *call = self->call;
    PyObject *given[FAST_MOST_PARAMETERS], *result = NULL;
    char room[FAST_ROOM];
    struct fast_values values;

    values.self = NULL;
    values.request = NULL;
    values.status = NULL;
    values.pickled = NULL;
    values.handle = MPI_REQUEST_NULL;
    values.view[0].obj = values.view[1].obj = NULL;
    values.room = room;
    if (count < 1 || !read_subject(self, args[0], &values) ||
        !sort_arguments(self, args + 1, count - 1, keywords, given) ||
        !read_arguments(self, given, &values) || !prepare(call, &values))
        return NULL;
    if (call->read(&values)) {
        int error = call->run ? run(call, &values) : MPI_SUCCESS;

        result = error ? fail(&values, args[0], error) : finish(call, &values);
    }
    release(&values);
    if (call->result == FAST_REQUEST)
        Py_XDECREF((PyObject *)values.request);
    return result;
}

static PyObject *method_vectorcall(PyObject *object, PyObject *const *args,
                                   size_t flagged, PyObject *keywords)
{
    struct method *self = (struct method *)object;
    Py_ssize_t count = (Py_ssize_t)(flagged & ~OFFSET_BIT);
    PyObject *result = NULL;

    if (self->is_bound || (self->is_bound = fast_is_bound(self->call))) {
        if (!self->count && count == 1 && !keywords)
            result = try_simple_call(self, args[0]);
        else
            result = try_call(self, args, count, keywords);
    }
    if (!result && !PyErr_Occurred())
        result = call_function(self, args, count, keywords);
    return result;
}

/* For callers that do not know of vectorcall. */
static PyObject *method_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    return PyObject_Call(((struct method *)self)->function, args, keywords);
}

/* ----------------------------------------------------------------- the type */

/* The parameters of a Python function, as the row's kinds need them. */
static bool learn_parameters(struct method *self)
{
    PyObject *code = PyObject_GetAttrString(self->function, "__code__");
    PyObject *count = code ? PyObject_GetAttrString(code, "co_argcount") : NULL;
    Py_ssize_t defaults = 0;

    if (count) {
        self->names = PyObject_GetAttrString(code, "co_varnames");
        self->count = PyLong_AsSsize_t(count) - 1;
        self->defaults = PyObject_GetAttrString(self->function, "__defaults__");
    }
    Py_XDECREF(count);
    Py_XDECREF(code);
    if (!self->names || !self->defaults)
        return false;
    if (self->defaults != Py_None)
        defaults = PyTuple_Size(self->defaults);
    if (self->count != (Py_ssize_t)strlen(self->call->kinds)) {
        PyErr_Format(PyExc_TypeError, "%s has other parameters than %s",
                     self->call->name, self->call->kinds);
        return false;
    }
    self->required = self->count - defaults;
    for (Py_ssize_t i = 0; i < defaults; i++)
        self->given[self->required + i] = PyTuple_GetItem(self->defaults, i);
    return true;
}

static PyObject *method_new(PyTypeObject *type, PyObject *args,
                            PyObject *keywords)
{
    PyObject *function, *name;
    struct method *self;

    (void)keywords;
    if (!PyArg_ParseTuple(args, "O", &function))
        return NULL;
    self = (struct method *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type,
                                                                           0);
    if (!self)
        return NULL;
    self->vectorcall = method_vectorcall;
    self->function = Py_NewRef(function);
    name = PyObject_GetAttrString(function, "__name__");
    if (name)
        self->call = fast_find_call(PyUnicode_AsUTF8AndSize(name, NULL));
    if (name && !self->call)
        PyErr_Format(PyExc_KeyError, "there is no quick way for %U", name);
    Py_XDECREF(name);
    if (!self->call || !learn_parameters(self)) {
        Py_DECREF(self);
        return NULL;
    }
    self->subject =
        self->call->is_of_request ? fast_request_type : fast_comm_type;
    return (PyObject *)self;
}

static int method_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct method *self = (struct method *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->function);
    Py_VISIT(self->seen);
    return 0;
}

static int method_clear(PyObject *object)
{
    struct method *self = (struct method *)object;

    Py_CLEAR(self->function);
    Py_CLEAR(self->seen);
    return 0;
}

static void method_dealloc(PyObject *object)
{
    struct method *self = (struct method *)object;
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    method_clear(object);
    Py_CLEAR(self->names);
    Py_CLEAR(self->defaults);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *method_bind(PyObject *self, PyObject *object, PyObject *type)
{
    PyObject *types, *bound;

    (void)type;
    if (!object)
        return Py_NewRef(self);
    types = PyImport_ImportModule("types");
    if (!types)
        return NULL;
    bound = PyObject_CallMethod(types, "MethodType", "OO", self, object);
    Py_DECREF(types);
    return bound;
}

/* What a Method has not itself is the function's: its name and the like. */
static PyObject *method_getattr(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);

    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(((struct method *)self)->function, name);
}

static PyObject *method_doc(PyObject *self, void *unused)
{
    (void)unused;
    return PyObject_GetAttrString(((struct method *)self)->function, "__doc__");
}

static PyObject *method_module(PyObject *self, void *unused)
{
    (void)unused;
    return PyObject_GetAttrString(((struct method *)self)->function,
                                  "__module__");
}

static PyObject *method_repr(PyObject *self)
{
    return PyObject_Repr(((struct method *)self)->function);
}

static PyGetSetDef method_attributes[] = {
    {"__doc__", method_doc, NULL, NULL, NULL},
    {"__module__", method_module, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef method_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(struct method, function), READONLY,
     NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct method, vectorcall),
     READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot method_slots[] = {
    {Py_tp_new, method_new},
    {Py_tp_call, method_call},
    {Py_tp_traverse, method_traverse},
    {Py_tp_clear, method_clear},
    {Py_tp_dealloc, method_dealloc},
    {Py_tp_descr_get, method_bind},
    {Py_tp_getattro, method_getattr},
    {Py_tp_repr, method_repr},
    {Py_tp_getset, method_attributes},
    {Py_tp_members, method_members},
    {0, NULL},
};

static PyType_Spec method_spec = {
    .name = "tbmpi._fast.Method",
    .basicsize = sizeof(struct method),
    /* The interpreter's quickest way to a method needs the last two. */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | VECTORCALL_FLAG |
             Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = method_slots,
};

int fast_add_method(PyObject *module)
{
    return fast_add_type(module, &method_spec, NULL) ? 0 : -1;
}
