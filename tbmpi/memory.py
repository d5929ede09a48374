# SPDX-License-Identifier: MIT
"""numpy arrays in memory of the MPI library (MPI_Alloc_mem).

Such memory may be sent from without a copy on its way to the cable; what arrives
there has no advantage. An array and its views are used like any others, and the
memory is given back with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from tbmpi import MPI, _life
from tbmpi._ffi import check, ffi, lib

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tbmpi.empty and tbmpi.zeros need numpy: pip install 'tbmpi[numpy]'",
        name=error.name,
    ) from None

__all__ = ["empty", "zeros"]

Shape = SupportsIndex | Sequence[SupportsIndex]


class _Memory:
    """Some bytes of the library's, which live as long as this object."""

    def __init__(self, size: int) -> None:
        place = ffi.new("void **")
        check(lib.MPI_Alloc_mem(max(size, 1), MPI.INFO_NULL._h, place))
        self._address = place[0]
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (int(ffi.cast("intptr_t", place[0])), False),
        }

    def __del__(self) -> None:
        # After MPI_Finalize the library cannot be asked any more.
        if hasattr(self, "_address") and not _life.is_finalized():
            lib.MPI_Free_mem(self._address)


def empty(shape: Shape, dtype: Any = float) -> np.ndarray:
    """A new array of this shape and dtype, in C order, with undefined values.

    Raises ValueError for a negative shape and for dtypes with Python objects,
    MPI.Exception if there is no memory left.
    """
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise ValueError(f"dtype {kind} holds Python objects, which MPI cannot send")
    lengths = _lengths(shape)
    size = kind.itemsize
    for length in lengths:
        size *= length
    return np.ndarray(lengths, kind, buffer=np.asarray(_Memory(size)))


def zeros(shape: Shape, dtype: Any = float) -> np.ndarray:
    """As empty, with all bytes zero."""
    array = empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = 0
    return array


def _lengths(shape: Shape) -> tuple[int, ...]:
    whole = shape if isinstance(shape, Sequence) else (shape,)
    lengths = tuple(length.__index__() for length in whole)
    if any(length < 0 for length in lengths):
        raise ValueError(f"negative shape: {shape}")
    return lengths
