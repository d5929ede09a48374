# SPDX-License-Identifier: MIT
"""Messages of Python objects, by pickle: the methods in small letters.

They take any object that pickles and return a new one. Simple and slow next to
the methods in capitals, which take buffers as they are. Reductions fold in rank
order, so a repeat gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as fold
from typing import Any

from tbmpi import _pickle, buffers
from tbmpi._comm_coll import SUM
from tbmpi._exception import Exception as MPIException
from tbmpi._ffi import check, ffi, lib
from tbmpi._op import Op
from tbmpi._rc import rc
from tbmpi._request import Request
from tbmpi._status import Status, pointer

ANY_SOURCE, ANY_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG
PROC_NULL, ROOT = lib.MPI_PROC_NULL, lib.MPI_ROOT
BYTE, COUNT = lib.MPI_BYTE, lib.MPI_COUNT
Combine = Op | Callable[[Any, Any], Any]


class Objects:
    """The part of Comm that this file is about."""

    __slots__ = ()
    _h: Any

    # -------------------------------------------------------- point to point

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object."""
        data = _dumped(obj, dest)
        check(lib.MPI_Send_c(data, len(data), BYTE, dest, tag, self._h))

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object; returns only when the receive has begun."""
        data = _dumped(obj, dest)
        check(lib.MPI_Ssend_c(data, len(data), BYTE, dest, tag, self._h))

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object from the attached buffer if need be."""
        data = _dumped(obj, dest)
        check(lib.MPI_Bsend_c(data, len(data), BYTE, dest, tag, self._h))

    def recv(
        self,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Blocks for an object of any size and returns it; None from PROC_NULL.

        `buf` is of no use and there for the sake of old programs.
        """
        receive = _pickle.receive if rc.recv_mprobe else _pickle.receive_unmatched
        return receive(self._h, source, tag, pointer(status))

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
        request = self.isend(sendobj, dest, sendtag)
        received = self.recv(recvbuf, source, recvtag, status)
        request.Wait()
        return received

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
        data = _dumped(obj, dest)
        address = ffi.from_buffer(data)
        request = Request._started(address)
        check(function(address, len(data), BYTE, dest, tag, self._h, request._p))
        return request

    def irecv(
        self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Request:
        """Starts to receive an object; wait() and test() of the request return it.

        The object's bytes must fit `buf` (a writable buffer, or a number of
        bytes), or ``tbmpi.rc.irecv_bufsz`` bytes; recv has no such limit.
        """
        if source == PROC_NULL:
            address, size, load = ffi.NULL, 0, None
        else:
            address, size, buffer = _room(buf)
            load = _pickle.Loader(buffer)
        request = ObjectRequest._started(address, load)
        check(lib.MPI_Irecv_c(address, size, BYTE, source, tag, self._h, request._p))
        return request

    # ------------------------------------------------------------ collective

    def barrier(self) -> None:
        """Blocks until every rank has called it."""
        check(lib.MPI_Barrier(self._h))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The object of rank `root`, on every rank."""
        if root == PROC_NULL:
            _bcast(self._h, b"", root)
            return obj
        if self._is_root(root):  # type: ignore[attr-defined]
            _bcast(self._h, _pickle.pickle.dumps(obj), root)
            return obj
        return _received_bcast(self._h, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """All objects in rank order, at `root`; None elsewhere."""
        _, others, inter = self._sizes()  # type: ignore[attr-defined]
        is_root = self._is_root(root)  # type: ignore[attr-defined]
        sends = not (inter and is_root)
        ranks = others if is_root and root != PROC_NULL else 0
        data = _pickle.pickle.dumps(sendobj) if sends else b""
        mine = ffi.new("MPI_Count *", len(data))
        counts = ffi.new("MPI_Count[]", max(ranks, 1))
        check(
            lib.MPI_Gather_c(mine, int(sends), COUNT, counts, 1, COUNT, root, self._h)
        )
        parts = _Parts(counts, ranks)
        check(
            lib.MPI_Gatherv_c(
                data, len(data), BYTE, *parts.arguments, BYTE, root, self._h
            )
        )
        return parts.objects() if is_root and root != PROC_NULL else None

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Object i of the sequence at `root`, on rank i."""
        _, others, inter = self._sizes()  # type: ignore[attr-defined]
        is_root = self._is_root(root)  # type: ignore[attr-defined]
        parts = (
            _Dumped(sendobj, others)
            if is_root and root != PROC_NULL
            else _Dumped((), 0)
        )
        receives = not (inter and is_root)
        mine = ffi.new("MPI_Count *")
        check(
            lib.MPI_Scatter_c(
                parts.counts, 1, COUNT, mine, int(receives), COUNT, root, self._h
            )
        )
        address, buffer = buffers.allocate(mine[0])
        check(
            lib.MPI_Scatterv_c(
                *parts.arguments, BYTE, address, mine[0], BYTE, root, self._h
            )
        )
        return _pickle.load(buffer, mine[0]) if receives else None

    def allgather(self, sendobj: Any) -> list[Any]:
        """All objects in rank order, on every rank."""
        ranks = self._sizes()[1]  # type: ignore[attr-defined]
        data = _pickle.pickle.dumps(sendobj)
        mine = ffi.new("MPI_Count *", len(data))
        counts = ffi.new("MPI_Count[]", ranks)
        check(lib.MPI_Allgather_c(mine, 1, COUNT, counts, 1, COUNT, self._h))
        parts = _Parts(counts, ranks)
        check(
            lib.MPI_Allgatherv_c(data, len(data), BYTE, *parts.arguments, BYTE, self._h)
        )
        return parts.objects()

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Object i goes to rank i; the list of those received, in rank order."""
        ranks = self._sizes()[1]  # type: ignore[attr-defined]
        out = _Dumped(sendobj, ranks)
        counts = ffi.new("MPI_Count[]", ranks)
        check(lib.MPI_Alltoall_c(out.counts, 1, COUNT, counts, 1, COUNT, self._h))
        into = _Parts(counts, ranks)
        check(lib.MPI_Alltoallv_c(*out.arguments, BYTE, *into.arguments, BYTE, self._h))
        return into.objects()

    def reduce(self, sendobj: Any, op: Combine = SUM, root: int = 0) -> Any | None:
        """The ranks' objects combined in rank order, at `root`; None elsewhere."""
        objects = self.gather(sendobj, root)
        return None if objects is None else fold(op, objects)

    def allreduce(self, sendobj: Any, op: Combine = SUM) -> Any:
        """As reduce, with the result on every rank."""
        if self._sizes()[2]:  # type: ignore[attr-defined]
            return fold(op, self.allgather(sendobj))
        return self.bcast(self.reduce(sendobj, op, 0), 0)


class ObjectRequest(Request):
    """A request of irecv, whose failure says what to do about it."""

    __slots__ = ()

    def _wait(self, status: Any) -> None:
        load = self._load
        try:
            super()._wait(status)
        except MPIException as error:
            _advise(error, load)
            raise

    def _test(self, status: Any) -> bool:
        load = self._load
        try:
            return super()._test(status)
        except MPIException as error:
            _advise(error, load)
            raise


def _advise(error: MPIException, load: Any) -> None:
    if load is not None and error.error_class == lib.MPI_ERR_TRUNCATE:
        error.add_note(
            f"irecv reserved {load.size} bytes: give it a larger buf, raise "
            "tbmpi.rc.irecv_bufsz, or use recv, which takes objects of any size"
        )


def _room(buf: Any) -> tuple[Any, int, Any]:
    """Address, size and buffer to receive an object's bytes in."""
    if buf is None or hasattr(buf, "__index__"):
        size = rc.irecv_bufsz if buf is None else int(buf)
        address, buffer = buffers.allocate(size)
        return address, size, buffer
    address = buffers.memory(buf, writable=True)
    return address, len(address), ffi.buffer(address)


def _dumped(obj: Any, dest: int) -> bytes:
    return b"" if dest == PROC_NULL else _pickle.pickle.dumps(obj)


def _bcast(comm: Any, data: bytes, root: int) -> None:
    check(lib.MPI_Bcast_c(ffi.new("MPI_Count *", len(data)), 1, COUNT, root, comm))
    check(lib.MPI_Bcast_c(ffi.from_buffer(data), len(data), BYTE, root, comm))


def _received_bcast(comm: Any, root: int) -> Any:
    count = ffi.new("MPI_Count *")
    check(lib.MPI_Bcast_c(count, 1, COUNT, root, comm))
    address, buffer = buffers.allocate(count[0])
    check(lib.MPI_Bcast_c(address, count[0], BYTE, root, comm))
    return _pickle.load(buffer, count[0])


class _Parts:
    """Room for the bytes of several objects, one behind the other."""

    def __init__(self, counts: Any, ranks: int) -> None:
        self._sizes = list(counts[0:ranks])
        places, end = _places(self._sizes)
        address, self._buffer = buffers.allocate(end)
        self._places = places
        self.arguments = (address, counts, ffi.new("MPI_Aint[]", places or [0]))

    def objects(self) -> list[Any]:
        """The objects in rank order."""
        whole = memoryview(self._buffer)
        return [
            _pickle.load(whole[place : place + size], size)
            for place, size in zip(self._places, self._sizes, strict=True)
        ]


class _Dumped:
    """Several objects as bytes, one for each rank."""

    def __init__(self, objects: Sequence[Any] | None, ranks: int) -> None:
        data = [_pickle.pickle.dumps(obj) for obj in (objects or ())]
        if len(data) != ranks:
            raise ValueError(
                f"expected {ranks} objects, one for each rank, got {len(data)}"
            )
        sizes = [len(one) for one in data]
        self.counts = ffi.new("MPI_Count[]", sizes or [0])
        places = ffi.new("MPI_Aint[]", _places(sizes)[0] or [0])
        self.arguments = (ffi.from_buffer(b"".join(data)), self.counts, places)


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    places, place = [], 0
    for size in sizes:
        places.append(place)
        place += size
    return places, place
