# SPDX-License-Identifier: MIT
"""HPL as a benchmark of the MPI library: same sources, same BLAS, one grid.

HPL.dat lists the problem several times, so one run gives several times, and
the lower quartile of those is the run's figure, as for the other families. A
residual that HPL calls FAILED counts as wrong data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from tbmpi.bench.contest import Job
from tbmpi.bench.engines import Engine
from tbmpi.bench.errors import BenchError
from tbmpi.bench.program import Figure, Output
from tbmpi.bench.runs import Contender
from tbmpi.bench.verdict import lower_quartile, median
from tbmpi.hpl.blas import find_blas
from tbmpi.hpl.build import build_xhpl
from tbmpi.hpl.dat import Parameters, render
from tbmpi.hpl.errors import HplError
from tbmpi.hpl.obtain import find_origin
from tbmpi.hpl.plan import flops
from tbmpi.hpl.results import parse

FAMILY = "hpl"
REPETITIONS = 5
TRIAL_N = 1000
BLOCK = 128
SLOWEST_GFLOPS = 0.5


def job(
    engines: Sequence[Engine], n: int, ranks: int, scratch: Path, cache: Path
) -> Job:
    """Build HPL for every engine; return what to run.

    Sources and builds are kept in `cache`, as by `tbmpi hpl`; HPL.dat is
    written to `scratch`.
    """
    folder = _write_dat(scratch / "hpl", [n] * REPETITIONS, ranks)
    trial_folder = _write_dat(scratch / "trial", [TRIAL_N], ranks)
    contenders, trials = [], []
    try:
        origin = find_origin("auto", cache)
        for engine in engines:
            blas = find_blas(str(engine.compiler))
            program = build_xhpl(origin, cache, str(engine.compiler), blas)
            env = dict.fromkeys(blas.thread_variables, "1")
            for group, cwd in ((contenders, folder), (trials, trial_folder)):
                group.append(Contender(engine, (program,), read, cwd, env))
    except HplError as error:
        raise BenchError(str(error)) from error
    seconds = 60 + REPETITIONS * flops(n) / (SLOWEST_GFLOPS * 1e9)
    return Job(contenders, trials, seconds)


def grid(ranks: int) -> tuple[int, int]:
    """Return the squarest P x Q with P at most Q."""
    rows = max(p for p in range(1, math.isqrt(ranks) + 1) if ranks % p == 0)
    return rows, ranks // rows


def read(text: str) -> Output:
    """Read HPL's output; ValueError if HPL did not come to its end."""
    report = parse(text)
    if not report.finished or not report.results:
        raise ValueError("; ".join(report.troubles) or "HPL gave no result")
    figures = {}
    for n in dict.fromkeys(result.n for result in report.results):
        results = [result for result in report.results if result.n == n]
        # HPL's seconds have two decimals, its Gflops five digits.
        usec = [flops(n) / result.gflops / 1e3 for result in results]
        figure = Figure(
            family=FAMILY,
            size=n,
            q1=lower_quartile(usec),
            median=median(usec),
            minimum=min(usec),
            wrong=sum(not result.passed for result in results),
            raw=tuple(usec),
        )
        figures[figure.key] = figure
    return Output(figures, {})


def _write_dat(folder: Path, ns: Sequence[int], ranks: int) -> Path:
    folder.mkdir()
    values = Parameters(ns=ns, nbs=[BLOCK], grids=[grid(ranks)])
    (folder / "HPL.dat").write_text(render(values))
    return folder
