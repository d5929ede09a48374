# SPDX-License-Identifier: MIT
"""MPI.Message: a message that a matched probe has taken out of the queue."""

from __future__ import annotations

from typing import Any, Self

from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle
from tbmpi._memory import allocate
from tbmpi._pickle import Loader, load, received
from tbmpi._request import Request
from tbmpi._status import Status, empty, pointer
from tbmpi.buffers import NOTHING, Block, block

ANY_SOURCE, ANY_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG


class Message(Handle):
    """Receive it once, by Recv or Irecv, or recv or irecv for an object."""

    __slots__ = ("_size",)
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Message"
    _null = lib.MPI_MESSAGE_NULL

    def __new__(cls, message: Message | None = None) -> Self:
        """A null message, or a copy of the handle."""
        self = super().__new__(cls, message)
        self._size = getattr(message, "_size", 0)
        return self

    @classmethod
    def Probe(
        cls,
        comm: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Self:
        """Blocks until a message matches; takes it."""
        out, found = ffi.new("MPI_Message *"), _own(status)
        check(lib.MPI_Mprobe(source, tag, comm._h, out, found))
        return cls._taken(out[0], found)

    @classmethod
    def Iprobe(
        cls,
        comm: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Self | None:
        """The message if there is one that matches, else None."""
        out, found, flag = ffi.new("MPI_Message *"), _own(status), ffi.new("int *")
        check(lib.MPI_Improbe(source, tag, comm._h, flag, out, found))
        return cls._taken(out[0], found) if flag[0] else None

    probe, iprobe = Probe, Iprobe

    @classmethod
    def _taken(cls, handle: Any, status: Any) -> Self:
        self = cls._of(handle)
        self._size = received(status)
        return self

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receives into a buffer."""
        address, count, datatype = self._block(buf)
        self._received(lib.MPI_Mrecv_c, address, count, datatype, pointer(status))

    def Irecv(self, buf: Any) -> Request:
        """Starts to receive into a buffer."""
        address, count, datatype = self._block(buf)
        request = Request._started(address)
        self._received(lib.MPI_Imrecv_c, address, count, datatype, request._p)
        return request

    def recv(self, status: Status | None = None) -> Any:
        """Receives an object; None from MPI.PROC_NULL."""
        address, room = allocate(self._bytes())
        size = len(room)
        self._received(lib.MPI_Mrecv_c, address, size, lib.MPI_BYTE, pointer(status))
        return load(room, size)

    def irecv(self) -> Request:
        """Starts to receive an object; wait() returns it."""
        address, room = allocate(self._bytes())
        request = Request._started(address, Loader(room))
        self._received(lib.MPI_Imrecv_c, address, len(room), lib.MPI_BYTE, request._p)
        return request

    def _received(
        self, function: Any, address: Any, count: int, datatype: Any, last: Any
    ) -> None:
        place = ffi.new("MPI_Message *", self._h)
        error = function(address, count, datatype, place, last)
        if not self._is_constant():
            self._h = place[0]
        check(error)

    def _bytes(self) -> int:
        return 0 if self._h == lib.MPI_MESSAGE_NO_PROC else self._size

    def _block(self, buf: Any) -> Block:
        return NOTHING if self._h == lib.MPI_MESSAGE_NO_PROC else block(buf, True)


Message._family = (Message,)


def _own(status: Status | None) -> Any:
    return empty() if status is None else status._s
