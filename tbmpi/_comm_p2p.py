# SPDX-License-Identifier: MIT
"""Point-to-point messages of a communicator, from and into buffers.

A message `buf` is a buffer or [buffer, count, datatype]: see tbmpi.buffers.
`dest` and `source` are ranks in the communicator (of its remote group, for an
intercommunicator) or MPI.PROC_NULL; tags are 0 to the attribute MPI.TAG_UB. A
receive longer than its buffer, a rank or tag out of range and so on raise
MPI.Exception; a `buf` that is no message raises TypeError, ValueError or
BufferError.
"""

from __future__ import annotations

from typing import Any, Literal

from tbmpi import buffers
from tbmpi._ffi import check, fail, ffi, lib, quick
from tbmpi._handle import hints
from tbmpi._info import Info
from tbmpi._message import Message
from tbmpi._request import Prequest, Request
from tbmpi._status import Status, pointer
from tbmpi.buffers import NOTHING, block

ANY_SOURCE, ANY_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG
PROC_NULL = lib.MPI_PROC_NULL
IGNORED = lib.MPI_STATUS_IGNORE


def _outgoing(buf: Any, dest: int) -> buffers.Block:
    return NOTHING if dest == PROC_NULL else block(buf, False)


def _incoming(buf: Any, source: int) -> buffers.Block:
    return NOTHING if source == PROC_NULL else block(buf, True)


class PointToPoint:
    """The part of Comm that this file is about."""

    __slots__ = ()
    _h: Any

    # ------------------------------------------------------------- blocking

    @quick
    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends a message; returns when `buf` may be changed."""
        address, count, datatype = _outgoing(buf, dest)
        error = lib.MPI_Send_c(address, count, datatype, dest, tag, self._h)
        if error:
            fail(error)

    @quick
    def Recv(
        self,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Blocks until a message of at most `buf`'s size is received."""
        address, count, datatype = _incoming(buf, source)
        found = IGNORED if status is None else status._s
        error = lib.MPI_Recv_c(address, count, datatype, source, tag, self._h, found)
        if error:
            fail(error)

    @quick
    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends; returns only when the receive has begun."""
        check(lib.MPI_Ssend_c(*_outgoing(buf, dest), dest, tag, self._h))

    @quick
    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends from the attached buffer (MPI.Attach_buffer) if need be."""
        check(lib.MPI_Bsend_c(*_outgoing(buf, dest), dest, tag, self._h))

    @quick
    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends; the receive must have been posted before."""
        check(lib.MPI_Rsend_c(*_outgoing(buf, dest), dest, tag, self._h))

    @quick
    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Sends and receives at once, so that a ring of ranks cannot lock up."""
        out, into = _outgoing(sendbuf, dest), _incoming(recvbuf, source)
        error = lib.MPI_Sendrecv_c(
            *out, dest, sendtag, *into, source, recvtag, self._h, pointer(status)
        )
        if error:
            fail(error)

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Sends `buf` and receives a message of the same kind into it."""
        both = _either(buf, dest, source)
        check(
            lib.MPI_Sendrecv_replace_c(
                *both, dest, sendtag, source, recvtag, self._h, pointer(status)
            )
        )

    # ---------------------------------------------------------- nonblocking

    def _begin(
        self, function: Any, message: buffers.Block, peer: int, tag: int
    ) -> Request:
        request = Request._started(message[0])
        error = function(*message, peer, tag, self._h, request._p)
        if error:
            fail(error)
        return request

    @quick
    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send; `buf` must stay as it is until the request is complete."""
        return self._begin(lib.MPI_Isend_c, _outgoing(buf, dest), dest, tag)

    @quick
    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Starts to receive; `buf` belongs to MPI until the request is complete."""
        return self._begin(lib.MPI_Irecv_c, _incoming(buf, source), source, tag)

    @quick
    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send; complete only when the receive has begun."""
        return self._begin(lib.MPI_Issend_c, _outgoing(buf, dest), dest, tag)

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send from the attached buffer."""
        return self._begin(lib.MPI_Ibsend_c, _outgoing(buf, dest), dest, tag)

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Starts to send; the receive must have been posted before."""
        return self._begin(lib.MPI_Irsend_c, _outgoing(buf, dest), dest, tag)

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Starts to send and to receive."""
        out, into = _outgoing(sendbuf, dest), _incoming(recvbuf, source)
        request = Request._started((out[0], into[0]))
        check(
            lib.MPI_Isendrecv_c(
                *out, dest, sendtag, *into, source, recvtag, self._h, request._p
            )
        )
        return request

    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Starts to send `buf` and to receive into it."""
        both = _either(buf, dest, source)
        request = Request._started(both[0])
        check(
            lib.MPI_Isendrecv_replace_c(
                *both, dest, sendtag, source, recvtag, self._h, request._p
            )
        )
        return request

    # ----------------------------------------------------------- persistent

    def _prepare(
        self, function: Any, message: buffers.Block, peer: int, tag: int
    ) -> Prequest:
        request = Prequest._started(message[0])
        check(function(*message, peer, tag, self._h, request._p))
        return request

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A send to be started any number of times."""
        return self._prepare(lib.MPI_Send_init_c, _outgoing(buf, dest), dest, tag)

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A synchronous send to be started any number of times."""
        return self._prepare(lib.MPI_Ssend_init_c, _outgoing(buf, dest), dest, tag)

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A buffered send to be started any number of times."""
        return self._prepare(lib.MPI_Bsend_init_c, _outgoing(buf, dest), dest, tag)

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A ready send to be started any number of times."""
        return self._prepare(lib.MPI_Rsend_init_c, _outgoing(buf, dest), dest, tag)

    def Recv_init(
        self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Prequest:
        """A receive to be started any number of times."""
        return self._prepare(lib.MPI_Recv_init_c, _incoming(buf, source), source, tag)

    # ---------------------------------------------------------- partitioned

    def Psend_init(
        self,
        buf: Any,
        partitions: int,
        dest: int,
        tag: int = 0,
        info: Info | None = None,
    ) -> Prequest:
        """A persistent send of a buffer that becomes ready part by part.

        `buf` is divided evenly into `partitions`; a count in it is that of one.
        """
        out = NOTHING if dest == PROC_NULL else block(buf, False, partitions)
        start = lib.MPI_Psend_init_c
        return self._partitioned(start, out, partitions, dest, tag, info)

    def Precv_init(
        self,
        buf: Any,
        partitions: int,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        info: Info | None = None,
    ) -> Prequest:
        """A persistent receive into a buffer that arrives part by part.

        `buf` is divided evenly into `partitions`; a count in it is that of one.
        """
        into = NOTHING if source == PROC_NULL else block(buf, True, partitions)
        start = lib.MPI_Precv_init_c
        return self._partitioned(start, into, partitions, source, tag, info)

    def _partitioned(
        self,
        start: Any,
        message: buffers.Block,
        partitions: int,
        peer: int,
        tag: int,
        info: Info | None,
    ) -> Prequest:
        address, count, datatype = message
        request = Prequest._started(address)
        what = (address, partitions, count, datatype, peer, tag, self._h)
        check(start(*what, hints(info), request._p))
        return request

    # --------------------------------------------------------------- probes

    def Probe(
        self,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Literal[True]:
        """Blocks until a message that matches could be received."""
        check(lib.MPI_Probe(source, tag, self._h, pointer(status)))
        return True

    def Iprobe(
        self,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> bool:
        """Whether a message that matches could be received now."""
        flag = ffi.new("int *")
        check(lib.MPI_Iprobe(source, tag, self._h, flag, pointer(status)))
        return bool(flag[0])

    def Mprobe(
        self,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Message:
        """Blocks until a message matches and takes it out of the queue."""
        return Message.Probe(self, source, tag, status)

    def Improbe(
        self,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Message | None:
        """The message if there is one that matches, taken out of the queue."""
        return Message.Iprobe(self, source, tag, status)

    probe, iprobe, mprobe, improbe = Probe, Iprobe, Mprobe, Improbe


def _either(buf: Any, dest: int, source: int) -> buffers.Block:
    """A message that is sent and received into, unless both ends are null."""
    return NOTHING if dest == PROC_NULL == source else block(buf, True)
