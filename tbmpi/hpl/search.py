# SPDX-License-Identifier: MIT
"""A short search: which NB, grid and number of ranks are fastest here?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tbmpi.hpl.machines import Machine
from tbmpi.hpl.plan import Plan, Wishes, grids, make_plan

# N of the search for one core: long enough to tell candidates apart, and a few
# seconds each if it grows with the third root of the cores.
SEARCH_N = 4000
BLOCK_SIZES = (96, 128, 192, 256)
MOST_GRIDS = 4


@dataclass(frozen=True)
class Candidates:
    """Runs with the same ranks, so that one start of HPL does them all."""

    plan: Plan
    nbs: tuple[int, ...]
    grids: tuple[tuple[int, int], ...]


def candidates(machines: Sequence[Machine], wishes: Wishes) -> Iterator[Candidates]:
    """Yield what is worth trying within the user's wishes.

    On Macs also one and two ranks a machine: how many share the matrix unit
    best is not known beforehand.
    """
    for count in _rank_counts(machines, wishes):
        plan = make_plan(machines, replace(wishes, n=None, ranks=count))
        cores = sum(
            m.cores for m, r in zip(plan.machines, plan.ranks, strict=True) if r
        )
        small = replace(plan, n=min(plan.n, round(SEARCH_N * cores ** (1 / 3))))
        nbs = (wishes.nb,) if wishes.nb else BLOCK_SIZES
        shapes = (wishes.grid,) if wishes.grid else tuple(_shapes(count))
        yield Candidates(small, nbs, shapes)


def _rank_counts(machines: Sequence[Machine], wishes: Wishes) -> list[int]:
    chosen = make_plan(machines, replace(wishes, n=None))
    counts = {sum(chosen.ranks)}
    if wishes.ranks is None and wishes.grid is None:
        for each in (1, 2, 4):
            if all(m.system == "Darwin" and each <= m.cores for m in machines):
                counts.add(each * len(machines))
    return sorted(counts)


def _shapes(count: int) -> Iterator[tuple[int, int]]:
    """Yield the squarest grids and, where not square, also with P > Q."""
    shapes = []
    for p, q in grids(count):
        shapes += [(p, q)] if p == q else [(p, q), (q, p)]
    yield from shapes[:MOST_GRIDS]
