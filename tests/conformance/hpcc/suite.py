# SPDX-License-Identifier: MIT
"""The whole HPC Challenge benchmark, from Debian's source package hpcc.

Seven programs in one: HPL, PTRANS, RandomAccess, FFT, STREAM, DGEMM, b_eff.
Each checks its own answer.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import report
from bounded import run_bounded
from toolchain import SuiteError, Toolchain, add_toolchain_options, toolchain_from

from tbmpi.hpl.blas import Blas, find_blas
from tbmpi.hpl.build import ARCH, compiler_fingerprint, make_file
from tbmpi.hpl.debian import fetch_source
from tbmpi.hpl.obtain import unpack

BUILD_SECONDS = 900
LIMIT_SECONDS = 900.0
# What a whole run reports once each at least; fewer passes mean a part was
# left out.
PARTS = ("HPL", "PTRANS", "MPIRandomAccess", "MPIFFT", "StarSTREAM", "StarDGEMM")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="run.py hpcc", description=__doc__, allow_abbrev=False
    )
    add_toolchain_options(parser)
    parser.add_argument("--grid", default="2x2", help="default: %(default)s")
    options = parser.parse_args(argv)
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", options.grid)
    if not match:
        raise SuiteError(f"--grid {options.grid} is not a grid such as 2x2")
    p, q = int(match[1]), int(match[2])
    toolchain = toolchain_from(options)
    origin = options.tarball or fetch_source("hpcc", options.cache)
    program = _build(origin, options.cache / "hpcc", toolchain)
    output, seconds = _run(program, toolchain, p, q)
    summary = read_summary(output)
    wrong = complaints_about(output, summary)
    report.say(
        f"hpcc: {p * q} ranks, {seconds:.0f} s, success={summary.get('Success')}, "
        f"HPL {1e3 * float(summary.get('HPL_Tflops', 0)):.3g} Gflops"
    )
    path = options.json or options.cache / "hpcc.json"
    heading = report.heading("hpcc", origin.name, toolchain)
    result = {"seconds": round(seconds, 1), "complaints": wrong, "summary": summary}
    report.write_json(path, {**heading, **result})
    counts = {"passed": output.count("PASSED"), "failed": len(wrong)}
    return report.close("hpcc", path, counts, wrong)


def read_summary(output: str) -> dict[str, str]:
    """Return the name=value lines of HPCC's closing summary."""
    _, _, tail = output.partition("Begin of Summary section.")
    return dict(re.findall(r"^(\w+)=(\S+)$", tail, re.MULTILINE))


def complaints_about(output: str, summary: dict[str, str]) -> list[str]:
    """Return what is wrong with a run's output; nothing if all passed."""
    wrong = []
    if summary.get("Success") != "1":
        wrong.append(f"Success={summary.get('Success', 'not reported')}")
    for line in output.splitlines():
        counted = re.match(r"\s*(\d+) tests (completed and failed|skipped)", line)
        if counted and int(counted[1]) == 0:
            continue
        if counted or re.search(r"\bfail", line, re.IGNORECASE):
            wrong.append(line.strip())
    if "End of HPC Challenge tests." not in output:
        wrong.append("the output ends before the end of the tests")
    for part in PARTS:
        if not any(name.startswith(part) for name in summary):
            wrong.append(f"no figure of {part}")
    return wrong


def _build(origin: Path, cache: Path, toolchain: Toolchain) -> Path:
    blas = find_blas(toolchain.cc)
    digest = hashlib.sha256(str(origin.resolve()).encode()).hexdigest()[:6]
    place = cache / f"hpcc-{digest}-{compiler_fingerprint(toolchain.cc)}"
    program = place / "hpcc"
    if not program.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        tree = unpack(origin, place).tree.parent
        _make(tree, toolchain, blas, place / "build.log")
        shutil.copy2(tree / "_hpccinf.txt", place / "hpccinf.template")
        shutil.copy2(tree / "hpcc", program)
    return program


def _make(tree: Path, toolchain: Toolchain, blas: Blas, log: Path) -> None:
    makefile = make_file(str((tree / "hpl").resolve()), toolchain.cc, blas)
    (tree / "hpl" / f"Make.{ARCH}").write_text(makefile)
    with log.open("wb") as sink:
        made = subprocess.run(
            ["make", f"arch={ARCH}", f"-j{os.cpu_count() or 1}"],
            cwd=tree,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
        )
    if made.returncode or not (tree / "hpcc").exists():
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "rror" in line] or lines[-1:]
        raise SuiteError(f"hpcc does not build: {errors[0]} (log: {log})")


def _run(program: Path, toolchain: Toolchain, p: int, q: int) -> tuple[str, float]:
    place = program.parent
    text = (place / "hpccinf.template").read_text()
    text, grids = re.subn(r"(?m)^2 +(?=Ps$)", f"{p} ", text)
    text, others = re.subn(r"(?m)^2 +(?=Qs$)", f"{q} ", text)
    if (grids, others) != (1, 1):
        raise SuiteError("the grid in _hpccinf.txt is not where it was in hpcc 1.5")
    (place / "hpccinf.txt").write_text(text)
    result = place / "hpccoutf.txt"
    # HPCC appends to what is there.
    result.unlink(missing_ok=True)
    outcome = run_bounded(
        toolchain.command(p * q, str(program)),
        cwd=place,
        log=place / "run.log",
        limit=LIMIT_SECONDS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"},
    )
    if outcome.code != 0:
        lines = outcome.output.strip().splitlines() or ["no output"]
        end = "timed out" if outcome.code is None else f"exit code {outcome.code}"
        raise SuiteError(f"hpcc {end}: {lines[-1]} (log: {place / 'run.log'})")
    return result.read_text(errors="replace"), outcome.seconds
