# SPDX-License-Identifier: MIT
"""Programs from PyPI that are written for mpi4py, unmodified, against MPICH.

Each runs twice in one environment, with MPICH and mpi4py from PyPI and under
tbmpirun --as-mpi4py, and has to end well and to print the same numbers.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from bounded import Outcome, run_bounded
from toolchain import (
    ORACLE_PACKAGE,
    SuiteError,
    Toolchain,
    add_run_options,
    exclusive,
    launcher_from,
)

from programs.scripts.answer import MARK

SCRIPTS = Path(__file__).parent / "scripts"
INSTALL_SECONDS = 1200
LIMIT_SECONDS = 180.0
TOLERANCE = 1e-8  # relative; sums may be rounded in another order
PACKAGES = (
    ORACLE_PACKAGE,
    "mpi4py==4.1.2",
    "emcee==3.1.6",
    "schwimmbad==0.4.2",
    "mpipartition==1.5.0",
    "pylops-mpi==0.8.0",
    "libensemble==1.6.1",
    "zeus-mcmc==2.5.4",
)
# Compiled on the spot, against a library of the system's.
FFT_PACKAGE = "mpi4py-fft==2.0.6"
FFT_NEEDS = "it needs FFTW: apt-get install libfftw3-dev, or brew install fftw"


@dataclass(frozen=True)
class Program:
    """What to run: a name, a number of ranks, the words after ``python``."""

    name: str
    ranks: int
    words: tuple[str, ...]


PROGRAMS = (
    Program("emcee", 3, ("emcee_pool.py",)),
    Program("mpi4py.futures", 3, ("-m", "mpi4py.futures", "futures_pool.py")),
    Program("mpi4py-fft", 4, ("fft_3d.py",)),
    Program("mpipartition", 8, ("partition.py",)),
    Program("pylops-mpi", 2, ("least_squares.py",)),
    Program("libensemble", 3, ("ensemble.py",)),
    Program("zeus-mcmc", 4, ("chains.py",)),
)


def main(argv: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="run.py programs", description=__doc__, allow_abbrev=False
    )
    names = [program.name for program in PROGRAMS]
    parser.add_argument(
        "programs", nargs="*", metavar="NAME", help=f"these only: {', '.join(names)}"
    )
    add_run_options(parser, "tbmpirun --as-mpi4py -n")
    options = parser.parse_args(argv)
    unknown = set(options.programs) - set(names)
    if unknown:
        raise SuiteError(f"no program {', '.join(sorted(unknown))}; see --help")
    chosen = [p for p in PROGRAMS if p.name in (options.programs or names)]
    ours = Toolchain("", launcher_from(options))
    python = environment(options.cache / "programs")
    theirs = Toolchain("", (str(python.with_name("mpiexec")), "-n"))
    rows, wrong = [], []
    for program in chosen:
        row, complaint = compare(program, python, ours, theirs, options.cache)
        rows.append(row)
        wrong += [f"{program.name}: {complaint}"] if complaint else []
        verdict = complaint or "as on MPICH"
        report.say(
            f"{program.name:16} {program.ranks} ranks  {row['seconds']:6.1f} s  "
            f"(MPICH {row['mpich_seconds']:.1f} s)  {verdict}"
        )
    path = options.json or options.cache / "programs.json"
    version = ", ".join((*PACKAGES, FFT_PACKAGE))
    report.write_json(
        path, {**report.heading("programs", version, ours), "programs": rows}
    )
    counts = {"passed": len(chosen) - len(wrong), "failed": len(wrong)}
    return report.close("programs", path, counts, wrong)


# ---------------------------------------------------------------- environment


def environment(cache: Path) -> Path:
    """The Python that has the programs, mpi4py and MPICH; made if it is missing.

    It finds the tbmpi of this Python, behind all that it has itself.
    """
    key = " ".join((*PACKAGES, FFT_PACKAGE, sys.version)).encode()
    folder = cache / hashlib.sha256(key).hexdigest()[:12]
    python = folder / "bin" / "python"
    with exclusive(cache / "lock"):
        if not (folder / ".ready").exists():
            report.say(f"programs: installing them in {folder}")
            venv.create(folder, with_pip=True, clear=True)
            install(python, PACKAGES)
            install(python, (FFT_PACKAGE,), FFT_NEEDS)
            (folder / ".ready").touch()
        site = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        behind = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (Path(site) / "tbmpi-under-test.pth").write_text(behind)
    return python


def install(python: Path, packages: Sequence[str], remedy: str = "") -> None:
    """Installs packages, or raises SuiteError."""
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", *packages],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip said nothing"]
        errors = [line for line in lines if "rror:" in line]
        what = " ".join(packages)
        why = (errors or lines)[-1].strip()
        raise SuiteError(f"pip could not install {what}: {why}; {remedy}".rstrip("; "))


# ------------------------------------------------------------------ comparing


def compare(
    program: Program, python: Path, ours: Toolchain, theirs: Toolchain, cache: Path
) -> tuple[dict[str, Any], str]:
    """Runs a program on both; the row for the result, and what is wrong or ''."""
    logs = cache / "programs" / "logs"
    there = run(program, python, theirs, logs / f"{program.name}.mpich.log")
    here = run(program, python, ours, logs / f"{program.name}.log")
    expected, found = answer(there.output), answer(here.output)
    complaint = ""
    if expected is None:
        complaint = f"no answer on MPICH ({ended(there)})"
    elif here.code != 0:
        complaint = f"{ended(here)}: {last_line(here)}"
    elif found is None:
        complaint = "no answer"
    elif not same(found, expected):
        complaint = f"another answer than on MPICH (log: {logs / program.name}.log)"
    row = {
        "name": program.name,
        "ranks": program.ranks,
        "passed": not complaint,
        "complaint": complaint,
        "seconds": round(here.seconds, 2),
        "mpich_seconds": round(there.seconds, 2),
        # emcee on MPICH gives its answer and then ends by a signal.
        "mpich_code": there.code,
        "numbers": len(expected or ()),
    }
    return row, complaint


def run(program: Program, python: Path, mpi: Toolchain, log: Path) -> Outcome:
    """Runs a program to its end, or ends it."""
    alone = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = mpi.command(program.ranks, str(python), *program.words)
    env = {**os.environ, **alone, **threads}
    return run_bounded(command, cwd=SCRIPTS, log=log, limit=LIMIT_SECONDS, env=env)


def answer(output: str) -> list[float] | None:
    """The numbers that a program has printed, None if it has not, or twice."""
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    if len(lines) != 1:
        return None
    return [float(word) for word in lines[0].removeprefix(MARK).split()]


def same(found: list[float], expected: list[float]) -> bool:
    """Whether two answers are equal, but for rounding."""
    return len(found) == len(expected) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for a, b in zip(found, expected, strict=True)
    )


def ended(outcome: Outcome) -> str:
    """How a run ended."""
    return "time was up" if outcome.code is None else f"exit code {outcome.code}"


def last_line(outcome: Outcome) -> str:
    """The last thing that a run said."""
    lines = [line for line in outcome.output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
