# SPDX-License-Identifier: MIT
"""Writes the C source of tbmpi._abi, the cffi module over the standard ABI.

Called by the build with the path of the file to write. The declarations come
from tbmpi/_gen/mpi.cdef, the binding by dlopen from tbmpi/_gen/table.h; both
are made by tools/bindgen, so nothing about MPI stands here.
"""

import sys
from pathlib import Path

import cffi

ROOT = Path(__file__).resolve().parent.parent

LOADER_CDEF = """
/* Binds all functions to the library at `path`. Returns NULL, or what went
 * wrong; *missing says how many functions the library lacks: tb_lacking names
 * them by 0 .. *missing - 1. They must not be called. */
const char *tb_load(const char *path, int *missing);
const char *tb_lacking(int i);
"""

LAST_CDEF = """
/* Has MPI_Finalize called when nothing of Python is left, unless MPI is finalized
 * then. Returns -1 if Python has no room to note it. */
int tb_finalize_last(void);
/* Keeps an object, given by its id, beyond the interpreter's end. */
void tb_hold(intptr_t object);
/* Makes Python look at a type's names anew; the type is given by its id. */
void tb_modified(intptr_t type);
"""

OP_SLOTS = 32

# MPI calls a reduction operation without a reference of the user's, so each one
# in Python takes a C function of its own, which adds its number.
OP_CDEF = f"""
#define TB_OP_SLOTS {OP_SLOTS}
MPI_User_function_c *tb_op_slot(int slot);
extern "Python" void tb_op_call(int slot, void *in, void *inout,
                                MPI_Count *count, MPI_Datatype *datatype);
"""

# Generalized requests: their functions get the state that was given with them.
GREQUEST_CDEF = """
extern "Python" int tb_greq_query(void *state, MPI_Status *status);
extern "Python" int tb_greq_free(void *state);
extern "Python" int tb_greq_cancel(void *state, int completed);
"""

# Attributes: a keyval's state comes back with each call. MPI gets the functions of
# tb_attr_functions, which do nothing once there is no Python.
ATTRIBUTE_KINDS = {"comm": "MPI_Comm", "type": "MPI_Datatype", "win": "MPI_Win"}
ATTRIBUTE_CDEF = """
extern "Python" int tb_comm_attr_copy(MPI_Comm old, int keyval, void *state,
                                      void *value, void *out, int *flag);
extern "Python" int tb_comm_attr_delete(MPI_Comm comm, int keyval, void *value,
                                        void *state);
extern "Python" int tb_type_attr_copy(MPI_Datatype old, int keyval, void *state,
                                      void *value, void *out, int *flag);
extern "Python" int tb_type_attr_delete(MPI_Datatype type, int keyval, void *value,
                                        void *state);
extern "Python" int tb_win_attr_copy(MPI_Win old, int keyval, void *state,
                                     void *value, void *out, int *flag);
extern "Python" int tb_win_attr_delete(MPI_Win win, int keyval, void *value,
                                       void *state);
""" + "".join(
    f"MPI_{name.title()}_{what}_attr_function *tb_{name}_{what}_function(void);\n"
    for name in ATTRIBUTE_KINDS
    for what in ("copy", "delete")
)

DATAREP_CDEF = """
extern "Python" int tb_datarep_read(void *user, MPI_Datatype type, MPI_Count count,
                                    void *file, MPI_Offset position, void *state);
extern "Python" int tb_datarep_write(void *user, MPI_Datatype type, MPI_Count count,
                                     void *file, MPI_Offset position, void *state);
extern "Python" int tb_datarep_extent(MPI_Datatype type, MPI_Aint *extent,
                                      void *state);
"""

# Error handlers, like reduction operations, get nothing of the user's.
ERRHANDLER_SLOTS = 32
ERRHANDLER_KINDS = ("Comm", "Win", "File", "Session")
ERRHANDLER_CDEF = f"""
#define TB_ERRHANDLER_SLOTS {ERRHANDLER_SLOTS}
extern "Python" void tb_errhandler_call(int kind, int slot, void *handle, int code);
""" + "".join(
    f"MPI_{kind}_errhandler_function *tb_{kind.lower()}_errhandler_slot(int slot);\n"
    for kind in ERRHANDLER_KINDS
)

LOADER_SOURCE = """
#define _GNU_SOURCE
#include <stdint.h>
#include "table.h"

static const char *lacking[TB_TABLE_SIZE];

static const char *tb_lacking(int i)
{
    return lacking[i];
}

static const char *tb_load(const char *path, int *missing)
{
    void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!dl)
        return dlerror();
    *missing = tb_table_load(dl, lacking);
    return NULL;
}
"""

LAST_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pid_t rank; /* a forked child inherits what is to be done at its end */

static void finalize_last(void)
{
    char why[MPI_MAX_ERROR_STRING + 1] = "";
    int done = 0, length = 0, code;
    if (rank != getpid() || tb_table.Finalized(&done) || done)
        return;
    code = tb_table.Finalize();
    if (!code)
        return;
    tb_table.Error_string(code, why, &length);
    fprintf(stderr, "MPI_Finalize failed: %s\\n", why);
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

static int tb_finalize_last(void)
{
    rank = getpid();
    return Py_AtExit(finalize_last);
}

static void tb_hold(intptr_t object)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_INCREF((PyObject *)object);
    PyGILState_Release(state);
}

static void tb_modified(intptr_t type)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyType_Modified((PyTypeObject *)type);
    PyGILState_Release(state);
}
"""

ATTRIBUTE_SOURCE = """
static int tb_%(name)s_attr_copy(%(type)s, int, void *, void *, void *, int *);
static int tb_%(name)s_attr_delete(%(type)s, int, void *, void *);

static int copy_%(name)s(%(type)s old, int keyval, void *state, void *value,
                         void *out, int *flag)
{
    *flag = 0;
    if (!Py_IsInitialized())
        return MPI_SUCCESS;
    return tb_%(name)s_attr_copy(old, keyval, state, value, out, flag);
}

static int delete_%(name)s(%(type)s owner, int keyval, void *value, void *state)
{
    if (!Py_IsInitialized())
        return MPI_SUCCESS;
    return tb_%(name)s_attr_delete(owner, keyval, value, state);
}

static MPI_%(title)s_copy_attr_function *tb_%(name)s_copy_function(void)
{
    return copy_%(name)s;
}

static MPI_%(title)s_delete_attr_function *tb_%(name)s_delete_function(void)
{
    return delete_%(name)s;
}
"""

OP_SOURCE = """
static void tb_op_call(int, void *, void *, MPI_Count *, MPI_Datatype *);
%s
static MPI_User_function_c *tb_op_slot(int slot)
{
    static MPI_User_function_c *const all[TB_OP_SLOTS] = {%s};
    return slot >= 0 && slot < TB_OP_SLOTS ? all[slot] : NULL;
}
"""

OP_FUNCTION = """
static void op_%d(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    tb_op_call(%d, in, inout, count, type);
}"""


ERRHANDLER_FUNCTION = """
static void errhandler_%(name)s_%(k)d(MPI_%(kind)s *handle, int *code, ...)
{
    if (Py_IsInitialized())
        tb_errhandler_call(%(number)d, %(k)d, *handle, *code);
}"""

ERRHANDLER_SOURCE = """
static MPI_%(kind)s_errhandler_function *tb_%(name)s_errhandler_slot(int slot)
{
    static MPI_%(kind)s_errhandler_function *const all[TB_ERRHANDLER_SLOTS] = {%(all)s};
    return slot >= 0 && slot < TB_ERRHANDLER_SLOTS ? all[slot] : NULL;
}
"""


def errhandler_source() -> str:
    """The C functions that pass an error on to Python, by kind of object."""
    text = f"#define TB_ERRHANDLER_SLOTS {ERRHANDLER_SLOTS}\n"
    text += "static void tb_errhandler_call(int, int, void *, int);\n"
    for number, kind in enumerate(ERRHANDLER_KINDS):
        words = {"kind": kind, "name": kind.lower(), "number": number}
        for k in range(ERRHANDLER_SLOTS):
            text += ERRHANDLER_FUNCTION % (words | {"k": k})
        names = (f"errhandler_{kind.lower()}_{k}" for k in range(ERRHANDLER_SLOTS))
        text += ERRHANDLER_SOURCE % (words | {"all": ", ".join(names)})
    return text


def attribute_source() -> str:
    """The C functions that pass what happens to attributes on to Python."""
    return "".join(
        ATTRIBUTE_SOURCE % {"name": name, "type": kind, "title": name.title()}
        for name, kind in ATTRIBUTE_KINDS.items()
    )


def op_source() -> str:
    """The C functions that pass a reduction on to Python."""
    functions = "".join(OP_FUNCTION % (k, k) for k in range(OP_SLOTS))
    names = ", ".join(f"op_{k}" for k in range(OP_SLOTS))
    define = f"#define TB_OP_SLOTS {OP_SLOTS}\n"
    return define + OP_SOURCE % (functions, names)


def build() -> cffi.FFI:
    """The module's builder, ready to emit its C source."""
    ffi = cffi.FFI()
    surface = (ROOT / "tbmpi" / "_gen" / "mpi.cdef").read_text()
    callbacks = OP_CDEF + GREQUEST_CDEF + ATTRIBUTE_CDEF + DATAREP_CDEF
    ffi.cdef(surface + LOADER_CDEF + LAST_CDEF + callbacks + ERRHANDLER_CDEF)
    source = LOADER_SOURCE + LAST_SOURCE + attribute_source()
    source += op_source() + errhandler_source()
    ffi.set_source("tbmpi._abi", source, py_limited_api=True)
    return ffi


if __name__ == "__main__":
    build().emit_c_code(sys.argv[1])
