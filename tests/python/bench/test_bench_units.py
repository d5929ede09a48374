# SPDX-License-Identifier: MIT
"""Sizes as users write them, figures as tables show them."""

import math

import pytest

from tbmpi.bench.errors import BenchError
from tbmpi.bench.units import (
    key_text,
    number_text,
    parse_size,
    parse_sizes,
    shown,
    size_text,
)


@pytest.mark.parametrize(
    ("word", "size"),
    [
        ("0", 0),
        ("8", 8),
        ("8B", 8),
        ("64K", 65536),
        ("64KiB", 65536),
        ("1M", 1 << 20),
        ("1g", 1 << 30),
    ],
)
def test_a_size_has_a_binary_prefix(word: str, size: int) -> None:
    assert parse_size(word) == size


@pytest.mark.parametrize("word", ["", "-1", "1.5K", "8X", "K", "2G", "8 8"])
def test_a_bad_size_is_named(word: str) -> None:
    with pytest.raises(BenchError, match="not a message size"):
        parse_size(word)


def test_a_list_is_sorted_and_ranges_count_in_powers_of_two() -> None:
    assert parse_sizes("64,0-4,2") == [0, 1, 2, 4, 64]
    assert parse_sizes("3-24") == [3, 6, 12, 24]


def test_a_range_that_goes_down_is_refused() -> None:
    with pytest.raises(BenchError, match="goes down"):
        parse_sizes("1M-8")


def test_sizes_are_shown_in_whole_units() -> None:
    shown_sizes = [size_text(size) for size in (0, 1000, 1024, 1 << 22)]
    assert shown_sizes == ["0 B", "1000 B", "1 KiB", "4 MiB"]
    assert key_text("hpl", 2000) == "N 2000"


def test_figures_are_shown_in_the_unit_of_their_family() -> None:
    assert shown("latency", 8, 0.5, 1) == 0.5
    assert shown("bibandwidth", 1000, 2.0, 2) == 1000
    assert shown("msgrate", 8, 0.25, 1) == 4
    n = 2000
    flops = 2 / 3 * n**3 + 3 / 2 * n**2
    assert math.isclose(shown("hpl", n, 1e6, 1), flops / 1e9, rel_tol=0.01)


def test_numbers_have_three_digits_and_no_exponent() -> None:
    values = (0.12345, 1.2345, 12.345, 123.45, 123456.0, math.nan)
    texts = [number_text(value) for value in values]
    assert texts == ["0.123", "1.23", "12.3", "123", "123,456", "-"]
