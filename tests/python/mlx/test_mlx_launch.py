# SPDX-License-Identifier: MIT
"""How an unmodified MLX program starts and ends: mlx.launch, tbmpirun."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import sys
import mlx.core as mx
{first}
world = mx.distributed.init(strict=True, backend="mpi")
if world.rank() == 1:
    {then}
total = mx.distributed.all_sum(mx.array([world.rank() + 1], mx.float32))
print(f"rank {{world.rank()}} of {{world.size()}}: {{total.item():g}};", flush=True)
"""


def run(
    *words: str, path: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """A command, with `path` first on PATH."""
    bin_folder = Path(sys.executable).parent
    search = [str(folder) for folder in (path, bin_folder) if folder]
    whole = os.pathsep.join([*search, os.environ["PATH"]])
    return subprocess.run(
        words,
        env={**os.environ, "PATH": whole, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def written(folder: Path, first: str = "", then: str = "pass") -> str:
    """The program in a file."""
    file = folder / "program.py"
    file.write_text(PROGRAM.format(first=first, then=then))
    return str(file)


def on_ranks(program: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """The program under tbmpirun."""
    launch = (sys.executable, "-m", "tbmpi.launch", "-n", str(ranks))
    return run(*launch, sys.executable, program)


def printed(output: str) -> list[str]:
    """What the ranks have printed; with raw output, lines may mix."""
    return sorted(re.findall(r"rank \d+ of \d+: \d+;", output))


def all_ranks(ranks: int) -> list[str]:
    """What they should print."""
    total = ranks * (ranks + 1) // 2
    return [f"rank {rank} of {ranks}: {total};" for rank in range(ranks)]


@pytest.fixture
def aliases(tmp_path: Path) -> Path:
    """A folder with our commands under the names that others use."""
    folder = tmp_path / "aliases"
    folder.mkdir()
    done = run("tbmpi", "aliases", "install", "--dir", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("ranks", [2, 4])
def test_mlx_launch(tmp_path: Path, aliases: Path, ranks: int) -> None:
    launch = ("mlx.launch", "--backend", "mpi", "--verbose", "-n", str(ranks))
    done = run(*launch, sys.executable, written(tmp_path), path=aliases)
    assert f"Using '{aliases}/mpirun'" in done.stdout + done.stderr
    assert printed(done.stdout) == all_ranks(ranks), done.stderr


def test_mlx_launch_beside_open_mpi(tmp_path: Path, aliases: Path) -> None:
    # What mlx.launch adds where it finds Open MPI's ompi_info on PATH.
    name = "MLX_MPI_LIBNAME=libmpi.so.40"
    launch = ("mlx.launch", "--backend", "mpi", "--env", name, "-n", "2")
    done = run(*launch, sys.executable, written(tmp_path), path=aliases)
    assert printed(done.stdout) == all_ranks(2), done.stderr


def test_a_chosen_library_is_kept(tmp_path: Path) -> None:
    launch = (sys.executable, "-m", "tbmpi.launch", "-n", "2")
    program = written(tmp_path)
    done = run(*launch, sys.executable, program, MLX_MPI_LIBNAME="/nowhere/lib.so")
    assert done.returncode != 0
    assert "Cannot initialize MPI" in done.stderr


@pytest.mark.parametrize(
    ("then", "code", "told"),
    [
        ("raise KeyError('lost')", 1, "KeyError: 'lost'"),
        ("sys.exit(7)", 7, "rank 1"),
    ],
)
def test_a_failing_rank_ends_the_job(
    tmp_path: Path, then: str, code: int, told: str
) -> None:
    began = time.monotonic()
    done = on_ranks(written(tmp_path, then=then), 3)
    assert time.monotonic() - began < 20
    assert done.returncode == code, done.stderr
    assert told in done.stderr


def test_without_our_package(tmp_path: Path) -> None:
    hidden = "sys.modules['tbmpi.MPI'] = None"
    done = on_ranks(written(tmp_path, first=hidden))
    assert done.returncode == 0, done.stderr
    assert printed(done.stdout) == all_ranks(2)


def test_without_threads(tmp_path: Path) -> None:
    single = "import tbmpi; tbmpi.rc.threads = False; tbmpi.MPI"
    done = on_ranks(written(tmp_path, first=single))
    assert done.returncode == 1
    assert "ask for MPI_THREAD_MULTIPLE" in done.stderr


def test_mpi_finalized_by_the_program(tmp_path: Path) -> None:
    last = "import atexit; from tbmpi import MPI; atexit.register(MPI.Finalize)"
    done = on_ranks(written(tmp_path, first=last))
    assert done.returncode == 0, done.stderr
    assert printed(done.stdout) == all_ranks(2)
