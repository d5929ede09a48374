# SPDX-License-Identifier: MIT
"""`tbmpi bench`: options, and the way from them to tables and files."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tbmpi.bench import hpl, plot, python, record, report, wire
from tbmpi.bench.contest import Contest, Job, compete
from tbmpi.bench.engines import (
    PEERS,
    Engine,
    find_ours,
    find_peer,
    is_crowded,
    usable_cores,
)
from tbmpi.bench.errors import BenchError
from tbmpi.bench.processes import Interrupted, noted_signals, raise_noted
from tbmpi.bench.program import (
    COLLECTIVES,
    FAMILIES,
    P2P,
    QUICK,
    Effort,
    arguments,
    build,
    read_output,
    time_limit,
)
from tbmpi.bench.runs import Contender, Plan
from tbmpi.bench.units import parse_sizes
from tbmpi.bench.verdict import RULE_RUNS, Family, judge
from tbmpi.hpl.obtain import cache_dir

GROUPS = {"p2p": P2P, "collectives": COLLECTIVES, "all": FAMILIES}
TRIAL_FAMILIES = ("barrier", "allreduce", "alltoall")
TRIAL_SIZES = (8, 4096, 65536)
HPL_N = 2000
DONE, FAILED, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tbmpi bench`; return its exit code.

    0: measured. 1: a run of the subject failed, data arrived wrong, or with
    --strict the rule was missed. 2: a wrong option or a missing tool.
    130 and 143: ended by SIGINT or SIGTERM.
    """
    options = _parser().parse_args(argv)
    console, notes = Console(), Console(stderr=True)
    try:
        with noted_signals():
            try:
                return _bench(options, console, notes)
            finally:
                # What failed because of a signal is not worth a message.
                raise_noted()
    except BenchError as error:
        notes.print(f"tbmpi bench: {error}", markup=False, highlight=False)
        return USAGE
    except Interrupted as error:
        notes.print(f"tbmpi bench: ended by {error}")
        return 128 + error.number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tbmpi bench",
        description="Time MPI operations, alone or against other libraries.",
        epilog=f"families: {', '.join(FAMILIES)}; groups: "
        f"{', '.join(GROUPS)}. The method is in docs/benchmarks.md.",
    )
    add = parser.add_argument
    add("--np", "-n", type=int, metavar="N", help="ranks (2, with --hpl 4)")
    add(
        "--families",
        metavar="LIST",
        help="families or groups, comma separated (2 ranks: all, more: collectives)",
    )
    add(
        "--sizes",
        metavar="LIST",
        help="bytes, such as 0,8,64K-1M (each family's own)",
    )
    add(
        "--vs",
        metavar="LIST",
        help=f"peers to compare with, of {', '.join(PEERS)}: installed from "
        "PyPI into a venv of their own, or name=PREFIX",
    )
    add(
        "--runs",
        type=int,
        metavar="N",
        help=f"interleaved rounds ({RULE_RUNS} with --vs, else 3)",
    )
    add(
        "--hpl",
        type=int,
        nargs="?",
        const=HPL_N,
        metavar="N",
        help=f"run HPL of order N ({HPL_N}) on the squarest grid instead",
    )
    add(
        "--python",
        action="store_true",
        help="time calls from Python instead, tbmpi's and mpi4py's, on tbmpi's "
        "library and on MPICH's",
    )
    add(
        "--sim",
        metavar="TOPO",
        help="on emulated Macs, a rank on each, as tbmpirun --sim; with the "
        "modelled wire beside each figure",
    )
    add(
        "--router",
        choices=("auto", "never"),
        default="auto",
        help="with --sim: as tbmpirun's (%(default)s)",
    )
    add(
        "--wire",
        metavar="LATENCY,GB/S",
        help="with --sim: the model's latency and rate, such as 5us,1",
    )
    add("--json", type=Path, metavar="FILE", help="keep every raw value")
    add("--png", type=Path, metavar="FILE", help="draw the figures")
    add(
        "--quick",
        action="store_true",
        help="short samples and 3 rounds: an indication only",
    )
    add(
        "--strict",
        action="store_true",
        help="exit code 1 when a family misses the rule",
    )
    add(
        "--ours",
        default="auto",
        metavar="FOLDER",
        help="where tbmpicc and tbmpirun are, or none (auto)",
    )
    add(
        "--cache",
        type=Path,
        default=cache_dir(),
        metavar="FOLDER",
        help="where peers and HPL are kept for the next time (%(default)s)",
    )
    return parser


def _families(text: str | None, ranks: int) -> list[str]:
    if text is None:
        return list(FAMILIES if ranks == 2 else COLLECTIVES)
    names: list[str] = []
    for word in text.split(","):
        group = GROUPS.get(word, (word,))
        if group == (word,) and word not in FAMILIES:
            raise BenchError(
                f"no such family: {word!r}; families: {', '.join(FAMILIES)}; "
                f"groups: {', '.join(GROUPS)}"
            )
        names += group
    if ranks < 2 and set(names) & set(P2P):
        raise BenchError("point-to-point families need --np 2 or more")
    return list(dict.fromkeys(names))


def _check(options: argparse.Namespace) -> None:
    """Fill in what depends on other options, and refuse what cannot run."""
    options.emulation = None
    if options.sim:
        options.emulation = wire.emulation(options.sim, options.router, options.wire)
    if options.np is None:
        options.np = 4 if options.hpl else 2
    if options.runs is None:
        options.runs = RULE_RUNS if options.vs and not options.quick else 3
    for name in ("np", "runs"):
        value = getattr(options, name)
        if value < 1:
            raise BenchError(f"--{name} is 1 or more, not {value}")
    if options.hpl is None:
        _families(options.families, options.np)
    elif options.families or options.sizes:
        raise BenchError("--hpl runs HPL only: leave --families and --sizes")
    elif options.hpl < 1:
        raise BenchError(f"--hpl needs N of 1 or more, not {options.hpl}")
    if options.python and (options.vs or options.sim or options.hpl is not None):
        raise BenchError("--python has its own peers: leave --vs, --sim and --hpl")
    if options.python and options.np > 2:
        raise BenchError("--python runs on 1 or 2 ranks")
    if options.sim and (options.vs or options.ours == "none"):
        raise BenchError("--sim emulates tbmpi's own transport: leave --vs and --ours")
    if options.wire and not options.sim:
        raise BenchError("--wire is the model of --sim")
    for path in (options.json, options.png):
        if path and not path.absolute().parent.is_dir():
            raise BenchError(f"no such folder: {path.absolute().parent}")
    if options.png:
        plot.need_matplotlib()


def _engines(options: argparse.Namespace, notes: Console) -> list[Engine]:
    ours = find_ours(options.ours)
    if ours and options.emulation:
        ours = ours.with_options(options.emulation.options)
    engines = [ours] if ours else []
    for word in options.vs.split(",") if options.vs else ():
        name, equals, _ = word.partition("=")
        if name in [engine.name for engine in engines]:
            raise BenchError(f"--vs names {name} twice")
        cache = options.cache / "bench"
        once = "" if equals else f" in {cache} (installed once)"
        with notes.status(f"looking for {name}{once}"):
            engines.append(find_peer(word, cache))
    if not engines:
        raise BenchError("nothing to run: --ours none needs --vs")
    return engines


def _families_job(
    options: argparse.Namespace, engines: Sequence[Engine], scratch: Path
) -> Job:
    families = _families(options.families, options.np)
    sizes = parse_sizes(options.sizes) if options.sizes else []
    effort = QUICK if options.quick else Effort()
    words = arguments(families, sizes, effort)
    trial_words = arguments(TRIAL_FAMILIES, TRIAL_SIZES, QUICK)
    contenders, trials = [], []
    for engine in engines:
        program = scratch / f"bench-{engine.name}"
        build(engine.compiler, program)
        contenders.append(Contender(engine, (program, *words), read_output))
        trials.append(Contender(engine, (program, *trial_words), read_output))
    return Job(contenders, trials, time_limit(families, effort))


def _bench(options: argparse.Namespace, console: Console, notes: Console) -> int:
    _check(options)
    if options.python:
        return _bench_python(options, console, notes)
    engines = _engines(options, notes)
    before = record.machine()
    _say_conditions(options.np, before["load"][0], notes)
    with tempfile.TemporaryDirectory(prefix="tbmpi-bench-") as name:
        scratch = Path(name)
        with notes.status("building"):
            if options.hpl:
                job = hpl.job(
                    engines, options.hpl, options.np, scratch, options.cache / "hpl"
                )
            else:
                job = _families_job(options, engines, scratch)
        plan = Plan(options.np, options.runs, job.seconds, scratch)
        contest = compete(job, plan, notes)
    subject = engines[0].name
    verdict = judge(contest.samples(), subject)
    modelled = options.emulation.wire if options.emulation and plan.ranks == 2 else None
    if options.json:
        data = record.record(contest, verdict, plan, subject, before, modelled)
        record.write(options.json, data)
    _print(console, contest, verdict, plan, modelled)
    if options.png:
        titles = contest.titles()
        caption = _caption(plan, before["processor"], options.sim, modelled)
        plot.draw(options.png, verdict, subject, titles, caption, modelled)
    return _exit_code(options, contest, verdict, subject)


def _bench_python(options: argparse.Namespace, console: Console, notes: Console) -> int:
    options.vs = "mpich"
    engines = _engines(options, notes)
    if len(engines) < 2:
        raise BenchError("--python needs tbmpi itself: leave --ours none")
    _say_conditions(options.np, record.machine()["load"][0], notes)
    plan = (options.np, options.runs, options.quick)
    cache = options.cache / "bench"
    with (
        tempfile.TemporaryDirectory(prefix="tbmpi-bench-") as name,
        notes.status("measuring (the first time mpi4py is built)"),
    ):
        scratch = Path(name)
        passes = python.run(engines, plan, cache, scratch, console, options.json)
    return FAILED if options.strict and not passes else DONE


def _say_conditions(ranks: int, load: float, notes: Console) -> None:
    cores = usable_cores()
    if load > 0.5 * cores:
        notes.print(
            f"[yellow]The machine is busy (load {load:.1f} on {cores} "
            "cores): the A/A spread will be large.[/]"
        )
    if is_crowded(ranks):
        notes.print(
            f"{ranks} ranks on {cores} cores: a library with documented "
            "settings for this runs with the best of them.",
            style="dim",
        )


def _print(
    console: Console,
    contest: Contest,
    verdict: Sequence[Family],
    plan: Plan,
    modelled: wire.Wire | None,
) -> None:
    samples, titles = contest.samples(), contest.titles()
    subject = contest.contenders[0].name
    if len(contest.contenders) == 1:
        report.print_alone(console, samples[subject], modelled)
        if modelled:
            console.print(modelled.words(), style="dim")
    else:
        report.print_comparison(console, verdict, subject, titles, plan.rounds)
    for contender in contest.contenders:
        name = contender.name
        settings = contender.engine.settings.name
        console.print(
            f"{titles.get(name, name)}: {settings}, no binding, {plan.ranks} ranks",
            style="dim",
        )
    skipped = contest.skipped()
    report.print_gaps(console, contest.errors(), skipped, samples)
    report.print_wrong(console, contest.wrong())


def _caption(
    plan: Plan, processor: str, sim: str | None, modelled: wire.Wire | None
) -> str:
    where = f"emulated Macs ({sim}), " if sim else ""
    text = (
        f"{plan.ranks} ranks, {where}no binding, {usable_cores()} cores, "
        f"{processor}, {os.uname().sysname}; lower quartile of "
        f"{plan.rounds} interleaved runs. "
    )
    if sim:
        return text + (f"Dashed: {modelled.words()}." if modelled else "")
    return text + ("Ratio: time / the better peer's; grey: A/A spread; dotted: 1.10.")


def _exit_code(
    options: argparse.Namespace,
    contest: Contest,
    verdict: Sequence[Family],
    subject: str,
) -> int:
    if contest.wrong() or subject in contest.errors():
        return FAILED
    missed = options.vs and not all(family.passes for family in verdict)
    return FAILED if options.strict and missed else DONE
