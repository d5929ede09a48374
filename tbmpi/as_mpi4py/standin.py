# SPDX-License-Identifier: MIT
"""What ``import mpi4py`` gives where mpi4py is not installed.

The options, MPI, and what libraries ask about the package. mpi4py's own extras
(mpi4py.futures, mpi4py.util) come with mpi4py: pip install mpi4py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tbmpi import _paths
from tbmpi._rc import Rc, rc

__all__ = ["MPI", "Rc", "get_config", "get_include", "rc"]  # noqa: F822
# The release of mpi4py whose names and meanings tbmpi.MPI has.
__version__ = "4.1.2"

sys.modules["mpi4py.rc"] = rc  # type: ignore[assignment]


def get_config() -> dict[str, str]:
    """The compiler wrapper, as ``{"mpicc": path}``."""
    wrapper = Path(sys.executable).with_name("tbmpicc")
    return {"mpicc": str(wrapper)} if wrapper.exists() else {}


def get_include() -> str:
    """The folder of mpi.h; mpi4py's own C headers come with mpi4py."""
    return str(_paths.include_folder())
