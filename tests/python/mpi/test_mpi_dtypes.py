# SPDX-License-Identifier: MIT
"""numpy's dtypes as MPI datatypes, and what goes through them."""

from __future__ import annotations

import numpy as np
import pytest

import tbmpi
from tbmpi import MPI

pytestmark = pytest.mark.mpi
comm = MPI.COMM_WORLD
POINT = [("id", "i4"), ("place", "f8", 3), ("name", "S7"), ("phase", "c16")]


def around(out: np.ndarray, kind: MPI.Datatype) -> np.ndarray:
    """What the rank before this one has sent."""
    into = np.zeros_like(out)
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv([out, kind], after, 0, [into, kind], before, 0)
    return into


def points(rank: int, dtype: np.dtype) -> np.ndarray:
    made = np.zeros(50, dtype)
    made["id"] = rank
    made["place"] = np.arange(150).reshape(50, 3) + rank
    made["name"] = f"rank {rank}".encode()
    made["phase"] = 1j * rank
    return made


@pytest.mark.parametrize("align", [False, True])
def test_structures(align: bool) -> None:
    dtype = np.dtype(POINT, align=align)
    kind = tbmpi.datatype(dtype)
    assert kind.extent == dtype.itemsize
    assert kind.Get_size() == 4 + 24 + 7 + 16
    found = around(points(comm.rank, dtype), kind)
    assert (found == points((comm.rank - 1) % comm.size, dtype)).all()


def test_nested_structures_and_gaps() -> None:
    inner = np.dtype(
        {"names": ["x"], "formats": ["i2"], "offsets": [6], "itemsize": 16}
    )
    dtype = np.dtype([("a", inner, 2), ("b", "?")])
    kind = tbmpi.datatype(dtype)
    out = np.zeros(3, dtype)
    out["a"]["x"], out["b"] = comm.rank + 1, True
    found = around(out, kind)
    assert kind.Get_size() == 2 * 2 + 1
    assert (found["a"]["x"] == (comm.rank - 1) % comm.size + 1).all()
    assert found["b"].all()


@pytest.mark.parametrize(
    "code", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "g", "c8", "c16", "M8[s]"]
)
def test_plain_types(code: str) -> None:
    dtype = np.dtype(code)
    kind = tbmpi.datatype(dtype)
    if not kind:
        pytest.skip("a 16-bit float, which this library has not")
    assert kind.is_predefined and kind.Get_size() == dtype.itemsize
    numbers = np.arange(5)
    found = around((numbers + comm.rank).astype(dtype), kind)
    assert (found == (numbers + (comm.rank - 1) % comm.size).astype(dtype)).all()


def test_strings() -> None:
    out = np.array([f"héllo {comm.rank}", "", "x"])
    assert list(around(out, tbmpi.datatype(out.dtype))) == [
        f"héllo {(comm.rank - 1) % comm.size}",
        "",
        "x",
    ]


def test_the_same_dtype_is_the_same_datatype() -> None:
    assert tbmpi.datatype(POINT) is tbmpi.datatype(np.dtype(POINT))
    assert tbmpi.datatype("f8") is MPI.DOUBLE


@pytest.mark.parametrize(
    "dtype, error",
    [(object, TypeError), (">i4", BufferError), ([("a", "O")], TypeError)],
)
def test_what_cannot_be_sent(dtype: object, error: type[BaseException]) -> None:
    with pytest.raises(error):
        tbmpi.datatype(dtype)


def test_structured_arrays_say_what_to_do() -> None:
    with pytest.raises(KeyError, match=r"tbmpi.datatype\(dtype\)"):
        comm.Send(np.zeros(3, POINT), dest=0)
