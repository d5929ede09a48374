# SPDX-License-Identifier: MIT
"""From what a user passes as a message to address, count and datatype.

A message is an object with the buffer protocol (numpy and MLX arrays, bytes,
bytearray, array.array, memoryview) or a list or tuple around one:

    buffer                        all of it, datatype from the buffer's format
    [buffer, datatype]            datatype an MPI.Datatype or a code such as "d"
    [buffer, count]               count in datatypes
    [buffer, count, datatype]
    [buffer, (count, displ), datatype]      displ in datatypes from the start
    [buffer, counts, displs, datatype]      for the v-variants: one per rank

MPI.BOTTOM or None stands for "the datatype holds absolute addresses", or for
nothing at all. Memory must be contiguous, in C or Fortran order; a receive
needs it writable. The address that is returned is a cffi object that holds the
exporter's buffer: who keeps it keeps the memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import index
from typing import Any

from tbmpi._datatype import BYTE, FORMATS, Datatype, as_datatype, of_format
from tbmpi._ffi import check, ffi, lib

_from_buffer = ffi.from_buffer
_CHARS = ffi.typeof("char[]")

Block = tuple[Any, int, Any]  # address, count, datatype handle
Vector = tuple[Any, Any, Any, Any]  # address, counts, displacements, datatype


class BottomType(int):
    """The type of MPI.BOTTOM."""

    def __new__(cls) -> BottomType:
        """The address zero."""
        return super().__new__(cls, int(ffi.cast("intptr_t", lib.MPI_BOTTOM)))

    def __repr__(self) -> str:
        return "MPI.BOTTOM"


class InPlaceType(int):
    """The type of MPI.IN_PLACE."""

    def __new__(cls) -> InPlaceType:
        """The address that means "in place"."""
        return super().__new__(cls, int(ffi.cast("intptr_t", lib.MPI_IN_PLACE)))

    def __repr__(self) -> str:
        return "MPI.IN_PLACE"


BOTTOM = BottomType()
IN_PLACE = InPlaceType()
NOTHING: Block = (ffi.NULL, 0, BYTE._h)


def is_in_place(message: Any) -> bool:
    """Whether a message is MPI.IN_PLACE."""
    return message.__class__ is InPlaceType


def block(message: Any, writable: bool, blocks: int = 1) -> Block:
    """A message of one block, or of `blocks` equal ones whose count is returned.

    Raises TypeError (no buffer), ValueError (the count cannot be inferred, a
    negative count or displacement, unknown format) or BufferError (read-only,
    not contiguous).
    """
    # The common case, an array, goes straight through.
    kind = message.__class__
    if kind is not list and kind is not tuple:
        try:
            view = memoryview(message)
            handle, size = FORMATS[view.format]
        except (TypeError, KeyError):
            return _other_block(message, writable, blocks)
        count = view.nbytes // size
        if blocks > 1:
            count = _share(count, blocks)
        if view.c_contiguous and not (writable and view.readonly):
            return _from_buffer(_CHARS, view, writable), count, handle
        return memory(message, writable), count, handle
    return _listed_block(message, writable, blocks)


def _other_block(message: Any, writable: bool, blocks: int) -> Block:
    view = _view(message)
    handle = of_format(view.format, view.itemsize)._h
    count = view.nbytes // view.itemsize if view.itemsize else 0
    return memory(message, writable), _share(count, max(blocks, 1)), handle


def memory(thing: Any, writable: bool) -> Any:
    """A buffer's memory as a cffi char array, whose len() is its bytes."""
    view = _view(thing)
    if not view.c_contiguous:
        view = _in_memory_order(thing, view)
    if writable and view.readonly:
        kind = type(thing).__name__
        raise BufferError(f"cannot receive into read-only memory ({kind})")
    return _from_buffer(_CHARS, view, writable)


def _view(thing: Any) -> memoryview:
    try:
        return memoryview(thing)
    except TypeError:
        kind = type(thing).__name__
    if hasattr(thing, "__cuda_array_interface__"):
        raise BufferError(
            f"a message ({kind}) lies in GPU memory; copy it to the host first"
        )
    raise TypeError(
        f"a message is a buffer or [buffer, count, datatype], not {kind}; "
        "Python objects go by the lowercase methods (send, bcast, ...)"
    )


def _in_memory_order(thing: Any, view: memoryview) -> memoryview:
    numpy = sys.modules.get("numpy")
    if view.f_contiguous and numpy and isinstance(thing, numpy.ndarray):
        return memoryview(thing.T)
    if view.nbytes == 0:
        return memoryview(bytearray())
    raise BufferError(
        f"a message ({type(thing).__name__}) is not contiguous: shape {view.shape}, "
        f"strides {view.strides} bytes; copy it, or describe it by a derived datatype"
    )


def _share(count: int, blocks: int) -> int:
    if count % blocks:
        raise ValueError(
            f"cannot infer a count: {count} elements are not a multiple of the "
            f"{blocks} blocks that this call needs"
        )
    return count // blocks


# -------------------------------------------------- lists and tuples: one block


def _is_datatype(item: Any) -> bool:
    return isinstance(item, Datatype | str)


def _unpack(message: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Buffer, counts, displacements and datatype, None where not given."""
    if len(message) == 2:
        buffer, second = message
        if _is_datatype(second):
            return buffer, None, None, second
        return buffer, *_pair(second), None
    if len(message) == 3:
        buffer, second, kind = message
        return buffer, *_pair(second), kind
    if len(message) == 4:
        return tuple(message)  # type: ignore[return-value]
    raise ValueError(f"a message list has 2 to 4 items, not {len(message)}")


def _pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ValueError(f"expected (counts, displacements), got {item!r}")
        return item
    return item, None


def _listed_block(message: Sequence[Any], writable: bool, blocks: int) -> Block:
    buffer, count, displ, kind = _unpack(message)
    if isinstance(count, list) and displ is None:
        count, displ = _pair(tuple(count))
    if buffer is None or buffer is BOTTOM:
        datatype = as_datatype(kind)
        amount = 0 if count is None else _natural(count, "count")
        if buffer is None and amount:
            raise ValueError(f"the buffer is None, but the count is {amount}")
        return lib.MPI_BOTTOM, amount, datatype._h
    address = memory(buffer, writable)
    datatype = _datatype_of(buffer, kind)
    length = len(address)
    offset = 0
    if displ is not None and (displ := _natural(displ, "displacement")):
        offset = displ * _extent(datatype)
        if offset > length:
            raise ValueError(
                f"displacement {displ} is beyond the {length} bytes of the buffer"
            )
        address = _from_buffer(_CHARS, memoryview(ffi.buffer(address))[offset:])
    if count is not None:
        amount = _natural(count, "count")
    elif length - offset == 0:
        amount = 0
    else:
        amount = _share(_whole(length - offset, datatype), max(blocks, 1))
    return address, amount, datatype._h


def _datatype_of(buffer: Any, kind: Any) -> Datatype:
    if kind is not None:
        return as_datatype(kind)
    view = memoryview(buffer)
    return of_format(view.format, view.itemsize)


def _natural(value: Any, what: str) -> int:
    number = index(value)
    if number < 0:
        raise ValueError(f"negative {what}: {number}")
    return number


def _extent(datatype: Datatype) -> int:
    if not datatype:
        raise ValueError("cannot infer a count or a place: the datatype is null")
    low, extent = datatype.Get_extent()
    if extent <= 0:
        raise ValueError(
            f"cannot infer a count or a place: the datatype's extent is {extent} "
            f"(lower bound {low})"
        )
    return extent


def _whole(length: int, datatype: Datatype) -> int:
    extent = _extent(datatype)
    if length % extent:
        raise ValueError(
            f"cannot infer a count: the buffer's {length} bytes are not a multiple "
            f"of the datatype's extent, {extent}"
        )
    return length // extent


# ----------------------------------------------------- vectors: a block a rank


def vector(message: Any, writable: bool, blocks: int) -> Vector:
    """A message of `blocks` blocks of their own counts and displacements.

    Without counts the buffer is dealt out as evenly as it goes; without
    displacements the blocks follow each other. Raises as block() does.
    """
    if isinstance(message, list | tuple):
        buffer, counts, displs, kind = _unpack(message)
    else:
        buffer, counts, displs, kind = message, None, None, None
    if buffer is None or buffer is BOTTOM:
        address, length, datatype = lib.MPI_BOTTOM, 0, as_datatype(kind)
    else:
        address = memory(buffer, writable)
        length = len(address)
        datatype = _datatype_of(buffer, kind)
    if counts is None:
        total = _whole(length, datatype) if length else 0
        amounts = [total // blocks + (total % blocks > i) for i in range(blocks)]
    else:
        amounts = _numbers(counts, blocks, lambda number, _: number)
    if displs is None:
        places, place = [], 0
        for amount in amounts:
            places.append(place)
            place += amount
    else:
        places = _numbers(displs, blocks, lambda number, i: number * i)
    return (
        address,
        ffi.new("MPI_Count[]", amounts),
        ffi.new("MPI_Aint[]", places),
        datatype._h,
    )


def _numbers(given: Any, blocks: int, expand: Any) -> list[int]:
    """One int a block, from a sequence or by `expand` from a single int."""
    if hasattr(given, "__index__") and not getattr(given, "shape", ()):
        number = index(given)
        return [expand(number, i) for i in range(blocks)]
    numbers = [index(number) for number in given]
    if len(numbers) != blocks:
        raise ValueError(
            f"expected {blocks} counts or displacements, got {len(numbers)}"
        )
    return numbers


def vector_of_types(message: Any, writable: bool, blocks: int) -> Vector:
    """A message whose blocks have their own datatypes; displacements in bytes."""
    if not isinstance(message, list | tuple) or not 2 <= len(message) <= 4:
        raise ValueError(
            "a message with several datatypes is [buffer, types], "
            "[buffer, (counts, displs), types] or [buffer, counts, displs, types]"
        )
    buffer, types = message[0], message[-1]
    counts = displs = None
    if len(message) == 3:
        counts, displs = message[1]
    elif len(message) == 4:
        counts, displs = message[1:3]
    if buffer is None or buffer is BOTTOM:
        address = lib.MPI_BOTTOM
        if counts is None or displs is None:
            raise ValueError("MPI.BOTTOM needs counts and displacements")
    else:
        address = memory(buffer, writable)
    if len(types) != blocks:
        raise ValueError(f"expected {blocks} datatypes, got {len(types)}")
    one, zero = [1] * blocks, [0] * blocks
    return (
        address,
        ffi.new("MPI_Count[]", _listed(counts, blocks) if counts is not None else one),
        ffi.new("MPI_Aint[]", _listed(displs, blocks) if displs is not None else zero),
        ffi.new("MPI_Datatype[]", [as_datatype(kind)._h for kind in types]),
    )


def _listed(given: Any, blocks: int) -> list[int]:
    return _numbers(given, blocks, lambda number, _: number)


# --------------------------------------------------------------- raw memory


def allocate(size: int) -> tuple[Any, Any]:
    """Fresh bytes, not cleared: their address, and a buffer over them."""
    address = _new_bytes("char[]", max(size, 1))
    return address, ffi.buffer(address, size)


_new_bytes = ffi.new_allocator(should_clear_after_alloc=False)


def Get_address(location: Any) -> int:
    """The address of a buffer's first byte; that of MPI.BOTTOM is 0."""
    if location is BOTTOM:
        return int(BOTTOM)
    out = ffi.new("MPI_Aint *")
    check(lib.MPI_Get_address(memory(location, writable=False), out))
    return out[0]


def Alloc_mem(size: int, info: Any = None) -> memoryview:
    """`size` bytes from the library, which may be quicker to send from.

    Free them by Free_mem; they are not cleared.
    """
    place = ffi.new("void **")
    handle = lib.MPI_INFO_NULL if info is None else info._h
    check(lib.MPI_Alloc_mem(size, handle, place))
    return memoryview(ffi.buffer(place[0], size))


def Free_mem(mem: Any) -> None:
    """Gives memory of Alloc_mem back. No view of it may be used any more."""
    check(lib.MPI_Free_mem(memory(mem, writable=True)))
