# SPDX-License-Identifier: MIT
"""Work of unequal size, handed out to whoever is free.

    tbmpirun -n 4 python examples/taskfarm.py --limit 2000000

Rank 0 is the manager. A worker sends it what it has found out, and gets the next task
in return; the manager takes the messages as they come, from ANY_SOURCE. Tasks and
results are Python objects. On one rank the manager does it all.

A task is to find the pairs of prime twins in a range of numbers by trial division:
the larger the numbers, the longer it takes. A sieve checks the sum.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
from shared import Tell, command_line, parsed, positive, progress, ranks, verdict

from tbmpi import COMM_WORLD, MPI

MANAGER = 0
RANGE = 20_000  # numbers in a task
Task = tuple[int, int]


def are_prime(numbers: np.ndarray) -> np.ndarray:
    """Which of some odd numbers are prime, by trial division."""
    prime = numbers > 1
    for divisor in range(3, int(numbers.max(initial=0) ** 0.5) + 1, 2):
        prime &= (numbers % divisor != 0) | (numbers == divisor)
    return prime


def twins(task: Task) -> int:
    """Pairs of primes p and p + 2, where p lies in the range [first, last)."""
    first, last = task
    odd = np.arange(first | 1, last + 2, 2)
    prime = are_prime(odd)
    return int((prime[:-1] & prime[1:]).sum())


def twins_by_sieve(limit: int) -> int:
    """The same for all p below `limit`, in another way."""
    prime = np.ones(limit + 2, bool)
    prime[:2] = False
    for number in range(2, int((limit + 2) ** 0.5) + 1):
        if prime[number]:
            prime[number * number :: number] = False
    return int((prime[:limit] & prime[2:]).sum())


def manage(comm: MPI.Intracomm, tasks: list[Task], tell: Tell) -> tuple[int, Counter]:
    """Hands out the tasks; the sum of the results, and who did how many."""
    total, done_by = 0, Counter[int]()
    waiting: Iterator[Task] = iter(tasks)
    workers = comm.size - 1
    status = MPI.Status()
    while workers:
        result = comm.recv(source=MPI.ANY_SOURCE, status=status)
        if result is not None:
            total += result
            done_by[status.source] += 1
            tell(done_by.total())
        task = next(waiting, None)
        comm.send(task, status.source)
        workers -= task is None
    for task in waiting:  # nobody else is there
        total += twins(task)
        done_by[comm.rank] += 1
        tell(done_by.total())
    return total, done_by


def work(comm: MPI.Intracomm) -> None:
    """Asks for tasks, the first time without a result, until there are none."""
    result = None
    while True:
        comm.send(result, MANAGER)
        task = comm.recv(source=MANAGER)
        if task is None:
            return
        result = twins(task)


def main() -> int:
    """The program; 1 if the sieve finds another number of twins."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--limit", type=positive, default=500_000, help="of the primes (500000)")
    args = parsed(parser)
    if COMM_WORLD.rank != MANAGER:
        work(COMM_WORLD)
        return 0
    tasks = [
        (first, min(first + RANGE, args.limit)) for first in range(0, args.limit, RANGE)
    ]
    began = time.perf_counter()
    with progress(ranks(), len(tasks)) as tell:
        total, done_by = manage(COMM_WORLD, tasks, tell)
    seconds = time.perf_counter() - began
    shares = ", ".join(f"rank {rank}: {done}" for rank, done in sorted(done_by.items()))
    print(f"tasks done by {shares}")
    what = f"taskfarm: {len(tasks)} tasks, {ranks()}, {seconds:.2f} s, {total} twins"
    return verdict(total == twins_by_sieve(args.limit), what, "as by a sieve")


if __name__ == "__main__":
    sys.exit(main())
