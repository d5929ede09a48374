# SPDX-License-Identifier: MIT
"""Gravity between many bodies, by a ring of ranks.

    tbmpirun -n 4 python examples/nbody.py --bodies 2000 --steps 20

Each rank owns some of the bodies. Positions travel round the ring: while a rank
adds up the pull of the bodies that are visiting, it already sends them on to the
next rank and receives those of the one before (Isend and Irecv in two buffers that
take turns). After as many legs as there are ranks everybody has met everybody.

The first accelerations are compared with those that one rank finds without a ring;
at the end energy and momentum have to be what they were.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from shared import command_line, parsed, positive, progress, ranks, share, verdict

from tbmpi import COMM_WORLD, MPI

SOFTENING = 0.05  # keeps bodies that meet from being thrown out
TIME_STEP = 1e-3
DRIFT = 1e-4  # of the energy, relative
PUSH = 1e-12  # of the momentum


def bodies(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities of all bodies: a cloud that turns in its place."""
    draw = np.random.default_rng(1)
    positions = draw.normal(size=(count, 3))
    velocities = 0.3 * np.cross([0.0, 0.0, 1.0], positions)
    return positions - positions.mean(axis=0), velocities - velocities.mean(axis=0)


def pull(on: np.ndarray, by: np.ndarray, mass: float) -> tuple[np.ndarray, float]:
    """The accelerations of bodies by others, and the potential energy of the pairs."""
    apart = by[None, :, :] - on[:, None, :]
    nearness = 1.0 / np.sqrt((apart**2).sum(axis=2) + SOFTENING**2)
    pulled = mass * np.einsum("ijk,ij->ik", apart, nearness**3)
    return pulled, -(mass**2) * float(nearness.sum())


class Ring:
    """The ranks in a circle, and the bodies of this one."""

    def __init__(self, comm: MPI.Intracomm, count: int) -> None:
        self.comm = comm
        self.mass = 1.0 / count
        self.shares = [share(count, comm.size, rank) for rank in range(comm.size)]
        most = max(end - start for start, end in self.shares)
        self.visitors = np.empty((2, most, 3))

    def accelerations(self, own: np.ndarray) -> tuple[np.ndarray, float]:
        """Those of this rank's bodies by all, and its half of the potential energy."""
        size, rank = self.comm.size, self.comm.rank
        total, energy, here = np.zeros_like(own), 0.0, own
        for leg in range(size):
            requests, coming = [], here
            if leg + 1 < size:
                start, end = self.shares[(rank - leg - 1) % size]
                coming = self.visitors[leg % 2, : end - start]
                requests = [
                    self.comm.Irecv(coming, (rank - 1) % size),
                    self.comm.Isend(here, (rank + 1) % size),
                ]
            pulled, potential = pull(own, here, self.mass)
            total += pulled
            energy += 0.5 * potential
            MPI.Request.Waitall(requests)
            here = coming
        return total, energy

    def sums(self, energy: float, velocities: np.ndarray) -> np.ndarray:
        """Energy and momentum of all bodies, from each rank's part."""
        kinetic = 0.5 * self.mass * float((velocities**2).sum())
        total = np.array([energy + kinetic, *(self.mass * velocities.sum(axis=0))])
        self.comm.Allreduce(MPI.IN_PLACE, total)
        return total


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    if args.bodies < COMM_WORLD.size:
        return f"--bodies {args.bodies} are too few for {ranks()}"
    return ""


def main() -> int:
    """The program; 1 if forces or conserved quantities are wrong."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--bodies", type=positive, default=1000, help="how many (1000)")
    add("--steps", type=positive, default=20, help="time steps (20)")
    args = parsed(parser, complaint)
    ring = Ring(COMM_WORLD, args.bodies)
    everything, speeds = bodies(args.bodies)
    mine = slice(*ring.shares[COMM_WORLD.rank])
    x, v = everything[mine].copy(), speeds[mine].copy()
    a, energy = ring.accelerations(x)
    alone, _ = pull(x, everything, ring.mass)
    right = COMM_WORLD.allreduce(np.allclose(a, alone), MPI.LAND)
    before = ring.sums(energy, v)
    began = time.perf_counter()
    with progress(ranks(), args.steps) as tell:
        for step in range(args.steps):  # leapfrog
            v += 0.5 * TIME_STEP * a
            x += TIME_STEP * v
            a, energy = ring.accelerations(x)
            v += 0.5 * TIME_STEP * a
            tell(step + 1)
    seconds = time.perf_counter() - began
    change = np.abs(ring.sums(energy, v) - before)
    drift, push = change[0] / abs(before[0]), change[1:].max()
    what = (
        f"nbody: {args.bodies} bodies, {args.steps} steps, {ranks()}, {seconds:.2f} s"
    )
    claim = (
        "forces equal to one rank's, energy and momentum kept "
        f"(drift {drift:.1e}, {push:.1e})"
    )
    return verdict(bool(right) and drift < DRIFT and push < PUSH, what, claim)


if __name__ == "__main__":
    sys.exit(main())
