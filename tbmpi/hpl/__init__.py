# SPDX-License-Identifier: MIT
"""High-Performance Linpack on tbmpi: obtain, build, plan, run, read results."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tbmpi hpl` and return its exit code."""
    # Loaded here: only the command needs the terminal library.
    from tbmpi.hpl.cli import main as run

    return run(sys.argv[1:] if argv is None else argv)
