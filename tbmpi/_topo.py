# SPDX-License-Identifier: MIT
"""Communicators whose ranks have neighbours: grids and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from tbmpi._comm_neighbor import NeighborCollectives
from tbmpi._ffi import check, ffi, lib
from tbmpi._intracomm import Intracomm


class Topocomm(NeighborCollectives, Intracomm):
    """A communicator with a topology, whose neighbours can exchange messages."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _kinds = (lib.MPI_CART, lib.MPI_GRAPH, lib.MPI_DIST_GRAPH)

    def _is_of_kind(self) -> bool:
        return super()._is_of_kind() and self.Get_topology() in self._kinds

    def _degrees(self) -> tuple[int, int]:
        """Number of neighbours to receive from and to send to."""
        out = ffi.new("int[3]")
        kind = self.Get_topology()
        if kind == lib.MPI_CART:
            check(lib.MPI_Cartdim_get(self._h, out))
            return 2 * out[0], 2 * out[0]
        if kind == lib.MPI_GRAPH:
            check(lib.MPI_Graph_neighbors_count(self._h, self.Get_rank(), out))
            return out[0], out[0]
        check(lib.MPI_Dist_graph_neighbors_count(self._h, out, out + 1, out + 2))
        return out[0], out[1]

    degrees = property(_degrees, doc="Numbers of neighbours received from, sent to.")

    @property
    def indegree(self) -> int:
        """Number of neighbours received from."""
        return self._degrees()[0]

    @property
    def outdegree(self) -> int:
        """Number of neighbours sent to."""
        return self._degrees()[1]

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """The neighbours received from, and those sent to."""
        return self.inedges, self.outedges  # type: ignore[attr-defined]


class Cartcomm(Topocomm):
    """Ranks on a grid, the last dimension running fastest."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _kinds = (lib.MPI_CART,)

    def Get_dim(self) -> int:
        """Number of dimensions."""
        out = ffi.new("int *")
        check(lib.MPI_Cartdim_get(self._h, out))
        return out[0]

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Shape of the grid, whether periodic (0 or 1), this rank's coordinates."""
        size = self.Get_dim()
        out = [ffi.new("int[]", max(size, 1)) for _ in range(3)]
        check(lib.MPI_Cart_get(self._h, size, *out))
        dims, periods, coords = (list(values[0:size]) for values in out)
        return dims, periods, coords

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """The rank at these coordinates; periodic ones wrap around."""
        place = [index(value) for value in coords]
        if len(place) != self.Get_dim():
            raise ValueError(
                f"{len(place)} coordinates on a grid of {self.Get_dim()} dimensions"
            )
        out = ffi.new("int *")
        check(lib.MPI_Cart_rank(self._h, place, out))
        return out[0]

    def Get_coords(self, rank: int) -> list[int]:
        """The coordinates of a rank."""
        size = self.Get_dim()
        out = ffi.new("int[]", max(size, 1))
        check(lib.MPI_Cart_coords(self._h, rank, size, out))
        return list(out[0:size])

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """The ranks to receive from and to send to when all shift by `disp`.

        MPI.PROC_NULL beyond the edge of a dimension that is not periodic.
        """
        source, dest = ffi.new("int *"), ffi.new("int *")
        check(lib.MPI_Cart_shift(self._h, direction, disp, source, dest))
        return source[0], dest[0]

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """This rank's part of the grid in the dimensions that remain."""
        keep = [int(bool(remains)) for remains in remain_dims]
        if len(keep) != self.Get_dim():
            raise ValueError(
                f"{len(keep)} flags for a grid of {self.Get_dim()} dimensions"
            )
        return self._made(Cartcomm, lib.MPI_Cart_sub, keep)

    dim = property(Get_dim, doc="Number of dimensions.")
    ndim = property(Get_dim, doc="Number of dimensions.")
    topo = property(Get_topo, doc="See Get_topo.")

    @property
    def dims(self) -> list[int]:
        """Shape of the grid."""
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        """Whether each dimension is periodic, 0 or 1."""
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        """This rank's coordinates."""
        return self.Get_topo()[2]

    @property
    def inedges(self) -> list[int]:
        """The neighbours: lower and upper one of each dimension."""
        return [rank for d in range(self.Get_dim()) for rank in self.Shift(d, 1)]

    @property
    def outedges(self) -> list[int]:
        """The neighbours: lower and upper one of each dimension."""
        return self.inedges


class Graphcomm(Topocomm):
    """Ranks on a graph that all of them know."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _kinds = (lib.MPI_GRAPH,)

    def Get_dims(self) -> tuple[int, int]:
        """Number of nodes and of edges."""
        out = ffi.new("int[2]")
        check(lib.MPI_Graphdims_get(self._h, out, out + 1))
        return out[0], out[1]

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """index and edges, as Create_graph took them."""
        nodes, edges = self.Get_dims()
        ends, targets = ffi.new("int[]", nodes), ffi.new("int[]", max(edges, 1))
        check(lib.MPI_Graph_get(self._h, nodes, edges, ends, targets))
        return list(ends), list(targets[0:edges])

    def Get_neighbors_count(self, rank: int) -> int:
        """Number of a rank's neighbours."""
        out = ffi.new("int *")
        check(lib.MPI_Graph_neighbors_count(self._h, rank, out))
        return out[0]

    def Get_neighbors(self, rank: int) -> list[int]:
        """A rank's neighbours."""
        count = self.Get_neighbors_count(rank)
        out = ffi.new("int[]", max(count, 1))
        check(lib.MPI_Graph_neighbors(self._h, rank, count, out))
        return list(out[0:count])

    dims = property(Get_dims, doc="Number of nodes and of edges.")
    topo = property(Get_topo, doc="See Get_topo.")

    @property
    def nnodes(self) -> int:
        """Number of nodes."""
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        """Number of edges."""
        return self.Get_dims()[1]

    @property
    def index(self) -> list[int]:
        """Where each node's edges end, as Create_graph took it."""
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        """The edges' targets, as Create_graph took them."""
        return self.Get_topo()[1]

    @property
    def nneighbors(self) -> int:
        """Number of this rank's neighbours."""
        return self.Get_neighbors_count(self.Get_rank())

    @property
    def neighbors(self) -> list[int]:
        """This rank's neighbours."""
        return self.Get_neighbors(self.Get_rank())

    @property
    def inedges(self) -> list[int]:
        """This rank's neighbours."""
        return self.neighbors

    @property
    def outedges(self) -> list[int]:
        """This rank's neighbours."""
        return self.neighbors


class Distgraphcomm(Topocomm):
    """Ranks on a graph of which each one knows its neighbours only."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _kinds = (lib.MPI_DIST_GRAPH,)

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """Numbers of sources and of destinations, and whether edges have weights."""
        out = ffi.new("int[3]")
        check(lib.MPI_Dist_graph_neighbors_count(self._h, out, out + 1, out + 2))
        return out[0], out[1], bool(out[2])

    def Get_dist_neighbors(
        self,
    ) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Sources, destinations, and both their weights or None."""
        out = ffi.new("int[3]")
        check(lib.MPI_Dist_graph_neighbors_count(self._h, out, out + 1, out + 2))
        sizes = (out[0], out[0], out[1], out[1])
        ranks = [ffi.new("int[]", max(size, 1)) for size in sizes]
        check(
            lib.MPI_Dist_graph_neighbors(
                self._h, out[0], *ranks[:2], out[1], *ranks[2:]
            )
        )
        found = [list(one[0:size]) for one, size in zip(ranks, sizes, strict=True)]
        weights = (found[1], found[3]) if out[2] else None
        return found[0], found[2], weights

    @property
    def inedges(self) -> list[int]:
        """The neighbours received from."""
        return self.Get_dist_neighbors()[0]

    @property
    def outedges(self) -> list[int]:
        """The neighbours sent to."""
        return self.Get_dist_neighbors()[1]
