# SPDX-License-Identifier: MIT
"""The product of two matrices on a grid of ranks (the SUMMA algorithm).

    tbmpirun -n 4 python examples/matmul.py --size 600

The ranks stand in a grid, and each owns a block of A, of B and of C = A B. Split
makes a communicator of every row and of every column of ranks. C is the sum over
panels: some columns of A times the same rows of B. Who owns a panel's part broadcasts
it, along his row or his column, and everybody adds a product to his block.

The entries are small whole numbers, so the result has no rounding: it has to be equal
to numpy's, of which each rank works out its own block.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise

import numpy as np
from shared import Tell, command_line, parsed, positive, progress, ranks, share, verdict

from tbmpi import COMM_WORLD, MPI

PANEL = 64  # columns of A, or rows of B, at a time


def entries(rows: range, columns: range, salt: int) -> np.ndarray:
    """Part of a matrix of small whole numbers."""
    i, j = np.array(rows)[:, None], np.array(columns)[None, :]
    return (i * 7 + j * (salt + i % 13)) % 19 - 9.0


class Grid:
    """The ranks in rows and columns, and what part of a matrix this one owns."""

    def __init__(self, comm: MPI.Intracomm, size: int) -> None:
        self.size = size
        self.high, self.wide = MPI.Compute_dims(comm.size, 2)
        self.down, self.across = divmod(comm.rank, self.wide)
        self.row = comm.Split(self.down, self.across)
        self.column = comm.Split(self.across, self.down)
        self.rows = range(*share(size, self.high, self.down))
        self.columns = range(*share(size, self.wide, self.across))

    def panels(self) -> list[range]:
        """The indices to sum over, in pieces that lie on one rank each."""
        edges = set(range(0, self.size, PANEL)) | {self.size}
        for parts in (self.high, self.wide):
            edges |= {share(self.size, parts, part)[0] for part in range(parts)}
        return [range(*edge) for edge in pairwise(sorted(edges))]

    def owner(self, parts: int, panel: range) -> int:
        """Which of `parts` shares holds a panel."""
        ends = [share(self.size, parts, part)[1] for part in range(parts)]
        return next(part for part, end in enumerate(ends) if panel[0] < end)

    def free(self) -> None:
        """Frees the communicators."""
        self.row.Free()
        self.column.Free()


def product(grid: Grid, a: np.ndarray, b: np.ndarray, tell: Tell) -> np.ndarray:
    """This rank's block of A B, from its blocks of A and B."""
    c = np.zeros((len(grid.rows), len(grid.columns)))
    for done, panel in enumerate(grid.panels(), 1):
        left = np.empty((len(grid.rows), len(panel)))
        above = np.empty((len(panel), len(grid.columns)))
        at_left = grid.owner(grid.wide, panel)
        at_top = grid.owner(grid.high, panel)
        if grid.across == at_left:
            start = panel[0] - grid.columns[0]
            left[...] = a[:, start : start + len(panel)]
        if grid.down == at_top:
            start = panel[0] - grid.rows[0]
            above[...] = b[start : start + len(panel)]
        grid.row.Bcast(left, at_left)
        grid.column.Bcast(above, at_top)
        c += left @ above
        tell(done)
    return c


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    if args.size < COMM_WORLD.size:
        return f"--size {args.size} is too small for {ranks()}"
    return ""


def main() -> int:
    """The program; 1 if the product is not numpy's."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--size", type=positive, default=400, help="rows and columns (400)"
    )
    args = parsed(parser, complaint)
    grid = Grid(COMM_WORLD, args.size)
    a = entries(grid.rows, grid.columns, 3)
    b = entries(grid.rows, grid.columns, 5)
    began = time.perf_counter()
    with progress(ranks(), len(grid.panels())) as tell:
        c = product(grid, a, b, tell)
    seconds = time.perf_counter() - began
    grid.free()
    whole = range(args.size)
    equal = np.array_equal(
        c, entries(grid.rows, whole, 3) @ entries(whole, grid.columns, 5)
    )
    good = COMM_WORLD.allreduce(equal, MPI.LAND)
    what = f"matmul: {args.size}x{args.size} on {grid.high}x{grid.wide} ranks, "
    what += f"{seconds:.2f} s"
    return verdict(bool(good), what, "equal to numpy's product")


if __name__ == "__main__":
    sys.exit(main())
