# SPDX-License-Identifier: MIT
"""From what a user passes as a message to address, count and datatype.

A message is an object with memory (numpy and MLX arrays, bytes, bytearray,
array.array, memoryview, DLPack tensors, whatever tbmpi._memory takes) or a list
or tuple around one:

    buffer                        all of it, datatype from the buffer's format
    [buffer, datatype]            datatype an MPI.Datatype or a code such as "d"
    [buffer, count]               count in datatypes
    [buffer, count, datatype]
    [buffer, (count, displ), datatype]      displ in datatypes from the start
    [buffer, counts, displs, datatype]      for the v-variants: one per rank

MPI.BOTTOM or None instead of a buffer stands for "the datatype holds absolute
addresses", or for nothing at all. Three functions do the work, for the three
kinds of arguments that MPI has: block, vector and vector_of_types. The addresses
that they return hold the exporter's buffer: who keeps them keeps the memory.

They raise TypeError (no buffer), ValueError (a count or a place that cannot be
inferred, is negative or out of bounds, a list of the wrong length), KeyError (no
datatype for this format or code) or BufferError (read-only, not contiguous, on a
device, not in this machine's byte order).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from gc import is_tracked
from operator import index
from typing import Any

from tbmpi._datatype import Datatype
from tbmpi._ffi import ffi, lib
from tbmpi._memory import (
    CHARS,
    BottomType,
    InPlaceType,
    described,
    memory,
    of_view,
    part,
)
from tbmpi._typecodes import BYTE, FORMATS, as_datatype, of_format

_from_buffer = ffi.from_buffer

Block = tuple[Any, int, Any]  # address, count, datatype handle
Vector = tuple[Any, Any, Any, Any]  # address, counts, displacements, datatype

NOTHING: Block = (ffi.NULL, 0, BYTE._h)


def is_in_place(message: Any) -> bool:
    """Whether a message is MPI.IN_PLACE, or None in its stead."""
    return message is None or message.__class__ is InPlaceType


def _is_bottom(thing: Any) -> bool:
    return thing is None or thing.__class__ is BottomType


# ------------------------------------------------------------------ one block


def block(message: Any, writable: bool, blocks: int = 1) -> Block:
    """A message of one block, or of `blocks` equal ones whose count is returned."""
    # The common case, an array, goes straight through.
    kind = message.__class__
    if kind is not list and kind is not tuple:
        try:
            view = memoryview(message)
            handle, size = FORMATS[view.format]
        except (TypeError, KeyError, ValueError, BufferError):
            return _other_block(message, writable, blocks)
        count = view.nbytes // size
        if blocks > 1:
            count = _share(count, blocks)
        if not count and kind is InPlaceType:
            raise TypeError("MPI.IN_PLACE has no meaning here")
        if view.c_contiguous and not (
            (writable and view.readonly) or is_tracked(message)
        ):
            return _from_buffer(CHARS, message, writable), count, handle
        return of_view(message, view, writable), count, handle
    return _listed_block(message, writable, blocks)


def _other_block(message: Any, writable: bool, blocks: int) -> Block:
    if isinstance(message, list | tuple):
        return _listed_block(message, writable, blocks)
    address, form, itemsize = described(message, writable)
    datatype = of_format(form, itemsize)
    return address, _share(len(address) // max(itemsize, 1), blocks), datatype._h


def _listed_block(message: Sequence[Any], writable: bool, blocks: int) -> Block:
    thing, count, displ, kind = _unpacked(message, (list, tuple))
    address, datatype = _base(thing, kind, writable)
    length = len(address) if address else 0
    offset = 0
    if displ is not None and (displ := _natural(displ, "displacement")):
        extent = _extent(datatype)
        offset = displ * extent
        if offset > length:
            raise ValueError(
                f"displacement {displ} is out of bounds: the buffer has "
                f"{length // extent} elements"
            )
        address = part(address, offset, length) if address else address
    if count is not None:
        amount = _natural(count, "count")
        if amount and thing is None:
            raise ValueError(f"the buffer is None, but the count is {amount}")
        if amount and datatype and not _is_bottom(thing):
            total = amount * max(blocks, 1)
            _Span(datatype).check(total, -offset, length - offset)
    elif length == offset:
        amount = 0
    else:
        amount = _share(_whole(length - offset, datatype), blocks)
    return address, amount, datatype._h


def _base(thing: Any, kind: Any, writable: bool) -> tuple[Any, Datatype]:
    """Address and datatype of the buffer in a list; MPI.BOTTOM's is NULL."""
    if _is_bottom(thing):
        return lib.MPI_BOTTOM, as_datatype(kind)
    if kind is not None:
        return memory(thing, writable), as_datatype(kind)
    address, form, itemsize = described(thing, writable)
    return address, of_format(form, itemsize)


def _unpacked(
    message: Sequence[Any], pairs: type | tuple[type, ...]
) -> tuple[Any, Any, Any, Any]:
    """Buffer, counts, displacements and datatype, None where not given.

    `pairs` are the types of which (counts, displacements) can be.
    """
    if len(message) == 4:
        return tuple(message)  # type: ignore[return-value]
    if len(message) not in (2, 3):
        raise ValueError(f"a message list has 2 to 4 items, not {len(message)}")
    thing, second = message[:2]
    kind = message[2] if len(message) == 3 else None
    if len(message) == 2 and isinstance(second, Datatype | str):
        return thing, None, None, second
    if isinstance(second, pairs):
        if len(second) != 2:
            raise ValueError(f"expected (counts, displacements), got {second!r}")
        return thing, second[0], second[1], kind
    return thing, second, None, kind


def _natural(value: Any, what: str) -> int:
    number = index(value)
    if number < 0:
        raise ValueError(f"negative {what}: {number}")
    return number


def _share(count: int, blocks: int) -> int:
    if blocks < 2:
        return count
    if count % blocks:
        raise ValueError(
            f"cannot infer a count: {count} elements are not a multiple of the "
            f"{blocks} blocks that this call needs"
        )
    return count // blocks


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


class _Span:
    """Which bytes elements of a datatype lie in, seen from where they begin."""

    __slots__ = ("_low", "_size", "extent")

    def __init__(self, datatype: Datatype) -> None:
        _, self.extent = datatype.Get_extent()
        self._low, self._size = datatype.Get_true_extent()

    def check(self, count: int, first: int, last: int) -> None:
        """Refuses `count` elements unless they lie in the bytes first to last."""
        last_one = (count - 1) * self.extent
        begin = min(last_one, 0) + self._low
        end = max(last_one, 0) + self._low + self._size
        if self._size and (begin < first or end > last):
            raise ValueError(
                f"the buffer is too small: {count} elements take bytes "
                f"{begin - first} to {end - first}, it has {last - first}"
            )


# ----------------------------------------------------- vectors: a block a rank


def vector(message: Any, writable: bool, blocks: int) -> Vector:
    """A message of `blocks` blocks of their own counts and displacements.

    Without counts the buffer is dealt out as evenly as it goes; without
    displacements the blocks follow each other. A single count is that of every
    block, a single displacement the distance of consecutive blocks.
    """
    if isinstance(message, list | tuple):
        thing, counts, displs, kind = _unpacked(message, tuple)
        address, datatype = _base(thing, kind, writable)
    else:
        counts = displs = None
        address, form, itemsize = described(message, writable)
        datatype = of_format(form, itemsize)
    if counts is None:
        length = len(address) if address else 0
        total = _whole(length, datatype) if length else 0
        amounts = [total // blocks + (total % blocks > i) for i in range(blocks)]
    else:
        amounts = _numbers(counts, blocks, lambda number, _: number)
    if displs is None:
        places = running(amounts)[0]
    else:
        places = _numbers(displs, blocks, lambda number, i: number * i)
    if datatype and not (counts is None is displs) and not _is_bottom(thing):
        span = _Span(datatype)
        starts = [place * span.extent for place in places]
        _check_all([span] * blocks, amounts, starts, len(address))
    return (
        address,
        ffi.new("MPI_Count[]", amounts or 1),
        ffi.new("MPI_Aint[]", places or 1),
        datatype._h,
    )


def _check_all(
    spans: Sequence[_Span], counts: Sequence[int], starts: Sequence[int], length: int
) -> None:
    """Refuses blocks that begin at these bytes unless all lie in the buffer."""
    for span, count, start in zip(spans, counts, starts, strict=True):
        if count > 0:
            span.check(count, -start, length - start)


def running(amounts: Sequence[int]) -> tuple[list[int], int]:
    """Where blocks begin that follow each other, and where the last one ends."""
    places, place = [], 0
    for amount in amounts:
        places.append(place)
        place += amount
    return places, place


def _numbers(
    given: Any, blocks: int, expand: Callable[[int, int], int] | None
) -> list[int]:
    """One int a block, from a sequence, or from a single int by `expand`."""
    if expand and hasattr(given, "__index__") and not getattr(given, "shape", ()):
        number = index(given)
        return [expand(number, i) for i in range(blocks)]
    numbers = [index(number) for number in given]
    if len(numbers) != blocks:
        raise ValueError(
            f"expected {blocks} counts or displacements, got {len(numbers)}"
        )
    return numbers


def vector_of_types(message: Any, writable: bool, blocks: int) -> Vector:
    """A message whose blocks have their own datatypes; displacements in bytes.

    Without counts and displacements each block is one element at the start.
    """
    if not isinstance(message, list | tuple) or not 2 <= len(message) <= 4:
        raise ValueError(
            "a message with several datatypes is [buffer, types], "
            "[buffer, (counts, displs), types] or [buffer, counts, displs, types]"
        )
    thing, *given, types = message
    if len(given) == 1:
        given = given[0]
    counts, displs = given or (None, None)
    if _is_bottom(thing):
        address = lib.MPI_BOTTOM
        if counts is None or displs is None:
            raise ValueError("MPI.BOTTOM needs counts and displacements")
    else:
        address = memory(thing, writable)
    if counts is None and displs is None:
        amounts, places = [1] * blocks, [0] * blocks
    else:
        amounts = _numbers(counts, blocks, None)
        places = _numbers(displs, blocks, None)
    if len(types) != blocks:
        raise ValueError(f"expected {blocks} datatypes, got {len(types)}")
    kinds = [as_datatype(kind) for kind in types]
    if all(kinds) and not _is_bottom(thing):
        _check_all([_Span(kind) for kind in kinds], amounts, places, len(address))
    return (
        address,
        ffi.new("MPI_Count[]", amounts or 1),
        ffi.new("MPI_Aint[]", places or 1),
        ffi.new("MPI_Datatype[]", [kind._h for kind in kinds] or 1),
    )
