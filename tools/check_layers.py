#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that csrc includes only downwards: gen, mpi, coll and rma, engine, net, base.

mpi, coll and rma lie side by side and may include each other's public headers; so do
net and fabric, the emulated hardware below it, which knows the verbs ABI alone.
The programs router and selftest stand on net, beside engine.
Exit code 1 and one line for each include that goes the wrong way.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CSRC = Path(__file__).resolve().parents[1] / "csrc"
LEVELS = {
    "base": 0, "net": 1, "fabric": 1, "engine": 2, "router": 2, "selftest": 2,
    "include": 3, "mpi": 4, "coll": 4, "rma": 4, "gen": 5,
}  # fmt: skip
PUBLIC = {
    "net": {"verbs_abi.h"},
    "fabric": set(),
    "engine": set(),
    "router": set(),
    "selftest": set(),
    "coll": {"coll.h"},
    "rma": {"rma.h"},
    "mpi": {
        "objects.h", "request.h", "status.h", "world.h", "api.h", "check.h", "errh.h",
        "comm_name.h",
    },
}  # fmt: skip
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def wrong(layer: str, target: str, header: str) -> str:
    """Why a file of `layer` may not include `header` of `target`; empty if it may."""
    if target not in LEVELS:
        return f"there is no layer {target}"
    if LEVELS[target] > LEVELS[layer]:
        return f"{target} lies above {layer}"
    beside = LEVELS[target] == LEVELS[layer] and target != layer
    if beside and header not in PUBLIC[target]:
        return f"not a public header of {target}: {', '.join(sorted(PUBLIC[target]))}"
    return ""


def main() -> int:
    """Command line."""
    bad = 0
    for layer in LEVELS:
        for path in sorted((CSRC / layer).glob("*.[ch]")):
            for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                target, _, header = name.rpartition("/")
                # Names without a folder are the file's own or csrc/include's.
                why = wrong(layer, target or layer, header)
                if why:
                    bad += 1
                    print(f"{path.relative_to(CSRC.parent)}: {name}: {why}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
