# SPDX-License-Identifier: MIT
"""Tests of the suite on some ranks, to their end whatever happens to one.

A crash or a hang costs the test that it happened in: the tests behind it are
started again without it.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bounded import Outcome, run_bounded
from toolchain import SuiteError

RANK = Path(__file__).with_name("rank.py")
STARTS = 40  # at most, for the same tests
LAUNCH_SECONDS = 30.0
# A hanging test is ended by its rank; this is for ranks that cannot.
LONGEST_SECONDS = 1200.0
# Set when the run is given up: what was ended must not be started again.
given_up = threading.Event()
FINISHED = ("pass", "skip", "fail")
# What a test is if the ranks differ. One that some did not reach has to run again:
# the others waited in it for nothing.
WORST = ("fail", "unreached", "unfinished", "skip", "pass")


@dataclass(frozen=True)
class Engine:
    """Who runs the tests: `command` with the ranks put in, then `python`."""

    mode: str
    launcher: tuple[str, ...]
    python: str
    env: Mapping[str, str]
    module: str  # what mpi4py.MPI has to be
    library: str  # what its library version has to begin with

    def command(self, ranks: int) -> list[str]:
        """The words before the program's arguments."""
        return [*self.launcher, str(ranks), self.python, str(RANK)]


@dataclass
class Finding:
    """What one test came to, and why if it did not pass."""

    status: str
    why: str = ""
    seconds: float = 0.0
    flaky: bool = False
    log: str = ""


@dataclass
class _Record:
    """What the ranks said about one start."""

    ranks: list[dict[str, str]] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    engines: set[tuple[str, str]] = field(default_factory=set)

    def status(self, test: str) -> str:
        """The worst of all ranks; if some did not get there it has to run again."""
        found = {rank.get(test, "unreached") for rank in self.ranks} or {"unreached"}
        return next(status for status in WORST if status in found)


def run_tests(
    engine: Engine,
    tests: Path,
    ranks: int,
    chosen: Mapping[str, float],
    folder: Path,
) -> tuple[dict[str, Finding], str]:
    """Runs tests together; `chosen` has the seconds that each may take.

    Returns what became of each, and how the last start ended if not well.
    """
    findings: dict[str, Finding] = {}
    left = list(chosen)
    shutil.rmtree(folder, ignore_errors=True)
    for start in range(STARTS):
        logs = folder / f"{start}"
        logs.mkdir(parents=True)
        limits = {test: chosen[test] for test in left}
        outcome = _start(engine, tests, ranks, limits, logs)
        record = _read(logs, left)
        _check_engine(engine, record)
        log = str(logs / "output")
        for test in left:
            status = record.status(test)
            if status in (*FINISHED, "unfinished"):
                findings[test] = _finding(record, test, status, outcome, log)
        before, left = left, [test for test in left if test not in findings]
        if not left or len(left) == len(before) or given_up.is_set():
            break
    end = outcome.output.strip().splitlines()[-1:] or ["no output"]
    for test in left:
        findings[test] = Finding("unreached", f"{_ended(outcome)}: {end[0]}", log=log)
    bad = outcome.code != 0 and not left and record.status(before[-1]) in FINISHED
    return findings, f"{_ended(outcome)}: {end[0]}" if bad else ""


def file_of(test: str) -> str:
    """The test file that a test's name begins or, for a broken one, ends with."""
    parts = test.split(".")
    return parts[-1] if parts[0] == "unittest" else parts[0]


def entry_of(test: str) -> str:
    """The test's name in a list of expectations, its file like a folder."""
    parts = test.split(".")
    if parts[0] == "unittest":
        return f"{parts[-1]}/{parts[-2]}"
    return f"{parts[0]}/{'.'.join(parts[1:])}"


def _start(
    engine: Engine,
    tests: Path,
    ranks: int,
    limits: Mapping[str, float],
    logs: Path,
) -> Outcome:
    (logs / "chosen").write_text(json.dumps(dict(limits)))
    files = sorted({file_of(test) for test in limits})
    words = ["--log", str(logs), str(tests), *files]
    return run_bounded(
        [*engine.command(ranks), *words],
        cwd=tests,
        log=logs / "output",
        limit=min(LAUNCH_SECONDS + sum(limits.values()), LONGEST_SECONDS),
        env=engine.env,
    )


def _read(logs: Path, chosen: Sequence[str]) -> _Record:
    record = _Record()
    for path in logs.iterdir():
        if path.name.isdigit():
            record.ranks.append(_read_rank(path, chosen, record))
    return record


def _read_rank(path: Path, chosen: Sequence[str], record: _Record) -> dict[str, str]:
    """What one rank says about the tests that it has heard of."""
    state = dict.fromkeys(chosen, "unreached")
    for line in path.read_text().splitlines():
        event, name, more = json.loads(line)
        if event == "engine":
            record.engines.add((name, more))
        for test in _meant(name, chosen):
            if event == "start":
                state[test] = "unfinished"
            elif event == "stop" and state[test] == "unfinished":
                state[test] = "pass"
            elif event == "fail" or (event == "skip" and state[test] != "fail"):
                state[test] = event
                record.why.setdefault(test, more)
            if event == "stop":
                longest = max(record.seconds.get(test, 0.0), float(more))
                record.seconds[test] = longest
    return state


def _meant(name: str, chosen: Sequence[str]) -> Sequence[str]:
    """The tests that an event is about: for a class's fixture, all of the class."""
    if name in chosen:
        return (name,)
    fixture = re.fullmatch(r"\w+ \(([\w.]+)\)", name)
    if not fixture:
        return ()
    return [test for test in chosen if test.startswith(fixture[1] + ".")]


def _check_engine(engine: Engine, record: _Record) -> None:
    for module, library in record.engines:
        if module != engine.module or not library.startswith(engine.library):
            raise SuiteError(
                f"mode {engine.mode}: mpi4py.MPI is {module} on {library.strip()}, "
                f"not {engine.module} on {engine.library}"
            )


def _finding(
    record: _Record, test: str, status: str, outcome: Outcome, log: str
) -> Finding:
    why = record.why.get(test, "")
    if status == "unfinished":
        lines = [line for line in outcome.output.splitlines() if line.strip()]
        hung = any(line.startswith("Timeout (") for line in lines)
        status = "hang" if hung or outcome.code is None else "crash"
        why = f"{_ended(outcome)}: {lines[-1] if lines else 'no output'}"
    return Finding(status, why, record.seconds.get(test, 0.0), log=log)


def _ended(outcome: Outcome) -> str:
    return "time was up" if outcome.code is None else f"exit code {outcome.code}"
