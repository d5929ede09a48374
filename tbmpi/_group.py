# SPDX-License-Identifier: MIT
"""MPI.Group: ordered sets of processes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Self

from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle

if TYPE_CHECKING:
    from tbmpi._session import Session


class Group(Handle):
    """An ordered set of processes. All calls are local."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Group"
    _null = lib.MPI_GROUP_NULL

    def _make(self, function: Any, *args: Any) -> Self:
        out = ffi.new("MPI_Group *")
        check(function(self._h, *args, out))
        return type(self)._of(out[0])

    def Get_size(self) -> int:
        """Number of processes."""
        out = ffi.new("int *")
        check(lib.MPI_Group_size(self._h, out))
        return out[0]

    def Get_rank(self) -> int:
        """This process's rank in the group, or MPI.UNDEFINED."""
        out = ffi.new("int *")
        check(lib.MPI_Group_rank(self._h, out))
        return out[0]

    def Translate_ranks(
        self, ranks: Sequence[int] | None = None, group: Group | None = None
    ) -> list[int]:
        """The ranks in `group` of the processes with `ranks` (all) here.

        MPI.UNDEFINED where a process is not in `group`; without a group, ranks in
        COMM_WORLD's.
        """
        mine = list(range(self.size)) if ranks is None else [index(r) for r in ranks]
        out = ffi.new("int[]", max(len(mine), 1))
        other = ffi.new("MPI_Group *", lib.MPI_GROUP_NULL)
        if group is None:
            check(lib.MPI_Comm_group(lib.MPI_COMM_WORLD, other))
        target = other[0] if group is None else group._h
        try:
            check(lib.MPI_Group_translate_ranks(self._h, len(mine), mine, target, out))
        finally:
            if group is None:
                check(lib.MPI_Group_free(other))
        return list(out[0 : len(mine)])

    def Compare(self, group: Group) -> int:
        """MPI.IDENT, MPI.SIMILAR (other order) or MPI.UNEQUAL."""
        out = ffi.new("int *")
        check(lib.MPI_Group_compare(self._h, group._h, out))
        return out[0]

    def Dup(self) -> Self:
        """A copy."""
        return self._make(lib.MPI_Group_union, lib.MPI_GROUP_EMPTY)

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        """Those of the first, then those of the second not in the first."""
        return cls._both(lib.MPI_Group_union, group1, group2)

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        """Those in both, in the order of the first."""
        return cls._both(lib.MPI_Group_intersection, group1, group2)

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        """Those of the first that are not in the second."""
        return cls._both(lib.MPI_Group_difference, group1, group2)

    @classmethod
    def _both(cls, function: Any, group1: Group, group2: Group) -> Self:
        out = ffi.new("MPI_Group *")
        check(function(group1._h, group2._h, out))
        return cls._of(out[0])

    def Incl(self, ranks: Sequence[int]) -> Self:
        """Those with `ranks`, in that order."""
        chosen = [index(rank) for rank in ranks]
        return self._make(lib.MPI_Group_incl, len(chosen), chosen)

    def Excl(self, ranks: Sequence[int]) -> Self:
        """All but those with `ranks`."""
        chosen = [index(rank) for rank in ranks]
        return self._make(lib.MPI_Group_excl, len(chosen), chosen)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Those in ranges (first, last, step), last included."""
        triples = [tuple(index(value) for value in triple) for triple in ranks]
        return self._make(
            lib.MPI_Group_range_incl, len(triples), ffi.new("int[][3]", triples)
        )

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """All but those in ranges (first, last, step), last included."""
        triples = [tuple(index(value) for value in triple) for triple in ranks]
        return self._make(
            lib.MPI_Group_range_excl, len(triples), ffi.new("int[][3]", triples)
        )

    @classmethod
    def Create_from_session_pset(cls, session: Session, pset_name: str) -> Self:
        """The processes of a set that a session knows, such as "mpi://WORLD"."""
        out = ffi.new("MPI_Group *")
        make = lib.MPI_Group_from_session_pset
        check(make(session._h, pset_name.encode(), out))
        return cls._of(out[0])

    def Free(self) -> None:
        """Frees the group; communicators made from it are not touched."""
        self._free_with(lib.MPI_Group_free)

    size = property(Get_size, doc="Number of processes.")
    rank = property(Get_rank, doc="This process's rank, or MPI.UNDEFINED.")


Group._family = (Group,)
