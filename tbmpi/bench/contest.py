# SPDX-License-Identifier: MIT
"""One comparison from its contenders to its figures, with a progress line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from tbmpi.bench.errors import BenchError
from tbmpi.bench.program import Figure, Key, library_name
from tbmpi.bench.runs import (
    Contender,
    Plan,
    Run,
    interleave,
    with_best_settings,
)


@dataclass(frozen=True)
class Job:
    """What to run: a contender per library, and a short trial of each.

    A run that takes longer than `seconds` counts as hanging.
    """

    contenders: list[Contender]
    trials: list[Contender]
    seconds: float


@dataclass
class Contest:
    """All runs, and how each library was set."""

    contenders: list[Contender]
    runs: list[Run] = field(default_factory=list)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)

    def samples(self) -> dict[str, dict[Key, list[Figure]]]:
        """Return every library's figures, one per good run."""
        found: dict[str, dict[Key, list[Figure]]] = {}
        for run in self.runs:
            for key, figure in run.output.figures.items():
                group = found.setdefault(run.name, {})
                group.setdefault(key, []).append(figure)
        return found

    def titles(self) -> dict[str, str]:
        """Return the versions that the libraries gave, in table order."""
        names = [contender.name for contender in self.contenders]
        return {name: library_name(self._head(name)) or name for name in names}

    def wrong(self) -> dict[str, list[Key]]:
        """Return the figures that came with wrong data, by library."""
        found: dict[str, list[Key]] = {}
        for name, group in self.samples().items():
            keys = [k for k, fs in group.items() if any(f.wrong for f in fs)]
            if keys:
                found[name] = keys
        return found

    def errors(self) -> dict[str, list[str]]:
        """Return what went wrong in failed runs, by library."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            if run.error:
                found.setdefault(run.name, []).append(run.error)
        return found

    def skipped(self) -> dict[str, dict[Key, str]]:
        """Return the figures that were left out and why, by library."""
        found: dict[str, dict[Key, str]] = {}
        for run in self.runs:
            for family, size, why in run.output.skipped:
                found.setdefault(run.name, {})[family, size] = why
        return found

    def _head(self, name: str) -> dict[str, Any]:
        heads = (r.output.head for r in self.runs if r.name == name)
        return next((head for head in heads if head), {})


def compete(job: Job, plan: Plan, console: Console) -> Contest:
    """Choose settings by short trials, then run the interleaved rounds.

    The progress line goes to `console` and vanishes at the end. BenchError
    if no run at all succeeded.
    """
    contest = Contest([])
    total = plan.rounds * len(job.contenders)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        # Drawing takes a core away from the ranks.
        refresh_per_second=2,
    ) as progress:
        task = progress.add_task("settings", total=total)
        for contender, trial in zip(job.contenders, job.trials, strict=True):
            progress.update(task, description=f"settings of {contender.name}")
            best, scores = with_best_settings(contender, trial, plan)
            contest.contenders.append(best)
            if scores:
                contest.scores[contender.name] = scores
        for run in interleave(contest.contenders, plan):
            contest.runs.append(run)
            progress.update(
                task,
                completed=max(run.round * len(job.contenders) + 1, len(contest.runs)),
                description=f"round {run.round + 1} of {plan.rounds}",
            )
    if not contest.samples():
        first = contest.runs[0]
        raise BenchError(f"no run succeeded: {first.name}: {first.error}")
    return contest
