# SPDX-License-Identifier: MIT
"""Benchmarks: our own figures, and fair comparisons with other libraries.

The C programme in `src` is built with every library's compiler wrapper; see
docs/benchmarks.md for the method.
"""

from __future__ import annotations

from tbmpi.bench.cli import main

__all__ = ["main"]
