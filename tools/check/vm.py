# SPDX-License-Identifier: MIT
"""The transport on Linux's own provider, Soft-RoCE, in a virtual machine."""

from __future__ import annotations

import re

import native
from report import Outcome, Trouble
from run import ROOT, Runner

SUITE = "tests/vm/suite.py"
LINE = re.compile(r"^(?:FAILED|skipped) ?\w*: .*$", re.MULTILINE)
COUNT = re.compile(r"^vm: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def vm(runner: Runner) -> Outcome:
    """All checks in one guest; skipped, and said why, where there can be none."""
    folder = ROOT / "build" / "test"
    native.build(runner, folder)
    done = runner.python(SUITE, "--build", folder)
    found = COUNT.search(done.output)
    if not found:
        raise Trouble(f"{SUITE}: {done.why()}")
    passed, failed, skipped = (int(number) for number in found.groups())
    return Outcome(passed, failed, skipped, LINE.findall(done.output))
