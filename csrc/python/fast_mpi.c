/* SPDX-License-Identifier: MIT */
/*
 * The common calls: what their arguments are, and the MPI function of each.
 *
 * A row of the table is all there is to a call. The functions named read_ hold
 * to the rules of the Python methods, whose parameters these are.
 */
#include "fast.h"
#include "table.h"

#include <string.h>

PyObject *fast_open(PyObject *module, PyObject *args)
{
    static const char *lacking[TB_TABLE_SIZE];
    PyObject *path;
    void *library;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(path);
    if (!library)
        return PyErr_Format(PyExc_ImportError,
                            "cannot open the MPI library: %s", dlerror());
    tb_table_load(library, lacking);
    Py_RETURN_NONE;
}

MPI_Count fast_extent_from_zero(MPI_Datatype type)
{
    MPI_Count low, extent, begin, size;

    if (!tb_table.Type_get_extent_c || !tb_table.Type_get_true_extent_c ||
        type == MPI_DATATYPE_NULL ||
        MPI_Type_get_extent_c(type, &low, &extent) ||
        MPI_Type_get_true_extent_c(type, &begin, &size))
        return 0;
    return low || begin < 0 || size > extent - begin ? 0 : extent;
}

/* ----------------------------------------------------------- point to point */

enum { OUT, INTO };

static void make_nothing(struct fast_block *block)
{
    block->address = NULL;
    block->count = 0;
    block->type = MPI_BYTE;
}

/* A message to or from a rank, nothing for MPI.PROC_NULL. */
static bool read_one(struct fast_values *v, int which, bool writable, int peer)
{
    if (peer == MPI_PROC_NULL) {
        make_nothing(&v->block[which]);
        return true;
    }
    return fast_read_block(&v->block[which], v->message[which], writable, 1);
}

static bool read_sent(struct fast_values *v)
{
    return read_one(v, 0, false, v->number[0]);
}

static bool read_received(struct fast_values *v)
{
    return read_one(v, 0, true, v->number[0]);
}

static bool read_exchanged(struct fast_values *v)
{
    return read_one(v, OUT, false, v->number[0]) &&
           read_one(v, INTO, true, v->number[2]);
}

#define SEND(call)                                                          \
    static int run_##call(struct fast_values *v)                            \
    {                                                                       \
        return MPI_##call##_c(v->block[0].address, v->block[0].count,       \
                              v->block[0].type, v->number[0], v->number[1], \
                              v->comm);                                     \
    }
#define START(call, qualifier)                                       \
    static int run_##call(struct fast_values *v)                     \
    {                                                                \
        return MPI_##call##_c((qualifier void *)v->block[0].address, \
                              v->block[0].count, v->block[0].type,   \
                              v->number[0], v->number[1], v->comm,   \
                              &v->handle);                           \
    }
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)
START(Isend, const)
START(Issend, const)
START(Irecv, )

static MPI_Status *status_of(struct fast_values *v)
{
    return v->status ? &v->found : MPI_STATUS_IGNORE;
}

static int run_Recv(struct fast_values *v)
{
    return MPI_Recv_c((void *)v->block[0].address, v->block[0].count,
                      v->block[0].type, v->number[0], v->number[1], v->comm,
                      status_of(v));
}

static int run_Sendrecv(struct fast_values *v)
{
    return MPI_Sendrecv_c(v->block[OUT].address, v->block[OUT].count,
                          v->block[OUT].type, v->number[0], v->number[1],
                          (void *)v->block[INTO].address, v->block[INTO].count,
                          v->block[INTO].type, v->number[2], v->number[3],
                          v->comm, status_of(v));
}

static int run_Wait(struct fast_values *v)
{
    return MPI_Wait(&v->handle, status_of(v));
}

static int run_Test(struct fast_values *v)
{
    return MPI_Test(&v->handle, &v->flag, status_of(v));
}

/* -------------------------------------------------------------- collectives */

static bool is_root(const struct fast_values *v)
{
    return v->number[0] == v->self->rank;
}

static void make_placed(struct fast_block *block)
{
    make_nothing(block);
    block->address = MPI_IN_PLACE;
}

/* This rank's part of what all ranks give or get, which may be in place. */
static bool read_placed(struct fast_values *v, int which, bool writable)
{
    if (fast_is_in_place(v->message[which])) {
        make_placed(&v->block[which]);
        return true;
    }
    return fast_read_block(&v->block[which], v->message[which], writable, 1);
}

static bool read_bcast(struct fast_values *v)
{
    return !v->self->is_inter && v->number[0] != MPI_PROC_NULL &&
           fast_read_block(&v->block[0], v->message[0], !is_root(v), 1);
}

static bool read_gather(struct fast_values *v)
{
    if (v->self->is_inter)
        return false;
    if (is_root(v))
        return fast_read_block(&v->block[INTO], v->message[INTO], true,
                               v->self->size) &&
               read_placed(v, OUT, false);
    make_nothing(&v->block[INTO]);
    return fast_read_block(&v->block[OUT], v->message[OUT], false, 1);
}

static bool read_scatter(struct fast_values *v)
{
    if (v->self->is_inter)
        return false;
    if (is_root(v))
        return fast_read_block(&v->block[OUT], v->message[OUT], false,
                               v->self->size) &&
               read_placed(v, INTO, true);
    make_nothing(&v->block[OUT]);
    return fast_read_block(&v->block[INTO], v->message[INTO], true, 1);
}

static bool read_allgather(struct fast_values *v)
{
    return !v->self->is_inter &&
           fast_read_block(&v->block[INTO], v->message[INTO], true,
                           v->self->size) &&
           read_placed(v, OUT, false);
}

static bool read_alltoall(struct fast_values *v)
{
    if (v->self->is_inter || !fast_read_block(&v->block[INTO], v->message[INTO],
                                              true, v->self->size))
        return false;
    if (fast_is_in_place(v->message[OUT])) {
        make_placed(&v->block[OUT]);
        return true;
    }
    return fast_read_block(&v->block[OUT], v->message[OUT], false,
                           v->self->size);
}

static bool read_reduction(struct fast_values *v)
{
    struct fast_block *out = &v->block[OUT], *into = &v->block[INTO];

    if (!fast_read_block(into, v->message[INTO], true, 1) ||
        !read_placed(v, OUT, false))
        return false;
    return out->address == MPI_IN_PLACE ||
           (out->count == into->count && out->type == into->type);
}

static bool read_reduce(struct fast_values *v)
{
    struct fast_block *out = &v->block[OUT], *into = &v->block[INTO];

    if (v->self->is_inter || v->number[0] == MPI_PROC_NULL)
        return false;
    if (is_root(v))
        return read_reduction(v);
    if (!fast_read_block(out, v->message[OUT], false, 1))
        return false;
    into->address = NULL;
    into->count = out->count;
    into->type = out->type;
    return true;
}

static bool read_allreduce(struct fast_values *v)
{
    return !v->self->is_inter && read_reduction(v);
}

static bool read_nothing(struct fast_values *v)
{
    (void)v;
    return true;
}

static int run_Barrier(struct fast_values *v)
{
    return MPI_Barrier(v->comm);
}

static int run_Bcast(struct fast_values *v)
{
    return MPI_Bcast_c((void *)v->block[0].address, v->block[0].count,
                       v->block[0].type, v->number[0], v->comm);
}

/* Both messages, each with its count and type, and what comes after them. */
#define TWO_BLOCKS(call, ...)                                               \
    static int run_##call(struct fast_values *v)                            \
    {                                                                       \
        return MPI_##call##_c(                                              \
            v->block[OUT].address, v->block[OUT].count, v->block[OUT].type, \
            (void *)v->block[INTO].address, v->block[INTO].count,           \
            v->block[INTO].type, __VA_ARGS__);                              \
    }
TWO_BLOCKS(Gather, v->number[0], v->comm)
TWO_BLOCKS(Scatter, v->number[0], v->comm)
TWO_BLOCKS(Allgather, v->comm)
TWO_BLOCKS(Alltoall, v->comm)

static int run_Reduce(struct fast_values *v)
{
    return MPI_Reduce_c(v->block[OUT].address, (void *)v->block[INTO].address,
                        v->block[INTO].count, v->block[INTO].type, v->op,
                        v->number[0], v->comm);
}

static int run_Allreduce(struct fast_values *v)
{
    return MPI_Allreduce_c(v->block[OUT].address,
                           (void *)v->block[INTO].address, v->block[INTO].count,
                           v->block[INTO].type, v->op, v->comm);
}

/* ------------------------------------------------------------------ objects */

static bool read_no_buffer(struct fast_values *v)
{
    return v->message[0] == Py_None && v->number[0] != MPI_PROC_NULL &&
           fast_knows(TOLD_LOADS);
}

int fast_take(struct fast_values *v, void *address)
{
    return MPI_Mrecv_c(address, v->size, MPI_BYTE, &v->matched, status_of(v));
}

/* Matches an object's message and, if it is small, receives it. */
static int run_recv(struct fast_values *v)
{
    MPI_Status found;
    int error =
        MPI_Mprobe(v->number[0], v->number[1], v->comm, &v->matched, &found);

    if (!error)
        error = MPI_Get_count_c(&found, MPI_BYTE, &v->size);
    if (!error && v->size <= FAST_ROOM)
        error = fast_take(v, v->room);
    return error;
}

/* ---------------------------------------------------------------- inquiries */

static bool read_rank(struct fast_values *v)
{
    v->number[0] = v->self->rank;
    return true;
}

static bool read_size(struct fast_values *v)
{
    v->number[0] = v->self->size;
    return true;
}

/* ---------------------------------------------------------------- the table */

#define AT(function) offsetof(struct tb_table, function)

static const struct fast_call calls[] = {
    {"Send", "mii", read_sent, run_Send, AT(Send_c), FAST_NONE, 0, 0},
    {"Ssend", "mii", read_sent, run_Ssend, AT(Ssend_c), FAST_NONE, 0, 0},
    {"Bsend", "mii", read_sent, run_Bsend, AT(Bsend_c), FAST_NONE, 0, 0},
    {"Rsend", "mii", read_sent, run_Rsend, AT(Rsend_c), FAST_NONE, 0, 0},
    {"Recv", "miis", read_received, run_Recv, AT(Recv_c), FAST_NONE, 0, 0},
    {"Sendrecv", "miimiis", read_exchanged, run_Sendrecv, AT(Sendrecv_c),
     FAST_NONE, 0, 0},
    {"Isend", "mii", read_sent, run_Isend, AT(Isend_c), FAST_REQUEST, 0, 0},
    {"Issend", "mii", read_sent, run_Issend, AT(Issend_c), FAST_REQUEST, 0, 0},
    {"Irecv", "mii", read_received, run_Irecv, AT(Irecv_c), FAST_REQUEST, 0, 0},
    {"Wait", "s", read_nothing, run_Wait, AT(Wait), FAST_TRUE, 1, 0},
    {"Test", "s", read_nothing, run_Test, AT(Test), FAST_FLAG, 1, 0},
    {"Barrier", "", read_nothing, run_Barrier, AT(Barrier), FAST_NONE, 0, 0},
    {"barrier", "", read_nothing, run_Barrier, AT(Barrier), FAST_NONE, 0, 0},
    {"Bcast", "mi", read_bcast, run_Bcast, AT(Bcast_c), FAST_NONE, 0, 1},
    {"Gather", "mmi", read_gather, run_Gather, AT(Gather_c), FAST_NONE, 0, 1},
    {"Scatter", "mmi", read_scatter, run_Scatter, AT(Scatter_c), FAST_NONE, 0,
     1},
    {"Allgather", "mm", read_allgather, run_Allgather, AT(Allgather_c),
     FAST_NONE, 0, 1},
    {"Alltoall", "mm", read_alltoall, run_Alltoall, AT(Alltoall_c), FAST_NONE,
     0, 1},
    {"Reduce", "mmoi", read_reduce, run_Reduce, AT(Reduce_c), FAST_NONE, 0, 1},
    {"Allreduce", "mmo", read_allreduce, run_Allreduce, AT(Allreduce_c),
     FAST_NONE, 0, 1},
    {"send", "mii", fast_read_object, run_Send, AT(Send_c), FAST_NONE, 0, 0},
    {"recv", "miis", read_no_buffer, run_recv, AT(Mprobe), FAST_OBJECT, 0, 0},
    {"Get_rank", "", read_rank, NULL, AT(Comm_rank), FAST_NUMBER, 0, 1},
    {"Get_size", "", read_size, NULL, AT(Comm_size), FAST_NUMBER, 0, 1},
};

const struct fast_call *fast_find_call(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!strcmp(calls[i].name, name))
            return &calls[i];
    return NULL;
}

bool fast_is_bound(const struct fast_call *call)
{
    const void *function;

    memcpy(&function, (const char *)&tb_table + call->function,
           sizeof function);
    return function != NULL;
}
