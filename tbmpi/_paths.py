# SPDX-License-Identifier: MIT
"""The one place that knows where the package's files are.

A wheel, ``pip install .`` and ``pip install -e .`` all put the same real files
below the package: include/, lib/, libexec/. In an editable install they lie
beside the built extension and not beside the sources, so every folder of the
package is looked into; ``tbmpi.__path__`` lists them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = "libmpi_abi.1.dylib" if sys.platform == "darwin" else "libmpi_abi.so.1"
MLX_LIBRARY = "libtbmpi_mlx.dylib" if sys.platform == "darwin" else "libtbmpi_mlx.so"
FABRIC_LIBRARY = (
    "libtbmpi_fabric.dylib" if sys.platform == "darwin" else "libtbmpi_fabric.so"
)


def find(*parts: str) -> str:
    """The file `parts` of the package; where it belongs if it is missing."""
    import tbmpi

    here = os.path.dirname(os.path.realpath(__file__))
    folders = [*tbmpi.__path__]
    if here not in folders:
        folders.append(here)
    found = [os.path.join(folder, *parts) for folder in folders]
    return next(filter(os.path.exists, found), found[0])


def package_file(*parts: str) -> Path:
    """The same as a Path."""
    # Importing pathlib takes longer than most of what a program does at its start.
    from pathlib import Path

    return Path(find(*parts))


def library() -> Path:
    """The MPI library."""
    return package_file("lib", LIBRARY)


def mlx_library() -> Path:
    """The library that MLX's "mpi" backend opens."""
    return package_file("lib", MLX_LIBRARY)


def library_folder() -> Path:
    """The folder to write into an rpath."""
    return library().parent


def include_folder() -> Path:
    """The folder with mpi.h."""
    return package_file("include", "mpi.h").parent


def fabric_library() -> Path:
    """The emulated librdma."""
    return package_file("lib", FABRIC_LIBRARY)


def fabric_command() -> Path:
    """The tbmpi-fabric program."""
    return package_file("libexec", "tbmpi-fabric")


def router() -> Path:
    """The tbmpi-router program."""
    return package_file("libexec", "tbmpi-router")


def selftest() -> Path:
    """The tbmpi-selftest program."""
    return package_file("libexec", "tbmpi-selftest")
