# SPDX-License-Identifier: MIT
"""The heat equation on a square plate, shared out among the ranks.

    tbmpirun -n 4 python examples/heat2d.py --size 256 --steps 500

Each rank owns a block of the plate and a rim of one cell around it. A step is:
exchange rims with the four neighbours (Sendrecv; columns by a strided
datatype), then move each cell towards the mean of its neighbours. The change per
step is the maximum over all ranks (Allreduce).

A cell is computed from the same numbers in the same order however the plate is
shared out, so the result equals that of one rank bit by bit, and is checked to.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shared import Tell, command_line, parsed, positive, progress, ranks, share, verdict

from tbmpi import COMM_SELF, COMM_WORLD, MPI

HOT, COLD = 100.0, 0.0
SPEED = 0.2  # diffusivity * dt / dx**2; stable up to 0.25
REPORT_EVERY = 10  # steps between two looks at the change


@dataclass(frozen=True)
class Block:
    """The part of the plate that a rank owns: rows and columns [start, end)."""

    rows: tuple[int, int]
    columns: tuple[int, int]


def initial(size: int, block: Block) -> np.ndarray:
    """A block with its rim at the start: a hot disc and a hot left edge."""
    rows = np.arange(block.rows[0] - 1, block.rows[1] + 1)[:, None]
    columns = np.arange(block.columns[0] - 1, block.columns[1] + 1)[None, :]
    disc = (rows - 0.5 * size) ** 2 + (columns - 0.6 * size) ** 2 < (0.15 * size) ** 2
    return np.where(disc | ((columns < 0) & (rows >= 0)), HOT, COLD)


def exchange(grid: Any, plate: np.ndarray, column: Any) -> None:
    """Fills the rim from the neighbours; the edge of the plate stays as it is."""
    up, down = grid.Shift(0, 1)
    left, right = grid.Shift(1, 1)
    grid.Sendrecv(plate[1], up, 0, plate[-1], down, 0)
    grid.Sendrecv(plate[-2], down, 1, plate[0], up, 1)
    # A column starts where its first cell lies and goes on by the datatype.
    flat = plate.reshape(-1)
    width = plate.shape[1]

    def side(place: int) -> list[Any]:
        return [flat[place:], 1, column]

    grid.Sendrecv(side(1), left, 2, side(width - 1), right, 2)
    grid.Sendrecv(side(width - 2), right, 3, side(0), left, 3)


def step(plate: np.ndarray, new: np.ndarray) -> float:
    """One step from `plate` to `new`; the largest change of a cell."""
    old = plate[1:-1, 1:-1]
    inner = new[1:-1, 1:-1]
    np.add(plate[:-2, 1:-1], plate[2:, 1:-1], out=inner)
    inner += plate[1:-1, :-2]
    inner += plate[1:-1, 2:]
    inner -= 4.0 * old
    inner *= SPEED
    change = float(np.abs(inner).max(initial=0.0))
    inner += old
    return change


def solve(
    comm: Any, size: int, steps: int, tell: Tell
) -> tuple[np.ndarray | None, list[Block], float]:
    """Runs on all ranks of `comm`; at rank 0 the whole plate.

    Also the ranks' blocks, and the change in the last step.
    """
    dims = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims, periods=[False, False])
    row, col = grid.coords
    block = Block(share(size, dims[0], row), share(size, dims[1], col))
    plate = initial(size, block)
    new = plate.copy()
    column = MPI.DOUBLE.Create_vector(plate.shape[0], 1, plate.shape[1]).Commit()
    mine, change = np.zeros(1), np.zeros(1)
    for done in range(1, steps + 1):
        exchange(grid, plate, column)
        mine[0] = step(plate, new)
        plate, new = new, plate
        if done % REPORT_EVERY == 0 or done == steps:
            grid.Allreduce(mine, change, MPI.MAX)
            tell(done)
    parts = grid.gather((block, plate[1:-1, 1:-1]), root=0)
    column.Free()
    grid.Free()
    if parts is None:
        return None, [], float(change[0])
    whole = np.empty((size, size))
    for owned, values in parts:
        whole[slice(*owned.rows), slice(*owned.columns)] = values
    return whole, [owned for owned, _ in parts], float(change[0])


def draw(path: Path, plate: np.ndarray, blocks: list[Block], title: str) -> str:
    """Draws the plate with the ranks' borders; what was done, in words."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return "no picture: matplotlib is missing (pip install 'tbmpi[plot]')"
    figure, axes = pyplot.subplots(figsize=(7.2, 6), layout="constrained")
    image = axes.imshow(plate, cmap="inferno", vmin=COLD, vmax=HOT, origin="lower")
    figure.colorbar(image, ax=axes, label="temperature")
    for rank, block in enumerate(blocks):
        (top, bottom), (left, right) = block.rows, block.columns
        corner = (left - 0.5, top - 0.5)
        size = right - left, bottom - top
        axes.add_patch(
            pyplot.Rectangle(corner, *size, fill=False, edgecolor="white", lw=0.8)
        )
        axes.text(*corner, f" rank {rank}", color="white", va="bottom", fontsize=9)
    axes.set(title=title, xlabel="column", ylabel="row")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return f"picture: {path}"


def complaint(args: argparse.Namespace) -> str:
    """What is wrong with the options."""
    if args.size < max(MPI.Compute_dims(COMM_WORLD.size, 2)):
        return f"--size {args.size} is too small for {ranks()}"
    if not args.out.absolute().parent.is_dir():
        return f"--out: no such folder: {args.out.absolute().parent}"
    return ""


def main() -> int:
    """The program; 1 if the result differs from that of one rank."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--size", type=positive, default=256, help="cells a side (256)")
    add("--steps", type=positive, default=500, help="time steps (500)")
    add("--out", type=Path, default=Path("heat2d.png"), help="picture (heat2d.png)")
    add("--no-check", action="store_true", help="do not compare with one rank")
    args = parsed(parser, complaint)
    COMM_WORLD.Barrier()
    began = time.perf_counter()
    with progress(ranks(), args.steps) as tell:
        plate, blocks, change = solve(COMM_WORLD, args.size, args.steps, tell)
    seconds = time.perf_counter() - began
    if plate is None:
        return 0
    what = f"{args.size}x{args.size} cells, {args.steps} steps, {ranks()}"
    print(draw(args.out, plate, blocks, f"heat2d: {what}"))
    what = (
        f"heat2d: {what}, {seconds:.2f} s, mean {plate.mean():.6f}, "
        f"last change {change:.3e}"
    )
    if args.no_check:
        print(f"{what}: not compared with one rank")
        return 0
    with progress("one rank", args.steps) as tell:
        alone, _, change_alone = solve(COMM_SELF, args.size, args.steps, tell)
    equal = np.array_equal(plate, alone) and change == change_alone
    return verdict(equal, what, "equal to one rank, bit by bit")


if __name__ == "__main__":
    sys.exit(main())
