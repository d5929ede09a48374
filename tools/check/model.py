# SPDX-License-Identifier: MIT
"""Small models of what is published between processes, searched exhaustively."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from report import Outcome, Trouble, one
from run import ROOT, Runner

FETCH = "tests/vm/packages.py"
# The search must be exhaustive: no compression that forgets states.
SEARCH = ("-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000")
STEPS = "-m1000000"


def model(runner: Runner) -> Outcome:
    """Each model holds, and fails with each switch that its head lists."""
    spin = _spin(runner)
    total = Outcome()
    for path in sorted((ROOT / "tests/model").glob("*.pml")):
        head = path.read_text(encoding="utf-8").split("*/\n")[1]
        larger = re.findall(r"^ \* larger: (\w+=\d+)$", head, re.MULTILINE)
        switches = re.findall(r"^ \*   ([A-Z_]+)  ", head, re.MULTILINE)
        if not larger or not switches:
            raise Trouble(f"{path.name} lists no larger size, or no switches")
        for size in ("", *(larger if runner.full else ())):
            errors = _search(runner, spin, path, size)
            label = f"{path.stem} {size}".strip()
            total += one(errors == 0, f"{label}: {errors} errors, see the log")
        for switch in switches:
            errors = _search(runner, spin, path, switch)
            total += one(errors > 0, f"{path.stem} holds even with {switch}")
    return total


def _spin(runner: Runner) -> list[str | Path]:
    """Debian's spin, fetched if it is not installed."""
    if found := shutil.which("spin"):
        return [found]
    root = runner.must(sys.executable, FETCH, "spin", "usr/bin/spin", "spin")
    return [Path(root.strip().splitlines()[-1]) / "usr/bin/spin"]


def _search(runner: Runner, spin: list[str | Path], path: Path, define: str) -> int:
    """The number of errors in all runs of a model."""
    folder = runner.folder / f"{path.stem}-{define or 'small'}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    defines = [f"-D{define}"] if define else []
    runner.must(*spin, *defines, "-a", path, cwd=folder)
    runner.must("cc", *SEARCH, "-o", "pan", "pan.c", cwd=folder)
    said = runner.must(folder / "pan", STEPS, cwd=folder)
    found = re.search(r"errors: (\d+)", said)
    if not found or "search depth too small" in said or "out of memory" in said:
        raise Trouble(f"{path.name}: the search is not complete: {os.fspath(folder)}")
    return int(found[1])
