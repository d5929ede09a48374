#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run another project's test suite on this MPI, or on any other.

    python tests/conformance/run.py mpich [FOLDER ...] [--shard K/N] [--over WORDS]
    python tests/conformance/run.py mpi4py MODE [-n 1,2,4] [--shard K/N] [-j J]
    python tests/conformance/run.py hpl
    python tests/conformance/run.py hpcc
    python tests/conformance/run.py programs [NAME ...]

Each suite has --help. Exit code 0: all as expected; 1: not; 2: could not run.
"""

from __future__ import annotations

import importlib
import signal
import sys

from bounded import end_children
from report import complain
from toolchain import SuiteError

from tbmpi.hpl.errors import HplError

SUITES = ("mpich", "mpi4py", "hpl", "hpcc", "programs")


def main(argv: list[str]) -> int:
    if not argv or argv[0] not in SUITES:
        print(__doc__)
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    suite = importlib.import_module(f"{argv[0]}.suite")
    # An ended run must not leave ranks behind, whoever ends it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return suite.main(argv[1:])
    except (SuiteError, HplError) as error:
        complain(f"{argv[0]}: {error}")
    except KeyboardInterrupt:
        end_children()
        complain(f"{argv[0]}: interrupted")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
