# SPDX-License-Identifier: MIT
"""The C side: unit tests, the transport suite, the smoke suite, sanitizers."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from report import Outcome, Trouble, one
from run import ROOT, Runner, ours, tool

SMOKE_LIMIT = 60.0  # seconds a program
SOAK_BYTES = 10 << 30
SOAK_LIMIT = 3600.0
SOAK_FAULTS = ("drop 1%", "corrupt 0.1%", "delay 5% 200us")
FUZZ_SECONDS = 90  # a driver
MUTANTS_LIMIT = 1800.0
SANITIZERS = {"asan": "address,undefined", "tsan": "thread"}
SANITIZED_SLOWER = 4.0
# A finding ends the program with a code of its own, so that it is not missed.
SANITIZER_ENV = {
    "ASAN_OPTIONS": "exitcode=97",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=97",
}


def build(
    runner: Runner, folder: Path, *settings: str, targets: Sequence[str] = ("all",)
) -> None:
    """Builds the library and the C tests, or only these targets, in `folder`."""
    cmake = tool("cmake", "install it: pip install cmake")
    flags = ("-DTBMPI_TESTS=ON", "-DTBMPI_PYTHON=OFF", *settings)
    runner.must(cmake, "-S", ROOT, "-B", folder, *flags)
    parallel = ("--parallel", str(os.cpu_count() or 2))
    runner.must(cmake, "--build", folder, *parallel, "--target", *targets)


def units(runner: Runner) -> Outcome:
    """Unit tests and the transport suite, one test a program."""
    folder = ROOT / "build" / "test"
    build(runner, folder)
    return ctest(runner, folder)


def ctest(
    runner: Runner,
    folder: Path,
    *choice: str,
    env: Mapping[str, str] = SANITIZER_ENV,
) -> Outcome:
    """Runs what CMake knows as tests, or ctest's choice of them."""
    result = folder / "ctest.xml"
    result.unlink(missing_ok=True)
    words = ("--output-on-failure", "--timeout", "300", "--output-junit", result)
    done = runner.run(
        tool("ctest", "install it: pip install cmake"),
        "--test-dir",
        folder,
        *words,
        *choice,
        env=env,
    )
    if not result.exists():
        raise Trouble(f"ctest gave no result: {done.why()}")
    outcome = junit(result)
    if not outcome.passed + outcome.failed:
        raise Trouble("ctest found no tests")
    return outcome


def junit(path: Path) -> Outcome:
    """Reads a result in JUnit's form, as ctest and pytest write it."""
    total = Outcome()
    for case in xml.parse(path).iter("testcase"):
        name = case.get("name", "?")
        bad = (
            case.find("failure")
            if case.find("failure") is not None
            else case.find("error")
        )
        if bad is not None or case.get("status") == "fail":
            message = (bad.get("message") or "" if bad is not None else "").split("\n")[
                0
            ]
            total += Outcome(failed=1, reasons=[f"{name}: {message[:160]}"])
        elif case.find("skipped") is not None:
            total += Outcome(skipped=1)
        else:
            total += Outcome(passed=1)
    return total


def fuzz(runner: Runner) -> Outcome:
    """All drivers of tests/fuzz with ASan and UBSan, and other seeds each time."""
    folder = ROOT / "build" / "fuzz"
    names = sorted(path.stem for path in (ROOT / "tests/fuzz").glob("*.c"))
    build(
        runner,
        folder,
        f"-DTBMPI_SANITIZE={SANITIZERS['asan']}",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_C_FLAGS=-O1",
        targets=[f"fuzz_{name}" for name in names],
    )
    seed = int(time.time())
    total = Outcome()
    for name in names:
        program = folder / "tests" / f"fuzz_{name}"
        words = ("--seconds", str(FUZZ_SECONDS), "--seed", str(seed))
        done = runner.run(program, *words, limit=FUZZ_SECONDS + 120, env=SANITIZER_ENV)
        told = [line for line in done.output.splitlines() if line.startswith("fuzz: ")]
        total += one(done.good, f"fuzz_{name}: {' '.join(told) or done.why()}")
    return total


def soak(runner: Runner) -> Outcome:
    """Packets of random size over two cables that lose, damage and delay; then
    HPL on four emulated Macs whose cables all do so."""
    folder = ROOT / "build" / "test"
    build(runner, folder, targets=("transport_cables",))
    words = ("soak", str(SOAK_BYTES))
    done = runner.run(folder / "tests/transport_cables", *words, limit=SOAK_LIMIT)
    total = one(done.good, f"soak: {done.why()}")
    faults = "".join(f" --fault {shlex.quote(text)}" for text in SOAK_FAULTS)
    launcher = f"{shlex.quote(str(ours('tbmpirun')))} --sim mesh:4{faults} -n"
    size = ("--n", "2000", "--grid", "2x2", "--yes", "--dir", runner.folder)
    done = runner.run(ours("tbmpi"), "hpl", "--launcher", launcher, *size)
    result = runner.folder / "result.json"
    good = done.good and json.loads(result.read_text())["passed"]
    return total + one(good, f"HPL on lossy cables: {done.why()}")


def mutants(runner: Runner) -> Outcome:
    """Every rule of docs/thunderbolt.md, broken: a test must see it."""
    script = ROOT / "tools/mutants.py"
    done = runner.run(sys.executable, script, limit=MUTANTS_LIMIT)
    total = Outcome()
    for line in re.findall(r"^ ?\d+ .*$", done.output, re.MULTILINE):
        total += one(": seen by " in line, line)
    if not done.good and not total.failed:
        raise Trouble(done.why())
    return total


# ------------------------------------------------------------------ smoke suite


def smoke_programs() -> Iterator[tuple[Path, list[int]]]:
    """The programs of tests/smoke, and on how many ranks each one runs."""
    for path in sorted((ROOT / "tests/smoke").glob("*.c")):
        found = re.search(r"ranks: ([\d ]+)", path.read_text(encoding="utf-8"))
        if not found:
            raise Trouble(
                f"{path.name} does not say its rank counts: /* ranks: 1 2 4 */"
            )
        yield path, [int(count) for count in found[1].split()]


def smoke(runner: Runner) -> Outcome:
    """One test a program and number of ranks."""
    return run_smoke(runner, [ours("tbmpicc"), "-O2"], SMOKE_LIMIT)


def run_smoke(
    runner: Runner,
    compiler: list[str | Path],
    limit: float,
    env: Mapping[str, str] = SANITIZER_ENV,
) -> Outcome:
    """Compiles the smoke suite and runs it under tbmpirun."""
    total = Outcome()
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread")
    for source, counts in smoke_programs():
        program = runner.folder / source.stem
        built = runner.run(*compiler, *flags, source, "-o", program, "-lm")
        if not built.good:
            total += one(False, f"{source.name} does not compile: {built.why()}")
            continue
        for ranks in counts:
            words = (ours("tbmpirun"), "--timeout", str(limit), "-n", str(ranks))
            done = runner.run(*words, program, limit=limit + 10, env=env)
            # Its own complaint comes first, the launcher's last.
            said = done.output.strip().splitlines()[:1] or [done.why()]
            total += one(done.good, f"{source.stem} on {ranks}: {said[0]}")
    return total


# ------------------------------------------------------------------- sanitizers


def sanitizers(runner: Runner) -> Outcome:
    """Units, transport and smoke suite with ASan and UBSan, then with TSan."""
    total = Outcome()
    for name, kinds in SANITIZERS.items():
        folder = ROOT / "build" / name
        build(runner, folder, f"-DTBMPI_SANITIZE={kinds}", "-DCMAKE_BUILD_TYPE=Debug")
        total += ctest(runner, folder)
        library = next(folder.glob("libmpi_abi*"), None)
        if library is None:
            raise Trouble(f"no library in {folder}")
        compiler: list[str | Path] = [
            *("cc", "-g", "-O1", f"-fsanitize={kinds}", "-I", ROOT / "csrc/include"),
            *(library, f"-Wl,-rpath,{folder}"),
        ]
        total += run_smoke(runner, compiler, SANITIZED_SLOWER * SMOKE_LIMIT)
    return total
