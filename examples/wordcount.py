# SPDX-License-Identifier: MIT
"""Which words are the most frequent in many files?

    tbmpirun -n 4 python examples/wordcount.py book1.txt book2.txt

Each rank counts the words of its share of the files. Then every word gets one owner:
the counts are dealt out by a hash of the word (alltoall of dictionaries), and each
rank adds up those that it owns. The owners' most frequent words are gathered on
rank 0. All messages are Python objects.

Without files it counts the words of Python's own standard library. Rank 0 counts
once more by itself, and all counts have to be the same.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

from shared import Tell, command_line, parsed, positive, progress, ranks, verdict

from tbmpi import COMM_WORLD, MPI

WORD = re.compile(r"[a-z]{3,}")


def counted(paths: list[Path], tell: Tell) -> Counter[str]:
    """The words of some files and how often they are there."""
    words = Counter[str]()
    for done, path in enumerate(paths, 1):
        words.update(WORD.findall(path.read_text("utf-8", errors="replace").lower()))
        tell(done)
    return words


def owner(word: str, size: int) -> int:
    """The rank that adds a word up. Python's own hash differs between processes."""
    return zlib.crc32(word.encode()) % size


def exchanged(comm: MPI.Intracomm, words: Counter[str]) -> Counter[str]:
    """The counts by all ranks of the words that this rank owns."""
    parcels: list[dict[str, int]] = [{} for _ in range(comm.size)]
    for word, count in words.items():
        parcels[owner(word, comm.size)][word] = count
    total = Counter[str]()
    for parcel in comm.alltoall(parcels):
        total.update(parcel)
    return total


def by_size(paths: list[Path], parts: int, part: int) -> list[Path]:
    """One of `parts` shares of the files: large and small ones, dealt out in turn."""
    return sorted(paths, key=lambda path: (-path.stat().st_size, path))[part::parts]


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    missing = [str(path) for path in args.files if not path.is_file()]
    return f"no such file: {', '.join(missing)}" if missing else ""


def main() -> int:
    """The program; 1 if rank 0 alone counts otherwise."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("files", type=Path, nargs="*", help="texts (default: Python's library)")
    add("--top", type=positive, default=10, help="how many words to print (10)")
    args = parsed(parser, complaint)
    paths = args.files or sorted(Path(os.__file__).parent.glob("*.py"))
    began = time.perf_counter()
    mine = by_size(paths, COMM_WORLD.size, COMM_WORLD.rank)
    with progress(ranks(), len(mine)) as tell:
        owned = exchanged(COMM_WORLD, counted(mine, tell))
    tops = COMM_WORLD.gather(owned.most_common(args.top))
    seconds = time.perf_counter() - began
    parts = COMM_WORLD.gather(owned)
    if tops is None or parts is None:
        return 0
    best = Counter(dict(pair for top in tops for pair in top))
    for word, count in best.most_common(args.top):
        print(f"{count:8} {word}")
    with progress("one rank", len(paths)) as tell:
        alone = counted(paths, tell)
    what = (
        f"wordcount: {len(paths)} files, {alone.total()} words, {ranks()}, "
        f"{seconds:.2f} s"
    )
    return verdict(sum(parts, Counter()) == alone, what, "counts equal to one rank's")


if __name__ == "__main__":
    sys.exit(main())
