# SPDX-License-Identifier: MIT
"""Runs the project's tests in groups: a line each, then the sum of all.

    python tools/check lint     formatters, linters, layers, generated files
    python tools/check test     what CI runs, in minutes
    python tools/check full     all of it: conformance suites, sanitizers

tbmpi has to be installed in this Python (make setup). A group that lacks a tool
fails and says which. Logs are in build/check. Exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from groups import GROUPS, Group
from report import Outcome, Trouble, print_group, print_sum
from run import Runner


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    options = _options(argv)
    chosen = _chosen(options)
    if options.list:
        for group in chosen:
            print(f"{group.name:12} {group.about}")
        return 0
    total = Outcome()
    began = time.monotonic()
    for group in chosen:
        total += _run(group, options.set)
    print_sum(total, time.monotonic() - began)
    return 1 if total.failed else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("set", choices=["lint", "test", "full"], help="which groups")
    add("--only", nargs="+", metavar="GROUP", help="these groups of the set")
    add("--list", action="store_true", help="print the groups and run nothing")
    return parser.parse_args(argv)


def _chosen(options: argparse.Namespace) -> list[Group]:
    groups = [group for group in GROUPS if options.set in group.sets]
    if options.only is None:
        return groups
    unknown = set(options.only) - {group.name for group in groups}
    if unknown:
        known = ", ".join(group.name for group in groups)
        sys.exit(
            f"tools/check: no group {', '.join(sorted(unknown))}; there are {known}"
        )
    return [group for group in groups if group.name in options.only]


def _run(group: Group, set_name: str) -> Outcome:
    minutes = group.minutes * (group.longer if set_name == "full" else 1)
    began = time.monotonic()
    with Runner(group.name, 60.0 * minutes, full=set_name == "full") as runner:
        try:
            outcome = group.run(runner)
        except Trouble as trouble:
            outcome = Outcome(failed=1, reasons=[str(trouble)])
    print_group(group.name, time.monotonic() - began, outcome, runner.log_path)
    return outcome


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
