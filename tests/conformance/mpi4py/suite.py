# SPDX-License-Identifier: MIT
"""mpi4py's own test suite, from its source archive on PyPI.

Modes:
  alias   the tests on tbmpi.MPI with tbmpi's library
  oracle  the tests on tbmpi.MPI with MPICH's library
  real    the tests on mpi4py itself, built for tbmpi's library
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import expectations
import report
from bounded import end_children
from toolchain import (
    SuiteError,
    Toolchain,
    add_toolchain_options,
    exclusive,
    oracle,
    toolchain_from,
)

from mpi4py import launch, obtain
from mpi4py.launch import RANK, Engine, Finding, entry_of, file_of, run_tests
from tbmpi import as_mpi4py
from tbmpi.launch.board import operations

MODES = ("alias", "oracle", "real")
RANKS = (1, 2, 4)
LIMIT_SECONDS = 240.0
# For a test that is known to fail, which may be by a hang.
LISTED_SECONDS = 20.0
COLLECT_SECONDS = 120
# Launches at a time, times this, is how many a quick run makes for a number of ranks.
PACKS = 3
# Rerun and passed: at most this share of a run, or one.
FLAKY_SHARE = 0.005
# Skips that say something about the run, and not about the MPI.
EXPECTED_SKIPS = re.compile(
    r"mpi-world-size[<>]\d+|mpi-comm-size\S*|comm\.size==1|cupy|numba|dill|yaml"
)
# Skips for chapters that the library says it has not got: counted, but not listed.
LACKING_SKIPS = frozenset(
    skip
    for skip, operation in (
        ("mpi-spawn", "MPI_Comm_spawn"),
        ("mpi-file", "MPI_File_open"),
        ("mpi-io", "MPI_File_open"),
        ("mpi-register-datrep", "MPI_Register_datarep"),
    )
    if not operations()[operation]
)


@dataclass(frozen=True)
class Job:
    """Some tests that run together on a number of ranks."""

    name: str
    ranks: int
    tests: tuple[str, ...]

    @property
    def folder(self) -> str:
        """What the folder with its logs is called."""
        return f"{self.name}-{self.ranks}"


@dataclass(frozen=True)
class Runner:
    """Runs jobs, and what fails unexpectedly once more."""

    engine: Engine
    suite: Path
    logs: Path
    limit: float
    listed: frozenset[str]

    def run(self, job: Job) -> dict[str, Finding]:
        """What became of a job's tests, by entry."""
        found, end = self._run(job, self.logs / job.folder)
        again = [
            test
            for test, finding in found.items()
            if finding.status not in ("pass", "skip")
            and _entry(test, job.ranks) not in self.listed
        ]
        if again and not launch.given_up.is_set():
            retry = Job(job.name, job.ranks, tuple(again))
            second, _ = self._run(retry, self.logs / f"{job.folder}-again")
            for test, finding in second.items():
                if finding.status == "pass":
                    first = found[test]
                    finding.flaky, finding.why = True, f"{first.status}: {first.why}"
                    found[test] = finding
        entries = {_entry(test, job.ranks): finding for test, finding in found.items()}
        if end:
            log = str(self.logs / job.folder)
            entries[f"{job.name}/end {job.ranks}"] = Finding("fail", end, log=log)
        return entries

    def _run(self, job: Job, folder: Path) -> tuple[dict[str, Finding], str]:
        limits = {
            test: LISTED_SECONDS
            if _entry(test, job.ranks) in self.listed
            else self.limit
            for test in job.tests
        }
        return run_tests(self.engine, self.suite, job.ranks, limits, folder)


def main(argv: list[str]) -> int:
    options = _options(argv)
    toolchain = _toolchain(options)
    cache = options.cache / "mpi4py"
    cache.mkdir(parents=True, exist_ok=True)
    tarball = options.tarball or obtain.sdist(cache)
    known = options.expect or Path(__file__).with_name(f"known-{options.mode}.txt")
    listed = _expectations(known)
    # One run a cache: they share its logs, and would disturb each other.
    with exclusive(cache / f"{options.mode}.lock"):
        suite = obtain.tests(tarball, cache)
        engine = _engine(options, toolchain, tarball, suite, cache)
        everything = _collect(engine, suite)
        jobs = _jobs(_choose(everything, options), options)
        expected = _expand(listed, options.ranks)
        known_entries = frozenset(expected.known) | frozenset(expected.either)
        logs = cache / f"logs-{options.mode}"
        runner = Runner(engine, suite, logs, options.limit, known_entries)
        total = sum(len(job.tests) for job in jobs)
        report.say(
            f"mpi4py: {options.mode}, {total} tests in {len(jobs)} launches, "
            f"logs in {logs}"
        )
        findings = _run_all(runner, jobs, options.jobs)
    collected = Counter(file_of(test) for test in everything)
    statuses = {entry: _judged(finding) for entry, finding in findings.items()}
    complete = not options.shard and not options.only
    complaints = expectations.judge(
        expected, statuses, {} if str(known) == "none" else collected, complete
    )
    complaints += _flaky_complaints(findings)
    complaints += _growth_complaints(known, listed)
    return _report(options, toolchain, findings, collected, complaints)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py mpi4py",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("mode", choices=MODES)
    add_toolchain_options(parser)
    add("-n", dest="ranks", type=_counts, default=RANKS, help="default: 1,2,4")
    add("-j", "--jobs", type=int, default=1, help="launches at a time")
    add("--shard", type=_shard, metavar="K/N", help="only the K-th of N parts")
    add(
        "--quick",
        action="store_true",
        help="all tests in few launches, the longest ones with fewer combinations",
    )
    add("--only", metavar="REGEX", help="only tests whose name matches")
    add("--limit", type=float, default=LIMIT_SECONDS, help="seconds for one test")
    add(
        "--expect",
        type=Path,
        help="known failures; 'none' expects that everything passes",
    )
    return parser.parse_args(argv)


def _counts(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 1,2,4")
    return tuple(int(number) for number in text.split(","))


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N, 1 <= K <= N")
    return int(match[1]), int(match[2])


def _toolchain(options: argparse.Namespace) -> Toolchain:
    if options.mode == "oracle":
        return oracle(options.cache)
    return toolchain_from(options)


def _engine(
    options: argparse.Namespace,
    toolchain: Toolchain,
    tarball: Path,
    suite: Path,
    cache: Path,
) -> Engine:
    mode = options.mode
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "MPIR_CVAR_DEBUG_SUMMARY": "0"}
    env.pop("TBMPI_LIBMPI", None)
    if options.quick:
        env["COVERAGE_RUN"] = "true"  # makes test_util_dtlib try fewer types
    if mode != "oracle" and "mpi-spawn" in LACKING_SKIPS:
        env["MPI4PY_TEST_SPAWN"] = "0"  # process pools would wait for ever
    # Workers of a process pool import the test that made them.
    env["PYTHONPATH"] = str(suite)
    if mode == "real":
        python = str(obtain.built(tarball, toolchain.cc, cache))
        return Engine(mode, toolchain.launcher, python, env, "mpi4py.MPI", "tbmpi ")
    env["PYTHONPATH"] += os.pathsep + str(obtain.package(cache))
    env |= as_mpi4py.environment(env)
    if mode == "oracle":
        library = _library_beside(Path(toolchain.cc))
        env |= {"TBMPI_LIBMPI": str(library), "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    name = "MPICH" if mode == "oracle" else "tbmpi "
    return Engine(mode, toolchain.launcher, sys.executable, env, "tbmpi.MPI", name)


def _library_beside(wrapper: Path) -> Path:
    for name in ("libmpi_abi.so.1", "libmpi_abi.1.dylib"):
        library = wrapper.parent.parent / "lib" / name
        if library.exists():
            return library
    raise SuiteError(f"{wrapper.parent.parent} has no library of the standard ABI")


def _collect(engine: Engine, suite: Path) -> list[str]:
    """The names of all tests, as one process alone sees them."""
    done = subprocess.run(
        [engine.python, str(RANK), str(suite), "--collect"],
        env=engine.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=COLLECT_SECONDS,
    )
    names = done.stdout.split()
    if done.returncode or not names:
        said = done.stderr.strip().splitlines() or ["no test was found"]
        raise SuiteError(f"the tests cannot be collected: {said[-1]}")
    return names


def _choose(everything: Sequence[str], options: argparse.Namespace) -> list[str]:
    chosen = list(everything)
    if options.shard:
        part, parts = options.shard
        chosen = [test for test in chosen if _part(test, parts) == part]
    if options.only:
        chosen = [test for test in chosen if re.search(options.only, test)]
    if not chosen:
        raise SuiteError("no test is left to run")
    return chosen


def _part(test: str, parts: int) -> int:
    """The shard of a test."""
    return zlib.crc32(test.encode()) % parts + 1


def _jobs(chosen: Sequence[str], options: argparse.Namespace) -> list[Job]:
    """A launch for each file; for a shard, which has a few of each, one for all.

    A quick run deals the files out to a few launches.
    """
    files = list(dict.fromkeys(map(file_of, chosen)))
    packs = PACKS * options.jobs
    together: dict[str, list[str]] = {}
    for test in chosen:
        name = "shard" if options.shard else file_of(test)
        if options.quick and not options.shard:
            name = f"pack{files.index(name) % packs + 1}"
        together.setdefault(name, []).append(test)
    return [
        Job(name, ranks, tuple(tests))
        for ranks in options.ranks
        for name, tests in together.items()
    ]


def _entry(test: str, ranks: int) -> str:
    return f"{entry_of(test)} {ranks}"


def _expectations(path: Path) -> expectations.Expectations:
    if str(path) == "none":
        return expectations.Expectations()
    try:
        text = path.read_text()
    except OSError as error:
        raise SuiteError(f"--expect {path}: {error.strerror}") from None
    if f"mpi4py {obtain.VERSION}" not in text.splitlines()[0]:
        raise SuiteError(f"{path} is not about mpi4py {obtain.VERSION}")
    return expectations.parse(text, path.name)


def _expand(
    listed: expectations.Expectations, counts: Sequence[int]
) -> expectations.Expectations:
    """A list by entry and number of ranks; a line without numbers is for all."""

    def by_ranks(lines: dict[str, str]) -> dict[str, str]:
        result = {}
        for line, reason in lines.items():
            entry, *numbers = line.split()
            for ranks in map(int, numbers or map(str, counts)):
                if ranks in counts:
                    result[f"{entry} {ranks}"] = reason
        return result

    return expectations.Expectations(
        listed.totals, by_ranks(listed.known), by_ranks(listed.either)
    )


def _run_all(runner: Runner, jobs: Sequence[Job], at_once: int) -> dict[str, Finding]:
    began = time.monotonic()
    findings: dict[str, Finding] = {}
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(runner.run, job): job for job in jobs}
        try:
            for count, done in enumerate(as_completed(waiting), 1):
                found = done.result()
                findings |= found
                _progress(waiting[done], found, runner.listed)
                if count % 20 == 0 or count == len(jobs):
                    seconds = time.monotonic() - began
                    report.say(f"mpi4py: {count} of {len(jobs)} done, {seconds:.0f} s")
        except BaseException:
            launch.given_up.set()
            pool.shutdown(wait=False, cancel_futures=True)
            end_children()
            raise
    return findings


def _progress(job: Job, found: dict[str, Finding], listed: frozenset[str]) -> None:
    for entry, finding in found.items():
        if _judged(finding) != "pass" and entry not in listed:
            lines = finding.why.strip().splitlines()
            report.say(
                f"  {finding.status} {entry}: {lines[-1][:120] if lines else ''}"
            )


def _judged(finding: Finding) -> str:
    """A finding's status; a skip that needs no line in the list counts as a pass."""
    why = finding.why.strip()
    expected = why in LACKING_SKIPS or EXPECTED_SKIPS.fullmatch(why)
    if finding.status == "skip" and expected:
        return "pass"
    return finding.status


def _flaky_complaints(findings: dict[str, Finding]) -> list[str]:
    flaky = [entry for entry, finding in findings.items() if finding.flaky]
    if len(flaky) <= max(1, int(FLAKY_SHARE * len(findings))):
        return []
    return [f"{len(flaky)} passed only when rerun: {', '.join(flaky)}"]


def _growth_complaints(path: Path, listed: expectations.Expectations) -> list[str]:
    if str(path) == "none":
        return []
    earlier = expectations.one_commit_earlier(path)
    if earlier is None:
        report.say(f"mpi4py: no earlier {path.name} to compare with")
        return []
    return expectations.growth(earlier, listed)


def _report(
    options: argparse.Namespace,
    toolchain: Toolchain,
    findings: dict[str, Finding],
    collected: Counter[str],
    complaints: list[str],
) -> int:
    by_ranks: dict[str, Any] = {}
    for ranks in options.ranks:
        mine = [f for e, f in findings.items() if e.endswith(f" {ranks}")]
        counts = Counter(finding.status for finding in mine)
        bad = len(mine) - counts["pass"] - counts["skip"]
        by_ranks[str(ranks)] = {**counts, "tests": len(mine)}
        report.say(
            f"mpi4py {options.mode}, {ranks} ranks: {counts['pass']} passed, "
            f"{bad} failed, {counts['skip']} skipped of {len(mine)}"
        )
    counts = Counter(finding.status for finding in findings.values())
    unlisted = [text for text in complaints if ", not listed: " in text]
    bad = [entry for entry, found in findings.items() if _judged(found) != "pass"]
    known = len(bad) - len(unlisted)
    flaky = sum(finding.flaky for finding in findings.values())
    lacking = Counter(finding.why.strip() for finding in findings.values())
    for skip in sorted(LACKING_SKIPS & lacking.keys()):
        report.say(f"mpi4py: {lacking[skip]} skipped, the library has none: {skip}")
    path = options.json or options.cache / f"mpi4py-{options.mode}.json"
    result = {
        **report.heading("mpi4py", obtain.VERSION, toolchain),
        "mode": options.mode,
        "shard": "/".join(map(str, options.shard or (1, 1))),
        "collected": collected,
        "counts": by_ranks,
        "flaky": flaky,
        "complaints": complaints,
        "entries": {entry: asdict(finding) for entry, finding in findings.items()},
    }
    report.write_json(path, result)
    report.say(
        f"mpi4py: {sum(collected.values())} tests collected, {known} known "
        f"failures, {flaky} passed only when rerun"
    )
    totals = {
        "passed": counts["pass"],
        "failed": len(unlisted),
        "skipped": counts["skip"],
    }
    return report.close("mpi4py", path, totals, complaints)
