# SPDX-License-Identifier: MIT
"""pylops-mpi: a least-squares inversion and a derivative of distributed arrays."""

import numpy as np
import pylops
import pylops_mpi
from answer import tell
from mpi4py import MPI

comm = MPI.COMM_WORLD
ROWS, COLUMNS = 30, 20
matrix = np.random.default_rng(comm.rank).normal(size=(ROWS, COLUMNS))
operator = pylops_mpi.MPIBlockDiag(ops=[pylops.MatrixMult(matrix)])
x = pylops_mpi.DistributedArray(comm.size * COLUMNS, dtype=np.float64)
x[:] = np.arange(COLUMNS) + comm.rank
y = operator @ x
start = pylops_mpi.DistributedArray(comm.size * COLUMNS, dtype=np.float64)
start[:] = 0
found = pylops_mpi.cgls(operator, y, x0=start, niter=60, tol=1e-12)[0].asarray()
size = (comm.size * 8, 5)
plane = pylops_mpi.DistributedArray(size[0] * size[1], dtype=np.float64)
plane[:] = np.sin(np.arange(plane.local_array.size) + comm.rank)
slope = (pylops_mpi.MPIFirstDerivative(size, dtype=np.float64) @ plane).asarray()
norms = [float(y.dot(y)), float(plane.norm())]
if comm.rank == 0:
    tell(np.round(found, 6), slope, norms)
