# SPDX-License-Identifier: MIT
"""What a job runs on: memory, helpers, and what each process must be told.

A job on one machine needs a shared segment and nothing else (ThisMachine).
Emulated Macs need a segment each, a pool, a router, cables (sim.SimSite).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tbmpi.launch.board import Board, Note
from tbmpi.launch.nodes import Node
from tbmpi.launch.segment import Segment


@dataclass
class Outfit:
    """What a process is given beside its program.

    `handed` maps variables of its environment to descriptors that it inherits.
    `plan`, if any, is a text for the descriptor that TBMPI_PLAN_FD names, in
    which {name} stands for the number of the inherited descriptor
    `marked[name]`. Descriptors stay whose they are, but those in `lent` are
    closed by close(), once the process has been started or could not be.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    handed: Mapping[str, int] = field(default_factory=dict)
    plan: str = ""
    marked: Mapping[str, int] = field(default_factory=dict)
    lent: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Gives up our copies of what only the process should have."""
        while self.lent:
            os.close(self.lent.pop())


@dataclass(frozen=True)
class Helper:
    """A process that serves a machine's ranks: its start is before theirs, its
    end after, and one that ends meanwhile takes the job with it."""

    name: str
    node: int
    argv: tuple[str, ...]
    env: Mapping[str, str]


class Processes(Protocol):
    """Where the processes of a running job can be reached."""

    def groups_of(self, node: int) -> list[int]:
        """The process groups of a machine's ranks and helpers."""

    def group_of_rank(self, rank: int) -> int | None:
        """The rank's process group, or None when it has ended."""

    def group_of_helper(self, node: int) -> int | None:
        """The same of a machine's helper."""


class Site(Protocol):
    """Made before any process of the job; close() leaves nothing behind."""

    @property
    def helpers(self) -> Sequence[Helper]:
        """What to start before the ranks."""

    @property
    def descriptors(self) -> int:
        """How many it keeps open, beside those of each rank."""

    def prepare(self) -> None:
        """Opens them, now that there is room. Raises LaunchError."""

    def outfit(self, rank: int) -> Outfit:
        """For a rank. Raises LaunchError."""

    def helper_outfit(self, helper: Helper) -> Outfit:
        """For a helper. Raises LaunchError."""

    def note(self, rank: int) -> Note:
        """The rank's note on its machine's board."""

    async def started(self, processes: Processes) -> None:
        """All processes have been started."""

    def leftovers(self) -> list[str]:
        """The processes have ended: what they left in devices, in words."""

    def close(self) -> None:
        """The processes have ended. May be called again."""


class ThisMachine:
    """All ranks on this machine, with one segment."""

    helpers: Sequence[Helper] = ()
    descriptors = 1

    def __init__(self, ranks: int) -> None:
        self._segment = Segment(ranks)
        self._board = Board(memoryview(self._segment.view), ranks)

    def prepare(self) -> None:
        """There is room for a segment from the start."""

    def outfit(self, rank: int) -> Outfit:
        """The segment."""
        return Outfit(handed={"TBMPI_SHM_FD": self._segment.fd})

    def helper_outfit(self, helper: Helper) -> Outfit:
        """There are no helpers."""
        raise NotImplementedError(helper.name)

    def note(self, rank: int) -> Note:
        """The rank's note."""
        return self._board.note(rank)

    async def started(self, processes: Processes) -> None:
        """Nothing waits for that."""

    def leftovers(self) -> list[str]:
        """There are no devices."""
        return []

    def close(self) -> None:
        """Gives the segment back; notes stay readable."""
        self._segment.close()


class Boards:
    """The boards of several machines as one, by rank of the job."""

    def __init__(self, nodes: Sequence[Node], segments: Mapping[int, Segment]) -> None:
        self._places: dict[int, tuple[Board, int]] = {}
        for node in nodes:
            if node.ranks:
                view = memoryview(segments[node.number].view)
                board = Board(view, len(node.ranks))
                for place, rank in enumerate(node.ranks):
                    self._places[rank] = board, place

    def note(self, rank: int) -> Note:
        """The rank's note; an empty one before there is a board."""
        if rank not in self._places:
            return Note()
        board, place = self._places[rank]
        return board.note(place)
