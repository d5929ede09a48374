# SPDX-License-Identifier: MIT
"""Messages of Python objects."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tbmpi import MPI, rc

pytestmark = pytest.mark.mpi

OBJECTS = [None, 7, "text", {"a": [1, 2.5]}, b"", list(range(50_000)), 1 << 200]


@pytest.mark.parametrize("matched", [True, False])
@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: type(obj).__name__)
def test_send_and_recv(comm: Any, obj: Any, matched: bool) -> None:
    below, above = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    rc.recv_mprobe = matched
    status = MPI.Status()
    request = comm.isend((comm.rank, obj), above, tag=9)
    try:
        assert comm.recv(source=below, status=status) == (below, obj)
    finally:
        rc.recv_mprobe = True
    assert request.wait() is None
    assert (status.source, status.tag) == (below, 9)


def test_other_ways_to_receive(comm: Any) -> None:
    rank = comm.rank
    for receive in (
        lambda: comm.irecv(source=rank).wait(),
        lambda: comm.irecv(bytearray(1000), rank).wait(),
        lambda: comm.irecv(500, rank).wait(),
        lambda: comm.mprobe(rank).recv(),
        lambda: comm.mprobe(rank).irecv().wait(),
        lambda: MPI.Request.waitall([comm.irecv(source=rank)])[0],
        lambda: MPI.Request.waitany([comm.irecv(source=rank)])[1],
    ):
        request = comm.isend({"rank": rank}, rank)
        assert receive() == {"rank": rank}
        request.wait()
    assert comm.sendrecv("x", rank, source=rank) == "x"
    request = comm.isend(4, rank)
    pending = comm.irecv(source=rank)
    while not (answer := pending.test())[0]:
        pass
    assert answer == (True, 4)
    request.wait()


def test_irecv_says_what_to_do(comm: Any) -> None:
    request = comm.isend(bytes(1000), comm.rank)
    with pytest.raises(MPI.Exception) as caught:
        comm.irecv(100, comm.rank).wait()
    request.Wait()
    assert caught.value == MPI.ERR_TRUNCATE
    assert "irecv reserved 100 bytes" in caught.value.__notes__[0]


def test_collectives(comm: Any) -> None:
    n, rank = comm.size, comm.rank
    everyone = [("object", r, "x" * r) for r in range(n)]
    comm.barrier()
    for root in range(n):
        assert comm.bcast(everyone[rank], root) == everyone[root]
        gathered = comm.gather(everyone[rank], root)
        assert gathered == (everyone if rank == root else None)
        assert comm.scatter(everyone if rank == root else None, root) == everyone[rank]
    assert comm.allgather(everyone[rank]) == everyone
    assert comm.alltoall([(rank, r) for r in range(n)]) == [(r, rank) for r in range(n)]


def test_reductions(comm: Any) -> None:
    n, rank = comm.size, comm.rank
    assert comm.allreduce(rank + 1) == n * (n + 1) // 2
    assert comm.allreduce(rank, MPI.MAX) == n - 1
    assert comm.allreduce((rank % 2, rank), MPI.MINLOC) == (0, 0)
    assert comm.reduce(str(rank), operator.add) == (
        "".join(map(str, range(n))) if rank == 0 else None
    )
    array = comm.allreduce(np.full(3, rank + 1))
    assert (array == n * (n + 1) // 2).all()
    assert comm.scan(rank + 1) == (rank + 1) * (rank + 2) // 2
    assert comm.exscan(rank + 1) == (rank * (rank + 1) // 2 if rank else None)


def test_scatter_needs_one_object_a_rank(comm: Any) -> None:
    if comm.size == 1:
        with pytest.raises(
            ValueError, match="expected 1 objects, one for each rank, got 3"
        ):
            comm.scatter([1, 2, 3])


def test_another_pickle(comm: Any) -> None:
    original = MPI.pickle.dumps, MPI.pickle.loads
    MPI.pickle.__init__(
        lambda obj: repr(obj).encode(), lambda data: bytes(data).decode()
    )
    try:
        assert comm.bcast([1, 2] if comm.rank == 0 else None) in ("[1, 2]", [1, 2])
        assert set(comm.allgather(3)) == {"3"}
    finally:
        MPI.pickle.__init__()
    assert original[0].__self__ is MPI.pickle
    assert comm.allgather(3)[0] == 3


def test_task_farm(comm: Any) -> None:
    """As schwimmbad's MPIPool does it: any source, tags, one master."""
    tasks = list(range(20))
    if comm.rank > 0:
        status = MPI.Status()
        while (task := comm.recv(source=0, tag=MPI.ANY_TAG, status=status)) is not None:
            comm.ssend((task, task * task), 0, status.tag)
        return
    results, waiting, busy = {}, list(tasks), 0
    status = MPI.Status()
    for worker in range(1, comm.size):
        comm.send(waiting.pop(), worker, 1)
        busy += 1
    while busy:
        task, square = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        results[task] = square
        if waiting:
            comm.send(waiting.pop(), status.source, 1)
        else:
            comm.send(None, status.source)
            busy -= 1
    if comm.size > 1:
        assert results == {task: task * task for task in tasks}
