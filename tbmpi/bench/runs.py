# SPDX-License-Identifier: MIT
"""Interleaved runs: every contender once per round, the order rotating.

A machine drifts while a comparison runs (other load, frequency, memory
layout). In every round all contenders see the same minutes, and none always
runs first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tbmpi.bench.engines import Engine, Settings
from tbmpi.bench.processes import run_limited
from tbmpi.bench.program import Key, Output
from tbmpi.bench.verdict import lower_quartile

MAX_FAILURES = 2
TRIAL_ROUNDS = 3


@dataclass(frozen=True)
class Contender:
    """One library with the programme that was built for it.

    `read` turns the standard output of a run into figures, or raises
    ValueError to say why it cannot.
    """

    engine: Engine
    program: tuple[str | Path, ...]
    read: Callable[[str], Output]
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.engine.name


@dataclass(frozen=True)
class Plan:
    """What is the same for every run of a comparison."""

    ranks: int
    rounds: int
    seconds: float
    scratch: Path


@dataclass(frozen=True)
class Run:
    """One run of one contender; `error` is empty if it went well."""

    name: str
    round: int
    seconds: float
    output: Output
    error: str = ""


def run_once(contender: Contender, plan: Plan, number: int) -> Run:
    """Run a contender once; a failure is told in the result."""
    engine = contender.engine
    empty = Output({}, {})
    try:
        done = run_limited(
            engine.command(plan.ranks, contender.program),
            plan.seconds,
            {**engine.environment(plan.scratch), **contender.env},
            contender.cwd,
        )
    except OSError as error:
        return Run(contender.name, number, 0.0, empty, str(error))
    if done.late:
        error = f"stopped after {plan.seconds:.0f} s"
    elif done.code:
        error = f"exit code {done.code}: {done.complaint()}"
    else:
        try:
            output = contender.read(done.stdout)
        except ValueError as problem:
            error = f"{problem}: {done.complaint()}"
        else:
            return Run(contender.name, number, done.seconds, output)
    return Run(contender.name, number, done.seconds, empty, error)


def interleave(contenders: Sequence[Contender], plan: Plan) -> Iterator[Run]:
    """Yield the runs as they end.

    A contender that failed twice in a row is left out of later rounds.
    """
    failures = dict.fromkeys((c.name for c in contenders), 0)
    for number in range(plan.rounds):
        for place in range(len(contenders)):
            contender = contenders[(place + number) % len(contenders)]
            if failures[contender.name] >= MAX_FAILURES:
                continue
            run = run_once(contender, plan, number)
            failed = failures[run.name] + 1 if run.error else 0
            failures[run.name] = failed
            yield run


def with_best_settings(
    contender: Contender, trial: Contender, plan: Plan
) -> tuple[Contender, dict[str, float]]:
    """Return the contender with the best of its documented settings.

    `trial` is a shorter programme that stands for the real one. The scores,
    in microseconds, are the geometric means of its figures by settings; they
    are empty where there was nothing to choose.
    """
    candidates = contender.engine.candidates(plan.ranks)
    if len(candidates) < 2:
        return contender, {}
    runs: dict[str, list[Run]] = {choice.name: [] for choice in candidates}
    for number in range(TRIAL_ROUNDS):
        for choice in candidates:
            tried = replace(trial, engine=_set(trial.engine, choice))
            runs[choice.name].append(run_once(tried, plan, number))
    scores = {name: _score(group) for name, group in runs.items()}
    best = min(candidates, key=lambda choice: scores[choice.name])
    return replace(contender, engine=_set(contender.engine, best)), scores


def _set(engine: Engine, settings: Settings) -> Engine:
    return replace(engine, settings=settings)


def _score(runs: Sequence[Run]) -> float:
    if any(run.error for run in runs):
        return math.inf
    keys = runs[0].output.figures.keys()
    logs = [math.log(_quartile(runs, key)) for key in keys]
    return math.exp(sum(logs) / len(logs)) if logs else math.inf


def _quartile(runs: Sequence[Run], key: Key) -> float:
    figures = (run.output.figures.get(key) for run in runs)
    return lower_quartile([f.q1 if f else math.inf for f in figures])
