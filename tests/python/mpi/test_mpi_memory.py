# SPDX-License-Identifier: MIT
"""Arrays in the library's memory."""

from __future__ import annotations

import gc
import resource
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import tbmpi
from tbmpi import MPI

pytestmark = pytest.mark.mpi
RECORD = np.dtype([("place", "f8", 3), ("name", "S5")])


@pytest.mark.parametrize("dtype", [float, "c16", "?", "i2", RECORD], ids=str)
@pytest.mark.parametrize("shape", [(), 5, (3, 4), (2, 0, 3), [2, 2]], ids=str)
def test_shape_and_values(shape: Any, dtype: Any) -> None:
    array = tbmpi.zeros(shape, dtype)
    expected = np.zeros(shape, dtype)
    assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
    assert array.tobytes() == expected.tobytes()
    assert array.flags.c_contiguous and array.flags.writeable
    assert tbmpi.empty(shape, dtype).nbytes == expected.nbytes


def test_messages(comm: Any) -> None:
    below, above = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for count in (1, 1000, 300_000):
        out, into = tbmpi.empty(count), tbmpi.zeros(count)
        out[:] = np.arange(count) + comm.rank
        comm.Sendrecv(out, above, 0, into, below, 0)
        assert np.array_equal(into, np.arange(count) + below)
        comm.Allreduce(out, into, MPI.MAX)
        assert np.array_equal(into, np.arange(count) + comm.size - 1)


def test_memory_is_freed_with_the_last_view() -> None:
    array = tbmpi.empty((10, 10))
    owner = array.base
    while isinstance(owner, np.ndarray):
        owner = owner.base
    alive = weakref.ref(owner)
    view = array[2:5, ::2]
    del array, owner
    gc.collect()
    assert alive() is not None
    view[...] = 1.0
    del view
    gc.collect()
    assert alive() is None


def test_memory_comes_back() -> None:
    mebibytes = 32
    for _ in range(24):
        tbmpi.zeros(mebibytes << 17)[0] = 1.0
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert most < 16 * (mebibytes << 20)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="negative shape"):
        tbmpi.empty((3, -1))
    with pytest.raises(ValueError, match="Python objects"):
        tbmpi.zeros(3, object)
    with pytest.raises((MPI.Exception, MemoryError, OverflowError, ValueError)):
        tbmpi.empty(1 << 62)
