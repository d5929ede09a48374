# SPDX-License-Identifier: MIT
"""Running tbmpirun as a user does, and looking for what it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path

MARK = "TBMPI_TEST_MARK"
CLIENT = Path(__file__).with_name("launch") / "pmi_client.py"


class Launcher:
    """Starts tbmpirun and answers for everything it starts.

    All processes of a test carry one mark in their environment, so that
    survivors are found whatever session or parent they have.
    """

    limit = 30.0  # seconds that a job may take

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.env = {**os.environ, MARK: self.mark, "PYTHONDONTWRITEBYTECODE": "1"}
        self.jobs: list[int] = []

    def command(self, *words: str) -> list[str]:
        """The command line of tbmpirun."""
        return [sys.executable, "-m", "tbmpi.launch", *words]

    def run(self, *words: str, stdin: bytes | int = b"", **options: object):
        """Runs a job to its end; nothing of it may be left then."""
        piped = isinstance(stdin, bytes)
        job = self.start(*words, stdin=subprocess.PIPE if piped else stdin, **options)
        out, err = job.communicate(stdin if piped else None, timeout=self.limit)
        self.assert_nothing_left()
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def start(self, *words: str, **options: object) -> subprocess.Popen[bytes]:
        """Starts a job and comes back; see finish()."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.env,
            **{"stdin": subprocess.DEVNULL, **pipes, **options},
        )
        self.jobs.append(job.pid)
        return job

    def finish(
        self, job: subprocess.Popen[bytes], limit: float | None = None
    ) -> tuple[int, str, str]:
        """Waits for a started job; exit code, output and errors as text."""
        out, err = job.communicate(timeout=limit or self.limit)
        self.assert_nothing_left()
        return job.returncode, (out or b"").decode(), (err or b"").decode()

    def script(self, name: str, text: str) -> str:
        """A Python rank in a file; it can `import pmi_client`."""
        path = self.folder / name
        head = f"import sys; sys.path.insert(0, {str(CLIENT.parent)!r})\n"
        path.write_text(head + textwrap.dedent(text))
        return str(path)

    def python(self, text: str, name: str = "rank.py") -> list[str]:
        """The command line of a Python rank."""
        return [sys.executable, self.script(name, text)]

    def ranks(self, job: subprocess.Popen[bytes]) -> list[int]:
        """The processes of a job's ranks."""
        guards = set(self.guards(job))
        return [
            pid
            for pid, parent in _parents().items()
            if parent in guards and "\0PMI_RANK=" in _environment(pid)
        ]

    def guards(self, job: subprocess.Popen[bytes]) -> list[int]:
        """The guard of a job; it is the launcher's only child."""
        return [pid for pid, parent in _parents().items() if parent == job.pid]

    def survivors(self) -> list[int]:
        """Living processes with this test's mark."""
        return [pid for pid in _pids() if self.mark in _environment(pid)]

    def wait_for(self, condition: Callable[[], object], limit: float = 10.0) -> None:
        """Waits until the condition holds; fails the test when it does not."""
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, "the awaited condition did not come"
            time.sleep(0.01)

    def assert_nothing_left(self, within: float = 0.0) -> None:
        """No process and no shared memory of this test is left."""
        end = time.monotonic() + within
        while self.survivors() and time.monotonic() < end:
            time.sleep(0.02)
        assert self.survivors() == []
        assert _memory(self.jobs) == []

    def clean(self) -> None:
        """Ends what a test left, and waits for its end."""
        for pid in self.survivors():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: not self.survivors())


def _parents() -> dict[int, int]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    return {int(row[0]): int(row[1]) for row in rows}


def _pids() -> list[int]:
    if Path("/proc/self").exists():
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    listing = subprocess.run(
        ["/bin/ps", "-axo", "pid="], capture_output=True, text=True
    )
    return [int(pid) for pid in listing.stdout.split()]


def _environment(pid: int) -> str:
    try:
        if Path("/proc/self").exists():
            # A zombie has no environment any more.
            return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
    command = ["/bin/ps", "-Eww", "-o", "command=", "-p", str(pid)]
    listing = subprocess.run(command, capture_output=True, text=True).stdout
    return "\0".join(listing.split())


def _memory(jobs: list[int]) -> list[str]:
    """Shared memory and folders with names that these launchers have made."""
    heads = tuple(h for pid in jobs for h in (f"tbmpi-{pid:x}-", f"tbmpi-sim-{pid}-"))
    places = {"/dev/shm", tempfile.gettempdir(), "/tmp"}
    return [
        name
        for place in places
        if os.path.isdir(place)
        for name in os.listdir(place)
        if name.startswith(heads)
    ]
