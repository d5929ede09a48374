# SPDX-License-Identifier: MIT
"""The quick way of a call gives what the Python function gives, or is not taken."""

from __future__ import annotations

import array
import inspect
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from tbmpi import MPI

Method = type(inspect.getattr_static(MPI.Comm, "Get_rank"))

COMM = MPI.COMM_SELF
QUICK = [
    (kind, name)
    for kind in (MPI.Intracomm, MPI.Request)
    for name in dir(kind)
    if isinstance(inspect.getattr_static(kind, name), Method)
]


class Unwritable:
    """Raises when it is asked for memory."""

    @property
    def __array_interface__(self) -> Any:
        raise ValueError("not today")


def messages() -> list[Any]:
    """Messages of all kinds, good and bad; new ones each time."""
    doubles = np.arange(4.0)
    fixed = np.arange(4.0)
    fixed.flags.writeable = False
    column = np.arange(12.0).reshape(3, 4)[:, 1]
    strange = np.dtype([("a", "i4"), ("b", "f8")])
    return [
        doubles, np.arange(4, dtype="i4"), np.float32(np.arange(4)), np.zeros(0),
        np.arange(4) + 1j, np.zeros(4, "e"), np.zeros(4, ">f8"), np.zeros(4, "M8[s]"),
        np.zeros(2, strange), np.zeros((2, 2), order="F"), column, fixed,
        bytearray(b"abcd"), b"abcd", memoryview(bytearray(8)),
        memoryview(bytearray(8))[::2], array.array("d", [1, 2, 3, 4]),
        MPI.buffer.allocate(8, True), MPI.BOTTOM, MPI.IN_PLACE, None, 3, "abcd",
        Unwritable(),
        [doubles, MPI.DOUBLE], (doubles, 3), [doubles, 3, MPI.DOUBLE],
        [doubles, 5, MPI.DOUBLE], [doubles, -1, MPI.DOUBLE], [doubles, None, "d"],
        [doubles, "d"], [doubles, (2, 1), MPI.DOUBLE], [doubles, 2, 1, MPI.DOUBLE],
        [doubles, MPI.DATATYPE_NULL], [doubles, MPI.DOUBLE_INT], [np.zeros(3, "i1"),
        MPI.INT], [None, 0, MPI.INT], [None, 1, MPI.INT], [fixed, 2, MPI.DOUBLE],
        [doubles, 2.0, MPI.DOUBLE], [doubles], [], [column, MPI.DOUBLE],
        [bytearray(32), MPI.DOUBLE], [doubles, True, MPI.DOUBLE],
        [doubles, 1 << 70, MPI.DOUBLE], [[1], 1, MPI.INT],
    ]  # fmt: skip


def outcome(call: Any, *args: Any, **more: Any) -> Any:
    """What a call returns or raises, and what it leaves in its buffers."""
    try:
        value = call(*args, **more)
    except Exception as error:
        return type(error), str(error), getattr(error, "error_class", 0)
    buffers = [thing for thing in args if isinstance(thing, np.ndarray)]
    return value, [thing.tolist() for thing in buffers]


def same(name: str, *args: Any, **more: Any) -> Any:
    """Asserts that the quick way and the Python function do the same."""
    method = inspect.getattr_static(MPI.Intracomm, name)
    arguments = [[arg() if callable(arg) else arg for arg in args] for _ in range(2)]
    quick = outcome(method, COMM, *arguments[0], **more)
    slow = outcome(method.__wrapped__, COMM, *arguments[1], **more)
    assert quick == slow, (name, arguments[0])
    return quick


def test_signatures_and_docstrings_are_the_functions() -> None:
    assert {"Send", "Wait", "Allreduce", "recv", "Get_rank"} <= {n for _, n in QUICK}
    for kind, name in QUICK:
        method = getattr(kind, name)
        function = method.__wrapped__
        assert inspect.signature(method) == inspect.signature(function)
        assert method.__doc__ == function.__doc__ and method.__name__ == name
        assert method.__module__ == function.__module__
        assert inspect.isroutine(method)
    assert list(inspect.signature(COMM.Send).parameters) == ["buf", "dest", "tag"]
    assert COMM.Send.__self__ is COMM


@pytest.mark.parametrize("name", ["Allreduce", "Reduce", "Allgather", "Alltoall"])
def test_two_messages(name: str) -> None:
    for i in range(len(messages())):
        same(name, lambda i=i: messages()[i], lambda i=i: messages()[i])
        same(name, lambda i=i: messages()[i], lambda: np.zeros(4))
        same(name, lambda: np.arange(4.0), lambda i=i: messages()[i])


@pytest.mark.parametrize("name", ["Gather", "Scatter"])
def test_rooted(name: str) -> None:
    for i in range(len(messages())):
        same(name, lambda i=i: messages()[i], lambda: np.zeros(4), 0)
        same(name, lambda: np.arange(4.0), lambda i=i: messages()[i], root=0)
    assert same(name, np.zeros(1), np.zeros(1), 1)[0] is MPI.Exception


def test_bcast() -> None:
    for i in range(len(messages())):
        same("Bcast", lambda i=i: messages()[i])
    for root in (0, 1, -1, MPI.PROC_NULL, 1.0, "0", None, 1 << 40, True):
        same("Bcast", np.arange(3.0), root)


def test_sends_to_nobody_and_to_wrong_ranks() -> None:
    for dest in (MPI.PROC_NULL, 1, -7, 0.0, None, 1 << 40):
        same("Send", lambda: np.zeros(3), dest)
        same("send", {"a": 1}, dest)
    for i in range(len(messages())):
        same("Send", lambda i=i: messages()[i], 1)
        same("Recv", lambda i=i: messages()[i], MPI.PROC_NULL)
        same("Sendrecv", lambda i=i: messages()[i], 0, 0, lambda: np.zeros(9), 0, 0)
        same("Sendrecv", lambda: np.arange(4.0), 0, 0, lambda i=i: messages()[i], 0, 0)


def test_arguments_that_do_not_fit() -> None:
    values = np.zeros(1)
    for args, more in (
        ((), {}), ((values,), {}), ((values, 0, 0, 0), {}), ((values, 0), {"tagg": 1}),
        ((values, 0), {"dest": 0}), ((values,), {"dest": 1, "tag": 1}),
    ):  # fmt: skip
        same("Send", *args, **more)
    assert same("Allreduce", values, np.zeros(1), 3)[0] is AttributeError
    with pytest.raises(AttributeError):
        MPI.Intracomm.Send(3, values, 0)


def test_status_is_filled() -> None:
    status = MPI.Status()
    request = COMM.Isend(np.arange(3.0), 0, 11)
    COMM.Recv(np.zeros(5), 0, MPI.ANY_TAG, status)
    assert request.Wait(status=None) is True
    assert (status.Get_tag(), status.source, status.Get_count(MPI.DOUBLE)) == (11, 0, 3)
    copy = MPI.Status(status)
    assert copy == status and copy.tag == 11
    copy.tag = 5
    assert status.tag == 11 and copy.Get_tag() == 5
    assert (MPI.Status().source, MPI.Status().tag) == (MPI.ANY_SOURCE, MPI.ANY_TAG)


def test_a_request_holds_its_buffer_as_long_as_needed() -> None:
    values = np.arange(3.0)
    gone = weakref.ref(values)
    request = COMM.Irecv(values, 0, 3)
    other = MPI.Request(request)
    del values
    assert gone() is not None and request and other == request
    COMM.Send(np.ones(3), 0, 3)
    assert request.Test() in (True, False)
    request.Wait()
    assert gone() is None and not request
    resizable = bytearray(8)
    request = COMM.Irecv(resizable, 0, 3)
    with pytest.raises(BufferError):
        resizable.append(1)
    COMM.Send(b"12345678", 0, 3)
    MPI.Request.Waitall([request])
    resizable.append(1)
    assert resizable[:8] == b"12345678"


def test_nothing_leaks() -> None:
    values, into, status = np.zeros(4), np.zeros(4), MPI.Status()
    listed = [values, 4, MPI.DOUBLE]

    def once() -> None:
        request = COMM.Irecv(into, 0, 1)
        COMM.Send(listed, dest=0, tag=1)
        request.Wait(status)
        COMM.Allreduce(values, into, op=MPI.MAX)
        COMM.Sendrecv(values, 0, 1, into, 0, 1, status)
        request = COMM.irecv(source=0)
        COMM.send({"a": [1, 2.5, None]}, 0)
        assert request.wait() == {"a": [1, 2.5, None]}
        with pytest.raises(MPI.Exception):
            COMM.Send(values, 5)

    things = (values, into, status, COMM, MPI.DOUBLE, MPI.MAX, None, listed)
    once()
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(300):
        once()
    after = [sys.getrefcount(thing) for thing in things]
    assert all(new - old < 100 for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "thing",
    [
        None, 1, "text", b"", 2.5, 1j, True, [], {}, (1, [2, {"a": (None,)}]), {1, 2},
        list(range(1000)), "x" * 5000, b"y" * 100_000, {"k": list("abc") * 40},
        [[[[[[1]]]]]], slice(1, 2), range(5), bytearray(b"12"),
    ],
)  # fmt: skip
def test_objects_come_as_they_went(thing: Any) -> None:
    request = COMM.irecv(source=0, tag=4)
    COMM.send(thing, 0, tag=4)
    assert request.wait() == thing
    request = COMM.isend(thing, 0, tag=4)
    status = MPI.Status()
    assert COMM.recv(None, 0, 4, status) == thing
    assert status.tag == 4
    request.wait()


class Holder:
    """An object that pickles by its attributes."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holder) and np.array_equal(self.values, other.values)


@pytest.mark.parametrize("count", [0, 1, 100, 5000, 100_000])
def test_arrays_and_what_holds_them_come_as_they_went(count: int) -> None:
    values = np.arange(float(count))
    for thing in (values, Holder(values), np.array([values, None], dtype=object)):
        request = COMM.irecv(source=0)
        COMM.send(thing, 0)
        got = request.wait()
        if isinstance(thing, Holder) or count == 0:
            assert isinstance(got, type(thing))
        elif thing.dtype != object:
            assert np.array_equal(got, thing)
        else:
            assert np.array_equal(got[0], values) and got[1] is None


def test_objects_with_large_arrays_come_as_they_went() -> None:
    for count in (1, 100, 5000, 100_000):
        values = {"a": np.arange(float(count)), "b": count}
        request = COMM.irecv(source=0)
        COMM.send(values, 0)
        got = request.wait()
        assert np.array_equal(got["a"], values["a"]) and got["b"] == count
        got["a"][0] = 5


def test_pickles_of_ones_own_are_used() -> None:
    import marshal

    try:
        MPI.pickle.__init__(marshal.dumps, marshal.loads, 4)
        request = COMM.isend([1, 2], 0)
        assert COMM.recv(source=0) == [1, 2]
        request.wait()
        with pytest.raises(ValueError, match="unmarshallable"):
            COMM.send([object()], 0)
    finally:
        MPI.pickle.__init__()
    with pytest.raises(TypeError):
        COMM.send([(i for i in ())], 0)


def test_overridden_methods_still_count() -> None:
    class Mine(MPI.Intracomm):
        def Get_rank(self) -> int:
            return super().Get_rank() + 40

        def Allreduce(self, *args: Any, **more: Any) -> None:
            self.Get_rank()
            super().Allreduce(*args, **more)

    mine, into = Mine(COMM), np.zeros(2)
    assert mine.Get_rank() == 40 and COMM.Get_rank() == 0
    mine.Allreduce(np.ones(2), into)
    assert into.tolist() == [1, 1]


def test_a_freed_communicator_is_refused() -> None:
    comm = COMM.Dup()
    comm.Allreduce(np.ones(1), np.zeros(1))
    comm.Free()
    for call in (
        lambda: comm.Allreduce(np.ones(1), np.zeros(1)),
        comm.Barrier,
        comm.Get_rank,
        lambda: comm.Send(np.ones(1), 0),
    ):
        with pytest.raises(MPI.Exception):
            call()
