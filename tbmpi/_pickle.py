# SPDX-License-Identifier: MIT
"""Python objects as bytes of a message.

Large buffers in an object, such as the elements of an array, are not copied into
its pickle (protocol 5, PEP 574): a message of such an object is a small head,
the pickle and the buffers, sent from where they are. The receiver's arrays lie
in the memory that the message was received in.

    the head       8 bytes of magic (no pickle begins with a zero byte); the number
                   of buffers, n, the length of the pickle, n lengths of buffers
    the pickle
    n buffers

each filled up with zeros to a multiple of 64 bytes. Numbers have 8 bytes, the
least significant first.
"""

from __future__ import annotations

import os
import pickle as _standard
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tbmpi import _fast, _memory
from tbmpi._ffi import check, ffi, lib
from tbmpi._memory import ALIGNMENT, buffer

MAGIC = b"\0tbmpi\5\0"
_HEAD = struct.Struct("<8sQQ")
# A buffer that is less than this part of its message is copied out of it: else
# whoever keeps one small array keeps the memory of the whole message.
_SMALL_PART = 8

_THRESHOLD = int(os.environ.get("MPI4PY_PICKLE_THRESHOLD", 256 * 1024))
_PROTOCOL = int(
    os.environ.get("MPI4PY_PICKLE_PROTOCOL", str(_standard.HIGHEST_PROTOCOL))
)


class Pickle:
    """How objects become bytes and back.

    ``MPI.pickle.__init__(dill.dumps, dill.loads)`` changes it for all messages;
    every rank must use the same. Buffers are sent apart from the pickle only
    with the standard functions and a protocol of 5 or more.
    """

    __module__ = "tbmpi.MPI"

    _is_standard: bool  # dumps and loads are the standard ones
    _splits: bool  # buffers of messages are sent apart

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[[Any], Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        """The standard library's pickle unless told otherwise; newest protocol.

        Buffers of `threshold` bytes or more (256 KiB) are sent apart.
        """
        self._dumps = dumps or _standard.dumps
        self._loads = loads or _standard.loads
        self.PROTOCOL = protocol
        self.THRESHOLD = threshold  # type: ignore[assignment]

    @property
    def PROTOCOL(self) -> int | None:
        """The protocol version; None lets `dumps` choose."""
        return self._protocol

    @PROTOCOL.setter
    def PROTOCOL(self, protocol: int | None) -> None:
        if protocol is None and self._dumps is _standard.dumps:
            protocol = _PROTOCOL
        self._protocol = protocol
        is_new = protocol is not None and (protocol >= 5 or protocol < 0)
        self._is_standard = (
            self._dumps is _standard.dumps and self._loads is _standard.loads
        )
        self._splits = self._is_standard and is_new
        self._tell()

    def _tell(self) -> None:
        """Tells C code what to call for messages, or not to."""
        if self is not globals().get("pickle"):
            return
        known = (self._dumps, self._loads) if self._splits else (None, None)
        for name, value in zip(("dumps", "loads"), known, strict=True):
            _fast.tell(name, value)
        _fast.tell("protocol", self._protocol)
        _fast.tell("threshold", self._threshold)

    @property
    def THRESHOLD(self) -> int:
        """Bytes from which on a buffer is sent apart from the pickle."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._threshold = _THRESHOLD if threshold is None else threshold
        self._tell()

    def dumps(self, obj: Any) -> bytes:
        """The object as bytes."""
        protocol = () if self._protocol is None else (self._protocol,)
        data = self._dumps(obj, *protocol)
        if not isinstance(data, bytes):
            raise TypeError(f"dumps returned {type(data).__name__}, not bytes")
        return data

    def loads(self, data: Any) -> Any:
        """The object from a bytes-like."""
        return self._loads(data)

    def dumps_oob(self, obj: Any) -> tuple[bytes, list[buffer]]:
        """The object as bytes, and its large buffers that are not in them."""
        data, apart = self._split(obj)
        return data, [buffer.frombuffer(view, readonly=True) for view in apart]

    def loads_oob(self, data: Any, buffers: Iterable[Any]) -> Any:
        """The object from what dumps_oob returned."""
        return self._loads(data, buffers=buffers)  # type: ignore[call-arg]

    def _split(self, obj: Any) -> tuple[bytes, list[memoryview]]:
        apart: list[memoryview] = []
        threshold = self._threshold

        def goes_along(piece: _standard.PickleBuffer) -> bool:
            view = piece.raw()
            if view.nbytes < threshold:
                return True
            apart.append(view)
            return False

        protocol = _PROTOCOL if self._protocol is None else self._protocol
        protocol = protocol if protocol < 0 else max(protocol, 5)
        return self._dumps(obj, protocol, buffer_callback=goes_along), apart


pickle = Pickle()
pickle._tell()


def aligned(size: int) -> int:
    """The next multiple of 64."""
    return size + -size % ALIGNMENT


# -------------------------------------------------------------------- to bytes


def packed(obj: Any) -> bytes | Parts:
    """An object as the bytes of a message, or as parts that lie here and there.

    The parts are the object's own memory: it must not change before they are sent.
    """
    if not pickle._splits:
        return pickle.dumps(obj)
    data, apart = pickle._split(obj)
    return Parts(data, apart) if apart else data


class Parts:
    """The bytes of a message, in several places."""

    __slots__ = ("_type", "pieces", "size")

    def __init__(self, data: bytes, apart: Sequence[memoryview]) -> None:
        lengths = [view.nbytes for view in apart]
        numbers = struct.pack(f"<{len(lengths)}Q", *lengths)
        head = _HEAD.pack(MAGIC, len(apart), len(data)) + numbers
        self.pieces: list[Any] = []
        for piece in (head, data, *apart):
            self.pieces += [piece, bytes(aligned(len(piece)) - len(piece))]
        self.size = sum(map(len, self.pieces))

    def __len__(self) -> int:
        return self.size

    def __enter__(self) -> tuple[Any, int, Any]:
        """Address, count and datatype of a message of these bytes."""
        places = [_memory.held(piece) for piece in self.pieces]
        lengths = ffi.new("MPI_Count[]", [len(place) for place in places])
        displs = ffi.new("MPI_Count[]", [_memory.numeric(place) for place in places])
        make = lib.MPI_Type_create_hindexed_c
        self._type = ffi.new("MPI_Datatype *")
        check(make(len(places), lengths, displs, lib.MPI_BYTE, self._type))
        check(lib.MPI_Type_commit(self._type))
        return lib.MPI_BOTTOM, 1, self._type[0]

    def __exit__(self, *_: object) -> None:
        check(lib.MPI_Type_free(self._type))


# ------------------------------------------------------------------ from bytes


def received(status: Any) -> int:
    """The bytes that a C status tells of."""
    out = ffi.new("MPI_Count *")
    check(lib.MPI_Get_count_c(status, lib.MPI_BYTE, out))
    return out[0]


def load(memory: Any, size: int, among: int = 0) -> Any:
    """The object in the first `size` bytes of memory; None if there are none.

    `among`: how many bytes live as long as those do, if more.
    """
    if size <= 0:
        return None
    view = memoryview(memory)[:size]
    if is_split(view):
        return _joined(view, max(size, among))
    return pickle.loads(view)


def is_split(view: memoryview) -> bool:
    """Whether the buffers of an object are apart from its pickle."""
    return view[: len(MAGIC)] == MAGIC and pickle._splits


class Loader:
    """From the C status of a receive into `room` to the object."""

    __slots__ = ("_room",)

    def __init__(self, room: Any) -> None:
        self._room = room

    def __call__(self, status: Any) -> Any:
        return load(self._room, received(status))

    @property
    def advice(self) -> str:
        """What to do if the message was longer."""
        return (
            f"the buffer for the object has {len(self._room)} bytes: make it larger, "
            "or leave it out; without one, objects of any size are received"
        )


def _joined(view: memoryview, among: int) -> Any:
    """The object of a message with buffers, which stay where they are if large."""
    room = len(view) - _HEAD.size
    _, count, length = _HEAD.unpack_from(view) if room >= 0 else (None, 1, 0)
    if 8 * count > room:
        raise ValueError(f"a damaged message: {count} buffers in {len(view)} bytes")
    lengths = struct.unpack_from(f"<{count}Q", view, _HEAD.size)
    place, pieces = 0, []
    for size in (_HEAD.size + 8 * count, length, *lengths):
        piece = view[place : place + size]
        if len(piece) != size:
            raise ValueError(f"a damaged message: it ends after {len(view)} bytes")
        pieces.append(piece)
        place += aligned(size)
    _, data, *apart = pieces
    return pickle.loads_oob(
        data,
        (
            bytearray(piece) if len(piece) * _SMALL_PART < among else piece
            for piece in apart
        ),
    )
