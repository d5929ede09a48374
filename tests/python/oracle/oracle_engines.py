# SPDX-License-Identifier: MIT
"""Jobs that wait for programs: one with tbmpi's library, one with MPICH's.

A job is kept for many programs, for to start one takes longer than a program. It
gets them through a named pipe a rank, whatever launcher it has, and is ended when
it did not answer in time.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle_types import RAISED

RANK = Path(__file__).with_name("oracle_rank.py")
LIBRARY = "libmpi_abi.1.dylib" if sys.platform == "darwin" else "libmpi_abi.so.1"
LIMIT = 60.0  # seconds for a program, and for a job to start
NO_ANSWER = "no answer"


class Engine:
    """An MPI that runs programs on some number of ranks."""

    def __init__(
        self, name: str, launch: Sequence[str], ranks: int, env: Mapping[str, str]
    ) -> None:
        self.name, self.ranks = name, ranks
        self._command = [*launch, "-n", str(ranks), sys.executable, str(RANK)]
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._asked: list[int] = []
        self._told: list[int] = []

    def run(self, program: Mapping[str, Any]) -> list[list[str]]:
        """What each rank saw; a last line says so if it did not answer."""
        if self._process is None:
            self._start()
        text = json.dumps(program) + "\n"
        with contextlib.suppress(OSError):
            for pipe in self._asked:
                _write(pipe, text.encode())
        answers = self._answers()
        if any(answer is None for answer in answers):
            said = self._end()
            return [answer or [f"{NO_ANSWER}: {said}"] for answer in answers]
        found = [answer for answer in answers if answer is not None]
        if any(failure(answer) for answer in found):
            self._end()
        return found

    def close(self) -> None:
        """Ends the job, if one is running."""
        if self._process is None:
            return
        for pipe in self._asked:
            os.close(pipe)
        self._asked = []
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LIMIT)
        self._end()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="oracle-")
        folder = Path(self._folder.name)
        for rank in range(self.ranks):
            os.mkfifo(folder / f"in.{rank}")
            os.mkfifo(folder / f"out.{rank}")
        log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [*self._command, str(folder)],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        # Read and write: this end opens at once, and sees no end of file.
        flags = os.O_RDWR | os.O_CLOEXEC
        names = range(self.ranks)
        self._asked = [os.open(folder / f"in.{r}", flags) for r in names]
        self._told = [os.open(folder / f"out.{r}", flags) for r in names]

    def _answers(self) -> list[list[str] | None]:
        """One line from each rank, None from those that give none in time."""
        texts = [b""] * self.ranks
        end = time.monotonic() + LIMIT
        with selectors.DefaultSelector() as selector:
            for rank, pipe in enumerate(self._told):
                selector.register(pipe, selectors.EVENT_READ, rank)
            while selector.get_map() and time.monotonic() < end:
                for key, _ in selector.select(1.0):
                    texts[key.data] += os.read(key.fd, 1 << 20)
                    if texts[key.data].endswith(b"\n"):
                        selector.unregister(key.fd)
                if self._process is None or self._process.poll() is not None:
                    break
        return [json.loads(text) if text.endswith(b"\n") else None for text in texts]

    def _end(self) -> str:
        """Ends the job and all of its processes; the last that it said."""
        assert self._process is not None and self._folder is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10.0)
        for pipe in self._asked + self._told:
            os.close(pipe)
        said = Path(self._folder.name, "log").read_text(errors="replace")
        self._folder.cleanup()
        self._process, self._folder, self._asked, self._told = None, None, [], []
        return " | ".join(said.splitlines()[-3:])[-400:]


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def ours(ranks: int, words: Sequence[str] = ()) -> Engine:
    """tbmpi, on this machine or as these words for tbmpirun say."""
    launch = (sys.executable, "-m", "tbmpi.launch", "-q", *words)
    return Engine(" ".join(("tbmpi", *words)), launch, ranks, {})


def mpich(ranks: int, folder: Path) -> Engine:
    """MPICH's library under its own launcher; `folder` is where pip put it."""
    library = folder / "lib" / LIBRARY
    launch = (str(folder / "bin" / "mpiexec"),)
    return Engine("mpich", launch, ranks, {"TBMPI_LIBMPI": str(library)})


def failure(answer: list[str]) -> str:
    """The rank's last line if it says that something went wrong."""
    last = answer[-1] if answer else ""
    return last if f" {RAISED} " in last or last.startswith(NO_ANSWER) else ""


def difference(one: list[list[str]], other: list[list[str]]) -> str:
    """The first line in which two engines differ; empty if there is none.

    What both of them could not do is a mistake of the program, and said as well.
    """
    for rank, (left, right) in enumerate(zip(one, other, strict=True)):
        for at in range(max(len(left), len(right))):
            lines = [
                side[at] if at < len(side) else "nothing" for side in (left, right)
            ]
            if lines[0] != lines[1]:
                return f"rank {rank}: {lines[0]}  ≠  {lines[1]}"
    return next((text for text in map(failure, one) if text), "")
