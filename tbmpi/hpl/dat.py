# SPDX-License-Identifier: MIT
"""Write HPL.dat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameters:
    """The values of an HPL.dat; HPL runs every combination of the lists.

    The defaults are those that published results use most. Numbers as in
    HPL.dat: broadcasts 0 to 5, swap 0 to 2, factorisations 0 left, 1 Crout,
    2 right.
    """

    ns: Sequence[int]
    nbs: Sequence[int]
    grids: Sequence[tuple[int, int]]
    column_major: bool = False
    panel_factorisations: Sequence[int] = (2,)
    recursive_factorisations: Sequence[int] = (1,)
    broadcasts: Sequence[int] = (1,)
    depths: Sequence[int] = (1,)
    swap: int = 2
    threshold: float = 16.0


def render(values: Parameters) -> str:
    """Return the text of an HPL.dat that makes HPL write to standard output."""
    lines = [
        "HPLinpack benchmark input file",
        "Written by tbmpi hpl",
        _line("HPL.out", "output file name (if any)"),
        _line(6, "device out (6=stdout,7=stderr,file)"),
    ]
    lines += _list(values.ns, "# of problems sizes (N)", "Ns")
    lines += _list(values.nbs, "# of NBs", "NBs")
    lines.append(
        _line(int(values.column_major), "PMAP process mapping (0=Row-,1=Column-major)")
    )
    lines.append(_line(len(values.grids), "# of process grids (P x Q)"))
    lines.append(_line(_words(p for p, _ in values.grids), "Ps"))
    lines.append(_line(_words(q for _, q in values.grids), "Qs"))
    lines.append(_line(values.threshold, "threshold"))
    lines += _list(
        values.panel_factorisations,
        "# of panel fact",
        "PFACTs (0=left, 1=Crout, 2=Right)",
    )
    lines += _list([4], "# of recursive stopping criterium", "NBMINs (>= 1)")
    lines += _list([2], "# of panels in recursion", "NDIVs")
    lines += _list(
        values.recursive_factorisations,
        "# of recursive panel fact.",
        "RFACTs (0=left, 1=Crout, 2=Right)",
    )
    lines += _list(
        values.broadcasts,
        "# of broadcast",
        "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)",
    )
    lines += _list(values.depths, "# of lookahead depth", "DEPTHs (>=0)")
    lines += [
        _line(values.swap, "SWAP (0=bin-exch,1=long,2=mix)"),
        _line(64, "swapping threshold"),
        _line(0, "L1 in (0=transposed,1=no-transposed) form"),
        _line(0, "U  in (0=transposed,1=no-transposed) form"),
        _line(1, "Equilibration (0=no,1=yes)"),
        _line(8, "memory alignment in double (> 0)"),
    ]
    return "\n".join(lines) + "\n"


def _list(values: Sequence[int], count_label: str, label: str) -> list[str]:
    return [_line(len(values), count_label), _line(_words(values), label)]


def _words(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def _line(value: object, label: str) -> str:
    return f"{value!s:12} {label}"
