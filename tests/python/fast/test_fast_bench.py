# SPDX-License-Identifier: MIT
"""tbmpi bench --python: its programs, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tbmpi.bench import cli, python

CALLS = python.SOURCES / "calls.py"


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_program_times_every_round(ranks: int) -> None:
    launcher = (sys.executable, "-m", "tbmpi.launch", "-n", str(ranks))
    program = (sys.executable, str(CALLS), "tbmpi", "0.001")
    done = subprocess.run(
        (*launcher, *program), capture_output=True, text=True, timeout=60, check=True
    )
    times = json.loads(done.stdout)
    in_c = re.findall(r'\{"([^"]+)", \w+\}', (CALLS.parent / "calls.c").read_text())
    assert list(times) == in_c[: 9 + ranks]
    assert all(time > 0 for time in times.values())


def test_overhead_is_what_python_adds() -> None:
    times = {"C": {"a": 1.0}, "tbmpi": {"a": 2.0}, "mpi4py": {"a": 3.0}}
    assert python._table("tbmpi", 1, times)[1] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "words",
    [("--vs", "mpich"), ("--np", "3"), ("--sim", "ring:3"), ("--ours", "none")],
)
def test_what_does_not_go_together(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("mpicc", "mpiexec"):
        tool = tmp_path / "bench" / "mpich" / "bin" / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.touch(mode=0o755)
    (tmp_path / "bench" / "mpich" / "complete").touch()
    assert cli.main(["--python", *words, "--cache", str(tmp_path)]) == cli.USAGE
    assert "--python" in capsys.readouterr().err
