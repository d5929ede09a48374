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

# Attributes: a keyval's state comes back with each call.
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
"""

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
    ffi.cdef(surface + LOADER_CDEF + callbacks + ERRHANDLER_CDEF)
    source = LOADER_SOURCE + op_source() + errhandler_source()
    ffi.set_source("tbmpi._abi", source, py_limited_api=True)
    return ffi


if __name__ == "__main__":
    build().emit_c_code(sys.argv[1])
