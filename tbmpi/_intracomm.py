# SPDX-License-Identifier: MIT
"""MPI.Intracomm: a communicator of one group."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from tbmpi._comm import Comm
from tbmpi._comm_coll import SUM, reduction
from tbmpi._comm_dynamic import Dynamic
from tbmpi._comm_reduce import ObjectScans
from tbmpi._errhandler import Errhandler
from tbmpi._ffi import check, ffi, lib
from tbmpi._group import Group
from tbmpi._handle import hints
from tbmpi._info import Info
from tbmpi._op import Op
from tbmpi._request import Prequest, Request

if TYPE_CHECKING:
    from tbmpi._intercomm import Intercomm
    from tbmpi._topo import Cartcomm, Distgraphcomm, Graphcomm


class Intracomm(ObjectScans, Dynamic, Comm):
    """A communicator of one group, as MPI.COMM_WORLD and MPI.COMM_SELF."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"

    def _is_of_kind(self) -> bool:
        return not self.Is_inter()

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        """As Create, called by the ranks of `group` only."""
        return self._made(Intracomm, lib.MPI_Comm_create_group, group._h, tag)

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.tbmpi",
        info: Info | None = None,
        errhandler: Errhandler | None = None,
    ) -> Intracomm:
        """A communicator of a group, without one that it comes from.

        `stringtag` tells apart what is made at the same time.
        """
        handler = lib.MPI_ERRORS_RETURN if errhandler is None else errhandler._h
        out = ffi.new("MPI_Comm *")
        make = lib.MPI_Comm_create_from_group
        check(make(group._h, stringtag.encode(), hints(info), handler, out))
        return Intracomm._of(out[0])

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
        """Ranks as a graph: rank i's neighbours are edges[index[i-1]:index[i]].

        `index` may begin with an additional 0, as in sparse matrices.
        """
        from tbmpi._topo import Graphcomm

        ends, targets = _graph(index, edges)
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
        make = lib.MPI_Dist_graph_create_adjacent
        return self._made(Distgraphcomm, make, *ends, hints(info), bool(reorder))

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Sequence[int] | None = None,
        info: Info | None = None,
        reorder: bool = False,
    ) -> Distgraphcomm:
        """Ranks as a graph of which each rank may name any edges.

        Rank sources[i] has the next degrees[i] of the destinations.
        """
        from tbmpi._topo import Distgraphcomm

        heads = [index(rank) for rank in sources]
        counts = [index(degree) for degree in degrees]
        if len(heads) != len(counts):
            raise ValueError(f"{len(heads)} sources, {len(counts)} degrees")
        total, targets, values = _edges(destinations, weights)
        if total != sum(counts):
            raise ValueError(
                f"{total} destinations, but the degrees add up to {sum(counts)}"
            )
        edges = (len(heads), heads, counts, targets, values)
        make = lib.MPI_Dist_graph_create
        return self._made(Distgraphcomm, make, *edges, hints(info), bool(reorder))

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """The rank that Create_graph with reordering would like to give here."""
        (ends, targets), out = _graph(index, edges), ffi.new("int *")
        check(lib.MPI_Graph_map(self._h, len(ends), ends, targets, out))
        return out[0]

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

    def Scan_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info | None = None
    ) -> Prequest:
        """Prepares Scan."""
        arguments = reduction(sendbuf, recvbuf, op)
        return self._prepare_all(lib.MPI_Scan_init_c, arguments, info)

    def Exscan_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info | None = None
    ) -> Prequest:
        """Prepares Exscan."""
        arguments = reduction(sendbuf, recvbuf, op)
        return self._prepare_all(lib.MPI_Exscan_init_c, arguments, info)


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


def _graph(ends: Sequence[int], targets: Sequence[int]) -> tuple[list[int], list[int]]:
    places, edges = [index(end) for end in ends], [index(rank) for rank in targets]
    if places and places[0] == 0 and places[-1] == len(edges):
        del places[0]
    return places, edges


def _edges(
    ranks: Sequence[int] | None, weights: Sequence[int] | int | None
) -> tuple[Any, ...]:
    """Number, ranks and weights of edges; MPI.UNWEIGHTED is as good as None."""
    ends = [index(rank) for rank in ranks or ()]
    if weights is None or _is(weights, lib.MPI_UNWEIGHTED):
        return len(ends), ends, lib.MPI_UNWEIGHTED
    values = [] if _is(weights, lib.MPI_WEIGHTS_EMPTY) else weights
    if len(values) != len(ends):
        raise ValueError(f"{len(ends)} neighbours, {len(values)} weights")
    if not ends:
        return 0, ends, lib.MPI_WEIGHTS_EMPTY
    return len(ends), ends, [index(weight) for weight in values]


def _is(weights: Any, constant: Any) -> bool:
    return isinstance(weights, int) and weights == int(ffi.cast("intptr_t", constant))
