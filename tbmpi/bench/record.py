# SPDX-License-Identifier: MIT
"""The JSON record: every raw value, what made it, and the verdict."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tbmpi.bench.contest import Contest
from tbmpi.bench.engines import inherited_settings, usable_cores
from tbmpi.bench.errors import BenchError
from tbmpi.bench.runs import Contender, Plan, Run
from tbmpi.bench.verdict import Family, Row
from tbmpi.bench.wire import Wire

FORMAT = 1


def machine() -> dict[str, Any]:
    """Return what a reader must know about the machine."""
    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == "model name":
            return value.strip()
    return platform.machine()


def record(
    contest: Contest,
    families: Sequence[Family],
    plan: Plan,
    subject: str,
    before: dict[str, Any],
    wire: Wire | None = None,
) -> dict[str, Any]:
    """Return the whole comparison as plain data; `before` is machine()."""
    return {
        "tbmpi_bench": FORMAT,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": before,
        "load_after": list(os.getloadavg()),
        "ranks": plan.ranks,
        "rounds": plan.rounds,
        "placement": "no binding",
        "inherited": inherited_settings(),
        "libraries": [
            _library(contender, contest, plan) for contender in contest.contenders
        ],
        "subject": subject,
        "wire": asdict(wire) if wire else None,
        "verdict": [_family(family) for family in families],
        "runs": [_run(run) for run in contest.runs],
    }


def _library(contender: Contender, contest: Contest, plan: Plan) -> dict[str, Any]:
    engine = contender.engine
    heads = [r.output.head for r in contest.runs if r.name == engine.name]
    return {
        "name": engine.name,
        "head": next((head for head in heads if head), {}),
        "command": engine.command(plan.ranks, contender.program),
        "settings": engine.settings.name,
        "env": {**engine.library.env, **engine.settings.env},
        "tried": {
            name: score if math.isfinite(score) else None
            for name, score in contest.scores.get(engine.name, {}).items()
        },
    }


def _family(family: Family) -> dict[str, Any]:
    return {
        "family": family.name,
        "mean": _number(family.mean),
        "passes": family.passes,
        "figures": [_row(row) for row in family.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "bytes": row.key[1],
        "usec": dict(row.times),
        "spread": {name: _number(s) for name, s in row.spreads.items()},
        "best_peer": row.best_peer,
        "ratio": _number(row.ratio),
        "limit": _number(row.limit),
        "miss": row.is_miss,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "library": run.name,
        "round": run.round,
        "seconds": round(run.seconds, 3),
        "error": run.error,
        "skipped": [list(entry) for entry in run.output.skipped],
        "figures": [
            {
                "family": figure.family,
                "bytes": figure.size,
                "q1": figure.q1,
                "median": figure.median,
                "min": figure.minimum,
                "wrong": figure.wrong,
                "capped": figure.capped,
                "raw": list(figure.raw),
            }
            for figure in run.output.figures.values()
        ],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write(path: Path, data: dict[str, Any]) -> None:
    """Write the record. BenchError if the file cannot be written."""
    try:
        path.write_text(json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from error
