# SPDX-License-Identifier: MIT
"""Shows on this machine what tbmpi does: a line a step, each step checked.

    make demo

Exit code 1 if a step fails, with the reason. Everything it makes is in
demo-out/.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "demo-out"
BIN = Path(sys.executable).parent
RANKS = 4
GONE_WITHIN = 2.0  # seconds from a rank's death to the end of the job

HELLO = """\
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    int rank, size, sum;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("hello from %d ranks; their numbers sum up to %d\\n", size, sum);
    MPI_Finalize();
    return 0;
}
"""

NOT_SHOWN = """\
Not shown, because it is not there yet: the Thunderbolt transport, and so several
Macs and their cables. All ranks ran on this machine and met in shared memory."""


class StepError(Exception):
    """A step failed; the text says why."""


@dataclass(frozen=True)
class Step:
    """A title, a function that returns what it found, and its time limit."""

    title: str
    run: Callable[[float], str]
    seconds: float


def call(limit: float, *words: str | Path, quiet: bool = True) -> str:
    """Runs a command that must succeed; what it printed."""
    command = [str(word) for word in words]
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            cwd=OUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            timeout=limit,
            check=False,
        )
    except FileNotFoundError as error:
        raise StepError(f"{name} is missing; run make setup") from error
    except subprocess.TimeoutExpired as error:
        raise StepError(f"{name} took longer than {limit:.0f} s") from error
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        why = lines[-1].strip() if lines else "no output"
        raise StepError(f"{name} ended with exit code {done.returncode}: {why}")
    return done.stdout


def find(pattern: str, text: str) -> str:
    """The first match, which must be there."""
    found = re.search(pattern, text)
    if not found:
        raise StepError(f"unexpected output: {text.strip()[-200:]!r}")
    return found[1] if found.re.groups else found[0]


# ---------------------------------------------------------------------- steps


def machine(limit: float) -> str:
    """What this is run on, and with."""
    info = json.loads(call(limit, BIN / "tbmpi", "info", "--json"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {info['processors']} processors, "
        f"{memory:.0f} GiB memory; tbmpi {info['version']}, {info['implemented']}"
    )


def hello(limit: float) -> str:
    """A C program."""
    source = OUT / "hello.c"
    source.write_text(HELLO)
    call(limit, BIN / "tbmpicc", "-O2", source, "-o", "hello")
    said = call(limit, BIN / "tbmpirun", "-n", str(RANKS), "./hello")
    return find(rf"hello from {RANKS} ranks; their numbers sum up to 6", said)


def heat(limit: float) -> str:
    """A numpy program whose result is checked."""
    program = (sys.executable, ROOT / "examples/heat2d.py", "--out", "heat2d.png")
    launch = (BIN / "tbmpirun", "-n", str(RANKS))
    said = call(limit, *launch, *program, "--size", "384", "--steps", "1500")
    if not (OUT / "heat2d.png").exists():
        raise StepError(find("no picture: .*", said))
    return find(r"heat2d: (.*: equal to one rank, bit by bit)", said)


def kill(limit: float) -> str:
    """A rank dies; the job must end at once, with one line, and leave nothing."""
    source = ROOT / "tests/faults/churn.c"
    call(limit, BIN / "tbmpicc", "-O2", source, "-o", "churn")
    job = subprocess.Popen(
        [BIN / "tbmpirun", "-n", str(RANKS), "./churn"],
        cwd=OUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        pids = [int(job.stdout.readline().split()[1]) for _ in range(RANKS)]
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(pids[2], signal.SIGKILL)
        _, said = job.communicate(timeout=limit)
        seconds = time.monotonic() - began
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        job.kill()
        raise StepError(f"the job did not run or did not end: {error}") from error
    if job.returncode != 128 + signal.SIGKILL or said.count("\n") != 1:
        raise StepError(f"exit code {job.returncode}, said {said!r}")
    left = [pid for pid in pids if _is_alive(pid)]
    names = _shared_memory(job.pid)
    if left or names or seconds > GONE_WITHIN:
        raise StepError(f"after {seconds:.1f} s: processes {left}, memory {names} left")
    return (
        f"exit code {job.returncode} after {seconds:.2f} s, nothing left in /dev/shm:"
        f"\n      {said.strip()}"
    )


def _shared_memory(launcher: int) -> list[str]:
    if sys.platform != "linux":
        return []  # macOS does not list its names
    return [n for n in os.listdir("/dev/shm") if n.startswith(f"tbmpi-{launcher:x}-")]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def bench(limit: float) -> str:
    """Latency and bandwidth between two ranks."""
    files = ("--png", "bench.png", "--json", "bench.json")
    words = ("--quick", "--families", "p2p", *files)
    call(limit, BIN / "tbmpi", "bench", *words)
    runs = json.loads((OUT / "bench.json").read_text())["runs"]
    figures = [figure for run in runs for figure in run["figures"]]
    times: dict[tuple[str, int], float] = {}
    for figure in figures:
        key = figure["family"], figure["bytes"]
        times[key] = min(figure["q1"], times.get(key, figure["q1"]))
    latency, megabyte = times.get(("latency", 8)), times.get(("bandwidth", 1 << 20))
    if not latency or not megabyte:
        raise StepError("tbmpi bench measured nothing")
    rate = (1 << 20) / megabyte / 1e3
    return f"8 bytes in {latency:.2f} us one way; {rate:.1f} GB/s at 1 MiB"


def hpl(limit: float) -> str:
    """The Linpack benchmark."""
    size = ("--n", "2000", "--grid", "2x2", "--yes", "--dir", "hpl")
    call(limit, BIN / "tbmpi", "hpl", *size)
    result = json.loads((OUT / "hpl/result.json").read_text())
    if not result["passed"]:
        raise StepError("the residual is too large")
    return (
        f"N 2000 on 2x2 ranks: PASSED, {result['gflops']:.1f} Gflops ({result['blas']})"
    )


STEPS = (
    Step("this machine", machine, 30),
    Step("a C program on 4 ranks", hello, 60),
    Step("heat2d on 4 ranks", heat, 90),
    Step("a rank is killed", kill, 60),
    Step("latency and bandwidth", bench, 120),
    Step("HPL", hpl, 200),
)
FILES = {
    "heat2d.png": "the plate, and who computed what",
    "bench.png": "latency and bandwidth by message size",
    "bench.json": "every raw value of it",
    "hpl/HPL.out": "HPL's own report",
    "hpl/result.json": "the same for programs",
}


def main() -> int:
    """Runs all steps; stops at the first that fails."""
    console = Console(highlight=False, soft_wrap=True)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    began = time.monotonic()
    for number, step in enumerate(STEPS, 1):
        start = time.monotonic()
        try:
            with console.status(step.title):
                found = step.run(step.seconds)
        except StepError as why:
            console.print(f"  {number}  {step.title}: FAILED: {why}", markup=False)
            return 1
        seconds = time.monotonic() - start
        console.print(
            f"  {number}  {step.title} ({seconds:.1f} s): {found}", markup=False
        )
    console.print(f"\nDone in {time.monotonic() - began:.0f} s. To look at:")
    for name, what in FILES.items():
        if (OUT / name).exists():
            console.print(f"  {OUT.name}/{name:16} {what}", markup=False)
    console.print(f"\n{NOT_SHOWN}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
