# SPDX-License-Identifier: MIT
"""A fabric of two Macs and a cable, and commands to run on them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tbmpi import _paths

TWO_MACS = """\
host 0 mac0
host 1 mac1
cable 0 0 rdma_en2 169.254.1.1 1 rdma_en3 169.254.1.2
"""
LIMIT = 60.0


class Fabric:
    """A state file, and the command tbmpi-fabric on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def command(self, verb: str, *words: str) -> list[str]:
        """The command line of tbmpi-fabric on this file."""
        return [str(_paths.fabric_command()), verb, str(self.path), *words]

    def call(
        self, verb: str, *words: str, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs tbmpi-fabric on this file."""
        return subprocess.run(
            self.command(verb, *words),
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def fault(self, *words: str) -> None:
        """Does something to it that must work."""
        done = self.call("fault", *words)
        assert not done.returncode, done.stderr

    def show(self) -> Any:
        """What it says about itself."""
        return json.loads(self.call("show", "--json").stdout)


@pytest.fixture
def unmade(tmp_path: Path) -> Fabric:
    """A fabric whose file is not made yet."""
    return Fabric(tmp_path / "fabric")


@pytest.fixture
def fabric(unmade: Fabric) -> Fabric:
    """Two Macs and a cable."""
    done = unmade.call("create", text=TWO_MACS)
    assert not done.returncode, done.stderr
    return unmade


@pytest.fixture
def switches() -> list[str]:
    """The lines of `tbmpi-fabric switches`."""
    command = [str(_paths.fabric_command()), "switches"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=9)
    return done.stdout.splitlines()
