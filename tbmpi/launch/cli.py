# SPDX-License-Identifier: MIT
"""The command tbmpirun."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import TextIO

from tbmpi.launch import hostfile, options, report
from tbmpi.launch.errors import SIGNAL_BASE, LaunchError
from tbmpi.launch.plan import Plan, make_plan


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (without the command's name); the exit code."""
    _open_standard_descriptors()
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except LaunchError as problem:
        print(f"{report.PREFIX}{problem}", file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        return SIGNAL_BASE + signal.SIGINT
    except BrokenPipeError:
        # Somebody closed our output while we printed help or a plan.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return SIGNAL_BASE + signal.SIGPIPE


def _main(argv: Sequence[str]) -> int:
    request = options.parse(argv)
    if request.ask:
        return _answer(request.ask)
    plan = make_plan(request, os.environ)
    if not request.quiet:
        for note in request.notes:
            print(f"{report.PREFIX}note: {note}", file=sys.stderr)
    if request.dry_run or request.verbose:
        _describe(plan, sys.stdout if request.dry_run else sys.stderr)
    if request.output_hostfile:
        hostfile.write(request.output_hostfile, request.hosts)
    if request.dry_run:
        return 0
    from tbmpi.launch import job

    return job.run(plan)


def _answer(ask: str) -> int:
    from tbmpi import info

    if ask == "help":
        print(options.help_text(), flush=True)
    elif ask == "version":
        print(f"tbmpirun (tbmpi) {info.version()}", flush=True)
    else:
        return info.main([])
    return 0


def _describe(plan: Plan, file: TextIO) -> None:
    if plan.sim is not None:
        from rich.console import Console

        from tbmpi.launch.drawing import Picture

        notes = [node.note for node in plan.nodes]
        console = Console(file=file, highlight=False, soft_wrap=True)
        console.print(Picture(plan.sim.topology, notes))
    print("\n".join(_lines(plan)), file=file, flush=True)


def _lines(plan: Plan) -> list[str]:
    lines = [f"{node.note} on {node.name}" for node in plan.nodes]
    for rank in plan.ranks:
        changed = [
            f"{key}={value}"
            for key, value in rank.env.items()
            if os.environ.get(key) != value
        ]
        lines.append(
            f"rank {rank.rank}: cd {shlex.quote(rank.cwd)} && {shlex.join(rank.argv)}"
            f"  # {rank.program}; {' '.join(changed)}"
        )
    return lines


def _open_standard_descriptors() -> None:
    """A parent may have closed 0, 1 or 2; nothing else must land there."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
