# SPDX-License-Identifier: MIT
"""The table for people, and the file for whoever wants to know it all."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tbmpi import info
from tbmpi.selftest.findings import BAD, GOOD, TITLES, Row
from tbmpi.selftest.pairs import Result

STYLES = {"good": "green", "note": "yellow", "bad": "bold red"}


def sort(rows: Sequence[Row]) -> list[Row]:
    """By probe, in the table's order; rows of one probe stay as they are."""
    order = {probe: number for number, probe in enumerate(TITLES)}
    return sorted(rows, key=lambda row: order.get(row.probe, len(order)))


def show(results: Sequence[Result], console: Console) -> None:
    """A table a pair; what both Macs, or all cables, say alike stands once."""
    for result in results:
        for number, wire in enumerate(result.wires):
            ends = (f"{result.names[i]} {wire.devices[i]}" for i in (0, 1))
            console.print(f"cable {number}: {' -- '.join(ends)}")
        table = Table(box=None, pad_edge=False)
        for head in ("what", "seen", "where", "what it means for tbmpi"):
            table.add_column(head, overflow="fold")
        for row, places in _merged(sort(result.rows)):
            seen = f"{row.seen} ({row.figures})" if row.figures else row.seen
            words = "; ".join(filter(None, (row.meaning.text, _first(row.note))))
            table.add_row(
                TITLES.get(row.probe, row.probe),
                Text(seen, style=STYLES[row.meaning.grade]),
                places,
                words,
            )
        console.print(table)


def _first(note: str) -> str:
    return note if len(note) < 200 else note[:200] + "…"


def _merged(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    found: dict[tuple[str, ...], tuple[Row, list[str]]] = {}
    for row in rows:
        key = (row.probe, row.seen, row.figures, row.meaning.text)
        found.setdefault(key, (row, []))[1].append(row.place)
    return [
        (row, ", ".join(places) if len(places) < 3 else f"{len(places)} places")
        for row, places in found.values()
    ]


def verdict(results: Sequence[Result]) -> tuple[bool, str]:
    """Whether tbmpi can work here, and a line that says so."""
    rows = [row for result in results for row in result.rows]
    bad = [row for row in rows if row.meaning.grade == BAD]
    odd = [row for row in rows if row.meaning.grade not in (GOOD, BAD)]
    works = bool(results) and not bad and any(r.probe == "link" for r in rows)
    if works:
        return True, f"tbmpi can work here; {len(odd)} things worth a word"
    named = dict.fromkeys(TITLES.get(row.probe, row.probe) for row in bad)
    what = ", ".join(named) or "the probes did not get that far"
    return False, f"tbmpi cannot work here: {what}"


def facts(results: Sequence[Result], settings: dict[str, Any]) -> dict[str, Any]:
    """Everything, to be sent to somebody else."""
    good, line = verdict(results)
    return {
        "tbmpi": info.version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": settings,
        "works": good,
        "verdict": line,
        "pairs": [
            {
                "macs": list(result.names),
                "cables": [asdict(wire) for wire in result.wires],
                "rows": [asdict(row) for row in sort(result.rows)],
                "lines": result.lines,
            }
            for result in results
        ],
    }


def write(path: Path, found: dict[str, Any]) -> None:
    """Into a file."""
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
