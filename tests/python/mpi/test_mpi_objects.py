# SPDX-License-Identifier: MIT
"""Messages of Python objects."""

from __future__ import annotations

import operator
import threading
import time
from typing import Any

import numpy as np
import pytest

from tbmpi import COMM_SELF, MPI, rc

pytestmark = pytest.mark.mpi

OBJECTS = [None, 7, "text", {"a": [1, 2.5]}, b"", list(range(50_000)), 1 << 200]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: type(obj).__name__)
def test_send_and_recv(comm: Any, obj: Any) -> None:
    below, above = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    status = MPI.Status()
    request = comm.isend((comm.rank, obj), above, tag=9)
    assert comm.recv(source=below, status=status) == (below, obj)
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


def test_a_buffer_that_is_too_small_for_an_object(comm: Any) -> None:
    request = comm.isend(bytes(1000), comm.rank)
    with pytest.raises(MPI.Exception) as caught:
        comm.irecv(bytearray(100), comm.rank).wait()
    request.Wait()
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    assert "has 100 bytes: make it larger" in caught.value.__notes__[0]


def test_irecv_of_any_size(comm: Any) -> None:
    below, above = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for size in (10, 40_000, 3_000_000):
        requests = [comm.irecv(source=below, tag=tag) for tag in range(12)]
        out = [comm.isend(bytes(size) + bytes([tag]), above, tag) for tag in range(12)]
        got = MPI.Request.waitall(requests)
        assert [(len(one), one[-1]) for one in got] == [
            (size + 1, tag) for tag in range(12)
        ]
        MPI.Request.Waitall(out)


def arrays(rank: int) -> dict[str, Any]:
    """An object with two arrays that are sent apart, a small one and a large bytes."""
    return {
        "rank": rank,
        "large": np.full(100_000, rank, "d"),
        "fortran": np.asfortranarray(np.arange(60_000.0).reshape(200, 300) + rank),
        "small": np.arange(5) + rank,
        "bytes": bytes(300_000),
    }


def same(one: Any, other: Any) -> bool:
    """Whether two such objects are equal, and the arrays can be written to."""
    assert all(one[k].flags.writeable for k in ("large", "fortran", "small"))
    return one.keys() == other.keys() and all(
        np.array_equal(one[key], other[key]) for key in one
    )


def test_arrays_in_objects(comm: Any) -> None:
    n, rank = comm.size, comm.rank
    below, above = (rank - 1) % n, (rank + 1) % n
    mine = arrays(rank)
    assert same(comm.sendrecv(mine, above, source=below), arrays(below))
    pending = comm.irecv(source=below)
    comm.send(mine, above) if n > 1 else comm.isend(mine, above).wait()
    assert same(pending.wait(), arrays(below))
    root = n - 1
    got = comm.bcast(mine, root)
    assert same(got, arrays(root)) and got["large"] is not mine["large"]
    assert all(map(same, comm.allgather(mine), map(arrays, range(n))))
    gathered = comm.gather(mine, root)
    assert gathered is None or all(map(same, gathered, map(arrays, range(n))))
    parts = [arrays(r) for r in range(n)] if rank == root else None
    assert same(comm.scatter(parts, root), mine)
    exchanged = comm.alltoall([arrays(rank * n + r) for r in range(n)])
    assert all(map(same, exchanged, (arrays(r * n + rank) for r in range(n))))
    total = comm.allreduce(mine["large"])
    assert (total == sum(range(n))).all()


def test_an_array_alone_does_not_keep_its_message() -> None:
    many = [np.full(50_000, k, "d") for k in range(20)]
    got = COMM_SELF.sendrecv(many, 0, source=0)
    assert all(one.base.nbytes < 2 * one.nbytes for one in got)
    one = COMM_SELF.bcast(many[3])
    assert (one == 3).all()


def test_more_than_two_gib(comm: Any) -> None:
    """On one rank only: it takes 2 GiB, and 2 more in the message's way."""
    if comm.size > 1:
        pytest.skip("takes 5 GiB a rank")
    size = 2**31 + 4097
    out = np.zeros(size, "u1")
    out[2**31] = out[-1] = 7
    got = comm.sendrecv(out, 0, source=0)
    assert (got.nbytes, got[2**31], got[-1], got[-2]) == (size, 7, 7, 0)


def test_out_of_band() -> None:
    pickle = MPI.Pickle(threshold=1000)
    data, buffers = pickle.dumps_oob([np.arange(1000), np.arange(10)])
    assert [type(one) for one in buffers] == [MPI.buffer]
    assert buffers[0].readonly and buffers[0].nbytes == 8000
    first, second = pickle.loads_oob(data, buffers)
    assert first.tolist() == list(range(1000)) and second.tolist() == list(range(10))
    assert (pickle.THRESHOLD, pickle.PROTOCOL) == (1000, 5)
    pickle.THRESHOLD = None
    assert pickle.THRESHOLD == 256 * 1024


def test_a_damaged_message() -> None:
    for data in (
        b"\0tbmpi\5\0" + (1 << 60).to_bytes(8, "little") + bytes(100),
        b"\0tbmpi\5\0"
        + (1).to_bytes(8, "little")
        + (1 << 50).to_bytes(8, "little") * 9,
    ):
        request = COMM_SELF.Isend([data, MPI.BYTE], 0)
        with pytest.raises(ValueError, match="damaged message"):
            COMM_SELF.recv()
        request.Wait()


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


@pytest.mark.parametrize("tree", [True, False], ids=["tree", "in turn"])
def test_reductions_keep_the_order(comm: Any, tree: bool) -> None:
    n, rank = comm.size, comm.rank
    rc.fast_reduce = tree
    try:
        names = [f"<{r}>" for r in range(n)]
        for root in range(n):
            whole = comm.reduce(names[rank], operator.add, root)
            assert whole == ("".join(names) if rank == root else None)
        assert comm.allreduce(names[rank], operator.add) == "".join(names)
        assert comm.scan(names[rank], operator.add) == "".join(names[: rank + 1])
        before = comm.exscan(names[rank], operator.add)
        assert before == ("".join(names[:rank]) if rank else None)
        assert comm.scan(None, lambda *_: None) is None
    finally:
        rc.fast_reduce = True


def test_reductions_do_not_change_what_is_given(comm: Any) -> None:
    mine = [comm.rank]
    whole = comm.allreduce(mine, operator.iadd)
    assert whole == list(range(comm.size)) and mine == [comm.rank]
    assert comm.allreduce(mine, operator.iadd) is not mine


def test_between_two_groups(comm: Any) -> None:
    if comm.size < 2:
        pytest.skip("needs two ranks")
    half = comm.size // 2
    low = comm.rank < half
    local = comm.Split(not low)
    inter = local.Create_intercomm(0, comm, half if low else 0)
    theirs = list(range(half, comm.size) if low else range(half))
    assert inter.allreduce(comm.rank) == sum(theirs)
    assert inter.allgather(comm.rank) == theirs
    mine = MPI.ROOT if local.rank == 0 else MPI.PROC_NULL
    answer = inter.reduce(comm.rank, MPI.MAX, mine if low else 0)
    assert answer == (max(theirs) if low and local.rank == 0 else None)
    assert inter.bcast("x" * 5000, mine if low else 0) == (None if low else "x" * 5000)
    duplicate, tag, own, lower = MPI._commctx_inter(inter)
    assert duplicate.Is_inter() and own.size == local.size
    assert len(set(local.allgather((tag, lower)))) == 1
    assert len(set(comm.allgather(lower))) == 2
    inter.Free()
    local.Free()


def test_contexts_go_with_their_communicator(comm: Any) -> None:
    own = comm.Dup()
    first, tag = MPI._commctx_intra(own)
    again, next_tag = MPI._commctx_intra(own)
    assert first == again and next_tag == tag + 1
    assert MPI._comm_lock(own, "k") is MPI._comm_lock(MPI.Intracomm(own), "k")
    assert "k" in MPI._comm_lock_table(own)
    assert MPI._commctx_intra(own.Dup())[0] != first
    own.Free()
    assert not first


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


def test_a_generalized_request_between_threads() -> None:
    request = MPI.Grequest.Start()
    waiting = threading.Thread(target=lambda: got.append(request.wait()))
    got: list[Any] = []
    waiting.start()
    time.sleep(0.05)
    request.complete({"answer": 42})
    waiting.join(30)
    assert got == [{"answer": 42}]


def test_a_landing_has_one_receive_at_a_time(comm: Any) -> None:
    request = comm.irecv(source=comm.rank)
    alias = MPI.Request(request)
    comm.isend("first", comm.rank).wait()
    assert (request.wait(), alias.wait()) == ("first", None)
    requests = [comm.irecv(source=comm.rank, tag=tag) for tag in range(3)]
    for tag in range(3):
        comm.isend(tag, comm.rank, tag).wait()
    assert MPI.Request.waitall(requests) == [0, 1, 2]


def test_threads_receive_at_the_same_time(comm: Any) -> None:
    """Each receives what is its own: a probe takes the message out of the queue."""
    count, got = 50, []
    threads = [
        threading.Thread(
            target=lambda: got.extend(comm.recv(source=comm.rank) for _ in range(count))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for k in range(3 * count):
        comm.send(k, comm.rank)
    for thread in threads:
        thread.join(60)
    assert sorted(got) == list(range(3 * count))
