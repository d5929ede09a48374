# SPDX-License-Identifier: MIT
"""The benchmark programme: build it with a compiler wrapper, read its lines.

One line of the programme is one figure: the time of an operation, taken over
repetitions inside one run. The lower quartile is the figure that counts, the
median and the minimum are kept beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbmpi.bench.errors import BenchError
from tbmpi.bench.processes import run_limited

SOURCES = Path(__file__).parent / "src"
BUILD_SECONDS = 120

P2P = ("latency", "bandwidth", "bibandwidth", "msgrate")
COLLECTIVES = (
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "allgather",
    "alltoall",
)
FAMILIES = P2P + COLLECTIVES

Key = tuple[str, int]
"""A figure's name: its family and its message size in bytes."""


@dataclass(frozen=True)
class Figure:
    """The time of one operation in microseconds, in one run."""

    family: str
    size: int
    q1: float
    median: float
    minimum: float
    wrong: int = 0
    streams: int = 1
    capped: bool = False
    raw: tuple[float, ...] = ()

    @property
    def key(self) -> Key:
        return self.family, self.size


@dataclass(frozen=True)
class Output:
    """What one run of a programme told."""

    figures: dict[Key, Figure]
    head: dict[str, Any]
    skipped: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True)
class Effort:
    """How long the programme takes, in seconds."""

    samples: int = 20
    budget: float = 0.02
    size_limit: float = 0.4
    family_limit: float = 8.0


QUICK = Effort(samples=10, budget=0.005, size_limit=0.2, family_limit=3.0)


def build(compiler: Path, target: Path) -> None:
    """Compile the programme with an MPI library's own wrapper."""
    sources = sorted(SOURCES.glob("*.c"))
    command = [compiler, "-std=c11", "-O2", "-o", target, *sources]
    try:
        done = run_limited(command, BUILD_SECONDS)
    except OSError as error:
        raise BenchError(f"cannot run {compiler}: {error}") from error
    if done.code or done.late:
        raise BenchError(
            f"{compiler} cannot build the benchmark (it needs a C compiler, "
            f"such as gcc or clang):\n{done.complaint()}"
        )


def arguments(
    families: Sequence[str], sizes: Sequence[int], effort: Effort
) -> list[str]:
    """Return the programme's options; no sizes means each family's own."""
    words = ["--families", ",".join(families)]
    if sizes:
        words += ["--sizes", ",".join(map(str, sizes))]
    words += ["--samples", str(effort.samples)]
    words += ["--budget", str(effort.budget)]
    words += ["--size-limit", str(effort.size_limit)]
    return [*words, "--family-limit", str(effort.family_limit)]


def time_limit(families: Sequence[str], effort: Effort) -> float:
    """Return how long one run may take before it counts as hanging."""
    return 30 + len(families) * (2 * effort.family_limit)


def read_output(text: str) -> Output:
    """Read a run's standard output; ValueError if it is not whole."""
    figures: dict[Key, Figure] = {}
    skipped = []
    head: dict[str, Any] = {}
    is_whole = False
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        record = json.loads(line)
        if "usec" in record:
            figure = _figure(record)
            figures[figure.key] = figure
        elif "skipped" in record:
            skipped.append((record["skipped"], record["bytes"], record["why"]))
        elif "library" in record:
            head = record
        is_whole = is_whole or record.get("end", False)
    if not is_whole:
        raise ValueError("the output stops before its end")
    return Output(figures, head, tuple(skipped))


def _figure(record: dict[str, Any]) -> Figure:
    usec = record["usec"]
    return Figure(
        family=record["family"],
        size=record["bytes"],
        q1=usec["q1"],
        median=usec["median"],
        minimum=usec["min"],
        wrong=record["wrong"],
        streams=record["streams"],
        capped=record["capped"],
        raw=tuple(record["raw"]),
    )


def library_name(head: dict[str, Any]) -> str:
    """Return the library's name and version in a few words, if known."""
    first = str(head.get("library", "")).splitlines() or [""]
    words = first[0].split(",")[0].replace("Version:", " ")
    return " ".join(words.split())
