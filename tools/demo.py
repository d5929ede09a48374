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
import shlex
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

SIM = "mesh:4"
PULLED = "mac0", "mac1"  # whose cable is pulled

SCRIPT = """\
from mpi4py import MPI

comm = MPI.COMM_WORLD
terms = 200_000
mine = sum((-1) ** k / (2 * k + 1) for k in range(comm.rank, terms, comm.size))
pi = comm.allreduce(4 * mine)
places = comm.gather(MPI.Get_processor_name())
if comm.rank == 0:
    print(f"pi is about {pi:.5f}, by ranks on {', '.join(places)}")
"""

EMULATED = """\
Emulated: the Macs, their cables and Thunderbolt devices, with Apple's limits; the
latency and rate of a cable are a model. Real: everything above the verbs calls.
Times are those of this machine, which all ranks and routers share.

On real Macs the same code calls the real devices. In this version a job on several
machines still talks over TCP,
    tbmpirun -H mac1,mac2 -n 8 python examples/heat2d.py
and over Thunderbolt on emulated Macs only: tbmpirun --sim shows on any machine what
several would do."""


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


def heat(limit: float) -> str:
    """A numpy program on emulated Macs, whose result is checked."""
    call(limit, BIN / "tbmpi", "sim", "draw", SIM, "--svg", "macs.svg")
    drawn = call(limit, BIN / "tbmpi", "sim", "draw", SIM)
    said = call(limit, *launched(), *plate("heat2d.png", 384, 1000))
    if not (OUT / "heat2d.png").exists():
        raise StepError(find("no picture: .*", said))
    picture = "".join(f"\n      {line}" for line in drawn.splitlines())
    return find(r"heat2d: (.*: equal to one rank, bit by bit)", said) + picture


def launched(*options: str) -> tuple[str | Path, ...]:
    """The launcher on the emulated Macs, a rank on each."""
    return (BIN / "tbmpirun", "--sim", SIM, *options)


def plate(picture: str, size: int, steps: int) -> tuple[str | Path, ...]:
    """The program heat2d with its options."""
    program = (sys.executable, ROOT / "examples/heat2d.py", "--out", picture)
    return (*program, "--size", str(size), "--steps", str(steps))


def script(limit: float) -> str:
    """A program written for mpi4py, as it is."""
    (OUT / "pi.py").write_text(SCRIPT)
    said = call(limit, *launched("--as-mpi4py"), sys.executable, "pi.py")
    return find(r"pi is about 3\.14159, by ranks on mac0, mac1, mac2, mac3", said)


def pull(limit: float) -> str:
    """A cable is pulled while heat2d runs; packets take another way."""
    job = subprocess.Popen(
        [*launched(), *plate("pulled.png", 256, 12000)],
        cwd=OUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(limit / 3, job, lambda: "direct" in way(job))
        time.sleep(1.0)
        fault = ("fault", str(job.pid), f"pull {'-'.join(PULLED)}")
        call(limit, BIN / "tbmpi", "sim", *fault)
        until(limit / 3, job, lambda: "over" in way(job))
        now = way(job).split(",")[0]
        said, _ = job.communicate(timeout=limit)
    except subprocess.TimeoutExpired as error:
        job.kill()
        raise StepError("the job did not end") from error
    if job.returncode:
        raise StepError(f"exit code {job.returncode}: {said.strip()[-200:]}")
    found = find(r"heat2d: .*(equal to one rank, bit by bit)", said)
    return f"{now} since the pull; result {found}"


def way(job: subprocess.Popen[str]) -> str:
    """How packets between the two Macs travel now; empty: not known yet."""
    asked = [BIN / "tbmpi", "info", "--routes", str(job.pid)]
    routes = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = re.search(f"^{' to '.join(PULLED)}: .*", routes, re.MULTILINE)
    return found[0] if found else ""


def until(
    limit: float, job: subprocess.Popen[str], condition: Callable[[], bool]
) -> None:
    """Waits for a condition while the job runs."""
    end = time.monotonic() + limit
    while not condition():
        if job.poll() is not None or time.monotonic() > end:
            job.kill()
            raise StepError(f"it did not come to that: {job.communicate()[0][-300:]!r}")
        time.sleep(0.1)


def kill(limit: float) -> str:
    """A rank dies; the job must end at once, with one line, and leave nothing.

    A queue pair that stayed with a device would be a second line.
    """
    source = ROOT / "tests/faults/churn.c"
    call(limit, BIN / "tbmpicc", "-O2", source, "-o", "churn")
    job = subprocess.Popen(
        [*launched(), "./churn"],
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
        f"exit code {job.returncode} after {seconds:.2f} s, no queue pair and no "
        "memory left:"
        f"\n      {said.strip()}"
    )


def _shared_memory(launcher: int) -> list[str]:
    if sys.platform != "linux":
        return []  # macOS does not list its names
    heads = f"tbmpi-{launcher:x}-", f"tbmpi-sim-{launcher}-"
    return [name for name in os.listdir("/dev/shm") if name.startswith(heads)]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def bench(limit: float) -> str:
    """Latency and bandwidth between two Macs, and what the wire alone would do."""
    files = ("--png", "bench.png", "--json", "bench.json")
    # A rate that two ranks and two routers on two cores can fill.
    macs = ("--sim", "mesh:2", "--wire", "5us,1")
    words = ("--quick", "--families", "latency,bandwidth", *files)
    call(limit, BIN / "tbmpi", "bench", *macs, *words)
    record = json.loads((OUT / "bench.json").read_text())
    runs, wire = record["runs"], record["wire"]
    figures = [figure for run in runs for figure in run["figures"]]
    times: dict[tuple[str, int], float] = {}
    for figure in figures:
        key = figure["family"], figure["bytes"]
        times[key] = min(figure["q1"], times.get(key, figure["q1"]))
    latency, megabyte = times.get(("latency", 8)), times.get(("bandwidth", 1 << 20))
    if not latency or not megabyte:
        raise StepError("tbmpi bench measured nothing")
    rate = (1 << 20) / megabyte / 1e3
    return (
        f"8 bytes in {latency:.2f} us one way (wire: {wire['latency']:g}); "
        f"{rate:.1f} GB/s at 1 MiB (wire: {wire['rate']:g})"
    )


def hpl(limit: float) -> str:
    """The Linpack benchmark."""
    size = ("--n", "2000", "--grid", "2x2", "--yes", "--dir", "hpl")
    launcher = f"{shlex.quote(str(BIN / 'tbmpirun'))} --sim {SIM} -n"
    call(limit, BIN / "tbmpi", "hpl", "--launcher", launcher, *size)
    result = json.loads((OUT / "hpl/result.json").read_text())
    if not result["passed"]:
        raise StepError("the residual is too large")
    return (
        f"N 2000 on 2x2 ranks: PASSED, {result['gflops']:.1f} Gflops ({result['blas']})"
    )


STEPS = (
    Step("this machine", machine, 30),
    Step("four Macs, six cables: heat2d", heat, 90),
    Step("an unmodified mpi4py script", script, 60),
    Step("a cable is pulled", pull, 120),
    Step("a rank is killed", kill, 60),
    Step("latency and bandwidth", bench, 120),
    Step("HPL", hpl, 200),
)
FILES = {
    "macs.svg": "the Macs and their cables",
    "heat2d.png": "the plate, and who computed what",
    "bench.png": "latency and bandwidth by message size, and the modelled wire",
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
    console.print(f"\n{EMULATED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
