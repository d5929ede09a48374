# SPDX-License-Identifier: MIT
"""The rule by which one library counts as no slower than its peers.

For every figure: the lower quartile over the runs; the ratio to the better
peer; and the A/A spread, which is what the same library differs from itself
when every other run is compared with the rest. A family passes when the
geometric mean of its ratios is at most 1.0 and no ratio is above 1.10 or the
figure's A/A spread (the subject's or the better peer's), whichever is
larger.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tbmpi.bench.program import Figure, Key

RULE_RUNS = 11
RULE_RATIO = 1.10
RULE_MEAN = 1.0
TOO_NOISY = 1.5

Samples = Mapping[Key, Sequence[Figure]]
"""A library's figures, one per good run, in the order of the runs."""


@dataclass(frozen=True)
class Row:
    """One figure of all libraries; times in microseconds.

    `streams` is how many messages of this size travel at the same time.
    """

    key: Key
    times: Mapping[str, float]
    spreads: Mapping[str, float]
    streams: int = 1
    best_peer: str = ""
    ratio: float = math.nan
    limit: float = math.nan

    @property
    def is_compared(self) -> bool:
        """True if the subject and at least one peer have this figure."""
        return not math.isnan(self.ratio)

    @property
    def is_miss(self) -> bool:
        """True for a ratio above its limit; a missing time is a miss too."""
        return bool(self.best_peer) and not self.ratio <= self.limit


@dataclass(frozen=True)
class Family:
    """One family of figures and its verdict."""

    name: str
    rows: tuple[Row, ...]
    mean: float

    @property
    def misses(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.is_miss)

    @property
    def noise(self) -> float:
        """The median A/A spread of its figures, over all libraries."""
        spreads = [s for row in self.rows for s in row.spreads.values()]
        known = [s for s in spreads if not math.isnan(s)]
        return median(known) if known else math.nan

    @property
    def passes(self) -> bool:
        return self.mean <= RULE_MEAN and not self.misses


def lower_quartile(values: Sequence[float]) -> float:
    """Return the lower quartile (linear, as numpy's and R's default)."""
    ordered = sorted(values)
    place = (len(ordered) - 1) / 4
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    share = place - low
    if not share or ordered[low] == ordered[high]:
        return ordered[low]
    return ordered[low] * (1 - share) + ordered[high] * share


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def halves_spread(values: Sequence[float]) -> float:
    """Return the A/A spread: 1.0 or more, not a number below two runs."""
    if len(values) < 2:
        return math.nan
    one, two = lower_quartile(values[::2]), lower_quartile(values[1::2])
    return max(one, two) / min(one, two)


def judge(samples: Mapping[str, Samples], subject: str) -> list[Family]:
    """Compare `subject` with every other library, family by family."""
    keys = list(dict.fromkeys(key for s in samples.values() for key in s))
    names = list(dict.fromkeys(family for family, _ in keys))
    families = []
    for name in names:
        sizes = sorted(size for family, size in keys if family == name)
        rows = tuple(_row((name, size), samples, subject) for size in sizes)
        families.append(Family(name, rows, _mean(rows)))
    return families


def _row(key: Key, samples: Mapping[str, Samples], subject: str) -> Row:
    times, spreads, streams = {}, {}, 1
    for name, group in samples.items():
        figures = group.get(key, ())
        values = [figure.q1 for figure in figures]
        if values:
            streams = figures[0].streams
            times[name] = lower_quartile(values)
            spreads[name] = halves_spread(values)
    peers = [name for name in times if name != subject]
    if not peers:
        return Row(key, times, spreads, streams)
    best = min(peers, key=lambda name: times[name])
    if subject not in times:
        return Row(key, times, spreads, streams, best, limit=RULE_RATIO)
    pair = (spreads[subject], spreads[best])
    limit = max([RULE_RATIO, *(s for s in pair if not math.isnan(s))])
    ratio = times[subject] / times[best]
    return Row(key, times, spreads, streams, best, ratio, limit)


def _mean(rows: Sequence[Row]) -> float:
    ratios = [row.ratio for row in rows if row.is_compared]
    if not ratios:
        return math.nan
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
