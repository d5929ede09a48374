# SPDX-License-Identifier: MIT
"""Where a process is, for a job that ran into its time limit.

A Python rank says it itself: the launcher sets PYTHONFAULTHANDLER, so SIGABRT
makes it print the Python lines of all threads, also when it is deep in C. For
other programs a debugger is asked where there is one (gdb, or macOS's own
sample), else Linux's /proc says at least what the process sleeps in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PATIENCE = 5.0  # seconds for one stack
AT_ONCE = 2
LINES = 40


def is_python(pid: int) -> bool:
    """Whether this process is a Python interpreter."""
    try:
        if sys.platform == "darwin":
            name = subprocess.run(
                ["/bin/ps", "-o", "comm=", "-p", str(pid)],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
        else:
            name = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return Path(name).name.lower().startswith(("python", "pypy"))


def ask_python(pid: int) -> None:
    """Makes a Python process print its stacks on its stderr, and die."""
    with contextlib.suppress(OSError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGABRT)


async def of_processes(pids: dict[int, int]) -> dict[int, list[str]]:
    """The stacks of processes, by the keys of `pids`; as text lines."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(pid: int) -> list[str]:
        async with gate:
            return await _of_process(pid)

    found = await asyncio.gather(*(one(pid) for pid in pids.values()))
    return dict(zip(pids, found, strict=True))


async def _of_process(pid: int) -> list[str]:
    if shutil.which("gdb"):
        lines = await _run(
            "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off",
            "-p", str(pid), "-ex", "thread apply all backtrace 16",
        )  # fmt: skip
        lines = [line for line in lines if line.startswith(("#", "Thread"))]
    elif sys.platform == "darwin":
        lines = await _run("/usr/bin/sample", str(pid), "1", "-mayDie")
        lines = [line for line in lines if line.startswith("    ")]
    else:
        lines = []
    return lines[:LINES] or _kernel_view(pid)


async def _run(*command: str) -> list[str]:
    try:
        tool = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return []
    try:
        out, _ = await asyncio.wait_for(tool.communicate(), PATIENCE)
    except TimeoutError:
        tool.kill()
        await tool.wait()
        return []
    return [line.rstrip() for line in out.decode(errors="replace").splitlines()]


def _kernel_view(pid: int) -> list[str]:
    lines = []
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        state = next(line for line in status.splitlines() if line.startswith("State:"))
        lines.append(" ".join(state.split()).lower())
    with contextlib.suppress(OSError):
        sleeping_in = Path(f"/proc/{pid}/wchan").read_text().strip("\0\n")
        if sleeping_in not in ("", "0"):
            lines.append(f"sleeps in the kernel's {sleeping_in}")
    return lines or ["no stack: neither gdb nor /proc is at hand"]
