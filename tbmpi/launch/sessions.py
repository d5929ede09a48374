# SPDX-License-Identifier: MIT
"""Ending everything that a rank, or the job, has started.

All of a job is one session, led by the guard, and each rank leads a process
group in it. What a rank starts stays in its group unless it makes others, and
in the session even when it does or ignores SIGTERM; only a process that calls
setsid() has left the job, and says so by doing it. A session is also out of
reach of the terminal: Ctrl-C and Ctrl-Z reach the launcher alone, which passes
them on.
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


@dataclass(frozen=True)
class Group:
    """The processes of one group, which a rank leads."""

    number: int


@dataclass(frozen=True)
class Session:
    """The processes of a job, without the guard that leads its session."""

    number: int


Crowd = Group | Session


def members(
    crowds: Iterable[Crowd], spared: frozenset[int] = frozenset()
) -> dict[Crowd, list[int]]:
    """The live processes of each; zombies do not count.

    A session's are those outside the groups in `spared`.
    """
    found: dict[Crowd, list[int]] = {crowd: [] for crowd in crowds}
    for pid in _processes() if found else []:
        try:
            group, session = Group(os.getpgid(pid)), Session(os.getsid(pid))
        except OSError:
            continue
        outer = () if group.number in spared else (session,)
        mine = [crowd for crowd in (group, *outer) if crowd in found]
        if mine and pid != session.number and not _is_zombie(pid):
            for crowd in mine:
                found[crowd].append(pid)
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
    """When a crowd is asked to end, and when it is made to."""

    ask: float
    kill: float
    asked: bool = False


class Doom:
    """Ends crowds: SIGTERM at one time, SIGKILL at a later one.

    step() is called every few hundredths of a second until nothing is
    condemned any more; it never blocks, so an event loop and a plain loop can
    use it.
    """

    def __init__(self) -> None:
        self._sentences: dict[Crowd, _Sentence] = {}

    @property
    def condemned(self) -> frozenset[Crowd]:
        """What is to end."""
        return frozenset(self._sentences)

    def add(self, crowd: Crowd, ask: float, kill: float) -> None:
        """Condemns a crowd; the earlier of two sentences holds."""
        old = self._sentences.get(crowd)
        if old is None:
            self._sentences[crowd] = _Sentence(ask, kill)
        else:
            old.ask, old.kill = min(old.ask, ask), min(old.kill, kill)

    def step(
        self,
        now: float,
        kept: frozenset[int] = frozenset(),
        spared: frozenset[int] = frozenset(),
    ) -> None:
        """Sends what is due, and forgets the crowds that have ended.

        A group whose leader is in `kept` has not ended, whatever is in it: its
        end has not been seen yet. A session's sentence does not reach the
        groups in `spared`.
        """
        for crowd, pids in members(self._sentences, spared).items():
            sentence = self._sentences[crowd]
            if not pids and crowd.number not in kept:
                del self._sentences[crowd]
            elif now >= sentence.kill:
                send(crowd, pids, signal.SIGKILL)
            elif now >= sentence.ask and not sentence.asked:
                sentence.asked = True
                send(crowd, pids, signal.SIGTERM)
                send(crowd, pids, signal.SIGCONT)


def send(crowd: Crowd, pids: Iterable[int], signum: int) -> None:
    """Signals a crowd; a group at one stroke, so that none forks away."""
    groups: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            groups.add(os.getpgid(pid))
    for group in groups:
        with contextlib.suppress(OSError):
            if group != crowd.number or isinstance(crowd, Group):
                os.killpg(group, signum)
