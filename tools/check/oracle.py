# SPDX-License-Identifier: MIT
"""The Python API on another library: what it asserts is MPI, not only tbmpi."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

from packages import OTHER, PIP
from python import on_ranks, run_pytest
from report import Outcome, Trouble
from run import Runner

LIBRARY = "libmpi_abi.1.dylib" if sys.platform == "darwin" else "libmpi_abi.so.1"
PROGRAMS = "tests/python/oracle"


def oracle(runner: Runner) -> Outcome:
    """tests/python/mpi on MPICH, whose launcher starts the same Python."""
    folder = _mpich(runner)
    launch = [folder / "bin/mpiexec", "-n"]
    env = {"TBMPI_LIBMPI": str(folder / "lib" / LIBRARY)}
    return on_ranks(runner, launch, env)


def random(runner: Runner) -> Outcome:
    """Random programs on our library and on MPICH's, which must agree."""
    env = {
        "TBMPI_ORACLE": str(_mpich(runner)),
        "TBMPI_ORACLE_PROGRAMS": "400" if runner.full else "15",
    }
    return run_pytest(runner, PROGRAMS, env=env)


def _mpich(runner: Runner) -> Path:
    """The folder into which pip has put MPICH."""
    folder = runner.folder.parent / "oracle" / "venv"
    library = folder / "lib" / LIBRARY
    if not library.exists():
        venv.create(folder)
        python = folder / "bin/python"
        runner.must(*PIP, "--python", python, "install", "--quiet", OTHER)
    if not library.exists():
        raise Trouble(f"{OTHER} has no {library}")
    return folder
