# SPDX-License-Identifier: MIT
"""The command `tbmpi hpl`: get, build, plan, run and judge High-Performance Linpack."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tbmpi.hpl import machines as fleet
from tbmpi.hpl.blas import Blas, find_blas
from tbmpi.hpl.build import build_xhpl
from tbmpi.hpl.dat import Parameters, render
from tbmpi.hpl.errors import HplError
from tbmpi.hpl.machines import Machine
from tbmpi.hpl.obtain import cache_dir, find_origin
from tbmpi.hpl.plan import Plan, Wishes, flops, make_plan
from tbmpi.hpl.progress import progress_line
from tbmpi.hpl.results import Report, Result
from tbmpi.hpl.run import Job, run_job
from tbmpi.hpl.search import candidates

CLIMB = (2000, 10000)
# A step of the climb is worth its time only well below the final N.
STEP_SHARE = 0.5


def main(argv: Sequence[str]) -> int:
    """Run the command. Returns 0 if every residual passed, 1 if not, 2 on errors."""
    console = Console(soft_wrap=True)
    try:
        options = _parser().parse_args(argv)
        return _Session(options, console).run()
    except HplError as error:
        print(f"tbmpi hpl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tbmpi hpl: interrupted", file=sys.stderr)
        return 130


class _Session:
    """One use of the command: what was asked, found and measured."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console
        self.wishes = Wishes(
            n=options.n,
            nb=options.nb,
            grid=options.grid,
            ranks=options.ranks,
            fraction=options.memory_fraction,
        )
        self.machines: list[Machine] = []
        self.folder: Path = options.dir
        self.steps: list[Result] = []

    def run(self) -> int:
        options = self.options
        self.machines = _machines(options)
        plan = make_plan(self.machines, self.wishes)
        if options.plan_only:
            self._describe(plan)
            print(render(_parameters(plan)), end="")
            return 0
        self.cc = _tool(options.cc or "tbmpicc", "--cc")
        self.launcher = _launcher(options)
        self.blas = find_blas(self.cc, options.blas)
        cache = options.cache or cache_dir() / "hpl"
        self.origin = find_origin(options.source, cache)
        self._say(f"HPL from {self.origin}, BLAS: {self.blas.name}")
        with progress_line(self.console, "building HPL"):
            self.program = build_xhpl(self.origin, cache, self.cc, self.blas)
        if options.search:
            plan = self._search()
        self._describe(plan)
        return self._climb(plan)

    def _climb(self, plan: Plan) -> int:
        """Run the plan, after smaller ones where N fills the memory."""
        sizes = [plan.n]
        if self.options.n is None and not self.options.yes:
            sizes = [n for n in CLIMB if n < STEP_SHARE * plan.n] + sizes
        speed = None
        for n in sizes:
            expected = flops(n) / speed if speed else None
            about = f", about {expected:.0f} s" if expected else ""
            report = self._run(
                plan,
                _parameters(replace(plan, n=n)),
                f"N {n}, NB {plan.nb}, {plan.p}x{plan.q}{about}",
                expected,
            )
            self.steps += report.results
            for result in report.results:
                self._say(_sentence(result))
            if not report.passed:
                self._keep(plan, passed=False)
                return 1
            speed = report.results[-1].gflops * 1e9
        self._keep(plan, passed=True)
        return 0

    def _search(self) -> Plan:
        """Measure the candidates and return the plan of the fastest."""
        best: tuple[float, Plan] | None = None
        table = Table("ranks", "grid", "NB", "Gflops", title="search")
        for group in candidates(self.machines, self.wishes):
            plan = group.plan
            parameters = replace(_parameters(plan), nbs=group.nbs, grids=group.grids)
            label = f"search with {sum(plan.ranks)} ranks, N {plan.n}"
            report = self._run(plan, parameters, label, None)
            for result in report.results:
                grid = (result.p, result.q)
                shown = f"{result.p}x{result.q}"
                ranks = str(sum(plan.ranks))
                table.add_row(ranks, shown, str(result.nb), f"{result.gflops:.4g}")
                if result.passed and (best is None or result.gflops > best[0]):
                    wishes = replace(
                        self.wishes, nb=result.nb, grid=grid, ranks=sum(plan.ranks)
                    )
                    best = (result.gflops, make_plan(self.machines, wishes))
        self.console.print(table)
        if best is None:
            raise HplError("no candidate of the search passed its residual check")
        return best[1]

    def _run(
        self, plan: Plan, parameters: Parameters, label: str, expected: float | None
    ) -> Report:
        threads = _thread_settings(self.blas, plan.threads)
        job = Job(
            [*_command(self.launcher, plan, threads, self.options), str(self.program)],
            self.folder,
            threads,
        )
        with progress_line(self.console, label) as show:
            return run_job(job, render(parameters), expected, show)

    def _describe(self, plan: Plan) -> None:
        where = ", ".join(
            f"{count} on {machine.name}"
            for machine, count in zip(plan.machines, plan.ranks, strict=True)
        )
        self._say(
            f"plan: N {plan.n}, NB {plan.nb}, grid {plan.p}x{plan.q}; ranks: "
            f"{where}; {plan.threads} BLAS threads each"
        )

    def _keep(self, plan: Plan, passed: bool) -> None:
        path = self.folder / "result.json"
        kept = {
            "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "passed": passed,
            "gflops": self.steps[-1].gflops if self.steps else None,
            "source": str(self.origin),
            "blas": self.blas.name,
            "cc": self.cc,
            "launcher": shlex.join(self.launcher),
            "plan": asdict(plan),
            "runs": [asdict(result) for result in self.steps],
        }
        path.write_text(json.dumps(kept, indent=1) + "\n")
        self._say(f"kept in {path} (output: HPL.out, input: HPL.dat)")

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False)


def _parameters(plan: Plan) -> Parameters:
    return Parameters(
        ns=(plan.n,),
        nbs=(plan.nb,),
        grids=((plan.p, plan.q),),
        column_major=plan.column_major,
    )


def _sentence(result: Result) -> str:
    verdict = "PASSED" if result.passed else "FAILED"
    return (
        f"N {result.n}, NB {result.nb}, {result.p}x{result.q}: "
        f"{result.gflops:.4g} Gflops, {result.seconds:.2f} s, "
        f"residual {float(result.residual):.8e} {verdict}"
    )


def _machines(options: argparse.Namespace) -> list[Machine]:
    if options.host:
        found = [fleet.machine_from(text) for text in options.host]
        names = [machine.name for machine in found]
        for name in names:
            if names.count(name) > 1:
                raise HplError(f"--host {name} is given twice; use slots=COUNT")
        return found
    return [fleet.this_machine()]


def _launcher(options: argparse.Namespace) -> list[str]:
    if not options.launcher:
        return [_tool("tbmpirun", "--launcher"), "-n"]
    words = shlex.split(options.launcher)
    if len(words) < 2:
        raise HplError(
            f"--launcher {options.launcher!r} must end with the option for the "
            'rank count, as in "tbmpirun -n"'
        )
    if options.host:
        raise HplError("--host works with tbmpirun only, not with --launcher")
    return [_tool(words[0], "--launcher"), *words[1:]]


def _command(
    launcher: list[str],
    plan: Plan,
    threads: dict[str, str],
    options: argparse.Namespace,
) -> list[str]:
    words = [*launcher, str(sum(plan.ranks))]
    if options.host:
        used = zip(plan.machines, plan.ranks, strict=True)
        words += ["-H", ",".join(f"{m.name}:{count}" for m, count in used if count)]
        for name, value in threads.items():
            words += ["-x", f"{name}={value}"]
    return words


def _thread_settings(blas: Blas, threads: int) -> dict[str, str]:
    """Return the variables to set; what the user set already stays."""
    return {name: os.environ.get(name, str(threads)) for name in blas.thread_variables}


def _tool(name: str, option: str) -> str:
    beside = Path(sys.executable).parent / name
    if "/" not in name and beside.exists():
        return str(beside)
    found = shutil.which(name)
    if not found:
        raise HplError(
            f"{name} is neither beside {sys.executable} nor on PATH; install "
            f"tbmpi or give {option}"
        )
    return str(Path(found).absolute())


def _grid(text: str) -> tuple[int, int]:
    p, times, q = text.lower().partition("x")
    if not (times and p.isdigit() and q.isdigit() and int(p) and int(q)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a grid such as 2x4")
    return int(p), int(q)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, up to 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tbmpi hpl",
        description="Run High-Performance Linpack: get and build it, choose its "
        "parameters from memory and cores, run it, check the residuals.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--n", type=_positive, help="order of the matrix (default: fill the memory)")
    add("--nb", type=_positive, help="block size (default: by N)")
    add("--grid", type=_grid, metavar="PxQ", help="process grid")
    add("--ranks", type=_positive, help="number of ranks")
    add("--host", action="append", metavar="NAME[,memory=64G][,cores=8][,slots=4]",
        help="a machine to use, once for each; asked by ssh for what is not given "
        "(default: this machine)")  # fmt: skip
    add("--memory-fraction", type=_fraction, default=0.75, metavar="F",
        help="share of the memory to fill (default: %(default)s)")  # fmt: skip
    add("--search", action="store_true",
        help="first measure several NB and grids in short runs")  # fmt: skip
    add("-y", "--yes", action="store_true",
        help="start the full size at once, without N 2000 and N 10000")  # fmt: skip
    add("--plan-only", action="store_true", help="print the plan and HPL.dat, no run")
    add("--source", default="auto", metavar="WHERE",
        help="a folder or tarball of HPL, netlib, debian (its hpcc source package), "
        "or auto: netlib, else debian")  # fmt: skip
    add("--blas", metavar="OPTIONS", help="linker options of the BLAS to use")
    add("--cc", metavar="WRAPPER", help="compiler wrapper (default: tbmpicc)")
    add("--launcher", metavar="COMMAND",
        help='launcher up to the rank count (default: "tbmpirun -n")')  # fmt: skip
    add("--dir", type=Path, default=Path("hpl-run"),
        help="folder for HPL.dat, HPL.out and result.json")  # fmt: skip
    add("--cache", type=Path, help="folder for downloads and builds")
    return parser
