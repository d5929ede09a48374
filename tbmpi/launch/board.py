# SPDX-License-Identifier: MIT
"""The job board: what every rank is doing, as it noted in shared memory.

The library writes a note of 128 bytes per rank (csrc/net/segment.h); reading
one costs nothing to the rank and works after its death.
"""

from __future__ import annotations

import functools
import json
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tbmpi import _paths
from tbmpi._gen import segment as layout

_FIELDS = (
    ("pid", "I", layout.NOTE_PID),
    ("state", "I", layout.NOTE_STATE),
    ("call", "I", layout.NOTE_CALL),
    ("peer", "i", layout.NOTE_PEER),
    ("tag", "i", layout.NOTE_TAG),
    ("since", "Q", layout.NOTE_SINCE),
    ("code", "i", layout.NOTE_CODE),
)


@dataclass(frozen=True)
class Note:
    """One rank's note. All zero, as for a program without MPI: ABSENT."""

    pid: int = 0
    state: int = layout.STATE_ABSENT
    call: int = 0
    peer: int = layout.PEER_NONE
    tag: int = 0
    since: int = 0
    code: int = 0
    reason: str = ""

    @property
    def present(self) -> bool:
        """Whether the rank ever wrote here."""
        return self.state != layout.STATE_ABSENT

    def doing(self) -> str:
        """What the rank does, to follow "was" or "is"."""
        if self.state == layout.STATE_FINALIZED:
            return "past MPI_Finalize"
        if self.state == layout.STATE_ABSENT:
            return "not in MPI yet"
        return f"in {call_name(self.call)}" if self.call else "outside MPI"

    def waiting_for(self) -> str:
        """For whom it waits: "from rank 3, tag 7", or nothing."""
        if not self.call or self.peer == layout.PEER_NONE or not self.since:
            return ""
        peer = "any rank" if self.peer == layout.PEER_ANY else f"rank {self.peer}"
        return f"with {peer}" + (f", tag {self.tag}" if self.tag >= 0 else "")

    def waiting_since(self) -> float | None:
        """Seconds it has waited, or None when it does not wait."""
        if not self.call or not self.since:
            return None
        # The library's clock, which is not time.monotonic() on macOS.
        return max(
            0.0, (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.since) / 1e9
        )


class Board:
    """Reads the notes in the memory of a segment."""

    def __init__(self, memory: memoryview | bytes, ranks: int) -> None:
        self._memory = memory
        self.ranks = ranks

    def note(self, rank: int) -> Note:
        """The rank's note as it stands; a torn one only garbles a message."""
        at = layout.SEGMENT_HEAD + rank * layout.NOTE_BYTES
        values = {
            name: struct.unpack_from("=" + kind, self._memory, at + offset)[0]
            for name, kind, offset in _FIELDS
        }
        start = at + layout.NOTE_REASON
        text = bytes(self._memory[start : start + layout.NOTE_REASON_BYTES])
        reason = text.split(b"\0")[0].decode("utf-8", "replace")
        return Note(reason=" ".join(reason.split()), **values)

    def notes(self) -> list[Note]:
        """All of them."""
        return [self.note(rank) for rank in range(self.ranks)]


@functools.cache
def operations() -> dict[str, bool]:
    """Every operation of the library in its order, and whether it is there."""
    text = _paths.package_file("_gen", "surface.json").read_text(encoding="utf-8")
    table: dict[str, bool] = json.loads(text)
    return table


@functools.cache
def _names() -> tuple[str, ...]:
    return ("no call", *operations())


def call_name(call: int) -> str:
    """The name of the operation with this number; numbers begin at 1."""
    names = _names()
    return names[call] if 0 < call < len(names) else f"operation {call}"


def rank_list(ranks: Iterable[int]) -> str:
    """``ranks 0-3, 7`` or ``rank 2``."""
    runs: list[list[int]] = []
    count = 0
    for rank in sorted(ranks):
        count += 1
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"{'rank' if count == 1 else 'ranks'} {text}"
