# SPDX-License-Identifier: MIT
"""Arrays of every dtype of MLX that every rank knows of all the others."""

from __future__ import annotations

from functools import reduce
from typing import Any

import mlx.core as mx
import numpy as np

DTYPES = [
    mx.bool_, mx.int8, mx.uint8, mx.int16, mx.uint16, mx.int32, mx.uint32, mx.int64,
    mx.uint64, mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64,
]  # fmt: skip
SHAPES: list[tuple[int, ...]] = [(), (1,), (3, 5), (2, 3, 7), (70_000,)]


def short(value: Any) -> str:
    """A name for a test's parameter."""
    if isinstance(value, mx.Dtype):
        return str(value).removeprefix("mlx.core.")
    return "x".join(map(str, value)) or "scalar"


def made(rank: int, shape: tuple[int, ...], dtype: mx.Dtype) -> np.ndarray:
    """The values of a rank: whole numbers so small that every dtype adds them up."""
    draw = np.random.default_rng(1000 + rank)
    if dtype == mx.bool_:
        return draw.integers(0, 2, shape) > 0
    values = draw.integers(0, 15, shape)
    if dtype == mx.complex64:
        return (values + 1j * draw.integers(0, 15, shape)).astype(np.complex64)
    return values


def given(rank: int, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    """The same values for MLX."""
    with mx.stream(mx.cpu):
        return mx.array(made(rank, shape, dtype)).astype(dtype)


def folded(ufunc: np.ufunc, ranks: int, shape: Any, dtype: mx.Dtype) -> np.ndarray:
    """What a reduction over the ranks gives, by numpy."""
    # Not ufunc.reduce, which counts truth values instead of adding them.
    return reduce(ufunc, [made(rank, shape, dtype) for rank in range(ranks)])


def same(found: mx.array, expected: np.ndarray, dtype: mx.Dtype) -> bool:
    """Whether an array has this dtype, shape and these values."""
    with mx.stream(mx.cpu):
        wide = found.astype(mx.float32) if dtype == mx.bfloat16 else found
    return (
        found.dtype == dtype
        and found.shape == expected.shape
        and np.array_equal(np.array(wide), expected)
    )
