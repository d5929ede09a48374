#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Boot a guest once and run all checks of guest.py in it.

    python tests/vm/suite.py [--build FOLDER] [CHECK ...]

FOLDER holds the C tests (cmake -DTBMPI_TESTS=ON); tbmpi is installed in this
Python. The last line counts. Exit code: 0 if nothing failed; a machine that
cannot run the guest skips, and says why.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import vm
from packages import Trouble, Unavailable

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 1200.0
PROGRAMS = ("p2p", "coll_many")
COMPILE_SECONDS = 120.0
RESULT = re.compile(r"^(ok|FAILED|skipped) \w+: ")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--build", type=Path, default=ROOT / "build/test", help="(build/test)")
    add("--limit", type=float, default=LIMIT_SECONDS, help="seconds (1200)")
    add("check", nargs="*", help="run these only")
    options = parser.parse_args(argv)
    try:
        machine = vm.prepare()
        os.chdir(ROOT)
        _compile(options.build / "vm")
        guest = (sys.executable, "-B", "tests/vm/guest.py")
        command = (*guest, options.build.resolve(), *options.check)
        ended = vm.run(machine, [str(word) for word in command], options.limit)
    except Unavailable as reason:
        print(f"skipped: {reason}")
        print("vm: 0 passed, 0 failed, 1 skipped")
        return 0
    except Trouble as trouble:
        print(f"FAILED vm: {trouble}")
        print("vm: 0 passed, 1 failed, 0 skipped")
        return 1
    print(ended.output, end="")
    counts = dict.fromkeys(("ok", "FAILED", "skipped"), 0)
    for line in ended.output.splitlines():
        match = RESULT.match(line)
        if match:
            counts[match[1]] += 1
    if ended.status is None:
        print(f"FAILED vm: {ended.why()}")
    if ended.status != 0 and not counts["FAILED"]:
        counts["FAILED"] += 1
    print(
        f"vm: {counts['ok']} passed, {counts['FAILED']} failed, "
        f"{counts['skipped']} skipped"
    )
    return 1 if counts["FAILED"] else 0


def _compile(folder: Path) -> None:
    """The jobs' programs: in the guest that would take minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        words = ["-O1", "-pthread", f"tests/smoke/{name}.c", "-o", folder / name]
        done = subprocess.run(
            [Path(sys.executable).parent / "tbmpicc", *words, "-lm"],
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
        )
        if done.returncode:
            raise Trouble(f"{name}.c does not compile: {done.stderr.strip()[-200:]}")


if __name__ == "__main__":
    sys.exit(main())
