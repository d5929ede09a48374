# SPDX-License-Identifier: MIT
"""Run xhpl under a launcher, watched and with a time limit."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tbmpi.hpl.errors import HplError
from tbmpi.hpl.results import Report, parse, progress_of

GRACE_SECONDS = 5
LEAST_LIMIT_SECONDS = 900.0
# A run may take this many times what was expected of it.
PATIENCE = 10.0
TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """How xhpl is started: the launcher's words up to the program, and where."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def run_job(
    job: Job,
    dat: str,
    expected_seconds: float | None,
    show: Callable[[float | None], None],
) -> Report:
    """Write HPL.dat, run the job and parse what it prints.

    `show` gets the share that is done: HPL's own word where it reports
    progress, else an estimate from the expected time, None without one.
    Output is kept in HPL.out. Raises HplError if the run does not end well.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    (job.folder / "HPL.dat").write_text(dat)
    limit = max(LEAST_LIMIT_SECONDS, PATIENCE * (expected_seconds or 0))
    log = job.folder / "HPL.out"
    code = _watch(job, log, limit, expected_seconds, show)
    text = log.read_text(errors="replace")
    report = parse(text)
    if code is None:
        raise HplError(f"HPL did not end within {limit:.0f} s; its output is in {log}")
    if code or not report.finished:
        raise HplError(_what_happened(text, report, code, log))
    return report


def _watch(
    job: Job,
    log: Path,
    limit: float,
    expected: float | None,
    show: Callable[[float | None], None],
) -> int | None:
    """Copy output to `log` until the job ends; None if it had to be ended."""
    try:
        process = subprocess.Popen(
            job.command,
            cwd=job.folder,
            env={**os.environ, **job.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise HplError(f"the launcher {job.command[0]} does not exist") from None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_feed, args=(process, lines), daemon=True)
    reader.start()
    started = time.monotonic()
    share = None
    try:
        with log.open("w") as sink:
            while time.monotonic() - started < limit:
                try:
                    line = lines.get(timeout=TICK_SECONDS)
                except queue.Empty:
                    line = ""
                if line is None:
                    return process.wait(GRACE_SECONDS)
                sink.write(line)
                told = progress_of(line)
                share = share if told is None else told
                guess = None
                if expected:
                    guess = min(0.99, (time.monotonic() - started) / expected)
                show(guess if share is None else share)
        return None
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)
        reader.join(GRACE_SECONDS)


def _feed(process: subprocess.Popen, lines: queue.Queue[str | None]) -> None:
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen) -> None:
    """End the launcher, which ends its ranks; then make sure."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _what_happened(text: str, report: Report, code: int, log: Path) -> str:
    if report.troubles:
        said = "; ".join(report.troubles[:2])
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        said = lines[-1] if lines else "it printed nothing"
    end = f"exit code {code}" if code else "it stopped before its end"
    return f"HPL failed ({end}): {said} (all of it: {log})"
