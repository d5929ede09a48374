# SPDX-License-Identifier: MIT
"""Formatters, linters, layers and generated files."""

from __future__ import annotations

import sys
from pathlib import Path

from report import Outcome, one
from run import ROOT, Runner, tool

GENERATED = {"csrc/include/mpi.h", "csrc/mpi/api.h"}
C_FOLDERS = ("csrc", "tests", "tbmpi/bench")
PYTHON_FOLDERS = ("tbmpi", "tools", "tests", "examples")


def handwritten_c() -> list[Path]:
    """All C files that people write, relative to the root."""
    found = [
        path.relative_to(ROOT)
        for folder in C_FOLDERS
        for path in sorted((ROOT / folder).rglob("*.[ch]"))
    ]
    return [
        path
        for path in found
        if path.parts[:2] != ("csrc", "gen") and path.as_posix() not in GENERATED
    ]


def lint(runner: Runner) -> Outcome:
    """One test a tool."""
    ruff = tool("ruff", "install tbmpi[lint] (make setup)")
    formatter = tool("clang-format", "install it: apt-get install clang-format")
    python = [path for path in PYTHON_FOLDERS if (ROOT / path).is_dir()]
    commands = {
        "ruff check": (ruff, "check", *python),
        "ruff format": (ruff, "format", "--check", *python),
        "clang-format": (formatter, "--dry-run", "--Werror", *handwritten_c()),
        "layers": (sys.executable, "tools/check_layers.py"),
        "bindgen": (sys.executable, "tools/bindgen", "--check"),
        "factgen": (sys.executable, "tools/factgen.py", "--check"),
        "stubgen": (sys.executable, "tools/stubgen.py", "--check"),
    }
    total = Outcome()
    for name, words in commands.items():
        done = runner.run(*words)
        total += one(done.good, f"{name}: {done.why()}")
    return total
