# SPDX-License-Identifier: MIT
"""A sparse system of equations, solved by conjugate gradients.

    tbmpirun -n 4 python examples/cg.py --size 300

The matrix is that of Poisson's equation on a grid of size x size points. Each rank
owns some of its rows, in compressed sparse row form, and the same part of every
vector. To multiply, a rank needs a few elements that others own. Which ones is found
out once (alltoall of index lists); from then on they travel by Isend and Irecv.
Scalar products are summed up by Allreduce.

The right side is made from a solution that is known, to compare the result with.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from shared import Tell, command_line, parsed, positive, progress, ranks, share, verdict

from tbmpi import COMM_WORLD, MPI

TOLERANCE = 1e-12  # of the residual, relative to the right side
ACCURACY = 1e-8  # of the solution
MOST_STEPS = 20_000


@dataclass
class Rows:
    """Rows of a sparse matrix: their columns and values, one row after the other."""

    columns: np.ndarray
    values: np.ndarray
    starts: np.ndarray  # where a row begins; none is empty

    def times(self, x: np.ndarray) -> np.ndarray:
        """The product with a vector."""
        return np.add.reduceat(self.values * x[self.columns], self.starts)


def poisson(size: int, first: int, last: int) -> Rows:
    """Rows [first, last) of the five-point stencil on a square grid."""
    point = np.arange(first, last)[:, None]
    row, column = point // size, point % size
    down, right = np.array([[-1, 0, 0, 0, 1], [0, -1, 0, 1, 0]])
    inside = (row + down >= 0) & (row + down < size)
    inside &= (column + right >= 0) & (column + right < size)
    columns = (point + size * down + right)[inside]
    values = np.where(down == right, 4.0, -1.0) * np.ones_like(point)
    length = inside.sum(axis=1)
    return Rows(columns, values[inside], length.cumsum() - length)


class Matrix:
    """A square sparse matrix and how its rows, and vectors, are shared out."""

    def __init__(self, comm: MPI.Intracomm, size: int) -> None:
        self.comm = comm
        shares = [share(size * size, comm.size, rank) for rank in range(comm.size)]
        self.first, self.last = shares[comm.rank]
        self.rows = poisson(size, self.first, self.last)
        columns = self.rows.columns
        own = (self.first <= columns) & (columns < self.last)
        needed = np.unique(columns[~own])
        # Behind our own elements of a vector come those of others, by number.
        mine = self.last - self.first
        columns[~own] = mine + np.searchsorted(needed, columns[~own])
        columns[own] -= self.first
        self.whole = np.zeros(mine + needed.size)
        edges = np.searchsorted(needed, [0] + [end for _, end in shares])
        pieces = [slice(*edge) for edge in pairwise(edges)]
        self.takes = [self.whole[mine:][piece] for piece in pieces]
        asked = comm.alltoall([needed[piece] for piece in pieces])
        self.gives = [index - self.first for index in asked]

    def times(self, x: np.ndarray) -> np.ndarray:
        """This rank's part of the product with a vector."""
        requests = []
        for rank in range(self.comm.size):
            if self.takes[rank].size:
                requests.append(self.comm.Irecv(self.takes[rank], rank))
            if self.gives[rank].size:
                requests.append(self.comm.Isend(x[self.gives[rank]], rank))
        self.whole[: x.size] = x
        MPI.Request.Waitall(requests)
        return self.rows.times(self.whole)

    def dot(self, x: np.ndarray, y: np.ndarray) -> float:
        """The scalar product of two vectors, the same on every rank."""
        total = np.array([(x * y).sum()])
        self.comm.Allreduce(MPI.IN_PLACE, total)
        return float(total[0])


def solve(matrix: Matrix, b: np.ndarray, tell: Tell) -> tuple[np.ndarray, int]:
    """The solution of A x = b, and the number of steps that it took."""
    x = np.zeros_like(b)
    residual, direction = b.copy(), b.copy()
    rho = start = matrix.dot(b, b)
    steps = 0
    while rho > TOLERANCE**2 * start and steps < MOST_STEPS:
        image = matrix.times(direction)
        alpha = rho / matrix.dot(direction, image)
        x += alpha * direction
        residual -= alpha * image
        previous, rho = rho, matrix.dot(residual, residual)
        direction = residual + rho / previous * direction
        steps += 1
        # How many digits are right so far, out of those that we want.
        tell(round(100 * np.log(rho / start) / np.log(TOLERANCE**2)))
    return x, steps


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    if args.size**2 < COMM_WORLD.size:
        return f"--size {args.size} is too small for {ranks()}"
    return ""


def main() -> int:
    """The program; 1 if the solution is not the one we know."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--size", type=positive, default=200, help="points a side (200)"
    )
    args = parsed(parser, complaint)
    matrix = Matrix(COMM_WORLD, args.size)
    everything = np.cos(0.1 * np.arange(args.size**2))
    # By all elements, which a rank has only because the solution is known.
    b = poisson(args.size, matrix.first, matrix.last).times(everything)
    known = everything[matrix.first : matrix.last]
    began = time.perf_counter()
    with progress(ranks(), 100) as tell:
        x, steps = solve(matrix, b, tell)
    seconds = time.perf_counter() - began
    error = COMM_WORLD.allreduce(float(np.abs(x - known).max()), MPI.MAX)
    what = f"cg: {args.size**2} unknowns, {ranks()}, {steps} steps, {seconds:.2f} s"
    claim = f"the known solution to {ACCURACY:g} (error {error:.1e})"
    return verdict(error < ACCURACY, what, claim)


if __name__ == "__main__":
    sys.exit(main())
