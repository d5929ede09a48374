# SPDX-License-Identifier: MIT
"""A Fourier transform of a plane that is shared out among the ranks.

    tbmpirun -n 4 python examples/fft2d.py --size 512

Each rank owns some rows and transforms them. For the columns the plane is dealt out
anew, so that each rank owns some whole columns: one Alltoallw, to which the pieces
are described by subarray datatypes. It takes and puts every element where it belongs,
without a copy of ours, also where the size is no multiple of the ranks.

The spectrum is compared with that of numpy on one rank; transformed back, it has to
give the plane again.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from shared import command_line, parsed, positive, progress, ranks, share, verdict

from tbmpi import COMM_WORLD, MPI

ACCURACY = 1e-10


class Plane:
    """A square plane of complex numbers: whole rows on a rank, or whole columns."""

    def __init__(self, comm: MPI.Intracomm, size: int) -> None:
        self.comm = comm
        self.shares = [share(size, comm.size, rank) for rank in range(comm.size)]
        start, end = self.shares[comm.rank]
        self.mine = slice(start, end)
        self.rows = np.empty((end - start, size), complex)
        self.columns = np.empty((size, end - start), complex)
        self._in_rows = [
            MPI.C_DOUBLE_COMPLEX.Create_subarray(
                self.rows.shape, (end - start, b - a), (0, a)
            ).Commit()
            for a, b in self.shares
        ]
        self._in_columns = [
            MPI.C_DOUBLE_COMPLEX.Create_subarray(
                self.columns.shape, (b - a, end - start), (a, 0)
            ).Commit()
            for a, b in self.shares
        ]

    def to_columns(self) -> None:
        """From rows to columns."""
        self.comm.Alltoallw(
            [self.rows, self._in_rows], [self.columns, self._in_columns]
        )

    def to_rows(self) -> None:
        """And back."""
        self.comm.Alltoallw(
            [self.columns, self._in_columns], [self.rows, self._in_rows]
        )

    def forward(self) -> None:
        """The transform of `rows`, into `columns`."""
        self.rows[...] = np.fft.fft(self.rows, axis=1)
        self.to_columns()
        self.columns[...] = np.fft.fft(self.columns, axis=0)

    def back(self) -> None:
        """The transform back of `columns`, into `rows`."""
        self.columns[...] = np.fft.ifft(self.columns, axis=0)
        self.to_rows()
        self.rows[...] = np.fft.ifft(self.rows, axis=1)

    def free(self) -> None:
        """Frees the datatypes."""
        for datatype in self._in_rows + self._in_columns:
            datatype.Free()


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    if args.size < COMM_WORLD.size:
        return f"--size {args.size} is too small for {ranks()}"
    return ""


def main() -> int:
    """The program; 1 if the spectrum or the plane is wrong."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--size", type=positive, default=256, help="points a side (256)")
    add("--repeats", type=positive, default=5, help="there and back (5)")
    args = parsed(parser, complaint)
    plane = Plane(COMM_WORLD, args.size)
    everything = np.random.default_rng(1).normal(size=(args.size, args.size))
    plane.rows[...] = everything[plane.mine]
    began = time.perf_counter()
    with progress(ranks(), args.repeats) as tell:
        for done in range(args.repeats):
            plane.forward()
            if done + 1 < args.repeats:
                plane.back()
            tell(done + 1)
    seconds = time.perf_counter() - began
    expected = np.fft.fft2(everything)
    error = np.abs(plane.columns - expected[:, plane.mine]).max() / args.size
    plane.back()
    error = max(error, np.abs(plane.rows - everything[plane.mine]).max())
    plane.free()
    worst = COMM_WORLD.allreduce(float(error), MPI.MAX)
    what = (
        f"fft2d: {args.size}x{args.size} points, {args.repeats} times, {ranks()}, "
        f"{seconds:.2f} s"
    )
    claim = f"equal to numpy's, and to the plane when back (error {worst:.1e})"
    return verdict(worst < ACCURACY, what, claim)


if __name__ == "__main__":
    sys.exit(main())
