# SPDX-License-Identifier: MIT
"""Message sizes and figures as people read and write them."""

from __future__ import annotations

import math

from tbmpi.bench.errors import BenchError
from tbmpi.hpl.plan import flops

LARGEST = 1 << 30
_PREFIXES = {"": 0, "k": 10, "m": 20, "g": 30}


def parse_size(word: str) -> int:
    """Return the bytes of "8", "64K" or "1MiB" (binary prefixes)."""
    digits = word.strip().lower().removesuffix("b").removesuffix("i")
    prefix = digits[-1:] if digits[-1:].isalpha() else ""
    number = digits.removesuffix(prefix)
    if number.isdecimal() and prefix in _PREFIXES:
        size = int(number) << _PREFIXES[prefix]
        if size <= LARGEST:
            return size
    raise BenchError(f"not a message size of 0 to 1G: {word!r}")


def parse_sizes(text: str) -> list[int]:
    """Return the sizes of a list such as "0,8,64K-1M".

    A range counts in powers of two from its first size on.
    """
    sizes: list[int] = []
    for word in text.split(","):
        first, dash, last = word.partition("-")
        size = parse_size(first)
        end = parse_size(last) if dash else size
        if end < size:
            raise BenchError(f"a range of sizes that goes down: {word!r}")
        while size <= end:
            sizes.append(size)
            size = 2 * size or 1
    sizes = sorted(set(sizes))
    if len(sizes) > 64:
        raise BenchError(f"at most 64 sizes, not {len(sizes)}: {text!r}")
    return sizes


def size_text(size: int) -> str:
    """Return a size in the largest binary unit that divides it."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def key_text(family: str, size: int) -> str:
    """Return what a family's size means: bytes, or HPL's order."""
    return f"N {size}" if family == "hpl" else size_text(size)


def figure_unit(family: str) -> str:
    """Return the unit in which a family's figures are shown."""
    if family in ("bandwidth", "bibandwidth"):
        return "MB/s"
    return {"msgrate": "M msg/s", "hpl": "Gflops"}.get(family, "us")


def shown(family: str, size: int, usec: float, streams: int) -> float:
    """Return a time per operation in the unit of `figure_unit`."""
    if family in ("bandwidth", "bibandwidth"):
        return streams * size / usec
    if family == "msgrate":
        return streams / usec
    return flops(size) / usec / 1e3 if family == "hpl" else usec


def number_text(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if math.isnan(value):
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
