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

OP_SLOTS = 64

# MPI calls a reduction operation without a reference of the user's, so each one
# in Python takes a C function of its own, which adds its number.
OP_CDEF = f"""
#define TB_OP_SLOTS {OP_SLOTS}
MPI_User_function_c *tb_op_slot(int slot);
extern "Python" void tb_op_call(int slot, void *in, void *inout,
                                MPI_Count *count, MPI_Datatype *datatype);
"""

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
    ffi.cdef(surface + LOADER_CDEF + OP_CDEF)
    ffi.set_source("tbmpi._abi", LOADER_SOURCE + op_source(), py_limited_api=True)
    return ffi


if __name__ == "__main__":
    build().emit_c_code(sys.argv[1])
