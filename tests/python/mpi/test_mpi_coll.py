# SPDX-License-Identifier: MIT
"""Collective operations on buffers, against what numpy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tbmpi import MPI

pytestmark = pytest.mark.mpi

SIZES = (1, 3, 1000, 50_000)


@pytest.fixture(params=["blocking", "nonblocking"])
def call(request: pytest.FixtureRequest, comm: Any) -> Any:
    """Calls a collective by name, or its I-variant with a wait."""

    def run(name: str, *args: Any, **more: Any) -> None:
        if request.param == "blocking":
            getattr(comm, name)(*args, **more)
        else:
            getattr(comm, "I" + name.lower())(*args, **more).Wait()

    return run


def everyone(comm: Any, count: int) -> np.ndarray:
    """Row r is what rank r contributes."""
    return np.arange(comm.size * count, dtype="d").reshape(comm.size, count) % 101


def test_barrier(call: Any) -> None:
    call("Barrier")


@pytest.mark.parametrize("count", SIZES)
def test_bcast(comm: Any, call: Any, count: int) -> None:
    for root in range(comm.size):
        data = everyone(comm, count)[comm.rank].copy()
        call("Bcast", data, root=root)
        assert np.array_equal(data, everyone(comm, count)[root])


@pytest.mark.parametrize("count", SIZES)
def test_gather_and_scatter(comm: Any, call: Any, count: int) -> None:
    rows = everyone(comm, count)
    for root in range(comm.size):
        into = np.zeros_like(rows) if comm.rank == root else None
        call("Gather", rows[comm.rank], into, root)
        if comm.rank == root:
            assert np.array_equal(into, rows)
        part = np.zeros(count)
        call("Scatter", rows if comm.rank == root else None, part, root)
        assert np.array_equal(part, rows[comm.rank])


def test_gather_and_scatter_of_any_size(comm: Any, call: Any) -> None:
    counts = [2 * r + 1 for r in range(comm.size)]
    places = np.cumsum([0, *counts[:-1]]) + np.arange(comm.size)  # gaps of one
    whole = np.full(sum(counts) + comm.size, -1.0)
    mine = np.full(counts[comm.rank], comm.rank + 0.5)
    call("Gatherv", mine, [whole, counts, places, MPI.DOUBLE], 0)
    if comm.rank == 0:
        for r, (count, place) in enumerate(zip(counts, places, strict=True)):
            assert (whole[place : place + count] == r + 0.5).all()
            assert whole[place + count] == -1.0
    back = np.zeros(counts[comm.rank])
    call("Scatterv", [whole, (counts, places), MPI.DOUBLE], back, 0)
    assert np.array_equal(back, mine)


@pytest.mark.parametrize("count", SIZES)
def test_allgather_and_alltoall(comm: Any, call: Any, count: int) -> None:
    rows = everyone(comm, count)
    into = np.zeros_like(rows)
    call("Allgather", rows[comm.rank], into)
    assert np.array_equal(into, rows)
    out = rows + 1000.0 * comm.rank
    call("Alltoall", out, into)
    assert np.array_equal(
        into, rows[comm.rank] + 1000.0 * np.arange(comm.size)[:, None]
    )


def test_allgather_in_place(comm: Any, call: Any) -> None:
    whole = np.zeros((comm.size, 4))
    whole[comm.rank] = comm.rank + 1
    call("Allgather", MPI.IN_PLACE, whole)
    assert np.array_equal(
        whole, np.repeat(np.arange(1.0, comm.size + 1), 4).reshape(-1, 4)
    )


def test_allgatherv_deals_evenly(comm: Any, call: Any) -> None:
    total = 2 * comm.size + 1
    counts = [3, *([2] * (comm.size - 1))]
    whole = np.zeros(total, "i")
    call("Allgatherv", np.full(counts[comm.rank], comm.rank, "i"), whole)
    assert np.array_equal(whole, np.repeat(np.arange(comm.size), counts))


def test_alltoallv(comm: Any, call: Any) -> None:
    sends = [comm.rank + r for r in range(comm.size)]
    out = np.concatenate(
        [np.full(n, 10.0 * comm.rank + r) for r, n in enumerate(sends)]
    )
    into = np.zeros(sum(sends))
    call("Alltoallv", [out, sends], [into, sends])
    expected = [np.full(n, 10.0 * r + comm.rank) for r, n in enumerate(sends)]
    assert np.array_equal(into, np.concatenate(expected))


def test_alltoallw(comm: Any, call: Any) -> None:
    n = comm.size
    out, into = np.arange(n, dtype="i") + 100 * comm.rank, np.zeros(n, "i")
    places, kinds = [4 * r for r in range(n)], [MPI.INT] * n
    call("Alltoallw", [out, [1] * n, places, kinds], [into, ([1] * n, places), kinds])
    assert np.array_equal(into, 100 * np.arange(n) + comm.rank)


@pytest.mark.parametrize("code", "bhilqBHILQfdFD")
def test_sum_of_types(comm: Any, code: str) -> None:
    into = np.zeros(5, code)
    comm.Allreduce(np.arange(5).astype(code), into)
    assert np.array_equal(into, (np.arange(5) * comm.size).astype(code))


@pytest.mark.parametrize("count", SIZES)
def test_reductions(comm: Any, call: Any, count: int) -> None:
    rows = everyone(comm, count)
    for op, expected in (
        (MPI.SUM, rows.sum(0)),
        (MPI.MAX, rows.max(0)),
        (MPI.MIN, rows.min(0)),
    ):
        into = np.zeros(count)
        call("Allreduce", rows[comm.rank], into, op)
        assert np.array_equal(into, expected)
        root = comm.size - 1
        into[:] = -1
        call("Reduce", rows[comm.rank], into if comm.rank == root else None, op, root)
        assert np.array_equal(
            into, expected if comm.rank == root else np.full(count, -1.0)
        )


def test_reductions_in_place(comm: Any, call: Any) -> None:
    n = comm.size
    data = np.full(3, comm.rank + 1.0)
    call("Allreduce", MPI.IN_PLACE, data, MPI.PROD)
    assert data[0] == np.prod(np.arange(1.0, n + 1))
    data = np.full(3, comm.rank + 1.0)
    if comm.rank == 0:
        call("Reduce", MPI.IN_PLACE, data)
        assert (data == n * (n + 1) / 2).all()
    else:
        call("Reduce", data, None)


def test_reduce_scatter(comm: Any, call: Any) -> None:
    rows = everyone(comm, 2)
    into = np.zeros(2)
    call("Reduce_scatter_block", rows + comm.rank, into)
    extra = comm.size * (comm.size - 1) / 2
    assert np.array_equal(into, rows[comm.rank] * comm.size + extra)
    counts = [r + 1 for r in range(comm.size)]
    into = np.zeros(counts[comm.rank])
    for given in (counts, None):
        call("Reduce_scatter", np.ones(sum(counts)), into, given)
        assert (into == comm.size).all()


def test_scans(comm: Any, call: Any) -> None:
    into = np.full(2, -1.0)
    call("Exscan", np.full(2, comm.rank + 1.0), into)
    assert into[0] == (comm.rank * (comm.rank + 1) / 2 if comm.rank else -1.0)
    call("Scan", np.full(2, comm.rank + 1.0), into)
    assert (into == (comm.rank + 1) * (comm.rank + 2) / 2).all()


def test_minloc(comm: Any) -> None:
    kind = np.dtype([("value", "d"), ("place", "i")], align=True)
    mine, best = np.array((float(comm.rank % 2), comm.rank), kind), np.zeros((), kind)
    comm.Allreduce([mine, 1, MPI.DOUBLE_INT], [best, 1, MPI.DOUBLE_INT], MPI.MAXLOC)
    expected = (1.0, 1) if comm.size > 1 else (0.0, 0)
    assert (float(best["value"]), int(best["place"])) == expected


def test_operation_in_python(comm: Any) -> None:
    def wrapped(a: Any, b: Any, datatype: Any) -> None:
        assert datatype == MPI.INT
        into = np.frombuffer(b, "i")
        into[:] = (np.frombuffer(a, "i") + into) % 7

    op = MPI.Op.Create(wrapped, commute=True)
    assert op.is_commutative
    into = np.zeros(100, "i")
    comm.Allreduce(np.full(100, 5, "i") + comm.rank, into, op)
    assert (into == sum(5 + r for r in range(comm.size)) % 7).all()
    op.Free()
    assert op == MPI.OP_NULL


def test_what_does_not_fit(comm: Any) -> None:
    with pytest.raises(ValueError, match="count differ: 3 and 2"):
        comm.Allreduce(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="datatype differ"):
        comm.Allreduce(np.zeros(3), np.zeros(3, "i"))
    if comm.size > 1:
        with pytest.raises(ValueError, match="multiple of the"):
            comm.Allgather(np.zeros(1), np.zeros(comm.size + 1))
    with pytest.raises(ValueError, match=f"expected {comm.size} counts"):
        comm.Allgatherv(np.zeros(1), [np.zeros(9), [1] * (comm.size + 1)])
    with pytest.raises(MPI.Exception) as caught:
        comm.Bcast(np.zeros(1), root=comm.size)
    assert caught.value.error_class == MPI.ERR_ROOT
