#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Look for the barriers in code compiled for a Mac.

    barriers.py OBJDUMP OBJECT ...

An atomic operation that asks for acquire, release or sequential order must have
become an instruction that gives it. The objects come from csrc, compiled with -g
for a weakly ordered processor; their line tables lead from a source line to its
instructions, also where a function was inlined. The sites in NAMED carry the
algorithms and must be there. A line for each failure, then the counts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 120

ORDERED = re.compile(r"memory_order_(acquire|release|acq_rel|seq_cst)")
CALL = re.compile(r"\b(atomic_\w+)\s*\(")
# Instructions that give an order (Arm ARM, B2.3 and C3.2): loads, stores, and the
# atomic memory operations, with A for acquire and L for release in the name.
ATOMIC = r"(?:cas|swp|ldadd|ldclr|ldeor|ldset|ld[su]max|ld[su]min)"
GIVES = {
    "acquire": re.compile(rf"^(ldapu?r\w*|lda[rx]\w*|{ATOMIC}a\w*)$"),
    "release": re.compile(rf"^(stl\w+|{ATOMIC}a?l\w*|st(add|clr|set)l\w*)$"),
    "fence": re.compile(r"^dmb$"),
}


@dataclass(frozen=True)
class Site:
    """One operation in the source; `first` to `last` are its lines."""

    path: str
    function: str
    operation: str
    order: str
    first: int
    last: int

    def wants(self) -> list[str]:
        """What its instructions must give."""
        if self.operation == "atomic_thread_fence":
            return ["fence"]
        reads = "store" not in self.operation
        writes = "load" not in self.operation
        wanted = []
        if reads and self.order != "release":
            wanted.append("acquire")
        if writes and self.order != "acquire":
            wanted.append("release")
        return wanted

    def __str__(self) -> str:
        return f"{self.path}:{self.first} ({self.function})"


# File, function, operation, order: where the algorithms rest on an order.
NAMED = (
    ("csrc/net/shm_pipe.c", "publish", "atomic_store_explicit", "release"),
    ("csrc/net/shm_pipe.c", "drain", "atomic_load_explicit", "acquire"),
    ("csrc/net/shm_pipe.c", "tell", "atomic_store_explicit", "release"),
    ("csrc/net/shm_pipe.c", "learn", "atomic_load_explicit", "acquire"),
    ("csrc/net/shm_pipe.c", "announce", "atomic_fetch_add_explicit", "release"),
    ("csrc/net/relay.h", "tb_ring_put", "atomic_store_explicit", "release"),
    ("csrc/net/relay.h", "tb_ring_look", "atomic_load_explicit", "acquire"),
    ("csrc/coll/commons.c", "tb_lane_post", "atomic_store_explicit", "release"),
    ("csrc/coll/commons.c", "tb_lane_look", "atomic_load_explicit", "acquire"),
    ("csrc/coll/commons.c", "tb_lane_finish", "atomic_store_explicit", "release"),
    ("csrc/base/base.h", "tb_bell_ring", "atomic_thread_fence", "seq_cst"),
    ("csrc/base/doorbell.c", "arm", "atomic_thread_fence", "seq_cst"),
    ("csrc/base/doorbell.c", "tb_bell_wake", "atomic_fetch_add_explicit", "release"),
)


def sites(path: Path) -> Iterator[Site]:
    """The ordered operations of a source file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    function, first, operation = "?", 0, ""
    for number, line in enumerate(lines, 1):
        # A definition starts in the first column; its name is before the bracket.
        head = re.match(r"^[a-z][\w\s*]*?(\w+)\(", line)
        if head:
            function = head[1]
        call = CALL.search(line)
        if call:
            first, operation = number, call[1]
        order = ORDERED.search(line)
        if order:
            name = path.relative_to(ROOT).as_posix()
            yield Site(name, function, operation, order[1], first, number)


def instructions(
    objdump: str, objects: Sequence[str]
) -> dict[tuple[str, int], set[str]]:
    """Mnemonics by source line, over all objects."""
    found: dict[tuple[str, int], set[str]] = {}
    for name in objects:
        # All extensions that a Mac's processor has are named by one that has them.
        words = [objdump, "-d", "-l", "--no-show-raw-insn", "--mattr=+v8.5a", name]
        said = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
        ).stdout
        where = ("", 0)
        for line in said.splitlines():
            place = re.match(r"^; (\S+):(\d+)$", line)
            if place and Path(place[1]).is_relative_to(ROOT):
                path = Path(place[1]).relative_to(ROOT).as_posix()
                where = (path, int(place[2]))
            elif place:
                where = ("", 0)
            elif step := re.match(r"^\s*[0-9a-f]+:\s+([a-z]\w*)", line):
                found.setdefault(where, set()).add(step[1])
    return found


def judge(site: Site, code: dict[tuple[str, int], set[str]]) -> str | None:
    """Why the site is wrong; None if it is right, "" if it has no code at all."""
    here: set[str] = set()
    for number in range(site.first, site.last + 1):
        here |= code.get((site.path, number), set())
    if not here:
        return ""
    for want in site.wants():
        gives = GIVES[want]
        if not any(gives.match(step) or GIVES["fence"].match(step) for step in here):
            return f"{site}: no {want} among {' '.join(sorted(here))}"
    return None


def main(argv: Sequence[str]) -> int:
    """Command line."""
    if len(argv) < 2:
        print(__doc__)
        return 2
    code = instructions(argv[0], argv[1:])
    passed, absent, failures = 0, [], []
    named = set()
    for path in sorted((ROOT / "csrc").rglob("*.[ch]")):
        for site in sites(path):
            why = judge(site, code)
            if why is None:
                passed += 1
                named.add((site.path, site.function, site.operation, site.order))
            elif why:
                failures.append(why)
            else:
                absent.append(str(site))
    failures += [
        f"{path} ({function}): {operation} with {order} is not there"
        for path, function, operation, order in NAMED
        if (path, function, operation, order) not in named
    ]
    for text in failures:
        print(text)
    print(f"no code on a Mac: {len(absent)}: {' '.join(absent)}")
    print(f"barriers: {passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
