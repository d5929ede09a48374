# SPDX-License-Identifier: MIT
"""Start and end of MPI, and what it says about itself and this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import index
from typing import Any

from tbmpi import _life
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._info import Info

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
    return _int(lib.MPI_Query_thread)


def Is_thread_main() -> bool:
    """Whether this thread initialized MPI."""
    return bool(_int(lib.MPI_Is_thread_main))


def _set_abort_status(status: int) -> None:
    """Makes the job end with that exit code when the interpreter exits."""
    _life.set_abort_status(status)


def _int(function: Any) -> int:
    out = ffi.new("int *")
    check(function(out))
    return out[0]


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


def Get_abi_info() -> Info:
    """Sizes of the ABI's integers in bytes, such as "mpi_aint_size"; to be freed."""
    return _info(lib.MPI_Abi_get_info)


def Get_abi_fortran_info() -> Info:
    """Sizes and presence of Fortran's types, to be freed; null if not known."""
    return _info(lib.MPI_Abi_get_fortran_info)


def Get_hw_resource_info() -> Info:
    """Kinds of hardware that Split_type can split by; to be freed.

    Each key is a kind, its value whether this process is bound to one: "true".
    """
    return _info(lib.MPI_Get_hw_resource_info)


def _info(function: Any) -> Info:
    out = ffi.new("MPI_Info *")
    check(function(out))
    return Info._of(out[0])


def Wtime() -> float:
    """Seconds since some time in the past."""
    return lib.MPI_Wtime()


def Wtick() -> float:
    """Resolution of Wtime in seconds."""
    return lib.MPI_Wtick()


def Pcontrol(level: int) -> None:
    """Tells a profiler how much to do: 0 nothing, 1 the usual."""
    check(lib.MPI_Pcontrol(ffi.cast("int", level)))


# ---------------------------------------------------------------- computations


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


def Aint_add(base: int, disp: int) -> int:
    """An address and a distance in bytes added up."""
    return lib.MPI_Aint_add(base, disp)


def Aint_diff(addr1: int, addr2: int) -> int:
    """The distance of two addresses in bytes."""
    return lib.MPI_Aint_diff(addr1, addr2)
