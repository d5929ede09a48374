# SPDX-License-Identifier: MIT
"""Runs tests of mpi4py's suite on one rank and logs each as it happens.

    rank.py TESTS --collect                 prints the names of all tests
    rank.py TESTS FILE... --log FOLDER      runs tests of these files

FOLDER/chosen has the tests to run and the seconds that each may take, in JSON. The
events go to FOLDER/PID, a JSON list a line: [event, test, more]. A test that takes
longer than it may ends the process, with a traceback of all threads. The exit code
is 0 whatever the tests found: another one means that the process ended badly.

Process pools import this file again under another name: nothing may run then.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_NOTE = 2000
BETWEEN_SECONDS = 60.0  # for start and end, and what is between two tests


class Journal:
    """The file of events. One write an event: what is written survives a crash."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        self._file = os.open(folder / str(os.getpid()), flags, 0o644)

    def __call__(self, event: str, test: str, more: object = "") -> None:
        line = json.dumps([event, test, str(more)[:LONGEST_NOTE]])
        os.write(self._file, (line + "\n").encode())


def reporter(
    journal: Journal, limits: dict[str, float]
) -> type[unittest.TextTestResult]:
    """A result class that keeps the journal and the time limits."""

    class Result(unittest.TextTestResult):
        def startTest(self, test: Any) -> None:
            limit = limits.get(test.id(), BETWEEN_SECONDS)
            faulthandler.dump_traceback_later(limit, exit=True)
            self._began = time.monotonic()
            journal("start", test.id())
            super().startTest(test)

        def stopTest(self, test: Any) -> None:
            journal("stop", test.id(), round(time.monotonic() - self._began, 3))
            super().stopTest(test)
            faulthandler.dump_traceback_later(BETWEEN_SECONDS, exit=True)

        def addSkip(self, test: Any, reason: str) -> None:
            journal("skip", test.id(), reason)
            super().addSkip(test, reason)

        def addFailure(self, test: Any, err: Any) -> None:
            journal("fail", test.id(), _said(err[1]))
            super().addFailure(test, err)

        def addError(self, test: Any, err: Any) -> None:
            journal("fail", test.id(), _said(err[1]))
            super().addError(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:
            journal("fail", test.id(), "unexpected success")
            super().addUnexpectedSuccess(test)

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                journal("fail", test.id(), _said(err[1]))
            super().addSubTest(test, subtest, err)

    return Result


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The tests of a suite, in their order."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def run(tests: Path, folder: Path, files: list[str]) -> None:
    """Runs the chosen tests through the suite's own main program."""
    journal = Journal(folder)
    chosen = json.loads((folder / "chosen").read_text())

    class Runner(unittest.TextTestRunner):
        resultclass = reporter(journal, chosen)

        def run(self, suite: Any) -> Any:
            from mpi4py import MPI

            journal("engine", MPI.__name__, MPI.Get_library_version())
            kept = [test for test in tests_of(suite) if test.id() in chosen]
            for test in kept:
                journal("test", test.id())
            return super().run(unittest.TestSuite(kept))

    unittest.TextTestRunner = unittest.runner.TextTestRunner = Runner  # type: ignore
    names = "|".join(files)
    sys.argv = [str(tests / "main.py"), "-v", "-i", rf"^({names})\.py$"]
    main = _suite_main(tests)
    faulthandler.dump_traceback_later(BETWEEN_SECONDS, exit=True)
    try:
        main.main(module=None)
    except SystemExit:
        # Its code says whether tests failed, which the journal says better.
        journal("end", "")


def collect(tests: Path) -> None:
    """Prints the names of all tests."""

    class Runner(unittest.TextTestRunner):
        def run(self, suite: Any) -> Any:
            sys.stdout.write("".join(f"{test.id()}\n" for test in tests_of(suite)))
            return super().run(unittest.TestSuite())

    unittest.TextTestRunner = unittest.runner.TextTestRunner = Runner  # type: ignore
    sys.argv = [str(tests / "main.py"), "-q"]
    try:
        _suite_main(tests).main(module=None)
    except SystemExit:
        sys.stdout.flush()


def _suite_main(tests: Path) -> Any:
    sys.path[0] = str(tests)
    os.chdir(tests)
    import main

    return main


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    if options.collect:
        collect(options.tests)
    else:
        run(options.tests, options.log, options.files)
