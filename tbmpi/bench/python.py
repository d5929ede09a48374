# SPDX-License-Identifier: MIT
"""`tbmpi bench --python`: what a call costs from Python, next to mpi4py.

The same rounds of calls run in C, from tbmpi and from mpi4py, on tbmpi's library
and on MPICH's. A side's overhead is its time less that of C on the same library.
Runs are interleaved; the figure is the lower quartile of the runs.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tbmpi import _paths
from tbmpi.bench.engines import INSTALL_SECONDS, Engine, locked
from tbmpi.bench.errors import BenchError
from tbmpi.bench.processes import run_limited
from tbmpi.bench.verdict import lower_quartile

MPI4PY = "mpi4py==4.1.2"
SOURCES = Path(__file__).parent / "calls"
SIDES = ("C", "tbmpi", "mpi4py")
SECONDS = {True: 0.05, False: 0.3}  # for each round, by whether it is quick
RUN_SECONDS = 120

Times = dict[str, float]  # microseconds by the name of the round


@dataclass(frozen=True)
class Side:
    """One way to make the calls, on one library."""

    engine: Engine
    name: str
    words: tuple[str, ...]
    env: Mapping[str, str]


def sides(engines: Sequence[Engine], cache: Path, scratch: Path) -> list[Side]:
    """The ways to be compared; builds the C program, and mpi4py once."""
    python = _mpi4py(engines[0], cache)
    found = []
    for engine in engines:
        program = scratch / f"calls-{engine.name}"
        _build(engine, program)
        library = _library(engine)
        env = {
            "TBMPI_LIBMPI": str(library),
            "MPI4PY_LIBMPI": str(library),
            "LD_LIBRARY_PATH": str(library.parent),
            "OPENBLAS_NUM_THREADS": "1",
        }
        script = str(SOURCES / "calls.py")
        for name, words in (
            ("C", (str(program),)),
            ("tbmpi", (sys.executable, script, "tbmpi")),
            ("mpi4py", (str(python), script, "mpi4py")),
        ):
            found.append(Side(engine, name, words, env))
    return found


def measure(
    ways: Sequence[Side], ranks: int, rounds: int, quick: bool, scratch: Path
) -> dict[tuple[str, str], list[Times]]:
    """Runs all of them in turn, `rounds` times, by library and side."""
    found: dict[tuple[str, str], list[Times]] = {}
    for number in range(rounds):
        for at in range(len(ways)):
            side = ways[(at + number) % len(ways)]
            words = (*side.words, str(SECONDS[quick]))
            env = {**side.engine.environment(scratch), **side.env}
            command = side.engine.command(ranks, words)
            done = run_limited(command, RUN_SECONDS, env)
            if done.late or done.code:
                raise BenchError(
                    f"{side.name} on {side.engine.name} failed:\n{done.complaint()}"
                )
            times = json.loads(done.stdout.strip().splitlines()[-1])
            found.setdefault((side.engine.name, side.name), []).append(times)
    return found


def run(
    engines: Sequence[Engine],
    plan: tuple[int, int, bool],
    cache: Path,
    scratch: Path,
    console: Console,
    file: Path | None,
) -> bool:
    """Measures and prints; whether tbmpi's overhead is at most mpi4py's.

    `plan`: ranks, rounds, whether quick. Raw times go to `file`.
    """
    ranks, rounds, quick = plan
    found = measure(sides(engines, cache, scratch), ranks, rounds, quick, scratch)
    if file:
        record = {
            f"{side} on {library}": times for (library, side), times in found.items()
        }
        file.write_text(json.dumps({"ranks": ranks, "times": record}, indent=1) + "\n")
    passes = True
    for engine in engines:
        times = {side: _quartiles(found[engine.name, side]) for side in SIDES}
        table, mean = _table(engine.name, ranks, times)
        console.print(table)
        passes = passes and mean <= 1
    return passes


def _quartiles(runs: Sequence[Times]) -> Times:
    return {name: lower_quartile([run[name] for run in runs]) for name in runs[0]}


def _table(library: str, ranks: int, times: Mapping[str, Times]) -> tuple[Table, float]:
    """The table of one library, and the geometric mean of the ratios."""
    many = "rank" if ranks == 1 else "ranks"
    table = Table(title=f"on {library}, {ranks} {many}: microseconds a round")
    table.add_column("calls")
    for name in ("C", "tbmpi", "mpi4py", "overhead", "mpi4py's", "ratio"):
        table.add_column(name, justify="right")
    logs = []
    for name, in_c, ours, theirs in _rows(times):
        more, most = ours - in_c, theirs - in_c
        ratio = more / most if more > 0 < most else math.nan
        if not math.isnan(ratio):
            logs.append(math.log(ratio))
        figures = (in_c, ours, theirs, more, most, ratio)
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    mean = math.exp(sum(logs) / len(logs)) if logs else math.nan
    table.add_row("geometric mean", *[""] * 5, f"{mean:.2f}")
    return table, mean


def _rows(times: Mapping[str, Times]) -> Iterator[tuple[str, float, float, float]]:
    for name in times["C"]:
        in_c, ours, theirs = (times[side][name] for side in SIDES)
        yield name, in_c, ours, theirs


def _library(engine: Engine) -> Path:
    """The engine's library of the standard ABI."""
    if engine.name == "tbmpi":
        return _paths.library()
    path = engine.folder.parent / "lib" / _paths.LIBRARY
    if not path.exists():
        raise BenchError(f"{engine.name} has no library of the standard ABI: {path}")
    return path


def _build(engine: Engine, target: Path) -> None:
    command = [engine.compiler, "-std=c11", "-O2", "-o", target, SOURCES / "calls.c"]
    done = run_limited(command, RUN_SECONDS)
    if done.code or done.late:
        raise BenchError(f"{engine.compiler} cannot build calls.c:\n{done.complaint()}")


def _mpi4py(engine: Engine, cache: Path) -> Path:
    """The Python of a venv with mpi4py, built from its source archive."""
    venv = cache / "mpi4py"
    python, mark = venv / "bin" / "python", venv / "complete"
    with locked(cache, "mpi4py"):
        if mark.exists():
            return python
        shutil.rmtree(venv, ignore_errors=True)
        pip = (python, "-m", "pip", "install", "--quiet", "--no-cache-dir")
        words = (*pip, "--disable-pip-version-check", "--no-binary", "mpi4py")
        env = {**os.environ, "MPICC": str(engine.compiler), "MPI4PY_BUILD_MPIABI": "1"}
        for command in (
            (sys.executable, "-m", "venv", venv),
            (*words, MPI4PY, "numpy"),
        ):
            done = run_limited(command, INSTALL_SECONDS, env)
            if done.code or done.late:
                raise BenchError(f"cannot build {MPI4PY}:\n{done.complaint()}")
        mark.touch()
    return python
