# SPDX-License-Identifier: MIT
"""Times MPI calls from Python: calls.py tbmpi|mpi4py SECONDS.

Run on one or two ranks. Prints one JSON object: microseconds a round by the name
of the round, the lower quartile of many samples. calls.c does the same in C.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

OBJECT = {"step": 7, "name": "a", "shape": [1, 2, 3]}
WARM_UP, ROUNDS = 100, 100
SAMPLE_SECONDS = 2e-4  # about
Round = Callable[[], object]


def rounds(MPI: Any) -> dict[str, Round]:
    """What is timed, by name: the calls of one rank in one round."""
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    peer = size - 1 - rank
    out, into = np.zeros(1), np.zeros(1)
    many, parts = np.zeros(size), np.zeros(size)

    def isend_irecv() -> None:
        receive = comm.Irecv(into, peer, 0)
        send = comm.Isend(out, peer, 0)
        send.Wait()
        receive.Wait()

    def send() -> None:
        receive = comm.Irecv(into, peer, 0)
        comm.Send(out, peer, 0)
        receive.Wait()

    def recv() -> None:
        request = comm.Isend(out, peer, 0)
        comm.Recv(into, peer, 0)
        request.Wait()

    def objects() -> None:
        if rank:
            comm.recv(source=0)
            comm.send(OBJECT, 0)
        else:
            comm.send(OBJECT, 1)
            comm.recv(source=1)

    found: dict[str, Round] = {
        "Isend, Irecv, 2 Wait": isend_irecv,
        "Send, Irecv, Wait": send,
        "Recv, Isend, Wait": recv,
        "Sendrecv": lambda: comm.Sendrecv(out, peer, 0, into, peer, 0),
        "Bcast": lambda: comm.Bcast(out),
        "Reduce": lambda: comm.Reduce(out, into),
        "Allreduce": lambda: comm.Allreduce(out, into),
        "Allgather": lambda: comm.Allgather(out, many),
        "Alltoall": lambda: comm.Alltoall(parts, many),
        "Barrier": lambda: comm.Barrier(),
    }
    if size == 2:
        found["send, recv"] = objects
    return found


def timed(one: Round, comm: Any, seconds: float) -> float:
    """The time of a round in microseconds. All ranks make as many rounds."""
    for _ in range(WARM_UP):
        one()
    samples = []
    for _ in range(max(4, int(seconds / SAMPLE_SECONDS))):
        comm.Barrier()
        start = time.perf_counter()
        for _ in range(ROUNDS):
            one()
        samples.append((time.perf_counter() - start) / ROUNDS)
    return sorted(samples)[len(samples) // 4] * 1e6


def main() -> None:
    """Command line."""
    MPI = import_module(f"{sys.argv[1]}.MPI")
    comm = MPI.COMM_WORLD
    seconds = float(sys.argv[2])
    found = {name: timed(one, comm, seconds) for name, one in rounds(MPI).items()}
    if comm.Get_rank() == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
