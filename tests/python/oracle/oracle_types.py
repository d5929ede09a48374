# SPDX-License-Identifier: MIT
"""Datatypes as trees of lists, so that a program with them can be printed.

A tree is the name of a predefined type, or a list: the constructor, its numbers,
and the tree (or trees) that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Tree = Any

# MPI's name and the size in bytes, the same on all 64-bit machines.
BASIC = {
    "BYTE": 1,
    "INT8_T": 1,
    "C_BOOL": 1,
    "SHORT": 2,
    "UNSIGNED_SHORT": 2,
    "INT": 4,
    "FLOAT": 4,
    "INT64_T": 8,
    "DOUBLE": 8,
    "C_FLOAT_COMPLEX": 8,
    "C_DOUBLE_COMPLEX": 16,
}
# What a rank says of a step that it could not do.
RAISED = "raised"
# What reductions are done with: MPI's type and numpy's.
NUMBERS = {"INT": "i4", "INT64_T": "i8", "FLOAT": "f4", "DOUBLE": "f8", "SHORT": "i2"}


@dataclass(frozen=True)
class Shape:
    """What one element of a type occupies: bounds in bytes, basic types in order."""

    lb: int
    ub: int
    true_lb: int
    true_ub: int
    signature: tuple[str, ...]

    @property
    def extent(self) -> int:
        """From one element to the next."""
        return self.ub - self.lb

    @property
    def size(self) -> int:
        """Bytes of data."""
        return sum(BASIC[name] for name in self.signature)

    @property
    def span(self) -> int:
        """Bytes from the first to behind the last that is touched."""
        return self.true_ub - self.true_lb

    @property
    def base(self) -> str | None:
        """The basic type, if there is only one."""
        return self.signature[0] if len(set(self.signature)) == 1 else None


def shape(tree: Tree) -> Shape:
    """The shape of a tree, worked out without MPI."""
    if isinstance(tree, str):
        size = BASIC[tree]
        return Shape(0, size, 0, size, (tree,))
    if tree[0] == "struct":
        _, lengths, places, trees = tree
        return _joined(
            (shape(sub), place, length)
            for sub, place, length in zip(trees, places, lengths, strict=True)
        )
    inner = shape(tree[-1])
    if tree[0] == "dup":
        return inner
    if tree[0] == "resized":
        _, lb, extent, _ = tree
        return Shape(
            lb, lb + extent, inner.true_lb, inner.true_ub, inner.signature
        )  # fmt: skip
    found = _joined((inner, place, length) for place, length in _blocks(tree, inner))
    if tree[0] != "subarray":
        return found
    whole = inner.extent
    for size in tree[1]:
        whole *= size
    return Shape(
        inner.lb, inner.lb + whole, found.true_lb, found.true_ub, found.signature
    )


def _blocks(tree: Tree, inner: Shape) -> list[tuple[int, int]]:
    """The displacements in bytes and lengths in elements of a type's blocks."""
    extent = inner.extent
    match tree:
        case ["contiguous", count, _]:
            return [(0, count)]
        case ["vector", count, length, stride, _]:
            return [(i * stride * extent, length) for i in range(count)]
        case ["hvector", count, length, stride, _]:
            return [(i * stride, length) for i in range(count)]
        case ["indexed", lengths, places, _]:
            return [
                (p * extent, n) for p, n in zip(places, lengths, strict=True)
            ]  # fmt: skip
        case ["hindexed", lengths, places, _]:
            return list(zip(places, lengths, strict=True))
        case ["indexed_block", length, places, _]:
            return [(p * extent, length) for p in places]
        case ["subarray", sizes, parts, starts, order, _]:
            return [(p * extent, 1) for p in _cells(sizes, parts, starts, order)]
    raise ValueError(f"no such datatype: {tree}")


def _cells(
    sizes: Sequence[int], parts: Sequence[int], starts: Sequence[int], order: str
) -> list[int]:
    """The places of a subarray's elements, the fastest dimension innermost."""
    dimensions = list(zip(sizes, parts, starts, strict=True))
    if order == "F":
        dimensions.reverse()
    cells = [0]
    for size, part, start in dimensions:
        cells = [cell * size + start + i for cell in cells for i in range(part)]
    return cells


def _joined(blocks: Any) -> Shape:
    bounds: list[tuple[int, int, int, int]] = []
    signature: list[str] = []
    for inner, place, length in blocks:
        last = place + (length - 1) * inner.extent
        bounds.append(
            (place + inner.lb, last + inner.ub,
             place + inner.true_lb, last + inner.true_ub)
        )  # fmt: skip
        signature += inner.signature * length
    lbs, ubs, true_lbs, true_ubs = zip(*bounds, strict=True)
    return Shape(min(lbs), max(ubs), min(true_lbs), max(true_ubs), tuple(signature))


# ------------------------------------------------------------------ with MPI


def made(mpi: Any, tree: Tree, keep: Callable[[Any], None]) -> Any:
    """The MPI datatype of a tree; every one made on the way is given to `keep`."""
    if isinstance(tree, str):
        return getattr(mpi, tree)
    kind = tree[0]
    if kind == "struct":
        types = [made(mpi, sub, keep) for sub in tree[3]]
        new = mpi.Datatype.Create_struct(tree[1], tree[2], types)
    else:
        inner = made(mpi, tree[-1], keep)
        new = _derived(mpi, inner, kind, tree[1:-1])
    keep(new)
    return new


def _derived(mpi: Any, inner: Any, kind: str, numbers: list[Any]) -> Any:
    if kind == "subarray":
        sizes, parts, starts, order = numbers
        order = mpi.ORDER_C if order == "C" else mpi.ORDER_FORTRAN
        return inner.Create_subarray(sizes, parts, starts, order)
    name = "Dup" if kind == "dup" else f"Create_{kind}"
    return getattr(inner, name)(*numbers)
