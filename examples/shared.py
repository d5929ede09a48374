# SPDX-License-Identifier: MIT
"""What the examples share: the command line, a progress bar, the verdict."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tbmpi import COMM_WORLD

Tell = Callable[[int], None]
EVERY = 2.0  # seconds between two lines about progress


def command_line(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose --help is an example's own description."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def positive(text: str) -> int:
    """The type of an option: a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def parsed(
    parser: argparse.ArgumentParser,
    complaint: Callable[[argparse.Namespace], str] = lambda args: "",
) -> argparse.Namespace:
    """The options, on every rank; rank 0 reads them and alone complains or helps.

    `complaint` says what is wrong with options that do not go together.
    """
    outcome: argparse.Namespace | int | None = None
    if COMM_WORLD.rank == 0:
        try:
            outcome = parser.parse_args()
            if wrong := complaint(outcome):
                parser.error(wrong)
        except SystemExit as end:
            outcome = int(end.code or 0)
    outcome = COMM_WORLD.bcast(outcome)
    if isinstance(outcome, int):
        sys.exit(outcome)
    return outcome


def share(length: int, parts: int, part: int) -> tuple[int, int]:
    """Start and end of one of `parts` nearly equal pieces of `length` things."""
    return length * part // parts, length * (part + 1) // parts


@contextmanager
def progress(label: str, steps: int) -> Iterator[Tell]:
    """How far rank 0 has come: a bar on a terminal, elsewhere a line now and then."""
    if COMM_WORLD.rank != 0:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(label, steps)
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(label, total=steps)
        yield lambda done: bar.update(task, completed=done)


def _lines(label: str, steps: int) -> Tell:
    told = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            print(f"{label}: {done} of {steps}", file=sys.stderr)

    return tell


def ranks(size: int = COMM_WORLD.size) -> str:
    """A number of ranks in words."""
    return "1 rank" if size == 1 else f"{size} ranks"


def verdict(good: bool, what: str, claim: str) -> int:
    """Prints whether the claim holds, on rank 0; the exit code."""
    if COMM_WORLD.rank == 0:
        print(f"{what}: {claim if good else f'WRONG, not {claim}'}")
    return 0 if good else 1
