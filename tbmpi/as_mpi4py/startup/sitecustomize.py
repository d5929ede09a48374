# SPDX-License-Identifier: MIT
"""Runs when a Python starts that finds this folder in PYTHONPATH.

Only one sitecustomize runs, the first one found; so this one hands on to the one
that would have run without it.
"""

import importlib
import importlib.abc
import os
import sys


class _NotHere(importlib.abc.MetaPathFinder):
    """For a Python that has no tbmpi: says so when mpi4py is imported."""

    def find_spec(self, fullname, path, target=None):
        if fullname == "mpi4py":
            raise ImportError(
                f"this job runs with --as-mpi4py, but {sys.executable} has no tbmpi; "
                "install it there, or start the Python that has it"
            )


def _hook():
    try:
        from tbmpi import as_mpi4py
    except ModuleNotFoundError:
        sys.meta_path.insert(0, _NotHere())
    else:
        as_mpi4py.install()


def _hand_on():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as missing:
        if missing.name != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


_hook()
_hand_on()
