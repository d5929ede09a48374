# SPDX-License-Identifier: MIT
"""These tests run on several ranks:

tbmpirun -n 4 python -m pytest --only-mpi tests/python/mpi
"""

from __future__ import annotations

from typing import Any

import pytest

import tbmpi
from tbmpi import as_mpi4py

# For pytest-mpi, which asks mpi4py for the communicator. tbmpi's own plugin does the
# same, but not under another launcher beside an mpi4py that is installed.
as_mpi4py.install()


@pytest.fixture
def comm() -> Any:
    """A communicator of all ranks that no other test uses."""
    own = tbmpi.COMM_WORLD.Dup()
    yield own
    own.Barrier()
    own.Free()
