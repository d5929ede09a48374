# SPDX-License-Identifier: MIT
"""libtbmpi_mlx as a program sees it that was compiled for Open MPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tbmpi import _paths

FUNCTIONS = (
    "Get_library_version Init Finalize Comm_rank Comm_size Comm_split Comm_free"
    " Allreduce Allgather Send Recv Type_contiguous Type_commit Op_create"
)
OBJECTS = (
    "comm_world op_sum op_max op_min c_bool int8_t uint8_t int16_t uint16_t int32_t"
    " uint32_t int64_t uint64_t float double c_complex"
)
PROGRAM = """
import ctypes as c, sys
lib = c.CDLL(sys.argv[1], mode=c.RTLD_GLOBAL)

def handle(name):
    return c.c_void_p(c.addressof(c.c_char.in_dll(lib, "ompi_mpi_" + name)))

room, length = c.create_string_buffer(b"x" * 300, 300), c.c_int(-1)
assert lib.MPI_Get_library_version(room, c.byref(length)) == 0
assert b"Open MPI" in room.value and len(room.value) == length.value < 256
assert room.raw[256:] == b"x" * 44

assert lib.MPI_Init(None, None) == 0
world, number = handle("comm_world"), c.c_int()
lib.MPI_Comm_rank(world, c.byref(number))
rank = number.value
if rank == 0:
    data = (c.c_int16 * 5)(1, 2, 3, 4, 5)
    assert lib.MPI_Send(data, 5, handle("int16_t"), 1, 7, world) == 0
else:
    data = (c.c_int16 * 9)()
    status = c.create_string_buffer(b"s" * 32, 32)
    ANY = -1
    assert lib.MPI_Recv(data, 9, handle("int16_t"), ANY, ANY, world, status) == 0
    assert list(data) == [1, 2, 3, 4, 5, 0, 0, 0, 0]
    assert list((c.c_int * 2).from_buffer(status)) == [0, 7]
    assert c.c_size_t.from_buffer(status, 16).value == 10
    assert status.raw[24:] == b"s" * 8

# A datatype and an operation of the program's own: the larger of two-byte pairs.
pair, op = c.c_void_p(), c.c_void_p()
lib.MPI_Type_contiguous(2, handle("uint8_t"), c.byref(pair))
lib.MPI_Type_commit(c.byref(pair))

@c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.POINTER(c.c_int), c.c_void_p)
def larger(a, b, count, kind):
    for i in range(2 * count[0]):
        x, y = c.c_uint8.from_address(a + i), c.c_uint8.from_address(b + i)
        y.value = max(x.value, y.value)

lib.MPI_Op_create(larger, 1, c.byref(op))
mine = (c.c_uint8 * 6)(*[10 * rank, 5] * 3)
most = (c.c_uint8 * 6)()
assert lib.MPI_Allreduce(mine, most, 3, pair, op, world) == 0
assert list(most) == [10, 5] * 3
IN_PLACE = c.c_void_p(1)
assert lib.MPI_Allreduce(IN_PLACE, mine, 3, pair, op, world) == 0
assert list(mine) == [10, 5] * 3
print("good", flush=True)
assert lib.MPI_Finalize() == 0
"""


def test_it_has_these_names_and_no_others() -> None:
    if sys.platform == "darwin":
        command = ["nm", "-gU", str(_paths.mlx_library())]
    else:
        command = ["nm", "-D", "--defined-only", str(_paths.mlx_library())]
    lines = subprocess.run(command, capture_output=True, text=True, check=True)
    names = {line.split()[-1].removeprefix("_") for line in lines.stdout.splitlines()}
    expected = {f"MPI_{name}" for name in FUNCTIONS.split()}
    assert names == expected | {f"ompi_mpi_{name}" for name in OBJECTS.split()}


@pytest.mark.parametrize("import_ours", [True, False], ids=["package", "alone"])
def test_calls(tmp_path: Path, import_ours: bool) -> None:
    first = "" if import_ours else "import sys; sys.modules['tbmpi.MPI'] = None\n"
    (tmp_path / "program.py").write_text(first + PROGRAM)
    launch = [sys.executable, "-m", "tbmpi.launch", "-n", "2"]
    done = subprocess.run(
        [*launch, sys.executable, "program.py", str(_paths.mlx_library())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("good") == 2
