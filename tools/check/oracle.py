# SPDX-License-Identifier: MIT
"""The Python API on another library: what it asserts is MPI, not only tbmpi."""

from __future__ import annotations

import sys
import venv

from packages import OTHER, PIP
from python import on_ranks
from report import Outcome, Trouble
from run import Runner

LIBRARY = "libmpi_abi.1.dylib" if sys.platform == "darwin" else "libmpi_abi.so.1"


def oracle(runner: Runner) -> Outcome:
    """tests/python/mpi on MPICH, whose launcher starts the same Python."""
    folder = runner.folder / "venv"
    library = folder / "lib" / LIBRARY
    if not library.exists():
        venv.create(folder)
        python = folder / "bin/python"
        runner.must(*PIP, "--python", python, "install", "--quiet", OTHER)
    if not library.exists():
        raise Trouble(f"{OTHER} has no {library}")
    launch = [folder / "bin/mpiexec", "-n"]
    return on_ranks(runner, launch, {"TBMPI_LIBMPI": str(library)})
