# SPDX-License-Identifier: MIT
"""Run a command with a time limit, and leave none of its processes behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is None if it had to be killed."""

    code: int | None
    seconds: float
    output: str


def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    limit: float,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run `argv`, both output streams to `log`, for at most `limit` seconds.

    A launcher may put its ranks into sessions of their own, so at the limit
    the whole family is ended, children looked up before their parents die.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                _end_family(process)
    seconds = time.monotonic() - started
    return Outcome(code, seconds, log.read_text(errors="replace"))


def end_children() -> None:
    """End all that this process has started, as after an interrupt."""
    _kill(descendants(os.getpid()))


def _end_family(process: subprocess.Popen) -> None:
    family = descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    _kill({**family, **descendants(process.pid)})
    process.kill()
    process.wait()


def _kill(family: dict[int, str]) -> None:
    now = _processes()
    for pid, started in family.items():
        # A number may be in use again: kill only what is the same process.
        if now.get(pid, (0, ""))[1] == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(root: int) -> dict[int, str]:
    """Return pid → start time of all processes below `root`."""
    table = _processes()
    found: dict[int, str] = {}
    level = {root}
    while level:
        level = {
            pid
            for pid, (parent, _) in table.items()
            if parent in level and pid not in found
        }
        found.update({pid: table[pid][1] for pid in level})
    return found


def _processes() -> dict[int, tuple[int, str]]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,lstart="],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = (line.split(None, 2) for line in listing.splitlines())
    return {int(pid): (int(parent), when) for pid, parent, when in rows}
