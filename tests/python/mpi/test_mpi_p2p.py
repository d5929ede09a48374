# SPDX-License-Identifier: MIT
"""Messages between two ranks, in all modes."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from tbmpi import MPI

pytestmark = pytest.mark.mpi(min_size=2)

SIZES = (0, 1, 100, 5000, 300_000)
TYPES = "?bhilqBHILQfdFD"


def ring(comm: Any) -> tuple[int, int]:
    """The ranks below and above, around the end."""
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


@pytest.mark.parametrize("count", SIZES)
def test_send_and_recv(comm: Any, count: int) -> None:
    below, above = ring(comm)
    out = np.arange(count) + 1000.0 * comm.rank
    into = np.full(count, -1.0)
    if comm.rank % 2 == 0 and above != comm.rank:
        comm.Send(out, dest=above, tag=3)
        comm.Recv(into, source=below, tag=3)
    else:
        comm.Recv(into, source=below, tag=3)
        comm.Send(out, dest=above, tag=3)
    assert np.array_equal(into, np.arange(count) + 1000.0 * below)


@pytest.mark.parametrize("code", TYPES)
def test_types_of_numpy(comm: Any, code: str) -> None:
    below, above = ring(comm)
    out = (np.arange(10) + comm.rank).astype(code)
    into = np.zeros(10, code)
    comm.Sendrecv(out, above, 0, into, below, 0)
    assert np.array_equal(into, (np.arange(10) + below).astype(code))


@pytest.mark.parametrize("mode", ["Isend", "Issend", "Ibsend", "Irsend"])
def test_nonblocking(comm: Any, mode: str) -> None:
    below, above = ring(comm)
    if mode == "Ibsend":
        MPI.Attach_buffer(bytearray(100_000 + MPI.BSEND_OVERHEAD))
    into = np.zeros(1000)
    received = comm.Irecv(into, below)
    comm.Barrier()
    sent = getattr(comm, mode)(np.full(1000, comm.rank + 0.5), above)
    MPI.Request.Waitall([received, sent])
    if mode == "Ibsend":
        MPI.Detach_buffer()
    assert (into == below + 0.5).all()
    assert received == MPI.REQUEST_NULL
    assert not sent


def test_a_request_keeps_its_buffer(comm: Any) -> None:
    below, above = ring(comm)
    requests = [comm.Isend(np.full(200_000, float(i)), above, i) for i in range(5)]
    into = [np.empty(200_000) for _ in range(5)]
    for i in range(5):
        comm.Recv(into[i], below, i)
    MPI.Request.Waitall(requests)
    assert [one[-1] for one in into] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_status(comm: Any) -> None:
    below, above = ring(comm)
    status = MPI.Status()
    sent = comm.Isend(np.arange(7, dtype="i"), above, tag=11)
    into = np.zeros(20, "i")
    comm.Recv(into, status=status)
    sent.Wait()
    assert (status.source, status.tag) == (below, 11)
    assert status.Get_count(MPI.INT) == 7
    assert status.count == 28
    assert MPI.Status(status) == status


def test_probes(comm: Any) -> None:
    below, above = ring(comm)
    sent = comm.Isend([np.arange(4.0), MPI.DOUBLE], above, tag=5)
    status = MPI.Status()
    assert comm.Probe(below, 5, status) is True
    assert status.Get_count(MPI.DOUBLE) == 4
    assert comm.Iprobe(below, 5)
    assert not comm.Iprobe(below, 6)
    message = comm.Mprobe(below, 5)
    into = np.zeros(4)
    message.Recv(into)
    sent.Wait()
    assert message == MPI.MESSAGE_NULL
    assert comm.Improbe(below, 5) is None
    assert into.tolist() == [0, 1, 2, 3]


def test_order_of_messages(comm: Any) -> None:
    if comm.rank == 0:
        for i in range(100):
            comm.Send(array("i", [i]), 1, tag=i % 3)
    elif comm.rank == 1:
        seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
        one, status = array("i", [0]), MPI.Status()
        for _ in range(100):
            comm.Recv(one, 0, MPI.ANY_TAG, status)
            seen[status.tag].append(one[0])
        assert all(seen[tag] == list(range(tag, 100, 3)) for tag in seen)


def test_persistent(comm: Any) -> None:
    below, above = ring(comm)
    out, into = np.zeros(10), np.zeros(10)
    pair = [comm.Send_init(out, above), comm.Recv_init(into, below)]
    for k in range(3):
        out[:] = 10 * k + comm.rank
        MPI.Prequest.Startall(pair)
        MPI.Request.Waitall(pair)
        assert (into == 10 * k + below).all()
    for request in pair:
        request.Free()


def test_wait_any_and_some(comm: Any) -> None:
    below, above = ring(comm)
    into = np.zeros((4, 1))
    receives = [comm.Irecv(into[i], below, i) for i in range(4)]
    sends = [comm.Isend(np.array([i + 0.5]), above, i) for i in range(4)]
    first = MPI.Request.Waitany(receives)
    assert into[first, 0] == first + 0.5
    done = {first}
    while (some := MPI.Request.Waitsome(receives)) is not None:
        done.update(some)
    assert done == {0, 1, 2, 3}
    assert MPI.Request.Testall(receives)
    assert MPI.Request.Waitany(receives) == MPI.UNDEFINED
    MPI.Request.Waitall(sends)


def test_proc_null(comm: Any) -> None:
    status, into = MPI.Status(), np.full(3, 7.0)
    comm.Send(None, MPI.PROC_NULL)
    comm.Recv(into, MPI.PROC_NULL, status=status)
    assert (into == 7.0).all()
    assert (status.source, status.count) == (MPI.PROC_NULL, 0)
    assert comm.recv(source=MPI.PROC_NULL) is None


def test_replace(comm: Any) -> None:
    below, above = ring(comm)
    both = np.full(5, float(comm.rank))
    comm.Sendrecv_replace(both, above, source=below)
    assert (both == below).all()


def test_cancel(comm: Any) -> None:
    status = MPI.Status()
    request = comm.Irecv(np.zeros(1), 0, 77)
    request.Cancel()
    request.Wait(status)
    assert status.Is_cancelled()


def test_truncation(comm: Any) -> None:
    below, above = ring(comm)
    sent = comm.Isend(np.zeros(10), above)
    with pytest.raises(MPI.Exception) as caught:
        comm.Recv(np.zeros(5), below)
    sent.Wait()
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    assert caught.value == int(caught.value)
