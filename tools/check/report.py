# SPDX-License-Identifier: MIT
"""What a group of tests came to, and how that is printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

REASONS_SHOWN = 12


class Trouble(Exception):
    """A group cannot go on; the text says why and what to do."""


@dataclass
class Outcome:
    """Counts, and a line for each failure. Outcomes add up."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.reasons + other.reasons,
        )

    def counts(self) -> str:
        """The numbers in words."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def one(good: bool, reason: str) -> Outcome:
    """The outcome of a single test; the reason is for the case that it failed."""
    return Outcome(passed=1) if good else Outcome(failed=1, reasons=[reason])


def print_group(name: str, seconds: float, outcome: Outcome, log: Path) -> None:
    """One line, and a few more if something failed."""
    verdict = "FAILED" if outcome.failed else "ok"
    print(f"{name:12} {seconds:6.1f} s  {verdict:6}  {outcome.counts()}", flush=True)
    for reason in outcome.reasons[:REASONS_SHOWN]:
        print(f"    {reason}")
    if len(outcome.reasons) > REASONS_SHOWN:
        print(f"    and {len(outcome.reasons) - REASONS_SHOWN} more")
    if outcome.failed:
        print(f"    log: {log}", flush=True)


def print_sum(total: Outcome, seconds: float) -> None:
    """The last two lines."""
    print(f"{'all':12} {seconds:6.1f} s")
    print(total.counts(), flush=True)
