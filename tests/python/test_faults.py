# SPDX-License-Identifier: MIT
"""A rank is killed at a random moment; the job ends at once and leaves nothing.

TBMPI_FAULT_RUNS says how often (20), TBMPI_FAULT_SEED repeats a sequence.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RANKS = 4
GONE_WITHIN = 2.0  # seconds from the kill to the end of the job
LATEST_KILL = 0.6  # seconds after the last rank has started
LIMIT = 30.0
RUNS = int(os.environ.get("TBMPI_FAULT_RUNS", "20"))
SEED = int(os.environ.get("TBMPI_FAULT_SEED", str(random.randrange(1 << 30))))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that communicates without an end."""
    target = tmp_path_factory.mktemp("faults") / "churn"
    compiler = Path(sys.executable).with_name("tbmpicc")
    source = ROOT / "tests/faults/churn.c"
    subprocess.run([compiler, "-O2", source, "-o", target], check=True, timeout=60)
    return target


def shared_memory(launcher: int) -> list[str]:
    """What is left of a job's shared memory; macOS does not list its names."""
    if sys.platform != "linux":
        return []
    return [n for n in os.listdir("/dev/shm") if n.startswith(f"tbmpi-{launcher:x}-")]


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("run", range(RUNS))
def test_kill(run: int, program: Path, tmp_path: Path) -> None:
    dice = random.Random(SEED + run)
    launch = [sys.executable, "-m", "tbmpi.launch", "-n", str(RANKS), str(program)]
    job = subprocess.Popen(
        launch,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    pids = [int(job.stdout.readline().split()[1]) for _ in range(RANKS)]
    victim = dice.choice(pids)
    time.sleep(dice.uniform(0.0, LATEST_KILL))
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    _, err = job.communicate(timeout=LIMIT)
    seconds = time.monotonic() - killed
    note = f"run {run} of seed {SEED}: {err!r}"
    assert seconds < GONE_WITHIN, note
    assert job.returncode == 128 + signal.SIGKILL, note
    assert re.match(r"tbmpirun: rank \d on \S+ was killed by signal 9", err), note
    assert err.count("\n") == 1, note
    assert not [pid for pid in [job.pid, *pids] if is_alive(pid)], note
    assert shared_memory(job.pid) == [], note
    assert list(tmp_path.iterdir()) == [], note
