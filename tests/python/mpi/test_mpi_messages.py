# SPDX-License-Identifier: MIT
"""What may be a message, and what is refused; datatypes. On one rank or many."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import numpy as np
import pytest

from tbmpi import COMM_SELF, COMM_WORLD, MPI
from tbmpi.buffers import block, vector

pytestmark = pytest.mark.mpi


def through(out: Any, into: Any) -> Any:
    """Sends to oneself."""
    COMM_SELF.Sendrecv(out, 0, 0, into, 0, 0)
    return into


@pytest.mark.parametrize(
    ("out", "into"),
    [
        (b"abc", bytearray(3)),
        (array("d", [1, 2, 3]), array("d", [0, 0, 0])),
        (memoryview(b"abc"), memoryview(bytearray(3))),
        ((ctypes.c_int * 3)(1, 2, 3), (ctypes.c_int * 3)()),
        (np.array(3.5), np.zeros(())),
        (np.zeros((0, 4)), np.zeros((0, 4))),
    ],
    ids=["bytes", "array", "memoryview", "ctypes", "scalar", "empty"],
)
def test_kinds_of_buffers(out: Any, into: Any) -> None:
    assert bytes(through(out, into)) == bytes(out)


def test_lists() -> None:
    out, into = np.arange(6.0), np.zeros(6)
    for message in (
        [into, MPI.DOUBLE],
        [into, "d"],
        [into, 6],
        [into, 6, MPI.DOUBLE],
        (into, (6, 0), MPI.DOUBLE),
        [into, 6, 0, "f8"],
        [into, None, MPI.DOUBLE],
    ):
        into[:] = 0
        through(out, message)
        assert np.array_equal(into, out)
    into[:] = 0
    through([out, 2, MPI.DOUBLE], [into, (2, 3), MPI.DOUBLE])
    assert into.tolist() == [0, 0, 0, 0, 1, 0]


def test_bottom() -> None:
    out, into = np.arange(3.0), np.zeros(3)
    kinds = []
    for one in (out, into):
        place = MPI.Get_address(one)
        kinds.append(MPI.Datatype.Create_struct([3], [place], [MPI.DOUBLE]).Commit())
    through([MPI.BOTTOM, 1, kinds[0]], [MPI.BOTTOM, 1, kinds[1]])
    assert np.array_equal(into, out)
    for kind in kinds:
        kind.Free()


def test_fortran_order_is_memory_order() -> None:
    out, into = (
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((2, 3), order="F"),
    )
    through(out, into)
    assert np.array_equal(into, out)


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (np.arange(10.0)[::2], BufferError, "not contiguous"),
        (np.broadcast_to(np.zeros(1), (1000,)), BufferError, "not contiguous"),
        (memoryview(bytes(10))[::2], BufferError, "not contiguous"),
        (3, TypeError, "not int"),
        ("text", TypeError, "lowercase methods"),
        (np.zeros(2, [("a", "i"), ("b", "d")]), KeyError, "no MPI datatype"),
        (np.zeros(2, "M8[s]"), KeyError, "no MPI datatype"),
        (np.zeros(2, ">i4" if np.little_endian else "<i4"), BufferError, "byte order"),
        (MPI.IN_PLACE, TypeError, "IN_PLACE has no meaning"),
        ([np.zeros(2), -1, MPI.DOUBLE], ValueError, "negative count"),
        ([np.zeros(2), (1, -1), MPI.DOUBLE], ValueError, "negative displacement"),
        ([np.zeros(2), (1, 9), MPI.DOUBLE], ValueError, "out of bounds"),
        ([None, 3, MPI.DOUBLE], ValueError, "None"),
        ([np.zeros(2)], ValueError, "2 to 4 items"),
        ([np.zeros(2), 1, "nonsense"], KeyError, "nonsense"),
        ([np.zeros(3, "i"), MPI.DOUBLE], ValueError, "multiple"),
        ([np.zeros(3), 1.5, MPI.DOUBLE], TypeError, "integer"),
        ([np.zeros(3), MPI.DATATYPE_NULL], ValueError, "null"),
    ],
)
def test_refusals(message: Any, error: type[BaseException], text: str) -> None:
    with pytest.raises(error, match=text):
        COMM_SELF.Send(message, 0)


def test_receiving_needs_writable_memory() -> None:
    for message in (b"abc", memoryview(b"abc"), [b"abc", MPI.BYTE]):
        with pytest.raises(BufferError, match="read-only"):
            COMM_SELF.Recv(message, 0)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        COMM_SELF.Recv(frozen, 0)


def test_a_message_keeps_its_memory() -> None:
    data = bytearray(b"abcdef")
    address, count, _ = block([data, (2, 3), MPI.BYTE], writable=False)
    with pytest.raises(BufferError):
        data.extend(b"x")
    del address, count
    data.extend(b"x")


def test_vectors() -> None:
    data = np.zeros(7)
    _, counts, places, _ = vector(data, False, 3)
    assert (list(counts), list(places)) == ([3, 2, 2], [0, 3, 5])
    _, counts, places, _ = vector([data, 2], False, 3)
    assert (list(counts), list(places)) == ([2, 2, 2], [0, 2, 4])
    _, counts, places, _ = vector([data, (1, 2), MPI.DOUBLE], False, 3)
    assert (list(counts), list(places)) == ([1, 1, 1], [0, 2, 4])
    _, counts, places, _ = vector([data, np.array([1, 2, 3]), [4, 2, 0], "d"], False, 3)
    assert (list(counts), list(places)) == ([1, 2, 3], [4, 2, 0])


def test_formats_with_a_byte_order() -> None:
    little = (ctypes.c_int32.__ctype_le__ * 2)(5, 6)
    assert memoryview(little).format == "<i"
    assert list(through(little, (ctypes.c_int32.__ctype_le__ * 2)())) == [5, 6]


def test_derived_types() -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    column = MPI.DOUBLE.Create_vector(3, 1, 4)
    column.Commit()
    into = np.zeros(3)
    through([matrix[:, 1:].ravel()[:0], 0, MPI.DOUBLE], [into, 0, MPI.DOUBLE])
    through([matrix, 1, column], into)
    assert into.tolist() == matrix[:, 0].tolist()
    assert column.Get_size() == 24
    assert column.Get_extent() == (0, 72)
    part = MPI.DOUBLE.Create_subarray([3, 4], [2, 2], [1, 1]).Commit()
    into = np.zeros(4)
    through([matrix, 1, part], into)
    assert into.tolist() == matrix[1:, 1:3].ravel().tolist()
    wide = column.Create_resized(0, 8).Commit()
    into = np.zeros(12)
    through([matrix, 4, wide], into)
    assert np.array_equal(into, matrix.T.ravel())
    pair = MPI.INT.Create_contiguous(2).Commit()
    assert (pair.size, pair.extent, pair.combiner) == (8, 8, MPI.COMBINER_CONTIGUOUS)
    spots = MPI.INT.Create_indexed([1, 2], [0, 4]).Commit()
    into = np.zeros(3, "i")
    through([np.arange(10, dtype="i"), 1, spots], into)
    assert into.tolist() == [0, 4, 5]
    for kind in (column, part, wide, pair, spots):
        kind.Free()
        assert kind == MPI.DATATYPE_NULL


def test_pack() -> None:
    data = np.arange(5, dtype="i")
    packed = bytearray(MPI.INT.Pack_size(5, COMM_SELF))
    end = MPI.INT.Pack(data, packed, 0, COMM_SELF)
    back = np.zeros(5, "i")
    assert MPI.INT.Unpack(packed, 0, back, COMM_SELF) == end == 20
    assert np.array_equal(back, data)


def test_codes() -> None:
    assert MPI.Datatype.fromcode("d") == MPI.DOUBLE
    assert MPI.DOUBLE.tocode() == "d"
    assert MPI.INT32_T.tocode() == "i4"
    assert MPI.DOUBLE.is_predefined and MPI.DOUBLE.Get_name() == "MPI_DOUBLE"
    with pytest.raises(ValueError, match="cannot map"):
        MPI.Datatype.fromcode("nonsense")


@pytest.mark.skipif(
    "not MPI.FLOAT16_T", reason="16-bit floats are an extension of tbmpi"
)
def test_16_bit_floats() -> None:
    into = np.zeros(4, "e")
    COMM_SELF.Allreduce(np.arange(4, dtype="e"), into)
    assert into.tolist() == [0, 1, 2, 3]


def test_memory_of_the_library() -> None:
    memory = MPI.Alloc_mem(64)
    values = np.frombuffer(memory, "d")
    values[:] = 2.0
    into = np.zeros(8)
    through(values, into)
    assert (into == 2.0).all()
    del values
    MPI.Free_mem(memory)


def test_reduce_local() -> None:
    into = np.ones(3)
    MPI.SUM.Reduce_local(np.arange(3.0), into)
    assert into.tolist() == [1, 2, 3]


def test_more_operations_in_python_than_fit() -> None:
    made = []
    with pytest.raises(RuntimeError, match="no more fit"):
        while True:
            made.append(MPI.Op.Create(lambda a, b, kind: None))
    assert len(made) > 8
    for op in made:
        op.Free()
    MPI.Op.Create(lambda a, b, kind: None).Free()


# -------------------------------------------- counts and places beyond the buffer


def column(rows: int, columns: int) -> MPI.Datatype:
    """A column of a matrix of doubles, as wide as one element."""
    whole = MPI.DOUBLE.Create_vector(rows, 1, columns)
    resized = whole.Create_resized(0, MPI.DOUBLE.extent).Commit()
    whole.Free()
    return resized


@pytest.mark.parametrize(
    "message",
    [
        lambda room: [room, 5, MPI.DOUBLE],
        lambda room: [room, 5],
        lambda room: [room, (3, 2), MPI.DOUBLE],
        lambda room: [room, 1 << 61, MPI.DOUBLE],
        lambda room: [room[1:], 4, MPI.DOUBLE],
        lambda room: [room, 33, MPI.BYTE],
    ],
)
def test_a_count_beyond_the_buffer(message: Any) -> None:
    room = np.zeros(4)
    with pytest.raises(ValueError, match="the buffer is too small"):
        COMM_SELF.Send(message(room), 0)
    with pytest.raises(ValueError, match="the buffer is too small"):
        COMM_SELF.Bcast(message(room))


def test_counts_of_collectives_beyond_the_buffer() -> None:
    comm, size = COMM_WORLD, COMM_WORLD.size
    with pytest.raises(ValueError, match="the buffer is too small"):
        comm.Allgather([np.zeros(1), 1, MPI.DOUBLE], [np.zeros(size), 2, MPI.DOUBLE])
    out, into = np.zeros(size), np.zeros(size)
    ones, places = [1] * size, list(range(1, size + 1))
    with pytest.raises(ValueError, match="the buffer is too small"):
        comm.Alltoallv([out, ones, places, MPI.DOUBLE], into)
    with pytest.raises(ValueError, match="the buffer is too small"):
        comm.Alltoallv(out, [into, [2] * size, MPI.DOUBLE])
    types = [MPI.DOUBLE] * size
    with pytest.raises(ValueError, match="the buffer is too small"):
        comm.Alltoallw([out, ones, [8 * size] * size, types], [into, types])
    with pytest.raises(ValueError, match="the buffer is too small"):
        comm.Alltoallw([out, types], [into, ones, [-1] * size, types])


def test_derived_types_that_just_fit() -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    kind, column_in = column(3, 4), np.zeros(12)
    for count in range(5):
        COMM_SELF.Sendrecv([matrix, count, kind], 0, 0, column_in, 0, 0)
    assert (column_in.reshape(4, 3) == matrix.T).all()
    with pytest.raises(ValueError, match="the buffer is too small"):
        COMM_SELF.Send([matrix, 5, kind], 0)
    with pytest.raises(ValueError, match="bytes 8 to 104, it has 96"):
        COMM_SELF.Send([matrix, (4, 1), kind], 0)
    backwards = MPI.DOUBLE.Create_hvector(3, 1, -8).Commit()
    with pytest.raises(ValueError, match="bytes -16 to 8, it has 96"):
        COMM_SELF.Send([matrix, 1, backwards], 0)
    kind.Free()
    backwards.Free()
