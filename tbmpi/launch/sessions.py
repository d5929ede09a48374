# SPDX-License-Identifier: MIT
"""Ending everything that a rank started.

Each rank leads a session of its own. Whatever it starts stays in that
session, also in other process groups and when it ignores SIGTERM; only a
process that calls setsid() has left the job, and says so by doing it. A
session is also out of reach of the terminal: Ctrl-C and Ctrl-Z reach the
launcher alone, which passes them on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HAS_PROC = Path("/proc/self/stat").exists()

# In each rank's environment: the launcher's process number.
LAUNCHER = "TBMPI_LAUNCHER"


def members(sids: Iterable[int]) -> dict[int, list[int]]:
    """The live processes of each session; zombies do not count."""
    found: dict[int, list[int]] = {sid: [] for sid in sids}
    if not found:
        return found
    for pid in _processes():
        try:
            sid = os.getsid(pid)
        except OSError:
            continue
        if sid in found and not _is_zombie(pid):
            found[sid].append(pid)
    return found


def started_by(launcher: int) -> set[int]:
    """Sessions of processes that the launcher of that number started.

    Found by what their environment says, so only where /proc shows it.
    """
    mark = f"{LAUNCHER}={launcher}".encode()
    found = set()
    for pid in _processes() if HAS_PROC else []:
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(os.getsid(pid))
    return found


def _processes() -> list[int]:
    if HAS_PROC:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    listing = subprocess.run(
        ["/bin/ps", "-axo", "pid=,stat="], capture_output=True, text=True, check=False
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    return [int(row[0]) for row in rows if len(row) == 2 and "Z" not in row[1]]


def _is_zombie(pid: int) -> bool:
    if not HAS_PROC:
        return False
    try:
        after_name = (
            Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2]
        )
    except OSError:
        return True
    return after_name.split()[0] in ("Z", "X")


@dataclass
class _Sentence:
    """When a session is asked to end, and when it is made to."""

    ask: float
    kill: float
    asked: bool = False


class Doom:
    """Ends sessions: SIGTERM at one time, SIGKILL at a later one.

    step() is called every few hundredths of a second until it returns an
    empty set; it never blocks, so an event loop and a plain loop can use it.
    """

    def __init__(self) -> None:
        self._sentences: dict[int, _Sentence] = {}

    @property
    def sids(self) -> frozenset[int]:
        """The sessions that are to end."""
        return frozenset(self._sentences)

    def add(self, sid: int, ask: float, kill: float) -> None:
        """Condemns a session; the earlier of two sentences holds."""
        old = self._sentences.get(sid)
        if old is None:
            self._sentences[sid] = _Sentence(ask, kill)
        else:
            old.ask, old.kill = min(old.ask, ask), min(old.kill, kill)

    def step(self, now: float, unreaped: frozenset[int] = frozenset()) -> set[int]:
        """Sends what is due; returns the sessions that have ended.

        A session in `unreaped` has a leader that the caller still has to wait
        for; it has not ended, whatever else is in it.
        """
        ended = set()
        for sid, pids in members(self._sentences).items():
            sentence = self._sentences[sid]
            if not pids and sid not in unreaped:
                ended.add(sid)
                del self._sentences[sid]
            elif now >= sentence.kill:
                send(sid, pids, signal.SIGKILL)
            elif now >= sentence.ask and not sentence.asked:
                sentence.asked = True
                send(sid, pids, signal.SIGTERM)
                send(sid, pids, signal.SIGCONT)
        return ended


def send(sid: int, pids: Iterable[int], signum: int) -> None:
    """Signals a session: its first group at one stroke, then the others."""
    with contextlib.suppress(OSError):
        os.killpg(sid, signum)
    for pid in pids:
        with contextlib.suppress(OSError):
            if os.getpgid(pid) != sid:
                os.kill(pid, signum)
