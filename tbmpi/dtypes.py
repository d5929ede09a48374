# SPDX-License-Identifier: MIT
"""MPI datatypes for the elements of numpy arrays.

Plain arrays need none of this: their datatype is found by itself. It is for
structured arrays, and for strings:

    points = numpy.zeros(100, [("id", "i4"), ("place", "f8", 3)])
    comm.Send([points, tbmpi.datatype(points.dtype)], dest=1)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tbmpi import MPI
from tbmpi._typecodes import CODES

if TYPE_CHECKING:
    from tbmpi._datatype import Datatype

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tbmpi.datatype needs numpy: pip install 'tbmpi[numpy]'", name=error.name
    ) from None

__all__ = ["datatype"]

_made: dict[np.dtype, Datatype] = {}


def datatype(dtype: Any) -> Datatype:
    """The committed datatype of one element of a dtype, as numpy.dtype takes it.

    A structured dtype becomes a structure with the same gaps; a string a row of
    characters; a datetime an int of 64 bits. The datatype is kept: the same dtype
    gives the same object, which must not be freed. TypeError if such elements have
    no meaning in another process (object) or no datatype here, BufferError if
    their byte order is not this machine's.
    """
    kind = np.dtype(dtype)
    found = _made.get(kind)
    if found is None:
        found = _made[kind] = _make(kind)
    return found


def _make(kind: np.dtype) -> Datatype:
    if kind.subdtype is not None:
        base, shape = kind.subdtype
        return datatype(base).Create_contiguous(math.prod(shape)).Commit()
    if kind.fields is not None:
        return _structure(kind)
    if not kind.isnative:
        raise BufferError(
            f"{kind!r}: the byte order is not this machine's; "
            "array.astype(array.dtype.newbyteorder('=')) changes it"
        )
    if kind.hasobject:
        raise TypeError(
            f"{kind!r}: objects cannot be sent as memory; use the methods in small "
            "letters (send, bcast, ...)"
        )
    if kind.kind in "SUV" and kind.name != "bfloat16":
        return _row(kind)
    code = {"M": "M8", "m": "m8"}.get(kind.kind, kind.char)
    named = CODES.get("bfloat16" if kind.name == "bfloat16" else code)
    if named is None or named.Get_size() != kind.itemsize:
        raise TypeError(f"{kind!r} has no MPI datatype")
    return named


def _structure(kind: np.dtype) -> Datatype:
    names = kind.names or ()
    fields = [kind.fields[name][:2] for name in names]  # type: ignore[index]
    parts = MPI.Datatype.Create_struct(
        [1] * len(fields),
        [place for _, place in fields],
        [datatype(field) for field, _ in fields],
    )
    try:
        return parts.Create_resized(0, kind.itemsize).Commit()
    finally:
        parts.Free()


def _row(kind: np.dtype) -> Datatype:
    """A string or plain memory."""
    part = {"S": MPI.CHAR, "U": MPI.WCHAR, "V": MPI.BYTE}[kind.kind]
    return part.Create_contiguous(kind.itemsize // part.Get_size()).Commit()
