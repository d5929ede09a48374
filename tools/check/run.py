# SPDX-License-Identifier: MIT
"""Commands of a group: bounded in time, logged, and ended as a whole."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from report import Trouble

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "check"
# Where the environment's commands are; not resolved, for a venv's python is a link.
BIN = Path(sys.executable).parent


@dataclass
class Done:
    """A command that has ended; `code` is None if its time was up."""

    code: int | None
    output: str

    @property
    def good(self) -> bool:
        """Whether it succeeded."""
        return self.code == 0

    def why(self) -> str:
        """The line that says why it failed: the first error, or the last line."""
        if self.code is None:
            return "its time was up"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        errors = [line for line in lines if "error: " in line]
        said = errors[:1] or lines[-1:] or [f"exit code {self.code}, no output"]
        return said[0][:200]


class Runner:
    """Runs the commands of one group in what remains of the group's time."""

    def __init__(self, group: str, seconds: float, full: bool) -> None:
        self.full = full
        self.folder = WORK / group
        self.log_path = WORK / f"{group}.log"
        self._deadline = time.monotonic() + seconds
        self._log: IO[str] | None = None

    def __enter__(self) -> Runner:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.log_path.open("w", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if value is not None:
            self.say(f"{kind.__name__ if kind else ''}: {value}")
        if self._log:
            self._log.close()

    def say(self, text: str) -> None:
        """Adds to the log."""
        if self._log:
            self._log.write(text.rstrip("\n") + "\n")
            self._log.flush()

    def run(
        self,
        *words: str | Path,
        limit: float = 3600.0,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> Done:
        """Runs a command to its end, or ends it and all that it started.

        `limit` is in seconds; the group's own limit counts as well.
        """
        command = [str(word) for word in words]
        self.say(f"$ {shlex.join(command)}")
        began = time.monotonic()
        seconds = min(limit, self._deadline - began)
        if seconds <= 0:
            raise Trouble("the group's time is up")
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            output, code = _end(process), None
        except BaseException:
            _end(process)
            raise
        self.say(output)
        ended = "time was up" if code is None else f"exit code {code}"
        self.say(f"[{ended}, {time.monotonic() - began:.1f} s]\n")
        return Done(code, output)

    def must(self, *words: str | Path, **more: object) -> str:
        """As run, for what must succeed: its output, or Trouble."""
        done = self.run(*words, **more)  # type: ignore[arg-type]
        if not done.good:
            name = Path(str(words[0])).name
            raise Trouble(f"{name} failed: {done.why()}")
        return done.output

    def python(self, *words: str | Path, **more: object) -> Done:
        """Runs this Python."""
        return self.run(sys.executable, *words, **more)  # type: ignore[arg-type]


def _end(process: subprocess.Popen[str]) -> str:
    """Ends a command's session: politely, for a launcher has ranks to end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=5.0)[0]
    return ""


def tool(name: str, remedy: str) -> Path:
    """A program of this environment or of the system. Trouble if it is missing."""
    beside = BIN / name
    if beside.exists():
        return beside
    found = shutil.which(name)
    if not found:
        raise Trouble(f"{name} is missing: {remedy}")
    return Path(found)


def ours(name: str) -> Path:
    """A command of the installed tbmpi."""
    return tool(name, "install tbmpi in this Python (make setup)")
