# SPDX-License-Identifier: MIT
"""tbmpi.mlx: arrays of MLX over the Python API."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from conftest import DTYPES, SHAPES, folded, given, made, same, short

from tbmpi import COMM_WORLD, MPI
from tbmpi import mlx as tb

pytestmark = pytest.mark.mpi
RANK, SIZE = COMM_WORLD.rank, COMM_WORLD.size

REDUCTIONS = {
    tb.all_sum: np.add,
    tb.all_max: np.maximum,
    tb.all_min: np.minimum,
}


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3)], ids=short)
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
@pytest.mark.parametrize("call", REDUCTIONS, ids=lambda call: call.__name__)
def test_reductions(call: Any, dtype: mx.Dtype, shape: Any) -> None:
    found = call(given(RANK, shape, dtype))
    assert same(found, folded(REDUCTIONS[call], SIZE, shape, dtype), dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=short)
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_all_gather(dtype: mx.Dtype, shape: Any) -> None:
    parts = [np.atleast_1d(made(rank, shape, dtype)) for rank in range(SIZE)]
    found = tb.all_gather(given(RANK, shape, dtype))
    assert same(found, np.concatenate(parts), dtype)


@pytest.mark.parametrize("rows", [1, 50, 5000])
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_sum_scatter(dtype: mx.Dtype, rows: int) -> None:
    shape = (SIZE * rows, 3)
    found = tb.sum_scatter(given(RANK, shape, dtype))
    whole = folded(np.add, SIZE, shape, dtype)
    assert same(found, whole[RANK * rows : (RANK + 1) * rows], dtype)


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3)], ids=short)
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_send_and_recv(dtype: mx.Dtype, shape: Any) -> None:
    mine, partner = given(RANK, shape, dtype), RANK ^ 1
    if partner >= SIZE:
        return
    if partner > RANK:
        tb.send(mine, partner, tag=5)
        found = tb.recv_like(mine, partner, tag=6)
    else:
        found = tb.recv(shape, dtype, partner, tag=5)
        tb.send(mine, partner, tag=6)
    assert same(found, made(partner, shape, dtype), dtype)


def test_split_and_barrier() -> None:
    half = tb.split(RANK % 2, -RANK)
    members = sorted(range(RANK % 2, SIZE, 2), reverse=True)
    assert half.rank == members.index(RANK)
    found = tb.all_gather(mx.array([RANK]), half)
    assert found.tolist() == members
    tb.barrier(half)
    half.Free()
    tb.barrier()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[:, 1:3],
        lambda x: x[::2],
        lambda x: mx.broadcast_to(x[0], x.shape),
        lambda x: x * 2 + 1,
    ],
    ids=["transposed", "columns", "every other row", "broadcast", "lazy"],
)
def test_views_and_lazy_arrays(view: Any) -> None:
    values = [mx.arange(12).reshape(3, 4) + 100 * rank for rank in range(SIZE)]
    expected = sum(np.array(view(x)) for x in values)
    mine = view(values[RANK])
    assert np.array_equal(np.array(tb.all_sum(mine)), expected)
    every = tb.all_gather(mine[None])
    assert np.array_equal(np.array(every), np.stack([view(x) for x in values]))


def test_arguments_and_results_stay_apart() -> None:
    x = mx.full((1000,), RANK + 1.0)
    alias, waiting = x, x * 10
    total = tb.all_sum(x)
    again = tb.all_sum(total)
    assert mx.all(total == SIZE * (SIZE + 1) / 2).item()
    assert mx.all(again == SIZE * total).item()
    assert mx.all(alias == RANK + 1.0).item()
    assert mx.all(waiting == 10 * (RANK + 1.0)).item()


def test_what_does_not_fit() -> None:
    with pytest.raises(TypeError, match=r"expected an mx.array, not ndarray"):
        tb.all_sum(np.ones(3))
    with pytest.raises(TypeError, match=r"comm is an MPI\.Intracomm"):
        tb.barrier(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a multiple"):
        tb.sum_scatter(mx.array(1.0))
    if SIZE > 1:
        with pytest.raises(ValueError, match=f"not a multiple of the {SIZE} ranks"):
            tb.sum_scatter(mx.ones((SIZE + 1, 2)))
    with pytest.raises(MPI.Exception):
        tb.send(mx.ones(3), SIZE)
    request = COMM_WORLD.Isend(b"12345678", RANK)
    with pytest.raises(ValueError, match="8 bytes came"):
        tb.recv((4,), mx.float32, RANK)
    request.Wait()
