# SPDX-License-Identifier: MIT
"""Collective operations of a communicator on buffers.

Every rank of the communicator makes the same calls in the same order. A message
is a buffer or [buffer, count, datatype]; the v-variants take
[buffer, counts, displacements, datatype] with one entry a rank: see
tbmpi.buffers. "n blocks" means a buffer of n times the elements that one rank
sends, n being the communicator's size. MPI.IN_PLACE as the send message takes
the data from where the result goes; None means the same there. Arguments that do not
fit raise ValueError, errors of MPI raise MPI.Exception.

On an intercommunicator a rooted operation goes from one group to the other: `root`
is MPI.ROOT at the root, MPI.PROC_NULL for the others of its group, and the root's
rank in the other group. There is no MPI.IN_PLACE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from tbmpi import buffers
from tbmpi._ffi import check, fail, ffi, lib, quick
from tbmpi._op import Op
from tbmpi.buffers import (
    NOTHING,
    block,
    is_in_place,
    vector,
    vector_of_types,
)

SUM = Op._of(lib.MPI_SUM)
PROC_NULL, ROOT = lib.MPI_PROC_NULL, lib.MPI_ROOT
PLACE = (lib.MPI_IN_PLACE, 0, NOTHING[2])
NO_VECTOR = (ffi.NULL, ffi.NULL, ffi.NULL, NOTHING[2])
PLACE_VECTOR = (lib.MPI_IN_PLACE, ffi.NULL, ffi.NULL, NOTHING[2])
PLACE_TYPES = (lib.MPI_IN_PLACE, ffi.NULL, ffi.NULL, ffi.NULL)


class Collectives:
    """The part of Comm that this file is about."""

    __slots__ = ()
    _h: Any
    Get_rank: Callable[[], int]
    _sizes: Callable[[], tuple[int, int, bool]]  # local, remote, whether inter

    def _call(self, function: Any, arguments: tuple[Any, ...]) -> None:
        error = function(*arguments, self._h)
        if error:
            fail(error)

    # -------------------------------------------------------- who and how many

    def _others(self) -> int:
        """How many ranks there are to receive from."""
        return self._sizes()[1]

    def _is_root(self, root: int) -> bool:
        """Whether this rank's buffer is the root's."""
        if self._sizes()[2]:
            return root in (ROOT, PROC_NULL)
        return root == self.Get_rank()

    # ------------------------------------------------------------- arguments

    def _bcast(self, buf: Any, root: int) -> tuple[Any, ...]:
        if root == PROC_NULL:
            return (*NOTHING, root)
        return (*block(buf, not self._is_root(root)), root)

    def _gather(
        self, sendbuf: Any, recvbuf: Any, root: int, many: Any
    ) -> tuple[Any, ...]:
        empty = NO_VECTOR if many is vector else NOTHING
        inter = self._sizes()[2]
        if not self._is_root(root):
            return (*block(sendbuf, False), *empty, root)
        into = empty if root == PROC_NULL else many(recvbuf, True, self._others())
        if inter:
            return (*NOTHING, *into, root)
        return (*_placed(sendbuf, False), *into, root)

    def _scatter(
        self, sendbuf: Any, recvbuf: Any, root: int, many: Any
    ) -> tuple[Any, ...]:
        empty = NO_VECTOR if many is vector else NOTHING
        inter = self._sizes()[2]
        if not self._is_root(root):
            return (*empty, *block(recvbuf, True), root)
        out = empty if root == PROC_NULL else many(sendbuf, False, self._others())
        if inter:
            return (*out, *NOTHING, root)
        return (*out, *_placed(recvbuf, True), root)

    def _allgather(self, sendbuf: Any, recvbuf: Any, many: Any) -> tuple[Any, ...]:
        _, ranks, inter = self._sizes()
        into = many(recvbuf, True, ranks)
        out = block(sendbuf, False) if inter else _placed(sendbuf, False)
        return (*out, *into)

    def _alltoall(
        self, sendbuf: Any, recvbuf: Any, many: Any, place: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        _, ranks, inter = self._sizes()
        into = many(recvbuf, True, ranks)
        in_place = is_in_place(sendbuf) and not inter
        return (*(place if in_place else many(sendbuf, False, ranks)), *into)

    def _reduce(self, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> tuple[Any, ...]:
        if root == PROC_NULL:
            return (*_one(NOTHING, NOTHING), op._h, root)
        if not self._is_root(root):
            out = block(sendbuf, False)
            return (*_one(out, (ffi.NULL, *out[1:])), op._h, root)
        if self._sizes()[2]:
            into = block(recvbuf, True)
            return (*_one((ffi.NULL, *into[1:]), into), op._h, root)
        return (*reduction(sendbuf, recvbuf, op), root)

    def _reduce_scatter_block(
        self, sendbuf: Any, recvbuf: Any, op: Op
    ) -> tuple[Any, ...]:
        ranks, _, inter = self._sizes()
        if is_in_place(sendbuf) and not inter:
            address, count, datatype = block(recvbuf, True, ranks)
            return lib.MPI_IN_PLACE, address, count, datatype, op._h
        into = block(recvbuf, True)
        return (*_one(_same(block(sendbuf, False, ranks), into), into), op._h)

    def _reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None, op: Op
    ) -> tuple[Any, ...]:
        ranks, _, inter = self._sizes()
        address, room, datatype = block(recvbuf, True)
        in_place = is_in_place(sendbuf) and not inter
        if recvcounts is None and (in_place or inter):
            raise ValueError("recvcounts is needed here")
        counts = self._counts(recvcounts, room, ranks)
        total = sum(counts)
        if in_place:
            _equal(room, total, "the receive count and the sum of recvcounts")
            return lib.MPI_IN_PLACE, address, counts, datatype, op._h
        source, count, kind = block(sendbuf, False)
        _same_type(kind, datatype)
        _equal(count, total, "the send count and the sum of recvcounts")
        mine = counts[self.Get_rank()]
        _equal(room, mine, "the receive count and this rank's of recvcounts")
        return source, address, counts, datatype, op._h

    def _counts(self, given: Sequence[int] | None, mine: int, ranks: int) -> Any:
        """Receive counts of all ranks, gathered if they are not given."""
        if given is None:
            out, kind = ffi.new("MPI_Count *", mine), lib.MPI_COUNT
            counts = ffi.new("MPI_Count[]", ranks)
            check(lib.MPI_Allgather_c(out, 1, kind, counts, 1, kind, self._h))
            return counts
        numbers = [index(count) for count in given]
        if len(numbers) != ranks:
            raise ValueError(f"expected {ranks} receive counts, got {len(numbers)}")
        return ffi.new("MPI_Count[]", numbers)

    # -------------------------------------------------------------- blocking

    @quick
    def Barrier(self) -> None:
        """Blocks until every rank has called it."""
        error = lib.MPI_Barrier(self._h)
        if error:
            fail(error)

    @quick
    def Bcast(self, buf: Any, root: int = 0) -> None:
        """`buf` of rank `root` goes to `buf` of all."""
        self._call(lib.MPI_Bcast_c, self._bcast(buf, root))

    @quick
    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """`sendbuf` of every rank to `root`; n blocks there, in rank order.

        `recvbuf` may be None elsewhere.
        """
        self._call(lib.MPI_Gather_c, self._gather(sendbuf, recvbuf, root, block))

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """As Gather with blocks of any size: [buffer, counts, displs, type]."""
        self._call(lib.MPI_Gatherv_c, self._gather(sendbuf, recvbuf, root, vector))

    @quick
    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The n blocks of `sendbuf` of `root`, one to each rank's `recvbuf`.

        `sendbuf` may be None elsewhere; `recvbuf` may be MPI.IN_PLACE at the root.
        """
        self._call(lib.MPI_Scatter_c, self._scatter(sendbuf, recvbuf, root, block))

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """As Scatter with blocks of any size: [buffer, counts, displs, type]."""
        self._call(lib.MPI_Scatterv_c, self._scatter(sendbuf, recvbuf, root, vector))

    @quick
    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Gather, with the result on every rank: `recvbuf` has n blocks."""
        self._call(lib.MPI_Allgather_c, self._allgather(sendbuf, recvbuf, block))

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Gatherv, with the result on every rank."""
        self._call(lib.MPI_Allgatherv_c, self._allgather(sendbuf, recvbuf, vector))

    @quick
    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Block i goes to rank i, and rank i's block comes as block i; n blocks."""
        self._call(lib.MPI_Alltoall_c, self._alltoall(sendbuf, recvbuf, block, PLACE))

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Alltoall with blocks of any size, in both messages."""
        arguments = self._alltoall(sendbuf, recvbuf, vector, PLACE_VECTOR)
        self._call(lib.MPI_Alltoallv_c, arguments)

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Alltoallv with a datatype a rank: [buffer, counts, displs, types].

        Displacements are in bytes here.
        """
        arguments = self._alltoall(sendbuf, recvbuf, vector_of_types, PLACE_TYPES)
        self._call(lib.MPI_Alltoallw_c, arguments)

    @quick
    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """The ranks' `sendbuf` combined element by element, into `root`'s `recvbuf`.

        `recvbuf` may be None elsewhere.
        """
        self._call(lib.MPI_Reduce_c, self._reduce(sendbuf, recvbuf, op, root))

    @quick
    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """As Reduce, with the result, the same bits, on every rank."""
        error = lib.MPI_Allreduce_c(*reduction(sendbuf, recvbuf, op), self._h)
        if error:
            fail(error)

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combines n blocks element by element; block i goes to rank i."""
        arguments = self._reduce_scatter_block(sendbuf, recvbuf, op)
        self._call(lib.MPI_Reduce_scatter_block_c, arguments)

    def Reduce_scatter(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
    ) -> None:
        """As Reduce_scatter_block with blocks of any size, `recvcounts` elements.

        Without counts those of the receive messages are gathered first.
        """
        arguments = self._reduce_scatter(sendbuf, recvbuf, recvcounts, op)
        self._call(lib.MPI_Reduce_scatter_c, arguments)


# ---------------------------------------------- in place; reductions' messages


def _placed(message: Any, writable: bool) -> buffers.Block:
    return PLACE if is_in_place(message) else block(message, writable)


def _one(out: buffers.Block, into: buffers.Block) -> tuple[Any, ...]:
    """Two addresses and the count and datatype that they share."""
    return out[0], into[0], into[1], into[2]


def _same(out: buffers.Block, into: buffers.Block) -> buffers.Block:
    _same_type(out[2], into[2])
    _equal(out[1], into[1], "the send and the receive count")
    return out


def _same_type(out: Any, into: Any) -> None:
    if out != into:
        raise ValueError("the send and the receive datatype differ")


def _equal(first: int, second: int, what: str) -> None:
    if first != second:
        raise ValueError(f"{what} differ: {first} and {second}")


def reduction(sendbuf: Any, recvbuf: Any, op: Op) -> tuple[Any, ...]:
    """The arguments of a reduction whose result this rank gets."""
    into, count, datatype = block(recvbuf, True)
    if is_in_place(sendbuf):
        return lib.MPI_IN_PLACE, into, count, datatype, op._h
    out, amount, kind = block(sendbuf, False)
    if amount != count or kind is not datatype:
        _same((out, amount, kind), (into, count, datatype))
    return out, into, count, datatype, op._h
