# SPDX-License-Identifier: MIT
"""MPI.Message: a message that a matched probe has taken out of the queue."""

from __future__ import annotations

from typing import Any, Self

from tbmpi import _pickle, buffers
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle
from tbmpi._request import Request
from tbmpi._status import Status, pointer

ANY_SOURCE, ANY_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG


class Message(Handle):
    """Receive it once, by Recv or Irecv, or recv or irecv for an object."""

    __slots__ = ("_size",)
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
        self._size = _pickle.received(status)
        return self

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receives into a buffer."""
        place = ffi.new("MPI_Message *", self._h)
        address, count, datatype = self._block(buf)
        error = lib.MPI_Mrecv_c(address, count, datatype, place, pointer(status))
        self._h = place[0]
        check(error)

    def Irecv(self, buf: Any) -> Request:
        """Starts to receive into a buffer."""
        place = ffi.new("MPI_Message *", self._h)
        address, count, datatype = self._block(buf)
        request = Request._started(address)
        error = lib.MPI_Imrecv_c(address, count, datatype, place, request._p)
        self._h = place[0]
        check(error)
        return request

    def recv(self, status: Status | None = None) -> Any:
        """Receives an object; None from MPI.PROC_NULL."""
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        """Starts to receive an object; wait() returns it."""
        place = ffi.new("MPI_Message *", self._h)
        size = 0 if self._h == lib.MPI_MESSAGE_NO_PROC else self._size
        address, buffer = buffers.allocate(size)
        request = Request._started(address, _pickle.Loader(buffer))
        error = lib.MPI_Imrecv_c(address, size, lib.MPI_BYTE, place, request._p)
        self._h = place[0]
        check(error)
        return request

    def _block(self, buf: Any) -> buffers.Block:
        if self._h == lib.MPI_MESSAGE_NO_PROC:
            return buffers.NOTHING
        return buffers.block(buf, writable=True)


Message._family = Message


def _own(status: Status | None) -> Any:
    return ffi.new("MPI_Status *") if status is None else status._s
