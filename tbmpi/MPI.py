# SPDX-License-Identifier: MIT
"""The MPI standard in Python, under the names of mpi4py.MPI.

Importing this module initializes MPI unless ``tbmpi.rc.initialize`` says no.
Constants are named as in C, without the MPI_ in front: ``MPI.SUM``. Classes are
in modules of their own (tbmpi._comm, tbmpi._datatype, ...), messages and buffers
in tbmpi.buffers, start and end in tbmpi._life.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import index
from typing import Any, NoReturn

from tbmpi import _life
from tbmpi._comm import Comm
from tbmpi._datatype import BFLOAT16_T, CODES, FLOAT16_T, Datatype
from tbmpi._errhandler import Errhandler
from tbmpi._exception import Exception
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._group import Group
from tbmpi._handle import Handle, remember_name
from tbmpi._info import Info
from tbmpi._intercomm import Intercomm
from tbmpi._intracomm import Intracomm
from tbmpi._message import Message
from tbmpi._op import Op
from tbmpi._pickle import Pickle, pickle
from tbmpi._request import Prequest, Request
from tbmpi._status import Status
from tbmpi._topo import Cartcomm, Distgraphcomm, Graphcomm, Topocomm
from tbmpi.buffers import (
    BOTTOM,
    IN_PLACE,
    Alloc_mem,
    BottomType,
    Free_mem,
    Get_address,
    InPlaceType,
)

# ------------------------------------------------------------------ constants

# The standard's predefined objects, by class; the C name is MPI_ and the name.
_OBJECTS: dict[type[Handle], str] = {
    Intracomm: "COMM_SELF COMM_WORLD",
    Comm: "COMM_NULL",
    Group: "GROUP_NULL GROUP_EMPTY",
    Errhandler: "ERRHANDLER_NULL ERRORS_RETURN ERRORS_ABORT ERRORS_ARE_FATAL",
    Info: "INFO_NULL INFO_ENV",
    Message: "MESSAGE_NULL MESSAGE_NO_PROC",
    Request: "REQUEST_NULL",
    Op: "OP_NULL MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MAXLOC MINLOC"
    " REPLACE NO_OP",
    Datatype: "DATATYPE_NULL PACKED BYTE AINT OFFSET COUNT CHAR WCHAR SIGNED_CHAR"
    " SHORT INT LONG LONG_LONG UNSIGNED_CHAR UNSIGNED_SHORT UNSIGNED UNSIGNED_LONG"
    " UNSIGNED_LONG_LONG FLOAT DOUBLE LONG_DOUBLE C_BOOL INT8_T INT16_T INT32_T"
    " INT64_T UINT8_T UINT16_T UINT32_T UINT64_T C_FLOAT_COMPLEX C_DOUBLE_COMPLEX"
    " C_LONG_DOUBLE_COMPLEX CXX_BOOL CXX_FLOAT_COMPLEX CXX_DOUBLE_COMPLEX"
    " CXX_LONG_DOUBLE_COMPLEX SHORT_INT LONG_INT FLOAT_INT DOUBLE_INT"
    " LONG_DOUBLE_INT CHARACTER LOGICAL INTEGER REAL DOUBLE_PRECISION COMPLEX"
    " DOUBLE_COMPLEX LOGICAL1 LOGICAL2 LOGICAL4 LOGICAL8 LOGICAL16 INTEGER1"
    " INTEGER2 INTEGER4 INTEGER8 INTEGER16 REAL2 REAL4 REAL8 REAL16 COMPLEX4"
    " COMPLEX8 COMPLEX16 COMPLEX32",
}

# Objects that mpi4py also knows by another name: name, object or C name.
_OTHER_NAMES = {
    "TWOINT": "2INT",
    "INT_INT": "2INT",
    "C_COMPLEX": "C_FLOAT_COMPLEX",
    "UNSIGNED_INT": "UNSIGNED",
    "SIGNED_SHORT": "SHORT",
    "SIGNED_INT": "INT",
    "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG",
    "BOOL": "C_BOOL",
    "FLOAT32_T": "FLOAT",
    "FLOAT64_T": "DOUBLE",
    "SINT8_T": "INT8_T",
    "SINT16_T": "INT16_T",
    "SINT32_T": "INT32_T",
    "SINT64_T": "INT64_T",
    "F_BOOL": "LOGICAL",
    "F_INT": "INTEGER",
    "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION",
    "F_COMPLEX": "COMPLEX",
    "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}

# Kinds of int constants that are taken over as they are.
_INTEGERS = re.compile(
    r"MPI_((SUCCESS|ANY_SOURCE|ANY_TAG|PROC_NULL|ROOT|UNDEFINED|IDENT|CONGRUENT"
    r"|SIMILAR|UNEQUAL|CART|GRAPH|DIST_GRAPH|VERSION|SUBVERSION|TAG_UB|IO|HOST"
    r"|WTIME_IS_GLOBAL|APPNUM|LASTUSEDCODE|UNIVERSE_SIZE|KEYVAL_INVALID"
    r"|BSEND_OVERHEAD)|(ERR|THREAD|COMBINER|ORDER|TYPECLASS|DISTRIBUTE|COMM_TYPE"
    r"|MAX|ABI)_\w+)$"
)
_NO_INTEGERS = {"MPI_MAX_LOC", "MPI_ERRORS_RETURN"}


def _define() -> None:
    space = globals()
    for kind, names in _OBJECTS.items():
        for name in names.split():
            space[name] = kind._of(getattr(lib, "MPI_" + name))
            remember_name(space[name], name)
    for name, other in _OTHER_NAMES.items():
        space[name] = Datatype._of(getattr(lib, "MPI_" + other))
        remember_name(space[name], name)
    for name, thing in {"FLOAT16_T": FLOAT16_T, "BFLOAT16_T": BFLOAT16_T}.items():
        remember_name(thing, name)
    for name in dir(lib):
        match = _INTEGERS.match(name)
        value = getattr(lib, name) if match else None
        if match and isinstance(value, int):
            space[match[1]] = value


_define()
_typedict = CODES

# mpi4py's names of things that tbmpi does not have yet, and what they belong to.
_NOT_YET = {
    "Win": "one-sided communication",
    "WIN_NULL": "one-sided communication",
    "File": "file access",
    "FILE_NULL": "file access",
    "Session": "sessions",
    "SESSION_NULL": "sessions",
    "Grequest": "generalized requests",
    "buffer": "the type of Alloc_mem's memory",
    "memory": "the type of Alloc_mem's memory",
}


class _NotThere(AttributeError, NotImplementedError):
    """A name of mpi4py.MPI that tbmpi.MPI does not have; hasattr() is false."""


def __getattr__(name: str) -> NoReturn:
    if name in _NOT_YET:
        raise _NotThere(f"tbmpi.MPI has no {name}: {_NOT_YET[name]} is not implemented")
    raise AttributeError(f"module 'tbmpi.MPI' has no attribute {name!r}")


# -------------------------------------------------------------- start and end


def Init() -> None:
    """Initializes MPI with all of its thread support."""
    Init_thread()


def Init_thread(required: int = lib.MPI_THREAD_MULTIPLE) -> int:
    """Initializes MPI; the thread level that it provides."""
    return _life.init_thread(required)


def Finalize() -> None:
    """Ends the use of MPI. Blocks until every rank has called it.

    It is called when the interpreter ends, so programs need not.
    """
    _life.finalize()


def Is_initialized() -> bool:
    """Whether MPI is initialized, or was."""
    return _life.is_initialized()


def Is_finalized() -> bool:
    """Whether MPI is finalized."""
    return _life.is_finalized()


def Query_thread() -> int:
    """The thread level provided, such as MPI.THREAD_MULTIPLE."""
    out = ffi.new("int *")
    check(lib.MPI_Query_thread(out))
    return out[0]


def Is_thread_main() -> bool:
    """Whether this thread initialized MPI."""
    out = ffi.new("int *")
    check(lib.MPI_Is_thread_main(out))
    return bool(out[0])


# ------------------------------------------------------------------ inquiries


def Get_version() -> tuple[int, int]:
    """Version of the MPI standard."""
    out = ffi.new("int[2]")
    check(lib.MPI_Get_version(out, out + 1))
    return out[0], out[1]


def Get_abi_version() -> tuple[int, int]:
    """Version of the standard ABI."""
    out = ffi.new("int[2]")
    check(lib.MPI_Abi_get_version(out, out + 1))
    return out[0], out[1]


def Get_library_version() -> str:
    """Name and version of the library."""
    out = ffi.new("char[]", lib.MPI_MAX_LIBRARY_VERSION_STRING + 1)
    length = ffi.new("int *")
    check(lib.MPI_Get_library_version(out, length))
    return text(out, length[0])


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Name and version of the library as numbers: ("tbmpi", (0, 1, 0))."""
    whole = Get_library_version()
    found = re.match(r"\s*(\D*?)(?: Version:)?\s*v?(\d+)\.(\d+)(?:\.(\d+))?", whole)
    if not found:
        return "unknown", (0, 0, 0)
    name, *numbers = found.groups("0")
    major, minor, micro = map(int, numbers)
    return name, (major, minor, micro)


def Get_processor_name() -> str:
    """Name of this machine."""
    out = ffi.new("char[]", lib.MPI_MAX_PROCESSOR_NAME + 1)
    length = ffi.new("int *")
    check(lib.MPI_Get_processor_name(out, length))
    return text(out, length[0])


def Wtime() -> float:
    """Seconds since some time in the past."""
    return lib.MPI_Wtime()


def Wtick() -> float:
    """Resolution of Wtime in seconds."""
    return lib.MPI_Wtick()


def Pcontrol(level: int) -> None:
    """Tells a profiler how much to do."""
    check(lib.MPI_Pcontrol(ffi.cast("int", level)))


# ------------------------------------------------------------------- the rest


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """A balanced grid of `nnodes` ranks: number of dimensions, or a shape.

    Entries of a shape that are 0 are chosen, the others kept.
    """
    shape: Any = dims
    if hasattr(dims, "__index__"):
        shape = [0] * index(dims)
    out = ffi.new("int[]", [index(length) for length in shape] or [0])
    check(lib.MPI_Dims_create(nnodes, len(shape), out))
    return list(out[0 : len(shape)])


def Add_error_class() -> int:
    """A new error class."""
    out = ffi.new("int *")
    check(lib.MPI_Add_error_class(out))
    return out[0]


def Add_error_code(errorclass: int) -> int:
    """A new error code of a class."""
    out = ffi.new("int *")
    check(lib.MPI_Add_error_code(errorclass, out))
    return out[0]


def Add_error_string(errorcode: int, string: str) -> None:
    """The text of a new error code."""
    check(lib.MPI_Add_error_string(errorcode, string.encode()))


def Get_error_class(errorcode: int) -> int:
    """The class of an error code."""
    out = ffi.new("int *")
    check(lib.MPI_Error_class(errorcode, out))
    return out[0]


def Get_error_string(errorcode: int) -> str:
    """The text of an error code."""
    return Exception(errorcode).Get_error_string()


def Aint_add(base: int, disp: int) -> int:
    """An address and a distance in bytes added up."""
    return lib.MPI_Aint_add(base, disp)


def Aint_diff(addr1: int, addr2: int) -> int:
    """The distance of two addresses in bytes."""
    return lib.MPI_Aint_diff(addr1, addr2)


_attached: list[Any] = []


def Attach_buffer(buf: Any) -> None:
    """Gives memory to buffered sends; size it by Pack_size and BSEND_OVERHEAD."""
    from tbmpi.buffers import memory

    address = memory(buf, writable=True)
    check(lib.MPI_Buffer_attach_c(address, len(address)))
    _attached.append(buf)


def Detach_buffer() -> Any:
    """Waits for buffered sends and returns the memory that was attached."""
    place, size = ffi.new("void **"), ffi.new("MPI_Count *")
    check(lib.MPI_Buffer_detach_c(place, size))
    return _attached.pop() if _attached else None


__all__ = [
    "BOTTOM", "IN_PLACE", "Add_error_class", "Add_error_code", "Add_error_string",
    "Aint_add", "Aint_diff", "Alloc_mem", "Attach_buffer", "BottomType", "Cartcomm",
    "Comm", "Compute_dims", "Datatype", "Detach_buffer", "Distgraphcomm",
    "Errhandler", "Exception", "Finalize", "Free_mem", "Get_abi_version",
    "Get_address", "Get_error_class", "Get_error_string", "Get_library_version",
    "Get_processor_name", "Get_version", "Graphcomm", "Group", "InPlaceType", "Info",
    "Init", "Init_thread", "Intercomm", "Intracomm", "Is_finalized",
    "Is_initialized", "Is_thread_main", "Message", "Op", "Pcontrol", "Pickle",
    "Prequest", "Query_thread", "Request", "Status", "Topocomm", "Wtick", "Wtime",
    "get_vendor", "pickle",
    *(name for names in _OBJECTS.values() for name in names.split()), *_OTHER_NAMES,
]  # fmt: skip

_life.start()
