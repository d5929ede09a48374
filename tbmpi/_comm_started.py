# SPDX-License-Identifier: MIT
"""Collective operations that are started, and end later.

Their messages are those of the blocking operations (_comm_coll). The I-variants
return a request, under way; the _init variants a persistent one, to be started
any number of times. The buffers belong to MPI from the start until the request is
complete. All ranks start the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tbmpi._comm_coll import (
    PLACE,
    PLACE_TYPES,
    PLACE_VECTOR,
    SUM,
    Collectives,
    reduction,
)
from tbmpi._ffi import check, lib
from tbmpi._handle import hints
from tbmpi._info import Info
from tbmpi._op import Op
from tbmpi._request import Prequest, Request
from tbmpi.buffers import block, vector, vector_of_types


class StartedCollectives(Collectives):
    """The part of Comm that this file is about."""

    __slots__ = ()

    def _begin_all(self, function: Any, arguments: tuple[Any, ...]) -> Request:
        request = Request._started(arguments)
        check(function(*arguments, self._h, request._p))
        return request

    def _prepare_all(
        self, function: Any, arguments: tuple[Any, ...], info: Info | None
    ) -> Prequest:
        request = Prequest._started(arguments)
        check(function(*arguments, self._h, hints(info), request._p))
        return request

    # ----------------------------------------------------------- nonblocking

    def Ibarrier(self) -> Request:
        """Starts Barrier."""
        return self._begin_all(lib.MPI_Ibarrier, ())

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Starts Bcast."""
        return self._begin_all(lib.MPI_Ibcast_c, self._bcast(buf, root))

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Starts Gather."""
        arguments = self._gather(sendbuf, recvbuf, root, block)
        return self._begin_all(lib.MPI_Igather_c, arguments)

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Starts Gatherv."""
        arguments = self._gather(sendbuf, recvbuf, root, vector)
        return self._begin_all(lib.MPI_Igatherv_c, arguments)

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Starts Scatter."""
        arguments = self._scatter(sendbuf, recvbuf, root, block)
        return self._begin_all(lib.MPI_Iscatter_c, arguments)

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Starts Scatterv."""
        arguments = self._scatter(sendbuf, recvbuf, root, vector)
        return self._begin_all(lib.MPI_Iscatterv_c, arguments)

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Allgather."""
        arguments = self._allgather(sendbuf, recvbuf, block)
        return self._begin_all(lib.MPI_Iallgather_c, arguments)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Allgatherv."""
        arguments = self._allgather(sendbuf, recvbuf, vector)
        return self._begin_all(lib.MPI_Iallgatherv_c, arguments)

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Alltoall."""
        arguments = self._alltoall(sendbuf, recvbuf, block, PLACE)
        return self._begin_all(lib.MPI_Ialltoall_c, arguments)

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Alltoallv."""
        arguments = self._alltoall(sendbuf, recvbuf, vector, PLACE_VECTOR)
        return self._begin_all(lib.MPI_Ialltoallv_c, arguments)

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Starts Alltoallw."""
        arguments = self._alltoall(sendbuf, recvbuf, vector_of_types, PLACE_TYPES)
        return self._begin_all(lib.MPI_Ialltoallw_c, arguments)

    def Ireduce(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0
    ) -> Request:
        """Starts Reduce."""
        arguments = self._reduce(sendbuf, recvbuf, op, root)
        return self._begin_all(lib.MPI_Ireduce_c, arguments)

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Starts Allreduce."""
        arguments = reduction(sendbuf, recvbuf, op)
        return self._begin_all(lib.MPI_Iallreduce_c, arguments)

    def Ireduce_scatter_block(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM
    ) -> Request:
        """Starts Reduce_scatter_block."""
        arguments = self._reduce_scatter_block(sendbuf, recvbuf, op)
        return self._begin_all(lib.MPI_Ireduce_scatter_block_c, arguments)

    def Ireduce_scatter(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
    ) -> Request:
        """Starts Reduce_scatter."""
        arguments = self._reduce_scatter(sendbuf, recvbuf, recvcounts, op)
        return self._begin_all(lib.MPI_Ireduce_scatter_c, arguments)

    # ------------------------------------------------------------ persistent

    def Barrier_init(self, info: Info | None = None) -> Prequest:
        """Prepares Barrier."""
        return self._prepare_all(lib.MPI_Barrier_init, (), info)

    def Bcast_init(self, buf: Any, root: int = 0, info: Info | None = None) -> Prequest:
        """Prepares Bcast."""
        arguments = self._bcast(buf, root)
        return self._prepare_all(lib.MPI_Bcast_init_c, arguments, info)

    def Gather_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info | None = None
    ) -> Prequest:
        """Prepares Gather."""
        arguments = self._gather(sendbuf, recvbuf, root, block)
        return self._prepare_all(lib.MPI_Gather_init_c, arguments, info)

    def Gatherv_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info | None = None
    ) -> Prequest:
        """Prepares Gatherv."""
        arguments = self._gather(sendbuf, recvbuf, root, vector)
        return self._prepare_all(lib.MPI_Gatherv_init_c, arguments, info)

    def Scatter_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info | None = None
    ) -> Prequest:
        """Prepares Scatter."""
        arguments = self._scatter(sendbuf, recvbuf, root, block)
        return self._prepare_all(lib.MPI_Scatter_init_c, arguments, info)

    def Scatterv_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info | None = None
    ) -> Prequest:
        """Prepares Scatterv."""
        arguments = self._scatter(sendbuf, recvbuf, root, vector)
        return self._prepare_all(lib.MPI_Scatterv_init_c, arguments, info)

    def Allgather_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Allgather."""
        arguments = self._allgather(sendbuf, recvbuf, block)
        return self._prepare_all(lib.MPI_Allgather_init_c, arguments, info)

    def Allgatherv_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Allgatherv."""
        arguments = self._allgather(sendbuf, recvbuf, vector)
        return self._prepare_all(lib.MPI_Allgatherv_init_c, arguments, info)

    def Alltoall_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Alltoall."""
        arguments = self._alltoall(sendbuf, recvbuf, block, PLACE)
        return self._prepare_all(lib.MPI_Alltoall_init_c, arguments, info)

    def Alltoallv_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Alltoallv."""
        arguments = self._alltoall(sendbuf, recvbuf, vector, PLACE_VECTOR)
        return self._prepare_all(lib.MPI_Alltoallv_init_c, arguments, info)

    def Alltoallw_init(
        self, sendbuf: Any, recvbuf: Any, info: Info | None = None
    ) -> Prequest:
        """Prepares Alltoallw."""
        arguments = self._alltoall(sendbuf, recvbuf, vector_of_types, PLACE_TYPES)
        return self._prepare_all(lib.MPI_Alltoallw_init_c, arguments, info)

    def Reduce_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        op: Op = SUM,
        root: int = 0,
        info: Info | None = None,
    ) -> Prequest:
        """Prepares Reduce."""
        arguments = self._reduce(sendbuf, recvbuf, op, root)
        return self._prepare_all(lib.MPI_Reduce_init_c, arguments, info)

    def Allreduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info | None = None
    ) -> Prequest:
        """Prepares Allreduce."""
        arguments = reduction(sendbuf, recvbuf, op)
        return self._prepare_all(lib.MPI_Allreduce_init_c, arguments, info)

    def Reduce_scatter_block_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info | None = None
    ) -> Prequest:
        """Prepares Reduce_scatter_block."""
        arguments = self._reduce_scatter_block(sendbuf, recvbuf, op)
        return self._prepare_all(lib.MPI_Reduce_scatter_block_init_c, arguments, info)

    def Reduce_scatter_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info | None = None,
    ) -> Prequest:
        """Prepares Reduce_scatter."""
        arguments = self._reduce_scatter(sendbuf, recvbuf, recvcounts, op)
        return self._prepare_all(lib.MPI_Reduce_scatter_init_c, arguments, info)
