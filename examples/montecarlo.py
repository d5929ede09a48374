# SPDX-License-Identifier: MIT
"""The volume of a ball in many dimensions, by throwing darts.

    tbmpirun -n 4 python examples/montecarlo.py --dimensions 5 --batches 400

The darts come in batches, and each batch has a random stream of its own, made from
the seed and the batch's number. So it does not matter which rank throws it: ranks
take batches in turn, and the number of hits (Reduce of whole numbers) is the same
for any number of ranks, to the last dart.

Rank 0 then throws all batches by itself to compare, and the volume is compared with
the formula.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable

import numpy as np
from shared import command_line, parsed, positive, progress, ranks, verdict

from tbmpi import COMM_WORLD, MPI

DARTS = 20_000  # in a batch
SIGMAS = 5.0  # how far from the formula chance may take us


def hits(seed: int, batch: int, dimensions: int) -> int:
    """How many darts of a batch, thrown at a cube, hit the ball in it."""
    stream = np.random.SeedSequence(seed, spawn_key=(batch,))
    darts = np.random.default_rng(stream).uniform(-1.0, 1.0, (DARTS, dimensions))
    return int(((darts**2).sum(axis=1) <= 1.0).sum())


def thrown(seed: int, batches: Iterable[int], dimensions: int, label: str) -> int:
    """The hits of some batches."""
    chosen = list(batches)
    total = 0
    with progress(label, len(chosen)) as tell:
        for done, batch in enumerate(chosen, 1):
            total += hits(seed, batch, dimensions)
            tell(done)
    return total


def main() -> int:
    """The program; 1 if the ranks' hits are not one rank's, or the volume is off."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--dimensions", type=positive, default=5, help="of the ball (5)")
    add("--batches", type=positive, default=200, help=f"of {DARTS} darts (200)")
    add("--seed", type=positive, default=1, help="of all random numbers (1)")
    args = parsed(parser)
    began = time.perf_counter()
    own = range(COMM_WORLD.rank, args.batches, COMM_WORLD.size)
    mine = np.array([thrown(args.seed, own, args.dimensions, ranks())])
    total = np.zeros_like(mine)
    COMM_WORLD.Reduce(mine, total, MPI.SUM, root=0)
    seconds = time.perf_counter() - began
    if COMM_WORLD.rank != 0:
        return 0
    everything = range(args.batches)
    alone = thrown(args.seed, everything, args.dimensions, "one rank")
    count, cube = args.batches * DARTS, 2.0**args.dimensions
    share = total[0] / count
    volume = cube * share
    half = args.dimensions / 2
    exact = math.pi**half / math.gamma(half + 1)
    error = cube * math.sqrt(max(share * (1 - share), 1 / count) / count)
    good = total[0] == alone and abs(volume - exact) < SIGMAS * error
    what = f"montecarlo: {count} darts, {ranks()}, {seconds:.2f} s, volume {volume:.5f}"
    claim = f"within {SIGMAS:g} sigma of {exact:.5f}, hits equal to one rank's"
    return verdict(good, what, claim)


if __name__ == "__main__":
    sys.exit(main())
