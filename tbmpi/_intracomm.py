# SPDX-License-Identifier: MIT
"""MPI.Intracomm: a communicator of one group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any

from tbmpi._comm import Comm
from tbmpi._comm_coll import SUM, reduction
from tbmpi._comm_objects import Combine
from tbmpi._ffi import check, ffi, lib
from tbmpi._group import Group
from tbmpi._op import Op
from tbmpi._request import Request

if TYPE_CHECKING:
    from tbmpi._intercomm import Intercomm
    from tbmpi._topo import Cartcomm, Distgraphcomm, Graphcomm


class Intracomm(Comm):
    """A communicator of one group, as MPI.COMM_WORLD and MPI.COMM_SELF."""

    __slots__ = ()

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        """As Create, called by the ranks of `group` only."""
        return self._made(Intracomm, lib.MPI_Comm_create_group, group._h, tag)

    def Create_intercomm(
        self, local_leader: int, peer_comm: Comm, remote_leader: int, tag: int = 0
    ) -> Intercomm:
        """Joins this group and another one, whose leaders meet in `peer_comm`."""
        from tbmpi._intercomm import Intercomm

        peer = (peer_comm._h, remote_leader, tag)
        return self._made(Intercomm, lib.MPI_Intercomm_create, local_leader, *peer)

    # ------------------------------------------------------------- topologies

    def Create_cart(
        self,
        dims: Sequence[int],
        periods: Sequence[bool] | bool | None = None,
        reorder: bool = False,
    ) -> Cartcomm:
        """Ranks as a grid of shape `dims`, periodic where `periods` says.

        Ranks that are left over get MPI.COMM_NULL. MPI.Compute_dims chooses a
        shape.
        """
        from tbmpi._topo import Cartcomm

        shape, wraps = _grid(dims, periods)
        make = lib.MPI_Cart_create
        return self._made(Cartcomm, make, len(shape), shape, wraps, bool(reorder))

    def Cart_map(
        self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None
    ) -> int:
        """The rank that Create_cart with reordering would like to give here."""
        shape, wraps = _grid(dims, periods)
        out = ffi.new("int *")
        check(lib.MPI_Cart_map(self._h, len(shape), shape, wraps, out))
        return out[0]

    def Create_graph(
        self, index: Sequence[int], edges: Sequence[int], reorder: bool = False
    ) -> Graphcomm:
        """Ranks as a graph: rank i's neighbours are edges[index[i-1]:index[i]]."""
        from tbmpi._topo import Graphcomm

        ends, targets = list(index), list(edges)
        make = lib.MPI_Graph_create
        return self._made(Graphcomm, make, len(ends), ends, targets, bool(reorder))

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int],
        destinations: Sequence[int],
        sourceweights: Sequence[int] | None = None,
        destweights: Sequence[int] | None = None,
        info: Any = None,
        reorder: bool = False,
    ) -> Distgraphcomm:
        """Ranks as a graph of which each one names its own neighbours."""
        from tbmpi._topo import Distgraphcomm

        ends = [*_edges(sources, sourceweights), *_edges(destinations, destweights)]
        hints = lib.MPI_INFO_NULL if info is None else info._h
        make = lib.MPI_Dist_graph_create_adjacent
        return self._made(Distgraphcomm, make, *ends, hints, bool(reorder))

    # -------------------------------------------------------------- scans

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """On rank i the elementwise combination of ranks 0 to i."""
        self._call(lib.MPI_Scan_c, reduction(sendbuf, recvbuf, op))

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """As Scan without rank i's own; `recvbuf` of rank 0 is not changed."""
        self._call(lib.MPI_Exscan_c, reduction(sendbuf, recvbuf, op))

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Starts Scan."""
        return self._begin_all(lib.MPI_Iscan_c, reduction(sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Starts Exscan."""
        return self._begin_all(lib.MPI_Iexscan_c, reduction(sendbuf, recvbuf, op))

    def scan(self, sendobj: Any, op: Combine = SUM) -> Any:
        """On rank i the objects of ranks 0 to i combined."""
        objects = self.gather(sendobj, 0)
        return self.scatter(
            None if objects is None else list(accumulate(objects, op)), 0
        )

    def exscan(self, sendobj: Any, op: Combine = SUM) -> Any:
        """As scan without rank i's own; None on rank 0."""
        objects = self.gather(sendobj, 0)
        sums = None if objects is None else [None, *accumulate(objects[:-1], op)]
        return self.scatter(sums, 0)


def _grid(dims: Any, periods: Any) -> tuple[list[int], list[int]]:
    shape = [index(dims)] if hasattr(dims, "__index__") else [index(n) for n in dims]
    if periods is None:
        periods = False
    if isinstance(periods, bool | int):
        periods = [periods] * len(shape)
    wraps = [int(bool(wrap)) for wrap in periods]
    if len(wraps) != len(shape):
        raise ValueError(f"dims has {len(shape)} entries, periods {len(wraps)}")
    return shape, wraps


def _edges(ranks: Sequence[int], weights: Sequence[int] | None) -> tuple[Any, ...]:
    ends = [index(rank) for rank in ranks]
    if weights is None:
        return len(ends), ends, lib.MPI_UNWEIGHTED
    if len(weights) != len(ends):
        raise ValueError(f"{len(ends)} neighbours, {len(weights)} weights")
    if not ends:
        return 0, ends, lib.MPI_WEIGHTS_EMPTY
    return len(ends), ends, [index(weight) for weight in weights]
