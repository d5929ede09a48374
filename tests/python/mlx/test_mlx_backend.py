# SPDX-License-Identifier: MIT
"""mx.distributed, unmodified, over its "mpi" backend."""

from __future__ import annotations

from functools import reduce
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from conftest import DTYPES, SHAPES, folded, given, made, same, short

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def world() -> Any:
    return mx.distributed.init(strict=True, backend="mpi")


@pytest.fixture(autouse=True)
def _on_cpu() -> Any:
    with mx.stream(mx.cpu):
        yield


REDUCTIONS = {
    "all_sum": np.add,
    "all_max": np.maximum,
    "all_min": np.minimum,
}


@pytest.mark.parametrize("shape", SHAPES, ids=short)
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(world: Any, name: str, dtype: mx.Dtype, shape: Any) -> None:
    found = getattr(mx.distributed, name)(given(world.rank(), shape, dtype))
    assert same(found, folded(REDUCTIONS[name], world.size(), shape, dtype), dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=short)
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_all_gather(world: Any, dtype: mx.Dtype, shape: Any) -> None:
    found = mx.distributed.all_gather(given(world.rank(), shape, dtype))
    parts = [np.atleast_1d(made(r, shape, dtype)) for r in range(world.size())]
    assert same(found, np.concatenate(parts), dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=short)
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_send_and_recv(world: Any, dtype: mx.Dtype, shape: Any) -> None:
    rank, partner = world.rank(), world.rank() ^ 1
    if partner >= world.size():
        return
    mine = given(rank, shape, dtype)
    if rank < partner:
        mx.eval(mx.distributed.send(mine, partner))
        found = mx.distributed.recv_like(mine, partner)
    else:
        found = mx.distributed.recv(mine.shape, dtype, partner)
        mx.eval(found)
        mx.eval(mx.distributed.send(mine, partner))
    assert same(found, made(partner, shape, dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_split(world: Any, dtype: mx.Dtype) -> None:
    rank, size = world.rank(), world.size()
    group = world.split(rank % 2, size - rank)
    members = sorted(range(rank % 2, size, 2), reverse=True)
    assert (group.rank(), group.size()) == (members.index(rank), len(members))
    mine = given(rank, (9,), dtype)
    total = mx.distributed.all_sum(mine, group=group)
    theirs = [made(member, (9,), dtype) for member in members]
    assert same(total, reduce(np.add, theirs), dtype)
    every = mx.distributed.all_gather(mine[None], group=group)
    assert same(every, np.stack(theirs), dtype)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short)
def test_halves_are_rounded_in_each_step(world: Any, dtype: mx.Dtype) -> None:
    values = [
        mx.random.normal((5000,), key=mx.random.key(rank)).astype(dtype)
        for rank in range(world.size())
    ]
    found = mx.distributed.all_sum(values[world.rank()]).astype(mx.float32)
    exact = sum(np.array(value.astype(mx.float32), float) for value in values)
    scale = sum(np.abs(np.array(value.astype(mx.float32))) for value in values)
    step = 2.0 ** (-11 if dtype == mx.float16 else -8)
    assert np.all(np.abs(np.array(found) - exact) <= step * world.size() * scale)
    everywhere = mx.distributed.all_gather(found[None])
    assert mx.all(everywhere == found).item()


def test_beside_the_python_api(world: Any) -> None:
    from tbmpi import COMM_WORLD

    pending = mx.distributed.all_sum(mx.ones(100))
    assert COMM_WORLD.allreduce(1) == world.size()
    assert mx.all(pending == world.size()).item()
    assert (COMM_WORLD.rank, COMM_WORLD.size) == (world.rank(), world.size())
