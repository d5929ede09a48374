# SPDX-License-Identifier: MIT
"""The checks that run inside the guest; a line each: ok, FAILED or skipped.

    guest.py BUILD [CHECK ...]

BUILD is the folder with the C tests. suite.py starts this and counts the lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import cables
from cables import Cable, End

from tbmpi.launch import control


class Failed(Exception):
    """What went wrong, in a line."""


@dataclass(frozen=True)
class Guest:
    """What the checks work with."""

    build: Path
    cables: list[Cable]

    def test(self, name: str) -> Path:
        """A program of tests/transport."""
        return self.build / "tests" / f"transport_{name}"


def main(argv: Sequence[str]) -> int:
    """Runs the checks named, or all."""
    build, names = Path(argv[0]), argv[1:]
    guest = Guest(build, cables.lay(PAIRS))
    failed = 0
    for check in CHECKS:
        name = check.__name__
        if names and name not in names:
            continue
        began = time.monotonic()
        try:
            said = check(guest)
        except (Failed, subprocess.TimeoutExpired) as reason:
            failed += 1
            said = f"FAILED {name}: {' '.join(str(reason).split())[-400:]}"
        else:
            said = f"ok {name}: {said}"
        print(f"{said} ({time.monotonic() - began:.1f} s)", flush=True)
    return 1 if failed else 0


def output_of(
    *words: str | Path, limit: float, env: Mapping[str, str] | None = None
) -> str:
    """Runs a program; Failed if it does not succeed within `limit` seconds."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=limit,
        env=env,
    )
    if done.returncode:
        raise Failed(f"{words[0]} ended with {done.returncode}: {done.stdout}")
    return done.stdout


# --------------------------------------------------------- the provider alone


def uc_pingpong(guest: Guest) -> str:
    """rdma-core's own ping-pong over unreliable connections, data checked."""
    cable = guest.cables[0]
    words = ["ibv_uc_pingpong", "-c", "-n", "200", "-s", "65536"]
    with subprocess.Popen(
        [*words, *here(cable.a)], stdout=subprocess.PIPE, text=True
    ) as server:
        time.sleep(1.0)  # it listens, and says so to nobody
        try:
            output_of(*words, *here(cable.b), cable.a.address, limit=60)
            said, _ = server.communicate(timeout=10)
        finally:
            server.kill()
    if server.returncode or "invalid" in said:
        raise Failed(f"the server ended with {server.returncode}: {said}")
    frames = frames_passed(cable)
    if frames < 2 * 200 * 16:
        raise Failed(f"only {frames} frames passed the cable")
    return f"{said.splitlines()[-1]}, {frames} frames on the cable"


def here(end: End) -> tuple[str, ...]:
    """Device and index of its IPv4 address, as rdma-core's examples take them."""
    return "-d", end.device, "-g", str(cables.gid_index(end))


def frames_passed(cable: Cable) -> int:
    """Frames that have left both ends of a cable."""
    counters = (
        Path(f"/sys/class/net/{end.netdev}/statistics/tx_packets")
        for end in (cable.a, cable.b)
    )
    return sum(int(counter.read_text()) for counter in counters)


# -------------------------------------------------- our transport over cables


def transport_suite(guest: Guest) -> str:
    """The transport suite, up to eight nodes with a cable between each two."""
    said = output_of(guest.test("suite"), "rdma", limit=400, env=REAL)
    tests = [line for line in said.splitlines() if line.startswith("rdma: ")]
    if len(tests) < LEAST_TESTS:
        raise Failed(f"only {len(tests)} tests ran: {said}")
    return f"{len(tests)} tests"


def cable(guest: Guest) -> str:
    """Round trips and a stream between two processes."""
    before = frames_passed(guest.cables[0])
    said = output_of(guest.test("cable"), "200", limit=100, env=REAL)
    frames = frames_passed(guest.cables[0]) - before
    if frames < 200:
        raise Failed(f"only {frames} frames passed the cable")
    if " lost 0," not in said:
        raise Failed(f"something was lost, and not by the cable: {said}")
    return f"{', '.join(said.splitlines())}, {frames} frames"


def lossy_cable(guest: Guest) -> str:
    """The same on a cable that loses one frame in a hundred."""
    cables.lose(guest.cables[0], 1.0)
    try:
        said = output_of(guest.test("cable"), "200", limit=200, env=REAL)
    finally:
        cables.heal(guest.cables[0])
    found = re.search(r"resent (\d+)", said)
    if not found or not int(found[1]):
        raise Failed(f"nothing was sent again: {said}")
    return ", ".join(said.splitlines())


# ----------------------------------------------------- jobs of several nodes


def two_nodes(guest: Guest) -> str:
    """Collectives on two nodes with two ranks and a router, over two cables."""
    return job(guest, "mesh:2x2", "coll_many", uses=(0, 1))


def a_line(guest: Guest) -> str:
    """Four nodes in a line: routers pass on what is not for them."""
    return job(guest, "line:4", "p2p", uses=(0, 1, 2))


def lossy_nodes(guest: Guest) -> str:
    """Two nodes, on a cable that loses one frame in a hundred."""
    cables.lose(guest.cables[0], 1.0)
    try:
        return job(guest, "mesh:2", "p2p", uses=(0,))
    finally:
        cables.heal(guest.cables[0])


def pulled_cable(guest: Guest) -> str:
    """One of two cables carries nothing any more, in the midst of a job.

    Its socket goes silent with it; that is the launcher's part.
    """

    def pull() -> bool:
        for job in control.running().values():
            control.ask(job, {"do": "fault", "fault": "pull 0"})
            return True
        return False  # a slow launcher does not listen yet

    return job_with_a_dead_cable(guest, pull)


def black_hole(guest: Guest) -> str:
    """The same, while the cable's socket goes on answering, as it might where
    a driver is wedged: SENDs leave, complete, and never arrive."""
    return job_with_a_dead_cable(guest, lambda: True)


def job_with_a_dead_cable(guest: Guest, also: Callable[[], bool]) -> str:
    """Two nodes, of whose two cables the first dies under way."""
    before = frames_passed(guest.cables[0])
    dead = False

    def meddle() -> bool:
        nonlocal dead
        if frames_passed(guest.cables[0]) >= before + PULL_AFTER and also():
            cables.lose(guest.cables[0], 100.0)
            dead = True
        return dead

    try:
        return job(guest, "mesh:2x2", "p2p", (0, 1), meddle)
    finally:
        if dead:
            cables.heal(guest.cables[0])


def selftest(guest: Guest) -> str:
    """tbmpi selftest sees in the kernel's provider what is known about it."""
    known = {
        "port": "other",
        "types": "others",
        "errno": "not_seen",
        "connect": "works",
        "early_receive": "accepted",
        "credit": "drop",
        "channel": "offered",
        "mismatch": "works",
        "link": "works",
    }
    words = ("selftest", "--sim", "mesh:2", "--patience", "2", "--json")
    done = subprocess.run(
        [str(BIN / "tbmpi"), *words],
        capture_output=True,
        text=True,
        timeout=400,
        env=REAL,
    )
    if not done.stdout:
        raise Failed(f"it ended with {done.returncode}: {done.stderr}")
    found = json.loads(done.stdout)
    rows = {row["probe"]: row["seen"] for row in found["pairs"][0]["rows"]}
    wrong = [f"{key} {rows.get(key)}" for key in known if rows.get(key) != known[key]]
    if wrong or not found["works"]:
        raise Failed(f"{found['verdict']}; not as known: {', '.join(wrong)}")
    return found["verdict"]


def job(
    guest: Guest,
    topology: str,
    program: str,
    uses: Sequence[int],
    meddle: Callable[[], bool] = lambda: True,
) -> str:
    """Four ranks under tbmpirun; these cables must have carried something.

    `meddle` is called until it has done what it has to do, which it says.
    """
    before = [frames_passed(cable) for cable in guest.cables]
    launch = (BIN / "tbmpirun", "--timeout", str(JOB_SECONDS), "--sim", topology)
    words = (*launch, "-n", "4", guest.build / "vm" / program)
    began, met = time.monotonic(), False
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(
            [str(word) for word in words],
            env=REAL,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        ) as launcher:
            try:
                while launcher.poll() is None:
                    met = met or meddle()
                    time.sleep(0.1)
                    if time.monotonic() > began + JOB_SECONDS + GRACE_SECONDS:
                        raise Failed("tbmpirun outlives its time limit")
            finally:
                launcher.terminate()
        said.seek(0)
        text = said.read()
    if launcher.returncode:
        raise Failed(f"tbmpirun ended with {launcher.returncode}: {text}")
    if not met:
        raise Failed("the job was over before its time")
    passed = [frames_passed(cable) for cable in guest.cables]
    frames = [passed[number] - before[number] for number in uses]
    if min(frames) < LEAST_FRAMES:
        raise Failed(f"only so many frames passed the cables: {frames}")
    return f"frames on the cables: {', '.join(map(str, frames))}"


# All cables of eight nodes; smaller jobs use the first of them, by number.
PAIRS = tuple(combinations(range(8), 2))
LEAST_TESTS = 13
LEAST_FRAMES = 100
PULL_AFTER = 500
JOB_SECONDS = 150
GRACE_SECONDS = 20
BIN = Path(sys.executable).parent
LIBRARY = "libibverbs.so.1"
REAL = {
    **os.environ,
    "TBMPI_LIBRDMA": LIBRARY,
    "TBMPI_TEST_LIBRDMA": LIBRARY,
    "TBMPI_TEST_SLOWER": "10",
    # The launcher passes on what goes along the wires; here it takes its time.
    "TBMPI_CABLE_TIMEOUT": "10",
}
CHECKS: tuple[Callable[[Guest], str], ...] = (
    uc_pingpong,
    cable,
    lossy_cable,
    two_nodes,
    a_line,
    lossy_nodes,
    pulled_cable,
    black_hole,
    selftest,
    transport_suite,
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
