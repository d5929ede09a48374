# SPDX-License-Identifier: MIT
"""Collective operations among the neighbours of a topology.

A rank exchanges one block with each neighbour, in the order of `inedges`
(received from) and `outedges` (sent to); a grid's neighbours are the lower and
the upper one of each dimension in turn. Where there is no neighbour
(MPI.PROC_NULL) the block stays as it is. Messages are as in _comm_coll, with one
entry a neighbour in the v-variants, and without MPI.IN_PLACE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tbmpi._comm_objects import COUNT, Incoming, Several, numbers, sent
from tbmpi._ffi import check, ffi, lib
from tbmpi._info import Info
from tbmpi._pickle import packed
from tbmpi._request import Prequest, Request
from tbmpi.buffers import block, vector, vector_of_types


class NeighborCollectives:
    """The part of Topocomm that this file is about."""

    __slots__ = ()
    _h: Any
    _degrees: Callable[[], tuple[int, int]]  # neighbours received from and sent to
    _call: Callable[[Any, tuple[Any, ...]], None]
    _begin_all: Callable[[Any, tuple[Any, ...]], Request]
    _prepare_all: Callable[[Any, tuple[Any, ...], Info | None], Prequest]

    def _spread(self, sendbuf: Any, recvbuf: Any, many: Any) -> tuple[Any, ...]:
        return (*block(sendbuf, False), *many(recvbuf, True, self._degrees()[0]))

    def _exchange(self, sendbuf: Any, recvbuf: Any, many: Any) -> tuple[Any, ...]:
        sources, targets = self._degrees()
        return (*many(sendbuf, False, targets), *many(recvbuf, True, sources))

    # -------------------------------------------------------------- blocking

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """`sendbuf` to all neighbours; one block of theirs each in `recvbuf`."""
        arguments = self._spread(sendbuf, recvbuf, block)
        self._call(lib.MPI_Neighbor_allgather_c, arguments)

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Neighbor_allgather with blocks of any size."""
        arguments = self._spread(sendbuf, recvbuf, vector)
        self._call(lib.MPI_Neighbor_allgatherv_c, arguments)

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """A block of its own to each neighbour, and one from each."""
        arguments = self._exchange(sendbuf, recvbuf, block)
        self._call(lib.MPI_Neighbor_alltoall_c, arguments)

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Neighbor_alltoall with blocks of any size."""
        arguments = self._exchange(sendbuf, recvbuf, vector)
        self._call(lib.MPI_Neighbor_alltoallv_c, arguments)

    def Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Neighbor_alltoallv with a datatype each, displacements in bytes."""
        arguments = self._exchange(sendbuf, recvbuf, vector_of_types)
        self._call(lib.MPI_Neighbor_alltoallw_c, arguments)

    # ----------------------------------------------------------- nonblocking

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Neighbor_allgather."""
        arguments = self._spread(sendbuf, recvbuf, block)
        return self._begin_all(lib.MPI_Ineighbor_allgather_c, arguments)

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Neighbor_allgatherv."""
        arguments = self._spread(sendbuf, recvbuf, vector)
        return self._begin_all(lib.MPI_Ineighbor_allgatherv_c, arguments)

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Neighbor_alltoall."""
        arguments = self._exchange(sendbuf, recvbuf, block)
        return self._begin_all(lib.MPI_Ineighbor_alltoall_c, arguments)

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Neighbor_alltoallv."""
        arguments = self._exchange(sendbuf, recvbuf, vector)
        return self._begin_all(lib.MPI_Ineighbor_alltoallv_c, arguments)

    def Ineighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Neighbor_alltoallw."""
        arguments = self._exchange(sendbuf, recvbuf, vector_of_types)
        return self._begin_all(lib.MPI_Ineighbor_alltoallw_c, arguments)

    # ------------------------------------------------------------ persistent

    def Neighbor_allgather_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Neighbor_allgather."""
        arguments = self._spread(sendbuf, recvbuf, block)
        return self._prepare_all(lib.MPI_Neighbor_allgather_init_c, arguments, info)

    def Neighbor_allgatherv_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Neighbor_allgatherv."""
        arguments = self._spread(sendbuf, recvbuf, vector)
        return self._prepare_all(lib.MPI_Neighbor_allgatherv_init_c, arguments, info)

    def Neighbor_alltoall_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Neighbor_alltoall."""
        arguments = self._exchange(sendbuf, recvbuf, block)
        return self._prepare_all(lib.MPI_Neighbor_alltoall_init_c, arguments, info)

    def Neighbor_alltoallv_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Neighbor_alltoallv."""
        arguments = self._exchange(sendbuf, recvbuf, vector)
        return self._prepare_all(lib.MPI_Neighbor_alltoallv_init_c, arguments, info)

    def Neighbor_alltoallw_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Neighbor_alltoallw."""
        arguments = self._exchange(sendbuf, recvbuf, vector_of_types)
        return self._prepare_all(lib.MPI_Neighbor_alltoallw_init_c, arguments, info)

    # --------------------------------------------------------------- objects

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """An object to all neighbours; the list of theirs, None where there is none."""
        sources, _ = self._degrees()
        data = packed(sendobj)
        mine, counts = ffi.new("MPI_Count *", len(data)), numbers(sources)
        check(lib.MPI_Neighbor_allgather_c(mine, 1, COUNT, counts, 1, COUNT, self._h))
        into = Incoming(counts, sources)
        sent(lib.MPI_Neighbor_allgatherv_c, data, *into.message, self._h)
        return into.objects()

    def neighbor_alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """An object of its own to each neighbour; the list of theirs."""
        sources, targets = self._degrees()
        out, counts = Several(sendobj, targets), numbers(sources)
        arguments = (out.counts, 1, COUNT, counts, 1, COUNT, self._h)
        check(lib.MPI_Neighbor_alltoall_c(*arguments))
        into = Incoming(counts, sources)
        check(lib.MPI_Neighbor_alltoallv_c(*out.message, *into.message, self._h))
        return into.objects()
