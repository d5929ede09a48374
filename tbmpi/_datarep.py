# SPDX-License-Identifier: MIT
"""Data representations of the user's: how datatypes are stored in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tbmpi._abi import lib as _module
from tbmpi._datatype import Datatype
from tbmpi._exception import reported
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import predefined
from tbmpi._memory import at, buffer, numeric

Convert = Callable[[buffer, Datatype, int, buffer, int], None]
Extent = Callable[[Datatype], int]


class _Datarep:
    """The functions of a representation."""

    __slots__ = ("extent", "handle", "read", "write")

    def __init__(
        self, read: Convert | None, write: Convert | None, extent: Extent
    ) -> None:
        self.read, self.write, self.extent = read, write, extent
        self.handle = ffi.new_handle(self)


# MPI has no way to take one back, so they stay for good.
_registered: list[_Datarep] = []


def Register_datarep(
    datarep: str,
    read_fn: Convert | None,
    write_fn: Convert | None,
    extent_fn: Extent,
) -> None:
    """Makes a name for File.Set_view of how data lie in files.

    ``read_fn(userbuf, datatype, count, filebuf, position)`` converts `count`
    elements of `filebuf` to `userbuf` from element `position` on, ``write_fn``
    the other way; None copies. ``extent_fn(datatype)`` is the extent of a
    datatype in the file, in bytes.
    """
    state = _Datarep(read_fn, write_fn, extent_fn)
    copies = lib.MPI_CONVERSION_FN_NULL_C
    read = copies if read_fn is None else _module.tb_datarep_read
    write = copies if write_fn is None else _module.tb_datarep_write
    functions = (read, write, _module.tb_datarep_extent)
    check(lib.MPI_Register_datarep_c(datarep.encode(), *functions, state.handle))
    _registered.append(state)


def _convert(name: str, user: Any, kind: Any, count: int, file: Any, *more: Any) -> int:
    position, extra = more
    try:
        state = ffi.from_handle(extra)
        datatype = predefined(Datatype, kind) or Datatype._of(kind)
        size = (position + count) * datatype.extent
        elements = buffer._over(at(numeric(user), size))
        stored = buffer._over(at(numeric(file), count * state.extent(datatype)))
        getattr(state, name)(elements, datatype, count, stored, position)
    except BaseException as error:
        return reported(error)
    return lib.MPI_SUCCESS


@ffi.def_extern(error=lib.MPI_ERR_INTERN)
def tb_datarep_read(*arguments: Any) -> int:
    """What MPI calls to convert data from a file."""
    return _convert("read", *arguments)


@ffi.def_extern(error=lib.MPI_ERR_INTERN)
def tb_datarep_write(*arguments: Any) -> int:
    """What MPI calls to convert data for a file."""
    return _convert("write", *arguments)


@ffi.def_extern(error=lib.MPI_ERR_INTERN)
def tb_datarep_extent(kind: Any, extent: Any, extra: Any) -> int:
    """What MPI calls to learn how much room a datatype takes."""
    try:
        datatype = predefined(Datatype, kind) or Datatype._of(kind)
        extent[0] = ffi.from_handle(extra).extent(datatype)
    except BaseException as error:
        return reported(error)
    return lib.MPI_SUCCESS
