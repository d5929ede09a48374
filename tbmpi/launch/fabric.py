# SPDX-License-Identifier: MIT
"""The emulated librdma's state: one file that all processes of a job map.

It is made and changed by the command tbmpi-fabric; what we read ourselves is
whether a cable is pulled, since the sockets beside the cables follow that.
"""

from __future__ import annotations

import json
import mmap
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tbmpi import _paths
from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.topology import MOST_CABLES, Topology

# A byte a cable from here on, as csrc/fabric/state.h promises.
PULLED_AT = 4096
PATIENCE = 20.0  # the command waits for a lock, but never longer than this
# What a pair of queue pairs' rings may come to fill, by FAB_QP_BYTES.
PER_QUEUE_PAIR = 17 << 20
QUEUE_PAIRS = 3  # of a link, one a class of slots


class Fabric:
    """The state file at `path`, made here; whoever removes the folder ends it."""

    def __init__(self, path: Path, topology: Topology) -> None:
        self.path = path
        self._text = description(topology)
        _call("create", str(path), text=self._text)
        with path.open("rb") as file:
            size = PULLED_AT + MOST_CABLES
            self._head = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)

    def is_pulled(self, cable: int) -> bool:
        """Whether the cable carries nothing now."""
        return bool(self._head[PULLED_AT + cable])

    def apply(self, faults: Iterable[Sequence[str]]) -> None:
        """Does each of them; LaunchError when the fabric does not know one."""
        for words in faults:
            _call("fault", str(self.path), *words)

    def check(self, faults: Iterable[Sequence[str]]) -> None:
        """Tries faults that are to come on a file that nobody uses."""
        scratch = self.path.with_name("scratch")
        _call("create", str(scratch), text=self._text)
        try:
            for words in faults:
                _call("fault", str(scratch), *words)
        finally:
            scratch.unlink()

    def held(self) -> list[str]:
        """A line for each device of which somebody still has something."""
        done = _run("check", str(self.path))
        if done.stderr:
            raise LaunchError(done.stderr.strip(), FAILED)
        return done.stdout.splitlines()

    def show(self) -> Any:
        """Everything the fabric says about itself."""
        return json.loads(_call("show", str(self.path), "--json"))


def switches() -> str:
    """The fabric's switches with their defaults, as text."""
    return _call("switches")


def defaults() -> dict[str, str]:
    """The switches' defaults by name."""
    rows = [line.split() for line in switches().splitlines()]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def room_needed(topology: Topology) -> int:
    """Bytes that the file may come to fill when all queues are full."""
    return 2 * len(topology.cables) * QUEUE_PAIRS * PER_QUEUE_PAIR


def description(topology: Topology) -> str:
    """The topology in the words of ``tbmpi-fabric create``."""
    lines = [f"host {number} {name}" for number, name in enumerate(topology.hosts)]
    for cable in topology.cables:
        ends = (f"{end.host} {end.device} {end.address}" for end in cable.ends)
        lines.append(f"cable {cable.number} {' '.join(ends)}")
    lines += [f"set {key} {value}" for key, value in topology.settings.items()]
    return "\n".join(lines) + "\n"


def _call(*words: str, text: str = "") -> str:
    done = _run(*words, text=text)
    if done.returncode != 0:
        what = done.stderr.strip().removeprefix("tbmpi-fabric: ") or "no reason given"
        raise LaunchError(f"the fabric refuses: {what}")
    return done.stdout


def _run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(_paths.fabric_command()), *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise LaunchError(f"the fabric does not answer: {why}", FAILED) from why
