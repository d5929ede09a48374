# SPDX-License-Identifier: MIT
"""Read what HPL prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

VARIANT = re.compile(r"W([RC])(\d)(\d)([LCR])(\d)([LCR])(\d+)")
ROW = re.compile(
    rf"^(?P<variant>{VARIANT.pattern})\s+(?P<n>\d+)\s+(?P<nb>\d+)\s+(?P<p>\d+)"
    r"\s+(?P<q>\d+)\s+(?P<seconds>[\d.]+)\s+(?P<gflops>[\d.]+e[+-]\d+)\s*$"
)
RESIDUAL = re.compile(r"\|\|Ax-b\|\|_oo/\(.*=\s*(\S+)\s+\.+\s+(PASSED|FAILED)")
SUMMARY = re.compile(r"^\s+(\d+) tests (completed and failed|skipped)")
TROUBLE = re.compile(r"^(?:HPL ERROR|HPL WARNING|>>>)")
PROGRESS = re.compile(r"^Column=\d+ Fraction=\s*([\d.]+)%")


@dataclass(frozen=True)
class Result:
    """One solved system. `residual` has the digits that HPL printed."""

    variant: str
    n: int
    nb: int
    p: int
    q: int
    seconds: float
    gflops: float
    residual: str
    passed: bool

    @property
    def depth(self) -> int:
        return int(self.variant[2])

    @property
    def broadcast(self) -> int:
        return int(self.variant[3])


@dataclass
class Report:
    """All that one run of HPL said about its results."""

    results: list[Result] = field(default_factory=list)
    failed: int = 0
    skipped: int = 0
    troubles: list[str] = field(default_factory=list)
    finished: bool = False

    @property
    def passed(self) -> bool:
        """Whether there are results, all of them passed, and none is missing."""
        good = all(result.passed for result in self.results)
        missing = self.failed or self.skipped or not self.finished
        return bool(self.results) and good and not missing


def parse(text: str) -> Report:
    """Parse HPL's output, of version 2.0 to 2.3, complete or cut off."""
    report = Report()
    row = None
    for line in text.splitlines():
        if match := ROW.match(line):
            row = match.groupdict()
        elif (match := RESIDUAL.match(line)) and row:
            report.results.append(
                Result(
                    variant=row["variant"],
                    n=int(row["n"]),
                    nb=int(row["nb"]),
                    p=int(row["p"]),
                    q=int(row["q"]),
                    seconds=float(row["seconds"]),
                    gflops=float(row["gflops"]),
                    residual=match[1],
                    passed=match[2] == "PASSED",
                )
            )
            row = None
        elif match := SUMMARY.match(line):
            if match[2] == "skipped":
                report.skipped = int(match[1])
            else:
                report.failed = int(match[1])
        elif TROUBLE.match(line):
            report.troubles.append(line.strip(" ><"))
        elif line.startswith("End of Tests"):
            report.finished = True
    return report


def progress_of(line: str) -> float | None:
    """Return the share done, 0 to 1, if `line` is a progress report."""
    match = PROGRESS.match(line)
    return float(match[1]) / 100 if match else None
