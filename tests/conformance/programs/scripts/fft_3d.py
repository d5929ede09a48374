# SPDX-License-Identifier: MIT
"""mpi4py-fft: three-dimensional transforms, in slabs and in pencils."""

import numpy as np
from answer import tell
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

SHAPE = (16, 12, 20)
comm = MPI.COMM_WORLD
found = []
for slab in (True, False):
    fft = PFFT(comm, SHAPE, dtype=np.float64, slab=slab)
    plane = newDistArray(fft, False)
    whole = np.random.default_rng(3).normal(size=SHAPE)
    plane[...] = whole[fft.local_slice(False)]
    spectrum = fft.forward(plane)
    power = comm.allreduce(float((np.abs(spectrum) ** 2).sum()))
    peak = comm.allreduce(float(np.abs(spectrum).max()), MPI.MAX)
    back = fft.backward(spectrum)
    error = comm.allreduce(float(np.abs(back - plane).max()), MPI.MAX)
    found += [power, peak, error < 1e-12]
    fft.destroy()
if comm.rank == 0:
    tell(found)
