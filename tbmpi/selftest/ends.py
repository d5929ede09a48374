# SPDX-License-Identifier: MIT
"""The two processes at the ends of some cables, and what they print.

Each is the program tbmpi-selftest with a plan of two nodes (csrc/net/plan.h)
and sockets to the other: one to talk over, one for the management network, one
a cable. Where the other end is elsewhere, something has to pass on what is
written to our ends of these sockets (see tunnel.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tbmpi import _paths
from tbmpi.launch.errors import FAILED, LaunchError

LIMIT = 240.0  # seconds for all probes of a pair
STEP = 0.02
GRACE = 3.0
HOLD = 30.0  # until a queue pair is made


@dataclass(frozen=True)
class Wire:
    """A cable between the two ends: device and IPv4 address of each."""

    devices: tuple[str, str]
    addresses: tuple[str, str]


@dataclass(frozen=True)
class Task:
    """What two ends have to do. `job` is 32 hexadecimal digits."""

    job: str
    names: tuple[str, str]
    wires: tuple[Wire, ...]
    daring: bool = False
    patience: float = 0.2

    @property
    def channels(self) -> int:
        """Sockets that each end has."""
        return 2 + len(self.wires)


@dataclass
class Said:
    """What an end has said: lines of JSON, and what was wrong with it."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    trouble: str = ""


def plan_text(task: Task, side: int, sockets: Sequence[int]) -> str:
    """The plan of one end. `sockets`: to talk, of the management, of cables."""
    lines = [
        "tbmpi-plan 1",
        f"job {task.job}",
        "size 2",
        "nodes 2",
        f"self {side}",
        "owner rank",
        f"node 0 {task.names[0]} 0",
        f"node 1 {task.names[1]} 1",
    ]
    for number, wire in enumerate(task.wires):
        ends = (
            f"{end} {wire.devices[end]} ::ffff:{wire.addresses[end]}" for end in (0, 1)
        )
        lines.append(f"cable {number} {' '.join(ends)}")
    lines += [f"wire {number} {fd}" for number, fd in enumerate(sockets[2:])]
    lines.append(f"mgmt {1 - side} {sockets[1]}")
    return "\n".join(lines) + "\n"


class End:
    """One end's process, running. The sockets are its own from now on."""

    def __init__(
        self, task: Task, side: int, sockets: Sequence[int], env: Mapping[str, str]
    ) -> None:
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115
        patience = str(round(1000 * task.patience))
        words = [str(program()), "run", str(sockets[0]), patience]
        words += ["daring"] if task.daring else []
        try:
            with tempfile.TemporaryFile("w") as plan:
                plan.write(plan_text(task, side, sockets))
                plan.flush()
                self._process = subprocess.Popen(
                    words,
                    env={**env, "TBMPI_PLAN_FD": str(plan.fileno())},
                    stdin=subprocess.DEVNULL,
                    stdout=self._out,
                    stderr=self._err,
                    pass_fds=[*sockets, plan.fileno()],
                )
        except OSError as why:
            raise LaunchError(f"cannot start {words[0]}: {why}", FAILED) from why
        finally:
            for fd in sockets:
                os.close(fd)

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ends it in order, or else at once."""
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def said(self) -> Said:
        """What it has printed; it has ended."""
        self._out.seek(0)
        self._err.seek(0)
        said = Said(read_lines(self._out.read()))
        complaint = " ".join(self._err.read().split("\n")).strip()
        self._out.close()
        self._err.close()
        code = self._process.returncode
        if code:
            said.trouble = explain(code, said.lines, complaint)
        return said


def explain(code: int, lines: Sequence[Mapping[str, Any]], complaint: str) -> str:
    """Why an end did not come to its end."""
    begun = [line["begin"] for line in lines if "begin" in line]
    during = f" in the probe '{begun[-1]}'" if begun else ""
    if code < 0:
        name = signal.Signals(-code).name
        return f"it was killed by {name}{during}"
    return complaint or f"it ended with {code}{during}"


def program() -> os.PathLike[str]:
    """tbmpi-selftest itself."""
    path = _paths.selftest()
    if not path.exists():
        raise LaunchError(f"{path} is missing: install tbmpi anew", FAILED)
    return path


def read_lines(text: str) -> list[dict[str, Any]]:
    """Lines of JSON; one that a crash has cut short is left out."""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def wait_for(ends: Sequence[End], limit: float = LIMIT) -> None:
    """Until all have ended; when one has, the others soon do."""
    until = time.monotonic() + limit
    while any(end.running() for end in ends) and time.monotonic() < until:
        time.sleep(STEP)
        if not all(end.running() for end in ends):
            until = min(until, time.monotonic() + GRACE)
    for end in ends:
        end.stop()


# ------------------------------------------------------------ one end alone


def ask(words: Sequence[str], env: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the program answers to a command that talks to nobody."""
    try:
        done = subprocess.run(
            [str(program()), *words],
            env=dict(env),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as why:
        raise LaunchError(f"the verbs library hangs: {why}", FAILED) from why
    if done.returncode:
        what = done.stderr.strip().removeprefix("tbmpi-selftest: ")
        raise LaunchError(what or explain(done.returncode, [], ""), FAILED)
    return read_lines(done.stdout)


class Holder:
    """A process that holds a queue pair of a device."""

    def __init__(self, address: str, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(program()), "hold", address],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        limit = threading.Timer(HOLD, self._process.kill)
        limit.start()
        self.held = self._process.stdout.readline().startswith('{"held": 0}')
        limit.cancel()

    def end(self, at_once: bool) -> None:
        """In order, or by SIGKILL."""
        if at_once:
            self._process.kill()
        try:
            self._process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
