# SPDX-License-Identifier: MIT
"""The one place that knows where the package's files are.

A wheel, ``pip install .`` and ``pip install -e .`` all put the same real files
below the package: include/, lib/, libexec/. In an editable install they lie
beside the built extension and not beside the sources, so every folder of the
package is looked into; ``tbmpi.__path__`` lists them.
"""

from __future__ import annotations

import sys
from pathlib import Path

LIBRARY = "libmpi_abi.1.dylib" if sys.platform == "darwin" else "libmpi_abi.so.1"
MLX_LIBRARY = "libtbmpi_mlx.dylib" if sys.platform == "darwin" else "libtbmpi_mlx.so"
FABRIC_LIBRARY = (
    "libtbmpi_fabric.dylib" if sys.platform == "darwin" else "libtbmpi_fabric.so"
)


def package_file(*parts: str) -> Path:
    """The file `parts` of the package; where it belongs if it is missing."""
    import tbmpi

    folders = [Path(folder) for folder in tbmpi.__path__]
    here = Path(__file__).resolve().parent
    if here not in folders:
        folders.append(here)
    for folder in folders:
        found = folder.joinpath(*parts)
        if found.exists():
            return found
    return folders[0].joinpath(*parts)


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
