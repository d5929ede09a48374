# SPDX-License-Identifier: MIT
"""The command ``tbmpi``: finds the subcommand and lets its module do the work."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

# Each module has main(argv) -> exit code and is loaded only when asked for.
SUBCOMMANDS = {
    "info": ("tbmpi.info", "this installation, its settings, this machine"),
    "sim": ("tbmpi.sim", "the jobs of tbmpirun --sim: look at them, pull their cables"),
    "selftest": (
        "tbmpi.selftest.cli",
        "what the verbs between two Macs do, and whether tbmpi can work so",
    ),
    "bench": (
        "tbmpi.bench.cli",
        "latency, bandwidth and collectives, also against other MPIs",
    ),
    "hpl": ("tbmpi.hpl.cli", "the Linpack benchmark: get, build, tune, run"),
    "aliases": ("tbmpi.aliases", "mpirun, mpicc and so on as names for our commands"),
}
USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (without the command's name); the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help(), flush=True)
        return 0 if words else USAGE
    if words[0] in ("-V", "--version", "version"):
        from tbmpi import info

        print(f"tbmpi {info.version()}", flush=True)
        return 0
    if words[0] not in SUBCOMMANDS:
        near = difflib.get_close_matches(words[0], SUBCOMMANDS, n=1)
        remedy = (
            f"did you mean {near[0]}?"
            if near
            else f"there are {', '.join(SUBCOMMANDS)}"
        )
        print(f"tbmpi: no command '{words[0]}'; {remedy}", file=sys.stderr)
        return USAGE
    module = importlib.import_module(SUBCOMMANDS[words[0]][0])
    try:
        code: int = module.main(words[1:])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


def _help() -> str:
    width = max(map(len, SUBCOMMANDS))
    rows = [f"  {name.ljust(width)}  {text}" for name, (_, text) in SUBCOMMANDS.items()]
    return "\n".join(
        [
            "usage: tbmpi <command> [options]; each takes --help",
            "",
            *rows,
            "",
            "Programs are compiled with tbmpicc or tbmpicxx and started with tbmpirun.",
        ]
    )
