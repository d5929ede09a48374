# SPDX-License-Identifier: MIT
"""Ends the ranks when the launcher is killed and cannot do it itself.

The guard is a small child process in a session of its own. It reads from a
pipe which sessions belong to the job, and does nothing until the pipe ends.
The launcher holds the only other end, so that happens at its death, however
it died. It works for any program, also one that is no MPI program, on any
Unix, and needs no code between fork and exec of a rank.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time

from tbmpi.launch.sessions import Doom, started_by

GRACE = 0.5
GIVE_UP = 5.0
STEP = 0.02
LOOK = 0.3


class Guard:
    """The launcher's side."""

    def __init__(self) -> None:
        """Forks the guard. Call it before threads and the event loop exist."""
        reader, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _guard(reader)
            finally:
                os._exit(0)
        os.close(reader)

    def watch(self, sid: int) -> None:
        """The session is to end with the launcher."""
        self._tell(f"+{sid}\n")

    def forget(self, sid: int) -> None:
        """The session has ended; its number may soon be another's."""
        self._tell(f"-{sid}\n")

    def close(self) -> None:
        """Dismisses the guard and waits for it; sessions still known end."""
        self._tell("=0\n")
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _tell(self, line: str) -> None:
        # A guard that somebody killed is no reason to end the job.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, line.encode())


def _guard(reader: int) -> None:
    launcher = os.getppid()
    os.setsid()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    _close_all_but(reader)
    sids: set[int] = set()
    dismissed = False
    rest = b""
    while data := os.read(reader, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            sid = int(line[1:])
            if line.startswith(b"+"):
                sids.add(sid)
            elif line.startswith(b"-"):
                sids.discard(sid)
            else:
                dismissed = True
    _end(sids, None if dismissed else launcher)


def _close_all_but(reader: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    last = 65536 if limit == resource.RLIM_INFINITY else limit
    os.closerange(3, reader)
    os.closerange(max(3, reader + 1), last)


def _end(sids: set[int], killed: int | None) -> None:
    """Ends the sessions, and those that a killed launcher had not told of.

    It may have been killed just when it had started a rank, which is not to be
    recognised before its exec: so look for a while.
    """
    doom = Doom()
    start = now = time.monotonic()
    look = start + LOOK if killed else start
    for sid in sids:
        doom.add(sid, start, start + GRACE)
    while now < look or (doom.sids and now < start + GIVE_UP):
        if killed and now < look:
            for sid in started_by(killed):
                doom.add(sid, start, start + GRACE)
        doom.step(now)
        time.sleep(STEP)
        now = time.monotonic()
