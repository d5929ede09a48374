# SPDX-License-Identifier: MIT
"""The finders that the import system asks for mpi4py and mpi4py.MPI."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from types import ModuleType

from tbmpi._paths import package_file

PACKAGE = "mpi4py"
MODULE = "mpi4py.MPI"


class Finder(MetaPathFinder):
    """Asked first: gives mpi4py.MPI, and an mpi4py that is installed its options."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The import system's question."""
        if fullname == MODULE:
            return ModuleSpec(fullname, _Ours())
        if fullname != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or spec.origin is None:
            return None  # not installed; a mere folder of that name is no package
        spec.loader = _WithOptions(spec.loader)
        return spec


class Fallback(MetaPathFinder):
    """Asked last: makes up the package if nobody else has it."""

    FILES = {  # noqa: RUF012
        PACKAGE: "standin.py",
        f"{PACKAGE}.run": "run.py",
        f"{PACKAGE}.__main__": "run.py",
    }

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The import system's question."""
        if fullname in self.FILES:
            file = package_file("as_mpi4py", self.FILES[fullname])
            spec = spec_from_file_location(fullname, file)
            if spec is not None and fullname == PACKAGE:
                spec.submodule_search_locations = []  # none: the rest is asked here
            return spec
        if fullname.startswith(PACKAGE + ".") and not path:
            raise ImportError(
                f"{fullname} is part of mpi4py, which is not installed; "
                "pip install mpi4py (mpi4py.MPI stays tbmpi's)",
                name=fullname,
            )
        return None


class _Ours(Loader):
    """Gives tbmpi.MPI under the name of mpi4py.MPI."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Ours, and its own idea of what it is, which the import overwrites."""
        module = importlib.import_module("tbmpi.MPI")
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran when it was imported under its own name."""
        module.__spec__ = self._spec


class _WithOptions(Loader):
    """Loads the installed package and replaces its options by tbmpi's."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the package's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the package; nobody has looked at its options yet."""
        from tbmpi._rc import rc

        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        module.rc = rc  # type: ignore[attr-defined]
        sys.modules[f"{PACKAGE}.rc"] = rc  # type: ignore[assignment]
