# SPDX-License-Identifier: MIT
"""How ``tbmpi sim`` and ``tbmpi info`` reach a simulated job that runs.

The job has a private folder, named after the launcher's process, with a
socket in it. One line of JSON in, one line out: a request, and its answer or
{"error": text}. Whoever may enter the folder may ask: its owner alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from tbmpi.launch.errors import FAILED, LaunchError

SOCKET = "control"
# What a socket's path may have on macOS, less the zero and our part of it.
LONGEST = 103 - len("/tbmpi-sim-4194304-xxxxxxxx/") - len(SOCKET)
PATIENCE = 5.0
LINE_MOST = 1 << 20
_NAME = re.compile(r"tbmpi-sim-(\d+)-\w+")

Answer = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


# Files there are memory and never written to a disk; macOS has none such.
MEMORY = Path("/dev/shm")


def _places() -> list[Path]:
    """Where folders may be, the best first."""
    mine = Path(tempfile.gettempdir())
    short = mine if len(os.fsencode(mine)) <= LONGEST else Path("/tmp")
    return [MEMORY, short] if MEMORY.is_dir() else [short]


def make_folder(room: int) -> Path:
    """A new private folder; those of launchers that were killed go.

    It is where its files are memory, if that has `room` bytes. Raises
    LaunchError.
    """
    for pid, folder in _folders():
        if not _runs(pid):
            remove_folder(folder)
    *memory, place = _places()
    for better in memory:
        with contextlib.suppress(OSError):
            disk = os.statvfs(better)
            if disk.f_bavail * disk.f_frsize >= room:
                place = better
    try:
        return Path(tempfile.mkdtemp(prefix=f"tbmpi-sim-{os.getpid()}-", dir=place))
    except OSError as why:
        raise LaunchError(
            f"cannot make a folder in {place}: {why.strerror}; set TMPDIR", FAILED
        ) from why


def remove_folder(folder: Path) -> None:
    """Removes it and what is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def _folders() -> list[tuple[int, Path]]:
    """All folders of this user, each with its launcher's process."""
    found = []
    for place in _places():
        for path in sorted(place.glob("tbmpi-sim-*")):
            match = _NAME.fullmatch(path.name)
            with contextlib.suppress(OSError):
                if match and path.lstat().st_uid == os.getuid() and path.is_dir():
                    found.append((int(match[1]), path))
    return found


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's: the number was used again
        return False
    return True


def running() -> dict[int, Path]:
    """The sockets of the jobs that run, by job number."""
    sockets = {pid: folder / SOCKET for pid, folder in _folders() if _runs(pid)}
    return {pid: path for pid, path in sockets.items() if path.exists()}


def find(job: str | None) -> Path:
    """The socket of a job, or of the only one; LaunchError if there is none."""
    jobs = running()
    numbers = ", ".join(map(str, jobs))
    if job is None and len(jobs) == 1:
        return next(iter(jobs.values()))
    if job is None and jobs:
        raise LaunchError(f"several simulated jobs run; name one of {numbers}")
    if job is not None and job.isdecimal() and int(job) in jobs:
        return jobs[int(job)]
    what = "no simulated job runs" if job is None else f"no simulated job {job} runs"
    raise LaunchError(
        f"{what}; there are {numbers}" if jobs else f"{what}; see tbmpirun --sim",
        FAILED,
    )


class Server:
    """The job's end. Requests are answered in the event loop."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    def close(self) -> None:
        """Answers no more."""
        self._server.close()


async def serve(folder: Path, answer: Answer) -> Server:
    """Begins to answer; `answer` may raise LaunchError for what it refuses.

    Raises LaunchError when there can be no socket.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), PATIENCE)
            reply = await _reply(line, answer)
            writer.write(json.dumps(reply).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), PATIENCE)
        except (TimeoutError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    try:
        server = await asyncio.start_unix_server(talk, str(folder / SOCKET))
    except OSError as why:
        raise LaunchError(f"cannot make a socket in {folder}: {why}", FAILED) from why
    return Server(server)


async def _reply(line: bytes, answer: Answer) -> dict[str, Any]:
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            return {"error": "a request is an object"}
        return await answer(request)
    except LaunchError as problem:
        return {"error": str(problem)}
    except ValueError as problem:
        return {"error": f"not JSON: {problem}"}


def ask(path: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Asks the job at the other end of a socket; LaunchError if it refuses."""
    data = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.settimeout(PATIENCE)
            wire.connect(str(path))
            wire.sendall(json.dumps(request).encode() + b"\n")
            while not data.endswith(b"\n") and len(data) < LINE_MOST:
                part = wire.recv(65536)
                if not part:
                    break
                data += part
        reply: dict[str, Any] = json.loads(data)
    except (OSError, ValueError) as why:
        raise LaunchError(f"the job does not answer: {why}", FAILED) from why
    if "error" in reply:
        raise LaunchError(str(reply["error"]), FAILED)
    return reply
