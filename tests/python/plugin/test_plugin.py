# SPDX-License-Identifier: MIT
"""The pytest plugin: pytest-mpi under tbmpirun, and limits that end hanging tests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

RANKS = 3
PASSES = """
import pytest

@pytest.mark.mpi
def test_rank(mpi_tmp_path):
    from mpi4py import MPI
    import tbmpi
    assert MPI is tbmpi.MPI
    assert MPI.COMM_WORLD.allreduce(1) == 3
    (mpi_tmp_path / str(MPI.COMM_WORLD.rank)).touch()

@pytest.mark.mpi(min_size=4)
def test_needs_more():
    raise AssertionError

@pytest.mark.mpi_skip
def test_alone():
    raise AssertionError
"""
HANGS = """
import pytest

@pytest.mark.mpi
@pytest.mark.mpi_timeout(1.5)
def test_with_a_mark():
    from mpi4py.MPI import COMM_WORLD as comm
    comm.recv(source=comm.rank)

@pytest.mark.mpi
def test_without():
    from mpi4py.MPI import COMM_WORLD as comm
    comm.recv(source=comm.rank)
"""
FAILS = """
import pytest

@pytest.mark.mpi
def test_it():
    from mpi4py.MPI import COMM_WORLD as comm
    assert comm.rank != 1
    comm.Barrier()
"""
ALONE = """
import sys

def test_nothing_happens():
    assert "mpi4py" not in sys.modules and "tbmpi.MPI" not in sys.modules
    assert not any(type(f).__module__.startswith("tbmpi.") for f in sys.meta_path)
"""


def run(
    folder: Path, text: str, *words: str, ranks: int = RANKS
) -> subprocess.CompletedProcess[str]:
    """pytest on some ranks, on a file of tests."""
    (folder / "test_it.py").write_text(text)
    launch = [sys.executable, "-m", "tbmpi.launch", "-n", str(ranks)]
    pytest_words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        [*launch, sys.executable, *pytest_words, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_pytest_mpi_gets_a_communicator(tmp_path: Path) -> None:
    done = run(tmp_path, PASSES, "--with-mpi")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1 passed, 2 skipped") == RANKS
    assert f"size: {RANKS}" in done.stdout


@pytest.mark.parametrize(
    ("name", "words", "setting"),
    [
        ("with_a_mark", ("--mpi-timeout", "50"), ""),
        ("without", ("--mpi-timeout", "1.5"), ""),
        ("without", (), "mpi_timeout = 1.5"),
    ],
    ids=["mark", "option", "setting"],
)
def test_a_hanging_test_ends(
    tmp_path: Path, name: str, words: tuple[str, ...], setting: str
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{setting}\n")
    began = time.monotonic()
    done = run(tmp_path, HANGS, "--only-mpi", *words, "-k", name)
    assert time.monotonic() - began < 20
    assert done.returncode != 0
    late = f"test_it.py::test_{name} has taken longer than 1.5 s"
    assert late in done.stderr, done.stderr
    assert f"in test_{name}" in done.stderr


def test_a_rank_that_fails_ends_the_job(tmp_path: Path) -> None:
    began = time.monotonic()
    done = run(tmp_path, FAILS, "--only-mpi")
    assert time.monotonic() - began < 20
    assert done.returncode == 1
    assert "rank 1" in done.stderr and "ended with exit code 1" in done.stderr
    assert "FAILED test_it.py::test_it" in done.stdout


def test_nothing_without_pytest_mpi(tmp_path: Path) -> None:
    done = run(tmp_path, ALONE, ranks=1)
    assert done.returncode == 0, done.stdout


def test_a_setting_that_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmpi_timeout = soon\n")
    done = run(tmp_path, PASSES, "--only-mpi", ranks=1)
    assert done.returncode != 0
    assert "mpi_timeout is a number of seconds, not 'soon'" in done.stderr
