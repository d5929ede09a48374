/* SPDX-License-Identifier: MIT */
/*
 * What MLX's "mpi" backend looks for in an MPI library: 14 functions and 16
 * objects of Open MPI, by name, in a library that says it is one.
 *
 * The same names mean other things in the standard ABI, so this is a library of
 * its own in front of libmpi_abi, which it reaches by the PMPI_ names. An
 * object of Open MPI is known by the address of its symbol; every other handle
 * is one of the standard ABI and is passed through.
 *
 * MLX looks at no return code: all communication is on a communicator whose
 * error handler ends the job, and other errors end it here.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#pragma GCC visibility push(default)
#include "mpi.h"

struct object {
    void *standard; /* its handle in the standard ABI */
};

struct object ompi_mpi_comm_world = {MPI_COMM_WORLD};
struct object ompi_mpi_op_sum = {MPI_SUM};
struct object ompi_mpi_op_max = {MPI_MAX};
struct object ompi_mpi_op_min = {MPI_MIN};
struct object ompi_mpi_c_bool = {MPI_C_BOOL};
struct object ompi_mpi_int8_t = {MPI_INT8_T};
struct object ompi_mpi_uint8_t = {MPI_UINT8_T};
struct object ompi_mpi_int16_t = {MPI_INT16_T};
struct object ompi_mpi_uint16_t = {MPI_UINT16_T};
struct object ompi_mpi_int32_t = {MPI_INT32_T};
struct object ompi_mpi_uint32_t = {MPI_UINT32_T};
struct object ompi_mpi_int64_t = {MPI_INT64_T};
struct object ompi_mpi_uint64_t = {MPI_UINT64_T};
struct object ompi_mpi_float = {MPI_FLOAT};
struct object ompi_mpi_double = {MPI_DOUBLE};
struct object ompi_mpi_c_complex = {MPI_C_FLOAT_COMPLEX};
#pragma GCC visibility pop

#define OMPI_ANY_TAG (-1)
#define VERSION_ROOM 256 /* MLX's buffer */

/* Open MPI's MPI_Status; eight bytes shorter than the standard ABI's. */
struct ompi_status {
    int source;
    int tag;
    int error;
    int cancelled;
    size_t bytes;
};

static struct object *const objects[] = {
    &ompi_mpi_comm_world, &ompi_mpi_op_sum,   &ompi_mpi_op_max,
    &ompi_mpi_op_min,     &ompi_mpi_c_bool,   &ompi_mpi_int8_t,
    &ompi_mpi_uint8_t,    &ompi_mpi_int16_t,  &ompi_mpi_uint16_t,
    &ompi_mpi_int32_t,    &ompi_mpi_uint32_t, &ompi_mpi_int64_t,
    &ompi_mpi_uint64_t,   &ompi_mpi_float,    &ompi_mpi_double,
    &ompi_mpi_c_complex,
};

static int finalize_here; /* nobody else initialized MPI */

static void *standard(void *handle)
{
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (handle == objects[i])
            return objects[i]->standard;
    return handle;
}

/* Sums, maxima and minima of truth values, which MPI has under other names. */
static MPI_Op op_for(MPI_Op op, MPI_Datatype type)
{
    op = standard(op);
    if (type != MPI_C_BOOL)
        return op;
    if (op == MPI_SUM || op == MPI_MAX)
        return MPI_LOR;
    return op == MPI_MIN ? MPI_LAND : op;
}

static int must(int code, const char *call)
{
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length;

        PMPI_Error_string(code, text, &length);
        fprintf(stderr, "tbmpi for MLX: %s failed: %s\n", call, text);
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    return code;
}

/* ------------------------------------------------------------ start and end */

/*
 * In a Python process the package starts MPI, if it can be imported: then an
 * uncaught exception ends the job. MPI_Finalize, which MLX calls whatever
 * happened, would wait for the other ranks.
 */
static void start_by_python(void)
{
    int (*initialized)(void) = NULL;
    int (*ensure)(void) = NULL;
    void (*release)(int) = NULL;
    void *(*import)(const char *) = NULL;
    void (*drop)(void *) = NULL;
    void (*clear)(void) = NULL;

    *(void **)&initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    *(void **)&ensure = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    *(void **)&release = dlsym(RTLD_DEFAULT, "PyGILState_Release");
    *(void **)&import = dlsym(RTLD_DEFAULT, "PyImport_ImportModule");
    *(void **)&drop = dlsym(RTLD_DEFAULT, "Py_DecRef");
    *(void **)&clear = dlsym(RTLD_DEFAULT, "PyErr_Clear");
    if (!initialized || !ensure || !release || !import || !drop || !clear ||
        !initialized())
        return;
    int state = ensure();
    void *module = import("tbmpi.MPI");

    if (module)
        drop(module);
    else
        clear();
    release(state);
}

static void require_threads(void)
{
    int level = MPI_THREAD_SINGLE;

    must(PMPI_Query_thread(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_MULTIPLE) {
        fputs("tbmpi for MLX: MPI was initialized without threads, but MLX "
              "communicates from a thread of its own; ask for "
              "MPI_THREAD_MULTIPLE\n",
              stderr);
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int is_initialized(void)
{
    int flag = 0;

    must(PMPI_Initialized(&flag), "MPI_Initialized");
    return flag;
}

int MPI_Init(int *argc, char ***argv)
{
    MPI_Comm own;
    int provided;

    if (!is_initialized())
        start_by_python();
    if (!is_initialized()) {
        must(PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided),
             "MPI_Init");
        finalize_here = 1;
    }
    require_threads();
    /* The program may use MPI_COMM_WORLD in its own way. */
    must(PMPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup");
    must(PMPI_Comm_set_errhandler(own, MPI_ERRORS_ARE_FATAL),
         "MPI_Comm_set_errhandler");
    ompi_mpi_comm_world.standard = own;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    int finalized = 0;

    PMPI_Finalized(&finalized);
    return finalize_here && !finalized ? PMPI_Finalize() : MPI_SUCCESS;
}

int MPI_Get_library_version(char *version, int *length)
{
    *length = snprintf(version, VERSION_ROOM,
                       "tbmpi " TB_VERSION " in the shape of Open MPI");
    return MPI_SUCCESS;
}

/* ------------------------------------------------------------ communicators */

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    return PMPI_Comm_rank(standard(comm), rank);
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    return PMPI_Comm_size(standard(comm), size);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
    return PMPI_Comm_split(standard(comm), color, key, newcomm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    int finalized = 0;

    /* MLX's groups are freed by destructors, in no order with the end. */
    PMPI_Finalized(&finalized);
    return finalized ? MPI_SUCCESS : PMPI_Comm_free(comm);
}

/* ------------------------------------------------------------------- data */

int MPI_Type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    return must(PMPI_Type_contiguous(count, standard(oldtype), newtype),
                "MPI_Type_contiguous");
}

int MPI_Type_commit(MPI_Datatype *datatype)
{
    return must(PMPI_Type_commit(datatype), "MPI_Type_commit");
}

int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    return must(PMPI_Op_create(function, commute, op), "MPI_Op_create");
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count,
                  MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    datatype = standard(datatype);
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype,
                          op_for(op, datatype), standard(comm));
}

int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                  void *recvbuf, int recvcount, MPI_Datatype recvtype,
                  MPI_Comm comm)
{
    return PMPI_Allgather(sendbuf, sendcount, standard(sendtype), recvbuf,
                          recvcount, standard(recvtype), standard(comm));
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest,
             int tag, MPI_Comm comm)
{
    return PMPI_Send(buf, count, standard(datatype), dest, tag, standard(comm));
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag,
             MPI_Comm comm, MPI_Status *status)
{
    struct ompi_status *told = (void *)status;
    MPI_Status found;
    MPI_Count bytes = 0;
    int code = PMPI_Recv(buf, count, standard(datatype), source,
                         tag == OMPI_ANY_TAG ? MPI_ANY_TAG : tag,
                         standard(comm), &found);

    if (told && code == MPI_SUCCESS) {
        PMPI_Get_elements_c(&found, MPI_BYTE, &bytes);
        *told = (struct ompi_status){.source = found.MPI_SOURCE,
                                     .tag = found.MPI_TAG,
                                     .error = found.MPI_ERROR,
                                     .bytes = (size_t)bytes};
    }
    return code;
}
