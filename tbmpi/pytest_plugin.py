# SPDX-License-Identifier: MIT
"""pytest plugin: tests that pytest-mpi runs under tbmpirun.

    tbmpirun -n 4 python -m pytest --only-mpi

pytest-mpi asks mpi4py for the communicator. Under tbmpirun, or where mpi4py is not
installed, it and the tests get tbmpi under that name. A test that takes too long
ends the job with a traceback of every thread: a rank that failed leaves the others
waiting for it, and a rank that waits in MPI is deaf to signals. The limit is that of
``@pytest.mark.mpi_timeout(seconds)``, else of ``--mpi-timeout``, else of mpi_timeout
in pytest's configuration, else 60 seconds; 0 is none.

Without --with-mpi or --only-mpi the plugin does nothing; ``-p no:tbmpi`` leaves it
out.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import os
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

DEFAULT_LIMIT = 60.0
TIME_IS_UP = 124  # exit code, as after tbmpirun --timeout


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and settings."""
    text = "seconds that a test on several ranks may take (60); 0: any time"
    group = parser.getgroup("tbmpi", "tests on several ranks")
    group.addoption("--mpi-timeout", type=float, metavar="SECONDS", help=text)
    parser.addini("mpi_timeout", text)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Starts to work if pytest-mpi does."""
    config.addinivalue_line(
        "markers", "mpi_timeout(seconds): how long a test may take on several ranks"
    )
    options = [config.getoption(name, False) for name in ("with_mpi", "only_mpi")]
    if not any(options):
        return
    if "TBMPI_RANK" in os.environ or importlib.util.find_spec("mpi4py") is None:
        from tbmpi import as_mpi4py

        try:
            as_mpi4py.install()
        except RuntimeError as error:
            raise pytest.UsageError(f"tbmpi's pytest plugin: {error}") from None
    config.pluginmanager.register(_Limits(_limit(config)), "tbmpi-limits")


def _limit(config: pytest.Config) -> float:
    chosen = config.getoption("mpi_timeout")
    text = config.getini("mpi_timeout")
    if chosen is None and text:
        try:
            chosen = float(text)
        except ValueError:
            raise pytest.UsageError(
                f"mpi_timeout is a number of seconds, not {text!r}"
            ) from None
    return DEFAULT_LIMIT if chosen is None else chosen


class _Limits:
    """Ends the process when a test takes too long."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        # While a test runs, standard error is pytest's own.
        self._stderr = os.dup(2)
        rank, size = os.environ.get("TBMPI_RANK"), os.environ.get("TBMPI_SIZE")
        who = f"rank {rank} of {size}" if rank else "this process"
        self._who = f"{who} on {socket.gethostname()}"

    def pytest_unconfigure(self) -> None:
        """The end."""
        os.close(self._stderr)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A rank that failed does not wait in MPI_Finalize for the others."""
        life = sys.modules.get("tbmpi._life")
        if life is not None:
            life._note_exit(int(exitstatus))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watches a test with all that belongs to it."""
        mark = item.get_closest_marker("mpi_timeout")
        limit = float(mark.args[0]) if mark else self._limit
        if limit <= 0:
            return (yield)
        timer = threading.Timer(limit, self._end, [item.nodeid, limit])
        timer.daemon = True
        timer.start()
        try:
            return (yield)
        finally:
            timer.cancel()

    def _end(self, test: str, limit: float) -> None:
        text = f"\n{self._who}: {test} has taken longer than {limit:g} s\n"
        os.write(self._stderr, text.encode())
        faulthandler.dump_traceback(self._stderr)
        with contextlib.suppress(OSError, ValueError):
            sys.__stdout__.flush()  # type: ignore[union-attr]
        os._exit(TIME_IS_UP)
