# SPDX-License-Identifier: MIT
"""Time limits, and that nothing outlives them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tbmpi.bench.processes import run_limited

# Starts a child in a session of its own, as launchers do with their ranks,
# which ignores SIGTERM; writes its pid, then waits.
STUBBORN = """
import os, signal, sys, time
pid = os.fork()
if pid == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    {extra}
    with open(sys.argv[1] + ".part", "w") as note:
        note.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(60)
"""
MAP_A_SEGMENT = """
    import mmap
    handle = open(sys.argv[2], "w+b")
    handle.truncate(4096)
    segment = mmap.mmap(handle.fileno(), 4096)
"""


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if _is_zombie(pid):
            return True
        time.sleep(0.02)
    return False


def _is_zombie(pid: int) -> bool:
    # Where nobody reaps orphans (a container without an init), dead is dead.
    listing = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(listing, capture_output=True, text=True).stdout
    return state.strip().startswith("Z")


def wait_for(note: Path) -> int:
    deadline = time.monotonic() + 20
    while not note.exists():
        assert time.monotonic() < deadline, "the child never started"
        time.sleep(0.02)
    return int(note.read_text())


def test_output_and_exit_code_come_back() -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); exit(3)"
    done = run_limited([sys.executable, "-c", script], 30)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert (done.code, done.late) == (3, False)
    assert done.complaint() == "err"


def test_a_late_command_takes_its_detached_children_along(
    tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    script = STUBBORN.format(extra="pass")
    done = run_limited([sys.executable, "-c", script, note], 2)
    assert done.late
    assert is_gone(wait_for(note))


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm on this system")
def test_shared_memory_of_a_late_command_is_removed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    segment = Path(f"/dev/shm/tbmpi-bench-test-{os.getpid()}")
    script = STUBBORN.format(extra=MAP_A_SEGMENT)
    done = run_limited([sys.executable, "-c", script, note, segment], 2)
    assert done.late
    assert note.exists()
    assert not segment.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_first(
    tmp_path: Path, number: signal.Signals
) -> None:
    note = tmp_path / "pid"
    outer = (
        "import sys\n"
        "from tbmpi.bench.processes import noted_signals, run_limited\n"
        "with noted_signals():\n"
        "    run_limited([sys.executable, '-c', *sys.argv[1:]], 60)\n"
    )
    script = STUBBORN.format(extra="pass")
    process = subprocess.Popen(
        [sys.executable, "-c", outer, script, str(note)],
        stderr=subprocess.PIPE,
        text=True,
    )
    pid = wait_for(note)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=20)
    assert f"Interrupted: {number.name}" in complaint
    assert is_gone(pid)
