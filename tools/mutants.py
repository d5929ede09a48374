# SPDX-License-Identifier: MIT
"""Breaks each rule of docs/thunderbolt.md in a copy of the sources; a test must fail.

    python3 tools/mutants.py [--work FOLDER] [RULE ...]

A mutation of tests/mutants.txt replaces a piece of one file; the test named beside it,
which passes on the sources as they are, must then fail or run out of time. A piece that
is not found any more is an error: whoever changes the line moves the mutation along.
Exit code 1 if a mutant survives.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 45  # seconds a test may take; some mutants hang


@dataclass(frozen=True)
class Mutant:
    """A rule, the test of it, and a piece of a file that obeys it or does not."""

    rule: int
    about: str
    file: str
    test: str
    old: str
    new: str


TABLE = ROOT / "tests" / "mutants.txt"


def read_table(text: str) -> list[Mutant]:
    """The mutants of the table. ValueError shows a block that is not one."""
    mutants = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        head = re.fullmatch(r"rule (\d+): (.+)", lines[0])
        fields = dict(line.partition(" ")[::2] for line in lines[1:3])
        old = [line[1:] for line in lines[3:] if line.startswith("-")]
        new = [line[1:] for line in lines[3:] if line.startswith("+")]
        if not head or set(fields) != {"file", "test"} or not old or not new:
            raise ValueError(f"{TABLE.name}: a block is not as it should be:\n{block}")
        mutants.append(
            Mutant(
                int(head[1]),
                head[2],
                fields["file"],
                fields["test"],
                "\n".join(old),
                "\n".join(new),
            )
        )
    return mutants


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", nargs="*", type=int, metavar="RULE", help="only these")
    parser.add_argument(
        "--work", type=Path, help="where to build; kept (default: temporary)"
    )
    options = parser.parse_args()
    chosen = [
        mutant
        for mutant in read_table(TABLE.read_text(encoding="utf-8"))
        if not options.rules or mutant.rule in options.rules
    ]
    work = options.work or Path(tempfile.mkdtemp(prefix="tbmpi-mutants-"))
    try:
        return run_all(work, chosen)
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


def run_all(work: Path, chosen: list[Mutant]) -> int:
    """The tests as they are, then each mutant; 1 if one survives."""
    tree = work / "tree"
    build = work / "build"
    copy_sources(tree)
    targets = sorted({mutant.test.split(" ")[0] for mutant in chosen})
    configure(tree, build)
    if not make(build, targets):
        return 1
    for test in sorted({mutant.test for mutant in chosen}):
        if (why := run_test(build, test)) != "":
            print(f"{test}: fails without a mutation: {why}")
            return 1
    survivors = sum(not kill(tree, build, mutant) for mutant in chosen)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants seen")
    return 1 if survivors else 0


def copy_sources(tree: Path) -> None:
    """A copy to break. What is there already is left alone, times and all."""
    for name in ("csrc", "tests", "CMakeLists.txt", "pyproject.toml"):
        source = ROOT / name
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            target = tree / file.relative_to(ROOT)
            if not file.is_file():
                continue
            if not target.exists() or target.read_bytes() != file.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


def configure(tree: Path, build: Path) -> None:
    """CMake, without Python."""
    command = [
        "cmake",
        "-S",
        tree,
        "-B",
        build,
        "-DTBMPI_PYTHON=OFF",
        "-DTBMPI_TESTS=ON",
    ]
    subprocess.run(
        [*command, "-DCMAKE_BUILD_TYPE=RelWithDebInfo"], check=True, capture_output=True
    )


def make(build: Path, targets: list[str]) -> bool:
    """Builds; says what went wrong."""
    command = ["cmake", "--build", build, "--parallel", "2", "--target", *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print((done.stdout + done.stderr)[-2000:])
    return done.returncode == 0


def run_test(build: Path, test: str) -> str:
    """Why a test fails; "" if it passes."""
    program, _, argument = test.partition(" ")
    command = [build / "tests" / program, *([argument] if argument else [])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    if not done.returncode:
        return ""
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    lines = [
        line for line in done.stderr.splitlines() if not line.startswith("tbmpi: ")
    ]
    return lines[-1] if lines else f"exit code {done.returncode}"


def kill(tree: Path, build: Path, mutant: Mutant) -> bool:
    """Breaks a rule, runs its test, mends it again. True if the test saw it."""
    path = tree / mutant.file
    text = path.read_text(encoding="utf-8")
    label = f"{mutant.rule:2} {mutant.about}"
    if text.count(mutant.old) != 1:
        print(f"{label}: SURVIVES: {mutant.file} has changed; move the piece along")
        return False
    began = time.monotonic()
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        if not make(build, [mutant.test.split(" ")[0]]):
            print(f"{label}: SURVIVES: it does not compile")
            return False
        why = run_test(build, mutant.test)
    finally:
        path.write_text(text, encoding="utf-8")
    verdict = f"seen by {mutant.test} ({why.strip()})" if why else "SURVIVES"
    print(f"{label}: {verdict}, {time.monotonic() - began:.0f} s", flush=True)
    return why != ""


if __name__ == "__main__":
    sys.exit(main())
