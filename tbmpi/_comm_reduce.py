# SPDX-License-Identifier: MIT
"""Reductions of Python objects.

Ranks are combined as a binary tree in rank order, ((0 1) (2 3)) ..., so that an
operation need not be commutative and a repeat gives the same bits. Without
``tbmpi.rc.fast_reduce`` they are combined one after the other, (((0 1) 2) 3), by
one rank.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from itertools import accumulate
from typing import Any

from tbmpi import _context
from tbmpi._comm_coll import SUM
from tbmpi._comm_objects import PROC_NULL, ROOT, Objects, copied, receive, sent
from tbmpi._exception import Exception as MPIException
from tbmpi._ffi import lib
from tbmpi._op import Op
from tbmpi._pickle import packed, pickle
from tbmpi._rc import rc
from tbmpi._request import Request

Combine = Op | Callable[[Any, Any], Any]


class ObjectReductions(Objects):
    """The part of Comm that this file is about."""

    __slots__ = ()

    def reduce(self, sendobj: Any, op: Combine = SUM, root: int = 0) -> Any | None:
        """The ranks' objects combined in rank order, at `root`; None elsewhere."""
        _, others, inter = self._sizes()
        if not rc.fast_reduce:
            objects = self.gather(sendobj, root)
            return None if objects is None else fold(op, objects)
        context = _context.of(self)
        comm, tag = context.duplicate(self)
        if not inter:
            return _reduced(sendobj, op, root, comm, tag)
        local = context.local(self)[0]
        if root == PROC_NULL:
            return None
        if root == ROOT:
            return _received(comm, 0, tag)
        if not 0 <= root < others:
            self._refuse_root()
        whole = _reduced(sendobj, op, 0, local, tag)
        if self.Get_rank() == 0:
            _send(whole, comm, root, tag)
        return None

    def allreduce(self, sendobj: Any, op: Combine = SUM) -> Any:
        """As reduce, with the result on every rank.

        On an intercommunicator each group gets the result of the other one.
        """
        if not rc.fast_reduce:
            return fold(op, self.allgather(sendobj))
        context = _context.of(self)
        comm, tag = context.duplicate(self)
        if not self._sizes()[2]:
            return comm.bcast(_reduced(sendobj, op, 0, comm, tag))
        local = context.local(self)[0]
        whole = _reduced(sendobj, op, 0, local, tag)
        if self.Get_rank() == 0:
            whole = _swapped(whole, comm, 0, tag)
        return local.bcast(whole)

    def _refuse_root(self) -> None:
        lib.MPI_Comm_call_errhandler(self._h, lib.MPI_ERR_ROOT)
        raise MPIException(lib.MPI_ERR_ROOT)


class ObjectScans(ObjectReductions):
    """The part of Intracomm that this file is about."""

    __slots__ = ()

    def scan(self, sendobj: Any, op: Combine = SUM) -> Any:
        """On rank i the objects of ranks 0 to i combined."""
        if not rc.fast_reduce:
            objects = self.gather(sendobj, 0)
            return self.scatter(objects and list(accumulate(objects, op)), 0)
        return _scanned(sendobj, op, *_context.of(self).duplicate(self))[0]

    def exscan(self, sendobj: Any, op: Combine = SUM) -> Any:
        """As scan without rank i's own; None on rank 0."""
        if not rc.fast_reduce:
            objects = self.gather(sendobj, 0)
            sums = objects and [None, *accumulate(objects[:-1], op)]
            return self.scatter(sums, 0)
        return _scanned(sendobj, op, *_context.of(self).duplicate(self))[1]


def _reduced(obj: Any, op: Combine, root: int, comm: Any, tag: int) -> Any | None:
    """The objects of all ranks combined, at `root`."""
    rank, size = comm.Get_rank(), comm.Get_size()
    if not 0 <= root < size:
        comm._refuse_root()
    whole, bit = copied(pickle.dumps(obj)), 1
    while bit < size:
        if rank & bit:
            _send(whole, comm, rank - bit, tag)
            break
        if rank + bit < size:
            whole = op(whole, _received(comm, rank + bit, tag))
        bit *= 2
    if root and rank == 0:
        _send(whole, comm, root, tag)
    elif root and rank == root:
        whole = _received(comm, 0, tag)
    return whole if rank == root else None


def _scanned(obj: Any, op: Combine, comm: Any, tag: int) -> tuple[Any, Any]:
    """The objects of the ranks up to this one combined; and of those before it.

    Each round a rank swaps what its block of ranks has with the block beside,
    and the two are one block in the next round.
    """
    rank, size = comm.Get_rank(), comm.Get_size()
    with_own = whole = copied(pickle.dumps(obj))
    before, any_before, bit = None, False, 1
    while bit < size:
        other = rank ^ bit
        if other < size:
            theirs = _swapped(whole, comm, other, tag)
            if other > rank:
                whole = op(whole, theirs)
            else:
                whole, with_own = op(theirs, whole), op(theirs, with_own)
                before = op(theirs, before) if any_before else theirs
                any_before = True
        bit *= 2
    return with_own, before


def _send(obj: Any, comm: Any, dest: int, tag: int) -> None:
    sent(lib.MPI_Send_c, packed(obj), dest, tag, comm._h)


def _received(comm: Any, source: int, tag: int) -> Any:
    return receive(comm._h, source, tag, lib.MPI_STATUS_IGNORE)


def _swapped(obj: Any, comm: Any, other: int, tag: int) -> Any:
    """Sends an object to a rank that does the same; the one it sends."""
    data = packed(obj)
    request = Request._started(data)
    sent(lib.MPI_Isend_c, data, other, tag, comm._h, request._p)
    theirs = _received(comm, other, tag)
    request.Wait()
    return theirs
