# SPDX-License-Identifier: MIT
"""MPICH's test/mpi, from Debian's source package mpich, on any MPI."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import expectations
import report
from bounded import end_children, run_bounded
from toolchain import (
    SuiteError,
    Toolchain,
    add_toolchain_options,
    exclusive,
    toolchain_from,
)

from mpich import build, testlists
from mpich.testlists import Entry
from tbmpi.hpl.debian import fetch_source

KNOWN = Path(__file__).with_name("known.txt")
FOLDERS = [
    *("attr", "coll", "comm", "datatype", "errhan", "group", "info", "init"),
    *("mpi_t", "part", "pt2pt", "rma", "topo", "threads"),
]
# Rerun and passed: at most this share of a run, or one.
FLAKY_SHARE = 0.005
# The launcher ends a program at MPIEXEC_TIMEOUT; one test is about just that.
LAUNCHER_GRACE_SECONDS = 10.0


@dataclass
class Result:
    """What one entry did: pass, fail, timeout, nobuild or skip."""

    entry: str
    status: str
    seconds: float = 0.0
    code: int | None = None
    flaky: bool = False
    log: str = ""
    tail: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Runner:
    """Runs entries in a built suite and keeps a log of each."""

    suite: Path
    logs: Path
    toolchain: Toolchain
    memory_gb: float

    def run(self, entry: Entry) -> Result:
        log = self.logs / (re.sub(r"[^\w.=+-]+", "_", entry.name) + ".log")
        if entry.memory_gb > self.memory_gb:
            return Result(entry.name, "skip", tail=[
                f"needs {entry.memory_gb} GB, {self.memory_gb:.1f} may be used"
            ])  # fmt: skip
        where = self.suite / entry.folder
        if not (where / entry.program).exists():
            said = build.why_missing(self.suite, entry.folder, entry.program)
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(said)
            errors = [ln for ln in said.splitlines() if "error:" in ln]
            tail = errors[:3] or said.splitlines()[-3:]
            return Result(entry.name, "nobuild", log=str(log), tail=tail)
        settings = dict(item.split("=", 1) for item in entry.environment)
        outcome = run_bounded(
            [
                *self.toolchain.command(entry.ranks),
                *entry.launcher_arguments,
                f"./{entry.program}",
                *entry.arguments,
            ],
            cwd=where,
            log=log,
            limit=entry.limit + LAUNCHER_GRACE_SECONDS,
            env={
                **os.environ,
                **settings,
                "MPIEXEC_TIMEOUT": str(round(entry.limit)),
            },
        )
        status = testlists.verdict(entry, outcome.code, outcome.output)
        if status == "fail" and outcome.seconds >= entry.limit:
            status = "timeout"
        return Result(
            entry.name,
            status,
            round(outcome.seconds, 2),
            outcome.code,
            log=str(log),
            tail=[] if status == "pass" else outcome.output.splitlines()[-5:],
        )


def main(argv: list[str]) -> int:
    options = _options(argv)
    toolchain = _over(toolchain_from(options), options.over)
    tarball = options.tarball or fetch_source("mpich", options.cache)
    version = build.suite_version(tarball)
    expected = _expectations(options.expect, version)
    key = build.build_name(version, toolchain.cc)
    folder = options.cache / key
    with exclusive(options.cache / f"{key}.lock"):
        report.say(f"mpich: test/mpi of {version} in {folder}")
        suite = build.prepare(tarball, folder, toolchain)
        everything = {
            name: testlists.collect(suite, name, options.lists.split(","))
            for name in options.folders
        }
        chosen = _choose(everything.values(), options)
        _compile(suite, chosen)
        if options.build_only:
            return 0
        runner = Runner(
            suite, folder / "logs", toolchain, 0.8 * _memory_gb()
        )  # fmt: skip
        results = _run_all(runner, chosen, options.jobs, expected)
    collected = {name: len(found) for name, found in everything.items()}
    complete = not options.shard and not options.only
    complaints = expectations.judge(
        expected,
        {result.entry: result.status for result in results},
        {} if str(options.expect) == "none" else collected,
        complete,
    )
    complaints += _flaky_complaints(results)
    complaints += _growth_complaints(options.expect, expected)
    return _report(options, version, toolchain, results, collected, complaints)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py mpich", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("folders", nargs="*", help=f"default: {' '.join(FOLDERS)}")
    add_toolchain_options(parser)
    parser.add_argument(
        "--over",
        metavar="WORDS",
        default="",
        help="words for the launcher, such as '--sim ring:4'; the list of known "
        "failures stays the same",
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=1, help="entries run at a time"
    )
    parser.add_argument(
        "--shard", type=_shard, metavar="K/N", help="only the K-th of N parts"
    )
    parser.add_argument(
        "--only", metavar="REGEX", help="only entries whose name matches"
    )
    parser.add_argument(
        "--lists", default="testlist", help="list files, separated by commas"
    )
    parser.add_argument(
        "--expect",
        type=Path,
        default=KNOWN,
        help="known failures; 'none' expects that everything passes",
    )
    parser.add_argument(
        "--build-only", action="store_true", help="compile the programs, run none"
    )
    options = parser.parse_args(argv)
    options.folders = options.folders or FOLDERS
    return options


def _over(toolchain: Toolchain, words: str) -> Toolchain:
    """The launcher with more words, without the notes that would follow."""
    if not words:
        return toolchain
    name, *rest = toolchain.launcher
    return replace(toolchain, launcher=(name, "-q", *shlex.split(words), *rest))


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N, 1 <= K <= N")
    return int(match[1]), int(match[2])


def _expectations(path: Path, version: str) -> expectations.Expectations:
    if str(path) == "none":
        return expectations.Expectations()
    try:
        text = path.read_text()
    except OSError as error:
        raise SuiteError(f"--expect {path}: {error.strerror}") from None
    if f"mpich {version}" not in text.splitlines()[0]:
        raise SuiteError(
            f"{path} is not about mpich {version}; give the right tarball "
            "with --tarball, or --expect none"
        )
    return expectations.parse(text, path.name)


def _choose(
    everything: Iterable[list[Entry]], options: argparse.Namespace
) -> list[Entry]:
    chosen = [entry for found in everything for entry in found]
    if options.shard:
        part, parts = options.shard
        chosen = [
            entry
            for entry in chosen
            if zlib.crc32(entry.name.encode()) % parts == part - 1
        ]
    if options.only:
        chosen = [e for e in chosen if re.search(options.only, e.name)]
    if not chosen:
        raise SuiteError("no entry is left to run")
    return chosen


def _compile(suite: Path, chosen: list[Entry]) -> None:
    programs: dict[str, set[str]] = {}
    for entry in chosen:
        programs.setdefault(entry.folder, set()).add(entry.program)
    for folder, names in programs.items():
        build.compile_programs(suite, folder, sorted(names))


def _run_all(
    runner: Runner,
    chosen: list[Entry],
    jobs: int,
    expected: expectations.Expectations,
) -> list[Result]:
    """Run all entries, then what failed unexpectedly once more, alone."""
    started = time.monotonic()
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(runner.run, entry) for entry in chosen]
        try:
            for done in as_completed(waiting):
                result = done.result()
                results[result.entry] = result
                _progress(result, len(results), len(chosen), started)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_children()
            raise
    listed = expected.known | expected.either
    for entry in chosen:
        first = results[entry.name]
        if first.status in ("fail", "timeout") and entry.name not in listed:
            again = runner.run(entry)
            again.flaky = again.status == "pass"
            if again.flaky:
                again.tail = [f"first run: {first.status}", *first.tail]
            report.say(f"  rerun alone: {again.status} {entry.name}")
            results[entry.name] = again
    return [results[entry.name] for entry in chosen]


def _progress(result: Result, done: int, count: int, started: float) -> None:
    if result.status != "pass":
        hint = f" ({result.tail[-1][:120]})" if result.tail else ""
        report.say(f"  {result.status} {result.entry}{hint}")
    if done % 50 == 0 or done == count:
        seconds = time.monotonic() - started
        report.say(f"mpich: {done} of {count} entries, {seconds:.0f} s")


def _memory_gb() -> float:
    pages = os.sysconf("SC_PHYS_PAGES")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def _flaky_complaints(results: list[Result]) -> list[str]:
    flaky = [result.entry for result in results if result.flaky]
    if len(flaky) <= max(1, int(FLAKY_SHARE * len(results))):
        return []
    return [f"{len(flaky)} passed only when rerun: {', '.join(flaky)}"]


def _growth_complaints(path: Path, expected: expectations.Expectations) -> list[str]:
    if str(path) == "none":
        return []
    earlier = expectations.one_commit_earlier(path)
    if earlier is None:
        report.say(f"mpich: no earlier {path.name} to compare with")
        return []
    return expectations.growth(earlier, expected)


def _report(
    options: argparse.Namespace,
    version: str,
    toolchain: Toolchain,
    results: list[Result],
    collected: dict[str, int],
    complaints: list[str],
) -> int:
    counts = Counter(result.status for result in results)
    unlisted = [c for c in complaints if ", not listed: " in c]
    known = len(results) - counts["pass"] - counts["skip"] - len(unlisted)
    flaky = sum(result.flaky for result in results)
    over = re.sub(r"[^\w]+", "-", options.over).strip("-")
    path = options.json or options.cache / f"mpich{over and '-' + over}.json"
    report.write_json(
        path,
        {
            **report.heading("mpich", version, toolchain),
            "over": options.over,
            "shard": "/".join(map(str, options.shard or (1, 1))),
            "collected": collected,
            "counts": dict(counts),
            "flaky": flaky,
            "complaints": complaints,
            "entries": [asdict(result) for result in results],
        },
    )
    report.say(
        f"mpich: {sum(collected.values())} entries collected, {len(results)} "
        f"run, {known} known failures, {flaky} passed only when rerun"
    )
    totals = {
        "passed": counts["pass"],
        "failed": len(unlisted),
        "skipped": counts["skip"],
    }
    return report.close("mpich", path, totals, complaints)
