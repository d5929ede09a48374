# SPDX-License-Identifier: MIT
"""Unmodified mpi4py programs on tbmpi: an import hook.

With the hook, ``mpi4py.MPI`` is ``tbmpi.MPI`` and ``mpi4py.rc`` is ``tbmpi.rc``.
All else of an installed mpi4py (futures, util, run) stays what it is. Where mpi4py
is not installed, a package of that name is made up that has what it takes to
import MPI, to set options and to run a program: see standin.

``python -m tbmpi prog.py`` puts the hook into one process and its children,
``tbmpirun --as-mpi4py`` into all Pythons of a job.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from tbmpi._paths import package_file
from tbmpi.as_mpi4py.finder import MODULE, Fallback, Finder

__all__ = ["environment", "install"]


def install() -> None:
    """Puts the hook into this process, before the first import of mpi4py.MPI.

    RuntimeError if mpi4py.MPI has been imported already, as what it was.
    """
    present = sys.modules.get(MODULE)
    if present is not None and present.__name__ != "tbmpi.MPI":
        raise RuntimeError("mpi4py.MPI is imported already; tbmpi cannot replace it")
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
        sys.meta_path.append(Fallback())


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What to set so that Pythons started with `environ` have the hook.

    It takes effect by PYTHONPATH, so not for ``python -I`` and ``python -E``.
    """
    folder = str(package_file("as_mpi4py", "startup"))
    old = environ.get("PYTHONPATH", "")
    if folder in old.split(os.pathsep):
        return {}
    return {"PYTHONPATH": folder + (os.pathsep + old if old else "")}
