# SPDX-License-Identifier: MIT
"""Choose N, NB, the process grid and the ranks of each machine.

HPL gives every rank the same share of the matrix and of the work. So the
machine with the least memory per rank limits N, and the one with the fewest
cores per rank sets the pace for all. Unequal machines therefore get unequal
numbers of ranks, and one that would hold the others back gets none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tbmpi.hpl.errors import HplError
from tbmpi.hpl.machines import Machine

WORD = 8
MEMORY_FRACTION = 0.75
# Program, BLAS buffers and the library's shared memory, per rank.
RANK_OVERHEAD = 64 * 2**20
SMALL_N = 8000
# HPL reaches half of its final speed at about this N times sqrt(cores). Only
# used to weigh a larger matrix against more cores.
HALF_SPEED_N = 2000.0
NEARLY = 0.02


@dataclass(frozen=True)
class Plan:
    """A run: `ranks[i]` of them on `machines[i]`, `threads` BLAS threads each."""

    machines: tuple[Machine, ...]
    ranks: tuple[int, ...]
    n: int
    nb: int
    p: int
    q: int
    threads: int

    @property
    def column_major(self) -> bool:
        """Whether ranks are laid out along process columns.

        Pivoting goes along columns in many small messages: keep a column
        inside a machine where one has room for it.
        """
        used = [count for count in self.ranks if count]
        return len(used) > 1 and self.p <= min(used)


@dataclass(frozen=True)
class Wishes:
    """What the user fixed; None leaves the choice to the plan."""

    n: int | None = None
    nb: int | None = None
    grid: tuple[int, int] | None = None
    ranks: int | None = None
    fraction: float = MEMORY_FRACTION


def make_plan(machines: Sequence[Machine], wishes: Wishes) -> Plan:
    """Return the best plan by the rules above. Raises HplError."""
    total = _total_ranks(wishes)
    if total:
        candidates = [total]
    else:
        candidates = list(range(1, sum(m.most_ranks for m in machines) + 1))
    plans: list[Plan] = []
    refusal = HplError("no machine has room for a rank")
    for count in candidates:
        try:
            plans.append(_plan_with(machines, count, wishes))
        except HplError as error:
            refusal = error
    if not plans:
        raise refusal
    best = max(map(_rating, plans))
    # Candidates are in order of ranks. The rating is too rough to tell what is
    # almost as good: then more ranks with fewer threads.
    return [plan for plan in plans if _rating(plan) >= (1 - NEARLY) * best][-1]


def grids(ranks: int) -> Iterator[tuple[int, int]]:
    """Yield all grids P x Q of `ranks` with P <= Q, the squarest first."""
    for p in range(math.isqrt(ranks), 0, -1):
        if ranks % p == 0:
            yield p, ranks // p


def allocate(machines: Sequence[Machine], count: int) -> tuple[int, ...]:
    """Share `count` ranks so that the weakest share per rank is largest.

    A machine's sensible number of ranks is exceeded only where the sum of
    them is too small for `count`.
    """
    memory = sum(m.memory for m in machines) / len(machines)
    cores = sum(m.cores for m in machines) / len(machines)
    strength = [min(m.memory / memory, m.cores / cores) for m in machines]
    crowded = count > sum(m.most_ranks for m in machines)
    ranks = [0] * len(machines)
    for _ in range(count):
        free = [i for i, m in enumerate(machines) if crowded or ranks[i] < m.most_ranks]
        ranks[max(free, key=lambda i: strength[i] / (ranks[i] + 1))] += 1
    return tuple(ranks)


def rank_bytes(n: int, nb: int, p: int, q: int) -> int:
    """Return the memory of the largest rank: matrix, panels, U and overhead.

    With look-ahead of depth 1 there are two panels, and a work space of the
    same size.
    """
    rows = math.ceil(math.ceil(n / nb) / p) * nb
    columns = math.ceil(math.ceil((n + 1) / nb) / q) * nb
    panels = 3 * (rows + nb) * nb
    return WORD * (rows * columns + panels + 2 * nb * columns) + RANK_OVERHEAD


def largest_n(share: float, nb: int, p: int, q: int) -> int:
    """Return the largest multiple of NB whose ranks fit into `share` bytes."""
    high = int(math.sqrt(max(share, 0) / WORD * p * q)) // nb + 1
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if rank_bytes(middle * nb, nb, p, q) <= share:
            low = middle
        else:
            high = middle
    return low * nb


def flops(n: int) -> float:
    """Return HPL's own count of operations for N."""
    return (2 / 3 * n + 3 / 2) * float(n) ** 2


def _total_ranks(wishes: Wishes) -> int | None:
    if wishes.grid is None:
        return wishes.ranks
    size = wishes.grid[0] * wishes.grid[1]
    if wishes.ranks not in (None, size):
        raise HplError(
            f"--grid {wishes.grid[0]}x{wishes.grid[1]} needs {size} ranks, "
            f"not --ranks {wishes.ranks}"
        )
    return size


def _plan_with(machines: Sequence[Machine], count: int, wishes: Wishes) -> Plan:
    ranks = allocate(machines, count)
    p, q = wishes.grid or next(grids(count))
    used = [(m, r) for m, r in zip(machines, ranks, strict=True) if r]
    tight, share = min(
        ((m, wishes.fraction * m.memory / r) for m, r in used), key=lambda x: x[1]
    )
    fits = _fitting_n(share, wishes.nb, p, q)
    nb = wishes.nb or _block_size(wishes.n or fits)
    if fits < 1:
        raise HplError(
            f"{tight.name} has {tight.memory / 2**30:.1f} GiB: too little for "
            f"{ranks[machines.index(tight)]} ranks of HPL"
        )
    if wishes.n and rank_bytes(wishes.n, nb, p, q) > share:
        need = rank_bytes(wishes.n, nb, p, q) / 2**30
        raise HplError(
            f"N {wishes.n} on {p}x{q} needs {need:.2f} GiB a rank, but "
            f"{tight.name} has {share / 2**30:.2f} GiB for each of its ranks; "
            f"the largest N here is {fits}"
        )
    threads = max(1, min(m.cores // r for m, r in used))
    return Plan(tuple(machines), ranks, wishes.n or fits, nb, p, q, threads)


def _fitting_n(share: float, nb: int | None, p: int, q: int) -> int:
    if nb:
        return largest_n(share, nb, p, q)
    rough = largest_n(share, 64, p, q)
    return largest_n(share, _block_size(rough), p, q) or rough


def _block_size(n: int) -> int:
    if n < SMALL_N:
        return 128 if n >= 512 else 32
    return 256


def _rating(plan: Plan) -> float:
    """Rate a plan: cores kept busy, times what N and a flat grid leave of it."""
    used = [(m, r) for m, r in zip(plan.machines, plan.ranks, strict=True) if r]
    pace = min(plan.threads, min(m.cores / r for m, r in used))
    cores = plan.p * plan.q * pace
    full_speed = plan.n / (plan.n + HALF_SPEED_N * math.sqrt(cores))
    flat = max(0.0, math.log2(plan.q / plan.p) - 1)
    return cores * full_speed / (1 + 0.05 * flat)
