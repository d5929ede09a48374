# SPDX-License-Identifier: MIT
"""Other projects' programs: HPL, MPICH's and mpi4py's test suites, HPCC."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from report import Outcome, Trouble, one
from run import ROOT, Runner, ours

SHARDS = 24
RUNNER = "tests/conformance/run.py"
TOPOLOGIES = ("mesh:4", "ring:4", "line:4", "star:4", "mesh:2x2")
SIM_FOLDERS = ("coll", "pt2pt")


def hpl_quick(runner: Runner) -> Outcome:
    """HPL on 2 x 2 ranks, its residual checked."""
    size = ("--n", "2000", "--grid", "2x2", "--yes", "--dir", runner.folder)
    done = runner.run(ours("tbmpi"), "hpl", *size)
    result = runner.folder / "result.json"
    if not done.good or not result.exists():
        return one(False, f"tbmpi hpl: {done.why()}")
    return one(json.loads(result.read_text())["passed"], "HPL's residual is too large")


def shard() -> int:
    """Which of the 24 parts of a suite is due: by what is committed."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=ROOT, capture_output=True, text=True
    )
    tree = found.stdout.strip()
    return int(tree, 16) % SHARDS + 1 if found.returncode == 0 else 1


def mpich(runner: Runner) -> Outcome:
    """One of 24 parts of MPICH's suite; all of it in the full set."""
    part = () if runner.full else ("--shard", f"{shard()}/{SHARDS}")
    if part:
        print(f"{'':12} MPICH's suite, part {part[1]}", flush=True)
    return _suite(runner, "mpich", "-j", str(os.cpu_count() or 2), *part)


def mpich_sim(runner: Runner) -> Outcome:
    """A part on one topology of emulated Macs; in the full set on all topologies."""
    if not runner.full:
        part = ("--shard", f"{shard()}/{SHARDS}")
        return _over(runner, TOPOLOGIES[shard() % len(TOPOLOGIES)], *part)
    total = Outcome()
    for topology in TOPOLOGIES:
        total += _over(runner, topology)
    return total


def _over(runner: Runner, topology: str, *part: str) -> Outcome:
    words = ("--over", f"--sim {topology}", *part)
    found = _suite(runner, "mpich", *SIM_FOLDERS, *words)
    found.reasons = [f"{topology}: {reason}" for reason in found.reasons]
    return found


def mpi4py(runner: Runner) -> Outcome:
    """mpi4py's suite on our Python API, on 2 ranks.

    In the full set on 1, 2 and 4 ranks, also with MPICH's library under our API, and
    with mpi4py itself on our library.
    """
    at_once = ("-j", str(os.cpu_count() or 2))
    if not runner.full:
        return _suite(runner, "mpi4py", "alias", "-n", "2", "--quick", *at_once)
    total = Outcome()
    for mode in ("alias", "oracle", "real"):
        total += _suite(runner, "mpi4py", mode, *at_once)
    return total


def hpl(runner: Runner) -> Outcome:
    """HPL on four grids with all broadcasts, digits equal to MPICH's."""
    return _suite(runner, "hpl")


def hpl_sim(runner: Runner) -> Outcome:
    """HPL on 2 x 2 ranks of emulated Macs, on each topology."""
    total = Outcome()
    for topology in TOPOLOGIES:
        launcher = f"{shlex.quote(str(ours('tbmpirun')))} --sim {topology} -n"
        folder = runner.folder / topology.replace(":", "-")
        size = ("--n", "1000", "--grid", "2x2", "--yes", "--dir", folder)
        done = runner.run(ours("tbmpi"), "hpl", "--launcher", launcher, *size)
        result = folder / "result.json"
        good = done.good and json.loads(result.read_text())["passed"]
        total += one(good, f"HPL over {topology}: {done.why()}")
    return total


def hpcc(runner: Runner) -> Outcome:
    """The whole HPC Challenge."""
    return _suite(runner, "hpcc")


def programs(runner: Runner) -> Outcome:
    """Programs from PyPI that are written for mpi4py, answers as on MPICH."""
    return _suite(runner, "programs")


def _suite(runner: Runner, name: str, *words: str | Path) -> Outcome:
    done = runner.python(RUNNER, name, *words)
    line = re.compile(rf"^{name}: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
    found = [match for text in done.output.splitlines() if (match := line.match(text))]
    if not found:
        raise Trouble(f"{RUNNER} {name}: {done.why()}")
    passed, failed, skipped = (int(number or 0) for number in found[-1].groups())
    outcome = Outcome(passed, failed, skipped)
    if not done.good:
        outcome.failed = max(failed, 1)
        _, _, complaints = done.output.partition(f"{name}: result in ")
        lines = complaints.splitlines()[1:]
        outcome.reasons = [text for text in lines if not line.match(text)]
    return outcome
