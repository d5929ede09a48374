# SPDX-License-Identifier: MIT
"""mpi4py.futures: a pool of the other ranks, started by python -m mpi4py.futures."""

from answer import tell
from mpi4py.futures import MPIPoolExecutor, as_completed


def heavy(number: int) -> int:
    return sum(pow(number, power, 1_000_003) for power in range(2000))


def fails(number: int) -> int:
    raise ValueError(f"task {number}")


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        mapped = list(pool.map(heavy, range(40), chunksize=3))
        starred = list(pool.starmap(pow, [(2, n) for n in range(10)]))
        late = [pool.submit(heavy, number) for number in range(100, 120)]
        summed = sum(future.result() for future in as_completed(late))
        error = pool.submit(fails, 7).exception()
        words = len(pool.submit(str.split, "x " * 100_000).result())
    tell(mapped, starred, summed, str(error) == "task 7", words)
