# SPDX-License-Identifier: MIT
"""The sentences that the launcher says when a job fails.

One line names the rank, the host, what happened, and where the others were.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from tbmpi._gen import segment as layout
from tbmpi.launch.board import Note, rank_list
from tbmpi.launch.errors import SIGNAL_BASE

PREFIX = "tbmpirun: "
GROUPS_SHOWN = 4

_MEANING = {
    signal.SIGKILL: "by hand, or the machine ran out of memory",
    signal.SIGSEGV: "access to invalid memory",
    signal.SIGBUS: "access to memory that is not there",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "invalid instruction: built for another processor?",
    signal.SIGABRT: "it gave up by itself",
    signal.SIGXCPU: "its limit of processor time is used up",
}


@dataclass(frozen=True)
class Failure:
    """Why the job failed: the first rank that did, and the code to exit with.

    `what` follows "rank R on HOST"; `where` says whether the rank's own call
    belongs into the line. An empty `what` is a failure that needs no words.
    """

    code: int
    rank: int = -1
    what: str = ""
    where: bool = False


def by_exit(rank: int, status: int, finalized: bool) -> Failure:
    """A rank that ended with this status: an exit code, or minus a signal."""
    if status < 0:
        what = f"was killed by {signal_text(-status)}"
        return Failure(SIGNAL_BASE - status, rank, what, where=True)
    what = f"ended with exit code {status}"
    inner = status - SIGNAL_BASE
    if inner in signal.valid_signals() and inner > 0:
        what += f" (what it ran was killed by {signal_text(inner)})"
    return Failure(status, rank, what + (", after MPI_Finalize" if finalized else ""))


def by_abort(rank: int, code: int, reason: str) -> Failure:
    """A rank that called MPI_Abort, or that ended the job for a reason."""
    what = f"called MPI_Abort with code {code}"
    if reason and not reason.startswith("MPI_Abort("):
        # The rank has said all of it itself, and the board has less room.
        whole = len(reason.encode()) < layout.NOTE_REASON_BYTES - 1
        text = re.sub(r"^rank \d+ on \S+: ", "", reason)
        what = f"ended the job with code {code}: {text}{'' if whole else '...'}"
    # An exit code has eight bits, and an aborted job must not look well.
    return Failure(code & 0xFF or 1, rank, what)


def signal_text(number: int) -> str:
    """``signal 9 (SIGKILL: what it means)``."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    meaning = _MEANING.get(signal.Signals(number))
    return f"signal {number} ({name}{': ' + meaning if meaning else ''})"


def death_line(failure: Failure, host: str, notes: Sequence[Note]) -> str:
    """The one line about a failure."""
    text = f"rank {failure.rank} on {host} {failure.what}"
    own = notes[failure.rank]
    if failure.where and own.state == layout.STATE_RUNNING:
        text += f" {own.doing()}" if own.call else ", outside MPI"
        if own.waiting_for():
            text += f" ({own.waiting_for()})"
    others = {
        r: note for r, note in enumerate(notes) if r != failure.rank and note.present
    }
    return PREFIX + text + _others(others)


def _others(notes: dict[int, Note]) -> str:
    groups: dict[str, list[int]] = {}
    for rank, note in notes.items():
        groups.setdefault(note.doing(), []).append(rank)
    parts = []
    for doing, ranks in sorted(groups.items(), key=lambda item: -len(item[1]))[
        :GROUPS_SHOWN
    ]:
        part = f"{rank_list(ranks)} {'was' if len(ranks) == 1 else 'were'} {doing}"
        waiting = notes[ranks[0]].waiting_for() if len(ranks) == 1 else ""
        parts.append(part + (f" ({waiting})" if waiting else ""))
    if len(groups) > GROUPS_SHOWN:
        parts.append(f"{len(groups) - GROUPS_SHOWN} other groups elsewhere")
    return "; " + "; ".join(parts) if parts else ""


def state_line(rank: int, host: str, pid: int | None, note: Note, stage: str) -> str:
    """One rank's line in the report of --timeout.

    `pid` is None for a rank that has ended; `stage` is all there is to say of
    that one and of one that has no note.
    """
    text = f"  rank {rank} on {host}"
    if pid is None or not note.present:
        return f"{text}{'' if pid is None else f', process {pid},'} {stage}"
    text += f", process {pid}: {note.doing()}"
    if note.waiting_for():
        text += f" {note.waiting_for()}"
    since = note.waiting_since()
    return text + (f", for {since:.1f} s" if since is not None else "")
