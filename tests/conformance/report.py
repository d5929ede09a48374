# SPDX-License-Identifier: MIT
"""Results of a suite: the JSON file and the closing lines."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from toolchain import Toolchain


def heading(suite: str, version: str, toolchain: Toolchain) -> dict[str, Any]:
    """Return what every result file begins with."""
    return {
        "suite": suite,
        "version": version,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "cc": toolchain.cc,
        "launcher": " ".join(toolchain.launcher),
    }


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Write the result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps(result, indent=1) + "\n")
    draft.replace(path)


def close(suite: str, path: Path, counts: dict[str, int], wrong: list[str]) -> int:
    """Print complaints and the closing line; return the exit code."""
    say(f"{suite}: result in {path}")
    for complaint in wrong:
        say(f"{suite}: {complaint}")
    line = f"{suite}: {counts['passed']} passed, {counts['failed']} failed"
    if counts.get("skipped"):
        line += f", {counts['skipped']} skipped"
    say(line)
    return 1 if wrong else 0


def say(line: str) -> None:
    print(line, flush=True)


def complain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
