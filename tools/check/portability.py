# SPDX-License-Identifier: MIT
"""Habits of other machines, tried on this one.

Barriers in code compiled for a Mac; programs that have to do without what only
Linux has; in the full set also a build that takes none of Linux's ways, and the
unit tests compiled for arm64 and run by an emulator.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import native
from packages import TARGET, zig
from report import Outcome, Trouble, one
from run import ROOT, Runner, ours, tool

FETCH = ROOT / "tests/vm/packages.py"
FOLDER = ROOT / "tests/portability"
UNITS = ROOT / "tests/unit"
SKIPPED = 77
LIMIT = 240.0

# Where an order is asked for, and where the doorbell is inlined.
ORDERED = re.compile(r"memory_order_(?!relaxed)|tb_(?:bell|ring)_")
COMPILE = (
    *("cc", "-target", TARGET, "-std=c11", "-O2", "-g", "-fvisibility=hidden"),
    *("-I", ROOT / "csrc", "-I", ROOT / "csrc/include", '-DTB_VERSION="0"'),
)
# The branches for other systems than Linux, and Apple's unit of ring records.
ELSEWHERE = "-U__linux__ -DTB_GRAIN=128"
# 31 characters of a name, 104 bytes of a path: this is longer than any of them.
LONG = "a-folder-for-temporary-files-whose-name-is-long" * 3

ARM = "aarch64-linux-musl"
EMULATOR = "usr/bin/qemu-aarch64"
# An emulator of processes ignores MADV_DONTFORK, which `base` checks.
NOT_EMULATED = ("unit_base",)
PAGES = "16384"
# These have to do with memory that is mapped, and allocate little else: with other
# pages than its host's, the emulator now and then refuses an allocation.
SUITE = "transport_suite"
WITH_PAGES = (
    *(("unit_segment",), ("unit_net",), ("unit_lane",), ("unit_crc",)),
    *((SUITE, "self"), (SUITE, "shm")),
)


def portability(runner: Runner) -> Outcome:
    """All that the set has."""
    total = barriers(runner) + without_linux(runner)
    if runner.full:
        total += elsewhere(runner) + arm64(runner)
    return total


# -------------------------------------------------------------------- barriers


def barriers(runner: Runner) -> Outcome:
    """Every order that the source asks for is an instruction on a Mac."""
    compiler = zig(runner)
    objdump = tool("llvm-objdump", "install it: apt-get install llvm")
    folder = runner.folder / "objects"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    objects = [
        _compile(runner, compiler, source, folder)
        for source in sorted((ROOT / "csrc").rglob("*.c"))
        if ORDERED.search(source.read_text(encoding="utf-8"))
    ]
    words = (FOLDER / "barriers.py", objdump)
    done = runner.python(*words, *objects, limit=LIMIT)
    found = re.search(r"^barriers: (\d+) passed, (\d+) failed$", done.output, re.M)
    if not found:
        raise Trouble(f"barriers.py: {done.why()}")
    total = Outcome(int(found[1]), int(found[2]))
    if total.failed:
        total.reasons = done.output.splitlines()[: total.failed]
    relaxed = (*compiler, *COMPILE, "-include", FOLDER / "relaxed.h")
    source, target = ROOT / "csrc/net/shm_pipe.c", folder / "relaxed.o"
    runner.must(*relaxed, "-c", source, "-o", target)
    done = runner.python(*words, target, limit=LIMIT)
    missed = "no release among" in done.output and "no acquire among" in done.output
    return total + one(missed, "a build without barriers was not found out")


def _compile(
    runner: Runner, compiler: tuple[str | Path, ...], source: Path, folder: Path
) -> Path:
    name = source.relative_to(ROOT).as_posix().replace("/", "_")
    target = folder / f"{name}.o"
    runner.must(*compiler, *COMPILE, "-c", source, "-o", target)
    return target


# ------------------------------------------------------------- without Linux


def without_linux(runner: Runner) -> Outcome:
    """Programs under tbmpirun, deprived of what a Mac has not."""
    return _deprived(runner, [ours("tbmpicc"), "-O1"])


def _deprived(runner: Runner, compiler: list[str | Path]) -> Outcome:
    shim = runner.folder / "habits.so"
    flags = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    defines = ("-D_GNU_SOURCE", FOLDER / "habits.c")
    runner.must("cc", *flags, *defines, "-o", shim, "-ldl")
    scratch = runner.folder / LONG
    scratch.mkdir(exist_ok=True)
    env = {
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": str(FOLDER / "mac"),
        "TMPDIR": str(scratch),
    }
    before = _shared_names()
    total = native.run_smoke(runner, compiler, LIMIT, env)
    left = [*_shared_names() - before, *os.listdir(scratch)]
    return total + one(not left, f"left behind: {' '.join(left)}")


def _shared_names() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("tbmpi")}


# ------------------------------------------------------------------- elsewhere


def elsewhere(runner: Runner) -> Outcome:
    """Unit tests, transport and smoke suite of a build for no system known."""
    folder = ROOT / "build" / "elsewhere"
    native.build(runner, folder, f"-DCMAKE_C_FLAGS={ELSEWHERE}")
    library = next(folder.glob("libmpi_abi*"), None)
    if library is None:
        raise Trouble(f"no library in {folder}")
    include = ("-I", ROOT / "csrc/include")
    link = ("-Wl,--no-as-needed", library, f"-Wl,-rpath,{folder}")
    compiler: list[str | Path] = ["cc", "-O1", *include, *link]
    return native.ctest(runner, folder) + _deprived(runner, compiler)


# ----------------------------------------------------------------------- arm64


def arm64(runner: Runner) -> Outcome:
    """The unit tests on an emulated arm64: its ABI, and pages of 16 KiB.

    The memory order is the host's, so that this shows nothing about that.
    """
    got = runner.python(FETCH, "qemu-user", EMULATOR, "qemu-user")
    if got.code == SKIPPED:
        return Outcome(skipped=1, reasons=[f"arm64 skipped: {got.why()}"])
    if not got.good:
        raise Trouble(f"qemu-user: {got.why()}")
    root = Path(got.output.strip().splitlines()[-1])
    emulator = root / EMULATOR
    if not emulator.exists():
        emulator = tool("qemu-aarch64", "install it: apt-get install qemu-user")
    libraries = root / "usr/lib"
    env = {
        "LD_LIBRARY_PATH": f"{libraries}/x86_64-linux-gnu:{libraries}",
        "TBMPI_TEST_SLOWER": "4",
    }
    folder = ROOT / "build" / "arm64"
    units = [f"unit_{path.stem}" for path in sorted(UNITS.glob("*.c"))]
    native.build(runner, folder, *_cross(runner), targets=(*units, SUITE))
    runs = [((), (name,)) for name in units if name not in NOT_EMULATED]
    runs += [(("-p", PAGES), words) for words in WITH_PAGES]
    total = Outcome()
    for options, (name, *words) in runs:
        program = folder / "tests" / name
        done = runner.run(emulator, *options, program, *words, limit=LIMIT, env=env)
        label = " ".join(["arm64:", name, *words, *options])
        if done.code == SKIPPED:
            total += Outcome(skipped=1, reasons=[f"{label}: {done.why()}"])
        else:
            total += one(done.good, f"{label}: {done.why()}")
    return total


def _cross(runner: Runner) -> list[str]:
    """CMake's settings; it wants compilers of one word."""
    words = [str(word) for word in zig(runner)]
    tools = {"cc": f"cc -target {ARM}", "ar": "ar", "ranlib": "ranlib"}
    for name, more in tools.items():
        script = runner.folder / f"arm64-{name}"
        script.write_text(f'#!/bin/sh\nexec {" ".join(words)} {more} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    settings = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_C_COMPILER": runner.folder / "arm64-cc",
        "CMAKE_AR": runner.folder / "arm64-ar",
        "CMAKE_RANLIB": runner.folder / "arm64-ranlib",
        "CMAKE_EXE_LINKER_FLAGS": "-static",
    }
    return [f"-D{key}={value}" for key, value in settings.items()]
