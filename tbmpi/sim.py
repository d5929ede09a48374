# SPDX-License-Identifier: MIT
"""``tbmpi sim``: looks at simulated jobs that run, and makes things go wrong."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from tbmpi.launch import control, drawing, fabric, faults, topology
from tbmpi.launch.board import rank_list
from tbmpi.launch.errors import LaunchError

PREFIX = "tbmpi sim: "


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    options = _parser().parse_args(argv)
    try:
        options.run(options)
    except LaunchError as problem:
        print(f"{PREFIX}{problem}", file=sys.stderr)
        return problem.code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tbmpi sim", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="the jobs of tbmpirun --sim that run")
    listing.set_defaults(run=_list)
    show = commands.add_parser("show", help="what a job's Macs, pools and cables do")
    show.add_argument("job", nargs="?", help="its number; not needed when it is alone")
    show.add_argument("--json", action="store_true", help="the same for programs")
    show.set_defaults(run=_show)
    fault = commands.add_parser("fault", help="makes something go wrong, now")
    fault.add_argument("job", help="the job's number, or - for the only one")
    fault.add_argument("words", nargs="+", metavar="FAULT", help="such as: pull 0")
    fault.set_defaults(run=_fault)
    known = commands.add_parser("faults", help="what can go wrong")
    known.set_defaults(run=_faults)
    switches = commands.add_parser("switches", help="the switches of the fabric")
    switches.set_defaults(run=_switches)
    draw = commands.add_parser("draw", help="draws a topology")
    draw.add_argument("topology", help=topology.FORMS)
    draw.add_argument("--svg", type=Path, metavar="FILE", help="into an SVG file")
    draw.set_defaults(run=_draw)
    return parser


def _list(_options: argparse.Namespace) -> None:
    for path in control.running().values():
        facts = control.ask(path, {"do": "show"})
        print(_headline(facts))


def _headline(facts: dict[str, Any]) -> str:
    return (
        f"{facts['job']}  {facts['topology']}  {facts['ranks']} ranks of "
        f"{facts['program']}, for {facts['seconds']:.0f} s"
    )


def _show(options: argparse.Namespace) -> None:
    facts = control.ask(control.find(options.job), {"do": "show"})
    if options.json:
        print(json.dumps(facts, indent=1))
        return
    print(_headline(facts))
    for node in facts["nodes"]:
        ranks = rank_list(node["ranks"]) if node["ranks"] else "no rank"
        print(f"{node['name']}: {ranks}, router {node['router'] or 'none'}")
    for cable in facts["cables"]:
        ends = " -- ".join(cable["ends"])
        print(f"cable {cable['number']}: {ends}, {cable['state']}")


def _fault(options: argparse.Namespace) -> None:
    job = None if options.job == "-" else options.job
    request = {"do": "fault", "fault": " ".join(options.words)}
    control.ask(control.find(job), request)


def _faults(_options: argparse.Namespace) -> None:
    width = max(len(form) for form, _ in faults.HELP)
    for form, what in faults.HELP:
        print(f"{form.ljust(width)}  {what}")
    print("\n'at 2s' or 'at 300ms' before a fault: so long after the job's start.")


def _switches(_options: argparse.Namespace) -> None:
    print(fabric.switches(), end="")


def _draw(options: argparse.Namespace) -> None:
    there = topology.find(options.topology)
    counts = [len(there.ports(host)) for host in range(len(there.hosts))]
    notes = [f"{count} port{'s' if count > 1 else ''}" for count in counts]
    if options.svg:
        options.svg.write_text(drawing.svg(there, notes), encoding="utf-8")
        return
    Console(highlight=False, soft_wrap=True).print(drawing.Picture(there, notes))


if __name__ == "__main__":
    sys.exit(main())
