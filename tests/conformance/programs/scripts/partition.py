# SPDX-License-Identifier: MIT
"""mpipartition: particles dealt out in a box, with copies near the faces."""

import numpy as np
from answer import tell
from mpi4py import MPI
from mpipartition import Partition, distribute, overload

COUNT, BOX = 4000, 10.0
comm = MPI.COMM_WORLD
partition = Partition(3)
draw = np.random.default_rng(100 + partition.rank)
particles = {name: draw.uniform(0, BOX, COUNT) for name in "xyz"}
particles["number"] = np.arange(COUNT) + COUNT * partition.rank
mine = distribute(partition, BOX, particles, "xyz")
inside = all(
    ((mine[name] >= BOX * low) & (mine[name] < BOX * (low + length))).all()
    for name, low, length in zip("xyz", partition.origin, partition.extent, strict=True)
)
near = overload(partition, BOX, mine, 0.5, "xyz")
counts = comm.gather((len(mine["x"]), len(near["x"]), int(mine["number"].sum())))
places = comm.gather(tuple(partition.coordinates))
good = comm.allreduce(inside, MPI.LAND)
if comm.rank == 0:
    tell(sorted(zip(places, counts, strict=True))[0][1], counts, good)
