# SPDX-License-Identifier: MIT
"""These tests run on several ranks:

    tbmpirun -n 4 python -m pytest --only-mpi tests/python/mpi

pytest-mpi asks mpi4py for the communicator; here it gets tbmpi under that name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

import tbmpi


class _StandIn(ModuleType):
    """mpi4py as far as pytest-mpi uses it; nothing starts before it is asked."""

    rc = tbmpi.rc

    @staticmethod
    def get_config() -> dict[str, str]:
        """Nothing was configured."""
        return {}

    def __getattr__(self, name: str) -> Any:
        if name == "MPI":
            return tbmpi.MPI
        raise AttributeError(name)


sys.modules.setdefault("mpi4py", _StandIn("mpi4py"))


@pytest.fixture
def comm() -> Any:
    """A communicator of all ranks that no other test uses."""
    own = tbmpi.COMM_WORLD.Dup()
    yield own
    own.Barrier()
    own.Free()
