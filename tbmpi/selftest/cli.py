# SPDX-License-Identifier: MIT
"""``tbmpi selftest``: what the verbs between two Macs do, and whether tbmpi
can work with them. Careful probes, a minute, a table; nothing is changed.

Between this Mac and another, by ssh:   tbmpi selftest mac2
Between emulated Macs:                  tbmpi selftest --sim mesh:2
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from tbmpi.launch import topology
from tbmpi.launch.errors import LaunchError
from tbmpi.selftest import pairs, remote, report

PREFIX = "tbmpi selftest: "
PATIENCE = 0.2
WIDTH = 120  # where no terminal says


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 0: tbmpi can work there, 1: it cannot."""
    options = _parser().parse_args(argv)
    try:
        if options.answer:
            remote.answer()
            return 0
        results = _results(options)
    except LaunchError as problem:
        print(f"{PREFIX}{problem}", file=sys.stderr)
        return problem.code
    found = report.facts(results, _settings(options))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        width = None if sys.stdout.isatty() else WIDTH
        report.show(results, Console(highlight=False, width=width))
        print(found["verdict"])
    if options.output:
        report.write(options.output, found)
    return 0 if found["works"] else 1


def _results(options: argparse.Namespace) -> list[pairs.Result]:
    if bool(options.host) == bool(options.sim):
        raise LaunchError("name another Mac, or emulated ones with --sim mesh:2")
    if options.host:
        python = options.python or remote.default_python()
        chosen = (options.cable, python, options.daring, options.patience)
        return [remote.lead(options.host, *chosen)]
    switches = dict(_switch(text) for text in options.set)
    there = topology.find(options.sim)
    return pairs.simulated(there, switches, options.daring, options.patience)


def _switch(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise LaunchError(f"--set {text}: it takes SWITCH=VALUE (tbmpi sim switches)")
    return name, value


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "host": options.host or "",
        "sim": options.sim or "",
        "set": options.set,
        "daring": options.daring,
        "patience": options.patience,
    }


def _patience(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 60:
        raise argparse.ArgumentTypeError(f"'{text}' is no time of 0.01 to 60 seconds")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tbmpi selftest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("host", nargs="?", help="the other Mac, as ssh knows it")
    add("--sim", metavar="TOPOLOGY", help=topology.FORMS)
    add(
        "--set",
        action="append",
        default=[],
        metavar="SWITCH=VALUE",
        help="a switch of the emulated fabric (tbmpi sim switches)",
    )
    add(
        "--cable",
        action="append",
        default=[],
        metavar="HERE:THERE",
        help="devices that a cable joins, where addresses do not tell",
    )
    add("--python", metavar="PATH", help="the other Mac's Python that has tbmpi")
    add(
        "--daring",
        action="store_true",
        help="also what a driver may take badly, at worst until a restart",
    )
    add(
        "--patience",
        type=_patience,
        default=PATIENCE,
        metavar="SECONDS",
        help=f"how long to wait for what may never come ({PATIENCE})",
    )
    add("--json", action="store_true", help="print everything as JSON")
    add("--output", type=Path, metavar="FILE", help="and write that into a file")
    add("--answer", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
