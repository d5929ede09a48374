# SPDX-License-Identifier: MIT
"""Array interfaces and DLPack capsules that lie: an exception, never a crash."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tbmpi import MPI, _foreign, buffers

EXAMPLES = int(os.environ.get("TBMPI_FUZZ_EXAMPLES", "100"))
REFUSALS = (BufferError, TypeError, ValueError, KeyError, OverflowError)
QUICK = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
MEMORY = (ctypes.c_char * 4096)()
WHERE = ctypes.addressof(MEMORY)
EDGES = [0, 1, 2, 3, 8, -1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63)]

numbers = st.one_of(st.sampled_from(EDGES), st.integers(-4, 20))
anything = st.one_of(
    st.none(), numbers, st.text(max_size=3), st.lists(numbers, max_size=2)
)
shapes = st.one_of(st.lists(numbers, max_size=4).map(tuple), anything)
kinds = st.one_of(
    st.sampled_from(["<f8", ">i4", "|b1", "|u1", "<c16", "<f2", "|V7", "<i-4", "<U3"]),
    anything,
)
interfaces = st.fixed_dictionaries(
    {},
    optional={
        "data": st.one_of(st.tuples(st.just(WHERE), st.booleans()), anything),
        "typestr": kinds,
        "shape": shapes,
        "strides": shapes,
        "mask": st.none(),
        "descr": anything,
        "version": st.just(3),
    },
)


@pytest.fixture(autouse=True, scope="module")
def _mpi_is_there() -> None:
    assert MPI.Is_initialized()


class Thing:
    """An object with an array interface."""

    def __init__(self, interface: Any) -> None:
        self.__array_interface__ = interface


def look(thing: Any) -> None:
    """What is let through makes sense, and a message can be made of it."""
    try:
        region = _foreign.region(thing)
    except REFUSALS:
        return
    assert region is not None
    assert region.size >= 0
    assert region.itemsize >= 1
    try:
        buffers.block(thing, False)
    except REFUSALS:
        return


@pytest.mark.filterwarnings("ignore:.*ignoring 'descr'")
@QUICK
@given(st.one_of(interfaces, anything))
def test_array_interfaces(interface: Any) -> None:
    look(Thing(interface))


class Tensor(ctypes.Structure):
    """A DLManagedTensor of DLPack before version 1."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Capsuled:
    """An object that exports a tensor."""

    def __init__(self, tensor: Tensor, name: bytes, device: Any) -> None:
        self.tensor, self.name, self.device = tensor, name, device

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), self.name, None)

    def __dlpack_device__(self) -> Any:
        return self.device


@QUICK
@given(
    st.lists(numbers, max_size=4),
    st.one_of(st.none(), st.lists(numbers, min_size=4, max_size=4)),
    st.tuples(st.sampled_from([0, 1, 2, 4, 5, 6, 200]), st.integers(0, 255)),
    st.sampled_from([0, 1, 2, 65535]),
    st.sampled_from([0, 0, 0, -1, 65, 2**31 - 1]),
    st.sampled_from([b"dltensor", b"dltensor", b"used_dltensor", b"other"]),
    st.one_of(st.just((1, 0)), st.tuples(numbers, numbers), anything),
)
def test_capsules(
    shape: list[int],
    strides: list[int] | None,
    kind: tuple[int, int],
    lanes: int,
    dimensions: int,
    name: bytes,
    device: Any,
) -> None:
    lengths = (ctypes.c_int64 * 4)(*shape)
    steps = (ctypes.c_int64 * 4)(*strides) if strides is not None else None
    tensor = Tensor(
        data=WHERE,
        device_type=1,
        ndim=dimensions or len(shape),
        code=kind[0],
        bits=kind[1],
        lanes=lanes,
        shape=ctypes.addressof(lengths),
        strides=ctypes.addressof(steps) if steps is not None else None,
    )
    look(Capsuled(tensor, name, device))
