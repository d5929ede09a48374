# SPDX-License-Identifier: MIT
"""Commands with a time limit that leave nothing behind.

Launchers put their ranks into process groups and sessions of their own, and
not every launcher takes its ranks along when it is told to end. So before a
command is stopped, its descendants are noted, with the names in /dev/shm
that they have mapped; what is still there afterwards is removed.

Signals are noted and acted upon at known places only. An exception out of a
signal handler could come between the start of a command and the moment that
its process is known, or where Python ignores it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 3.0
ORPHAN_SECONDS = 0.3
LOOK_SECONDS = 0.2
PROC = Path("/proc")
_signals: list[int] = []


class Interrupted(Exception):
    """SIGINT or SIGTERM came; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def noted_signals() -> Generator[None]:
    """Turn SIGINT and SIGTERM into Interrupted out of `run_limited`."""
    _signals.clear()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _note) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _note(number: int, frame: FrameType | None) -> None:
    del frame
    _signals.append(number)


def raise_noted() -> None:
    """Raise Interrupted if a signal has been noted."""
    if _signals:
        raise Interrupted(_signals[0])


@dataclass(frozen=True)
class Finished:
    """How a command ended; `late` means that its time limit stopped it."""

    stdout: str
    stderr: str
    code: int
    late: bool
    seconds: float

    def complaint(self) -> str:
        """Return the end of what the command said, for an error message."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return "\n".join(lines[-12:]) or f"exit code {self.code}, no output"


def run_limited(
    command: Sequence[str | Path],
    seconds: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Finished:
    """Run a command for at most `seconds`.

    Standard input is empty. On a time-out, and on any exception such as
    Interrupted, the command and all its descendants are ended before this
    returns or raises. OSError if it cannot be started.
    """
    raise_noted()
    start = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        cwd=cwd,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = False
    try:
        out, err = _output(process, start + seconds)
    except subprocess.TimeoutExpired:
        late = True
        _stop(process)
        out, err = process.communicate()
    except BaseException:
        _stop(process)
        process.communicate()
        raise
    took = time.monotonic() - start
    return Finished(out, err, process.returncode, late, took)


def _output(process: subprocess.Popen[str], deadline: float) -> tuple[str, str]:
    while True:
        left = deadline - time.monotonic()
        try:
            return process.communicate(timeout=min(LOOK_SECONDS, left))
        except subprocess.TimeoutExpired:
            if left <= LOOK_SECONDS:
                raise
        raise_noted()


def _stop(process: subprocess.Popen[str]) -> None:
    """End the launcher first: it knows best how to end its ranks."""
    family = _descendants(process.pid)
    segments = _mapped_segments([process.pid, *family])
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    process.kill()
    deadline = time.monotonic() + ORPHAN_SECONDS
    while any(map(_is_alive, family)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in family:
        _kill(pid)
    for segment in segments:
        with contextlib.suppress(OSError):
            segment.unlink()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return _stat_fields(pid)[:1] != ["Z"]


def _stat_fields(pid: int | str) -> list[str]:
    """Return /proc/<pid>/stat from the state on; empty without such a file."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _parents() -> dict[int, int]:
    """Map each process of the machine to its parent."""
    if _stat_fields("self"):
        table = {}
        for entry in PROC.iterdir():
            fields = _stat_fields(entry.name) if entry.name.isdigit() else []
            if fields:
                table[int(entry.name)] = int(fields[1])
        return table
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    pairs = (line.split() for line in listing.stdout.splitlines())
    return {int(pid): int(parent) for pid, parent in pairs}


def _descendants(root: int) -> list[int]:
    parents = _parents()
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _mapped_segments(pids: Sequence[int]) -> set[Path]:
    """Return the files in /dev/shm that the processes have mapped."""
    found = set()
    for pid in pids:
        try:
            maps = (PROC / str(pid) / "maps").read_text(errors="replace")
        except OSError:
            continue
        for line in maps.splitlines():
            _, slash, rest = line.partition(" /dev/shm/")
            if slash and not rest.endswith(" (deleted)"):
                found.add(Path("/dev/shm", rest))
    return found
