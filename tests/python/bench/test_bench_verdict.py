# SPDX-License-Identifier: MIT
"""The rule that decides a comparison."""

import math

import pytest

from tbmpi.bench.program import Figure
from tbmpi.bench.verdict import Samples, halves_spread, judge, lower_quartile

STEADY = (1.0, 1.0, 1.0, 1.0)


def samples(family: str = "latency", **times: tuple[float, ...]) -> Samples:
    """Return a library's figures: s8=(...) is the size of 8 bytes."""
    found = {}
    for name, values in times.items():
        size = int(name[1:])
        figures = [Figure(family, size, v, v, v) for v in values]
        found[family, size] = figures
    return found


def test_the_lower_quartile_is_linear_between_values() -> None:
    assert lower_quartile([4, 1, 3, 2, 5]) == 2
    assert lower_quartile([1.0, 2.0]) == 1.25
    assert lower_quartile([7.0]) == 7


def test_the_lower_quartile_of_missing_values_is_infinite() -> None:
    assert lower_quartile([math.inf, math.inf]) == math.inf
    assert lower_quartile([1.0, math.inf, math.inf]) == math.inf


def test_the_spread_compares_every_other_run_with_the_rest() -> None:
    assert halves_spread([1, 2, 1, 2]) == 2
    assert halves_spread([2, 1, 2, 1]) == 2
    assert halves_spread([3, 3, 3]) == 1
    assert math.isnan(halves_spread([3]))


def test_every_figure_is_compared_with_its_better_peer() -> None:
    [family] = judge(
        {
            "ours": samples(s8=STEADY, s16=STEADY),
            "one": samples(s8=(2.0,) * 4, s16=(4.0,) * 4),
            "two": samples(s8=(4.0,) * 4, s16=(2.0,) * 4),
        },
        "ours",
    )
    assert [row.best_peer for row in family.rows] == ["one", "two"]
    assert [row.ratio for row in family.rows] == [0.5, 0.5]
    assert family.mean == pytest.approx(0.5)
    assert family.passes


def test_a_mean_above_one_fails_without_any_miss() -> None:
    ours = samples(s8=(1.05,) * 4)
    [family] = judge({"ours": ours, "peer": samples(s8=STEADY)}, "ours")
    assert not family.misses
    assert not family.passes


def test_one_figure_above_the_limit_fails_a_good_mean() -> None:
    ours = samples(s8=(0.5,) * 4, s16=(1.2,) * 4)
    peer = samples(s8=STEADY, s16=STEADY)
    [family] = judge({"ours": ours, "peer": peer}, "ours")
    assert family.mean < 1
    assert [row.key for row in family.misses] == [("latency", 16)]
    assert not family.passes


@pytest.mark.parametrize("noisy", ["ours", "peer"])
def test_a_larger_spread_of_either_side_raises_the_limit(noisy: str) -> None:
    times = {"ours": (1.2, 1.2, 1.2, 1.2), "peer": STEADY}
    low = times[noisy][0]
    times[noisy] = (low, 1.5 * low, low, 1.5 * low)
    sides = {name: samples(s8=values) for name, values in times.items()}
    [family] = judge(sides, "ours")
    assert family.rows[0].limit == pytest.approx(1.5)
    assert not family.misses


def test_a_figure_that_only_the_peer_has_is_a_miss() -> None:
    ours = samples(s8=STEADY)
    peer = samples(s8=STEADY, s16=STEADY)
    [family] = judge({"ours": ours, "peer": peer}, "ours")
    assert [row.key for row in family.misses] == [("latency", 16)]


def test_a_figure_that_no_peer_has_is_not_judged() -> None:
    ours = samples(s8=STEADY, s16=STEADY)
    [family] = judge({"ours": ours, "peer": samples(s8=STEADY)}, "ours")
    assert not family.misses
    assert family.mean == 1
    assert family.passes


def test_alone_there_is_no_ratio() -> None:
    [family] = judge({"ours": samples(s8=STEADY)}, "ours")
    assert math.isnan(family.mean)
    assert not family.misses
