# SPDX-License-Identifier: MIT
"""Messages of Python objects, by pickle: the methods in small letters.

They take any object that pickles and return a new one. Large arrays in it are
sent from where they are, and received where they stay (see tbmpi._pickle); all
else is slow next to the methods in capitals, which take buffers as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from tbmpi import _context, _fast
from tbmpi._ffi import check, fail, ffi, lib, quick
from tbmpi._landing import LandingLoader, take
from tbmpi._memory import allocate, memory
from tbmpi._pickle import Loader, Parts, aligned, load, packed, pickle, received
from tbmpi._request import Request
from tbmpi._status import Status, empty, pointer
from tbmpi.buffers import running

ANY_SOURCE, ANY_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG
PROC_NULL, ROOT = lib.MPI_PROC_NULL, lib.MPI_ROOT
BYTE, COUNT = lib.MPI_BYTE, lib.MPI_COUNT


class Objects:
    """The part of Comm that this file is about."""

    __slots__ = ()
    _h: Any
    Get_rank: Callable[[], int]
    _is_root: Callable[[int], bool]
    _sizes: Callable[[], tuple[int, int, bool]]

    # -------------------------------------------------------- point to point

    @quick
    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object."""
        sent(lib.MPI_Send_c, _packed_for(obj, dest), dest, tag, self._h)

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object; returns only when the receive has begun."""
        sent(lib.MPI_Ssend_c, _packed_for(obj, dest), dest, tag, self._h)

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object from the attached buffer if need be."""
        sent(lib.MPI_Bsend_c, _packed_for(obj, dest), dest, tag, self._h)

    @quick
    def recv(
        self,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Blocks for an object of any size and returns it; None from PROC_NULL.

        `buf` is there for the sake of old programs: a buffer is used, and must be
        large enough.
        """
        if buf is not None:
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=2)
            if not isinstance(buf, Integral) and source != PROC_NULL:
                return self._recv_into(buf, source, tag, status)
        return receive(self._h, source, tag, pointer(status))

    def _recv_into(self, buf: Any, source: int, tag: int, status: Status | None) -> Any:
        address = memory(buf, writable=True)
        found = empty() if status is None else status._s
        place = (address, len(address), BYTE, source, tag, self._h)
        check(lib.MPI_Recv_c(*place, found))
        return load(ffi.buffer(address), received(found))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Sends an object and returns the one received."""
        data = _packed_for(sendobj, dest)
        request = Request._started(data)
        sent(lib.MPI_Isend_c, data, dest, sendtag, self._h, request._p)
        obj = self.recv(recvbuf, source, recvtag, status)
        request.Wait()
        return obj

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send an object, which may be changed at once."""
        return self._isend(lib.MPI_Isend_c, obj, dest, tag)

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send an object; complete only when the receive has begun."""
        return self._isend(lib.MPI_Issend_c, obj, dest, tag)

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send an object from the attached buffer."""
        return self._isend(lib.MPI_Ibsend_c, obj, dest, tag)

    def _isend(self, function: Any, obj: Any, dest: int, tag: int) -> Request:
        # The object may change before its bytes are sent: they must be a copy.
        data = b"" if dest == PROC_NULL else pickle.dumps(obj)
        address = ffi.from_buffer(data)
        request = Request._started(address)
        check(function(address, len(data), BYTE, dest, tag, self._h, request._p))
        return request

    def irecv(
        self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Request:
        """Starts to receive an object of any size; wait() and test() return it.

        Given a writable buffer, its bytes must fit that; a number of bytes as
        `buf` is not needed.
        """
        address, size, load = ffi.NULL, 0, None
        if source != PROC_NULL:
            if buf is None or isinstance(buf, Integral):
                landing = take()
                address, size = landing.address, landing.size
                load = LandingLoader(landing)
            else:
                address = memory(buf, writable=True)
                size = len(address)
                load = Loader(ffi.buffer(address))
        request = Request._started(address, load)
        check(lib.MPI_Irecv_c(address, size, BYTE, source, tag, self._h, request._p))
        return request

    # ------------------------------------------------------------ collective

    @quick
    def barrier(self) -> None:
        """Blocks until every rank has called it."""
        check(lib.MPI_Barrier(self._h))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The object of rank `root`, on every rank, the root's own a copy."""
        if self._sizes()[2]:
            return self._bcast_inter(obj, root)
        is_root, context = self._is_root(root), _context.of(self)
        data = packed(obj) if is_root else b""
        packet = context.take_packet()
        if is_root:
            packet.write(data)
        check(lib.MPI_Bcast_c(packet.address, packet.size, BYTE, root, self._h))
        size = packet.length()
        if packet.is_whole():
            data = packet.bytes()
            context.give_back(packet)
            return load(data, size)
        context.give_back(packet)
        if is_root:
            sent(lib.MPI_Bcast_c, data, root, self._h)
            return copied(data)
        return self._bcast_rest(size, root)

    def _bcast_inter(self, obj: Any, root: int) -> Any:
        sends = root in (ROOT, PROC_NULL)
        data = packed(obj) if root == ROOT else b""
        count = ffi.new("MPI_Count *", len(data))
        check(lib.MPI_Bcast_c(count, 1, COUNT, root, self._h))
        if not sends:
            return self._bcast_rest(count[0], root)
        sent(lib.MPI_Bcast_c, data, root, self._h)
        return None

    def _bcast_rest(self, size: int, root: int) -> Any:
        address, room = allocate(size)
        check(lib.MPI_Bcast_c(address, size, BYTE, root, self._h))
        return load(room, size)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """All objects in rank order, at `root`; None elsewhere."""
        sends, ranks = self._roles(root)
        data = packed(sendobj) if sends else b""
        mine, counts = ffi.new("MPI_Count *", len(data)), numbers(ranks)
        arguments = (mine, int(sends), COUNT, counts, 1, COUNT, root)
        check(lib.MPI_Gather_c(*arguments, self._h))
        into = Incoming(counts, ranks)
        sent(lib.MPI_Gatherv_c, data, *into.message, root, self._h)
        return into.objects() if ranks else None

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Object i of the sequence at `root`, on rank i. None is one None each."""
        receives, ranks = self._roles(root)
        out, mine = Several(sendobj if ranks else (), ranks), ffi.new("MPI_Count *")
        arguments = (out.counts, 1, COUNT, mine, int(receives), COUNT, root)
        check(lib.MPI_Scatter_c(*arguments, self._h))
        address, room = allocate(mine[0])
        into = (address, mine[0], BYTE, root)
        check(lib.MPI_Scatterv_c(*out.message, *into, self._h))
        return load(room, mine[0]) if receives else None

    def _roles(self, root: int) -> tuple[bool, int]:
        """Whether this rank is one of those that face the root; and how many it
        faces as the root, 0 if it is not."""
        _, others, inter = self._sizes()
        is_root = self._is_root(root)
        return not (inter and is_root), others if is_root and root != PROC_NULL else 0

    def allgather(self, sendobj: Any) -> list[Any]:
        """All objects in rank order, on every rank."""
        ranks, data = self._sizes()[1], packed(sendobj)
        mine, counts = ffi.new("MPI_Count *", len(data)), numbers(ranks)
        check(lib.MPI_Allgather_c(mine, 1, COUNT, counts, 1, COUNT, self._h))
        into = Incoming(counts, ranks)
        sent(lib.MPI_Allgatherv_c, data, *into.message, self._h)
        return into.objects()

    def alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """Object i goes to rank i; the list of those received, in rank order."""
        ranks = self._sizes()[1]
        out, counts = Several(sendobj, ranks), numbers(ranks)
        check(lib.MPI_Alltoall_c(out.counts, 1, COUNT, counts, 1, COUNT, self._h))
        into = Incoming(counts, ranks)
        check(lib.MPI_Alltoallv_c(*out.message, *into.message, self._h))
        return into.objects()


# --------------------------------------------------------------------- one object


def _packed_for(obj: Any, dest: int) -> bytes | Parts:
    return b"" if dest == PROC_NULL else packed(obj)


def sent(function: Any, data: bytes | Parts, *more: Any) -> None:
    """Calls with address, count and datatype of an object's bytes in front."""
    if data.__class__ is bytes:
        error = function(data, len(data), BYTE, *more)
    else:
        with data as message:
            error = function(*message, *more)
    if error:
        fail(error)


def receive(comm: Any, source: int, tag: int, status: Any) -> Any:
    """Blocks for an object. It is matched by a probe, so it may have any size."""
    message, found = ffi.new("MPI_Message *"), ffi.new("MPI_Status *")
    check(lib.MPI_Mprobe(source, tag, comm, message, found))
    return _taken(message, received(found), status)


def _taken(message: Any, size: int, status: Any) -> Any:
    """The object of a matched message."""
    address, room = allocate(size)
    check(lib.MPI_Mrecv_c(address, size, BYTE, message, status))
    return load(room, size)


def _take(message: int, size: int, status: Status | None) -> Any:
    """What C code calls when a message that it has matched is large."""
    place = ffi.new("MPI_Message *", ffi.cast("MPI_Message", message))
    return _taken(place, size, pointer(status))


def _load(data: bytes) -> Any:
    """What C code calls for a message with buffers apart from the pickle."""
    return load(bytearray(data), len(data))


_fast.tell("take", _take)
_fast.tell("load", _load)


def copied(data: bytes | Parts) -> Any:
    """A new object from the bytes of one."""
    if data.__class__ is not bytes:
        data = bytearray().join(data.pieces)
    return load(data, len(data))


# ------------------------------------------------------------------ several objects


def numbers(count: int) -> Any:
    """An array of as many C counts, all zero."""
    return ffi.new("MPI_Count[]", count or 1)


class Several:
    """An object for each of `ranks`, as bytes that follow each other."""

    __slots__ = ("counts", "message")

    def __init__(self, objects: Sequence[Any] | None, ranks: int) -> None:
        given = [None] * ranks if objects is None else list(objects)
        if len(given) != ranks:
            raise ValueError(
                f"expected {ranks} objects, one for each rank, got {len(given)}"
            )
        data = [packed(obj) for obj in given]
        sizes = [len(one) for one in data]
        pieces: list[Any] = []
        for one in data:
            pieces += [one] if one.__class__ is bytes else one.pieces
        address = ffi.from_buffer(b"".join(pieces))
        self.counts = ffi.new("MPI_Count[]", sizes or 1)
        displs = ffi.new("MPI_Aint[]", running(sizes)[0] or 1)
        self.message = (address, self.counts, displs, BYTE)


class Incoming:
    """Room for the bytes of an object from each of `ranks`."""

    __slots__ = ("_places", "_room", "_sizes", "message")

    def __init__(self, counts: Any, ranks: int) -> None:
        self._sizes = list(counts[0:ranks])
        self._places, end = running([aligned(size) for size in self._sizes])
        address, self._room = allocate(end)
        displs = ffi.new("MPI_Aint[]", self._places or 1)
        self.message = (address, counts, displs, BYTE)

    def objects(self) -> list[Any]:
        """The objects in rank order, None for those that were not sent."""
        whole = memoryview(self._room)
        return [
            load(whole[place : place + size], size, len(whole))
            for place, size in zip(self._places, self._sizes, strict=True)
        ]
