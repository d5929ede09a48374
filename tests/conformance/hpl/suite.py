# SPDX-License-Identifier: MIT
"""HPL, from Debian's source package hpcc: every broadcast, depth and swap.

Each system has to pass HPL's own check, and its residual has to have the same
digits as from the same sources with MPICH and the same BLAS. HPL makes its own
reductions of messages, so with one BLAS thread the arithmetic is the same
whatever MPI carries them, and a single wrong bit shows.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import report
from bounded import run_bounded
from toolchain import (
    SuiteError,
    Toolchain,
    add_toolchain_options,
    oracle,
    toolchain_from,
)

from tbmpi.hpl.blas import find_blas
from tbmpi.hpl.build import build_xhpl
from tbmpi.hpl.dat import Parameters, render
from tbmpi.hpl.debian import fetch_source
from tbmpi.hpl.results import Result, parse

GRIDS = "1x1,1x2,2x2,2x3"
LIMIT_SECONDS = 300.0
BROADCASTS = range(6)
DEPTHS = (0, 1)
SWAPS = (0, 1, 2)

Key = tuple[str, int, int, int]


def main(argv: list[str]) -> int:
    options = _options(argv)
    under_test = toolchain_from(options)
    blas = find_blas(under_test.cc)
    origin = options.tarball or fetch_source("hpcc", options.cache)
    sides = {"this": under_test, "mpich": oracle(options.cache)}
    programs = {
        side: build_xhpl(origin, options.cache / "hpl", tools.cc, blas)
        for side, tools in sides.items()
    }
    entries, wrong = [], []
    for grid in options.grids:
        for swap in options.swaps:
            label = f"{grid[0]}x{grid[1]} swap {swap}"
            answers = {}
            for side, tools in sides.items():
                place = options.cache / "hpl" / f"run-{side}" / label.replace(" ", "-")
                dat = _dat(options, grid, swap)
                answers[side] = _run(tools, programs[side], place, dat, grid)
            complaints = _compare(label, answers["this"], answers["mpich"])
            wrong += complaints
            report.say(f"hpl: {label}: {_summary(answers['this'], complaints)}")
            entries.append(
                {
                    "entry": label,
                    "systems": len(answers["this"]),
                    "residuals": sorted({r.residual for r in answers["this"].values()}),
                    "complaints": complaints,
                }
            )
    path = options.json or options.cache / "hpl.json"
    heading = report.heading("hpl", origin.name, under_test)
    report.write_json(path, {**heading, "blas": blas.name, "entries": entries})
    systems = sum(entry["systems"] for entry in entries)
    failed = len(wrong)
    counts = {"passed": max(0, systems - failed), "failed": failed}
    return report.close("hpl", path, counts, wrong)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py hpl", description=__doc__, allow_abbrev=False
    )
    add_toolchain_options(parser)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--nb", type=int, default=128)
    parser.add_argument(
        "--grids", type=_grids, default=_grids(GRIDS), help=f"default: {GRIDS}"
    )
    parser.add_argument(
        "--swaps",
        type=lambda text: [int(word) for word in text.split(",")],
        default=SWAPS,
        help="default: 0,1,2",
    )
    return parser.parse_args(argv)


def _grids(text: str) -> list[tuple[int, int]]:
    if not re.fullmatch(r"\d+x\d+(,\d+x\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list like {GRIDS}")
    pairs = (word.split("x") for word in text.split(","))
    return [(int(p), int(q)) for p, q in pairs]


def _dat(options: argparse.Namespace, grid: tuple[int, int], swap: int) -> str:
    return render(
        Parameters(
            ns=[options.n],
            nbs=[options.nb],
            grids=[grid],
            broadcasts=BROADCASTS,
            depths=DEPTHS,
            swap=swap,
        )
    )


def _run(
    tools: Toolchain, program: Path, place: Path, dat: str, grid: tuple[int, int]
) -> dict[Key, Result]:
    place.mkdir(parents=True, exist_ok=True)
    (place / "HPL.dat").write_text(dat)
    outcome = run_bounded(
        tools.command(grid[0] * grid[1], str(program)),
        cwd=place,
        log=place / "HPL.out",
        limit=LIMIT_SECONDS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"},
    )
    answer = parse(outcome.output)
    if outcome.code != 0 or not answer.finished:
        lines = outcome.output.strip().splitlines() or ["no output"]
        end = "timed out" if outcome.code is None else f"exit code {outcome.code}"
        raise SuiteError(f"{program} {end}: {lines[-1]} (log: {place / 'HPL.out'})")
    return {(r.variant, r.n, r.p, r.q): r for r in answer.results}


def _compare(
    label: str, mine: dict[Key, Result], theirs: dict[Key, Result]
) -> list[str]:
    expected = len(BROADCASTS) * len(DEPTHS)
    wrong = []
    if len(mine) != expected or len(theirs) != expected:
        wrong.append(f"{label}: {len(mine)} and {len(theirs)} results, not {expected}")
    for key, result in mine.items():
        other = theirs.get(key)
        if not result.passed:
            wrong.append(f"{label} {key[0]}: FAILED, residual {result.residual}")
        elif other and other.residual != result.residual:
            wrong.append(
                f"{label} {key[0]}: residual {result.residual}, "
                f"with MPICH {other.residual}"
            )
    return wrong


def _summary(mine: dict[Key, Result], complaints: list[str]) -> str:
    fastest = max((r.gflops for r in mine.values()), default=0.0)
    verdict = f"{len(complaints)} wrong" if complaints else "digits equal to MPICH's"
    return f"{len(mine)} systems, up to {fastest:.3g} Gflops, {verdict}"
