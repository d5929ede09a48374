# SPDX-License-Identifier: MIT
"""The MPI under test: its compiler wrapper and its launcher."""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tbmpi.hpl.obtain import cache_dir

ORACLE_PACKAGE = "mpich==5.0.2"


class SuiteError(Exception):
    """The suite could not be run at all; the text says why and what to do."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler wrapper and a launcher that belong together.

    `launcher` ends with the option that takes the number of ranks.
    """

    cc: str
    launcher: tuple[str, ...]

    def command(self, ranks: int, *program: str) -> list[str]:
        return [*self.launcher, str(ranks), *program]


def add_toolchain_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of suites that are compiled."""
    parser.add_argument(
        "--cc",
        metavar="WRAPPER",
        help="compiler wrapper of the MPI (default: tbmpicc)",
    )
    parser.add_argument(
        "--tarball", type=Path, help="source tarball to use, not fetched"
    )
    add_run_options(parser, "tbmpirun -n")


def add_run_options(parser: argparse.ArgumentParser, launcher: str) -> None:
    """Add the options that all suites share."""
    parser.add_argument(
        "--launcher",
        metavar="COMMAND",
        default=launcher,
        help="launcher, up to the option for the rank count (default: %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=cache_dir() / "conformance",
        help="folder for downloads, builds and logs (default: %(default)s)",
    )
    parser.add_argument(
        "--json", type=Path, help="where to write the result (default: cache)"
    )


def toolchain_from(options: argparse.Namespace) -> Toolchain:
    """Resolve --cc and --launcher to absolute paths, or raise SuiteError."""
    return Toolchain(
        cc=_executable(options.cc or "tbmpicc", "--cc"),
        launcher=launcher_from(options),
    )


def launcher_from(options: argparse.Namespace) -> tuple[str, ...]:
    """Resolve --launcher to an absolute path, or raise SuiteError."""
    launcher = shlex.split(options.launcher)
    if len(launcher) < 2:
        raise SuiteError(
            f"--launcher {options.launcher!r} must end with the option for "
            'the rank count, as in "mpiexec -n"'
        )
    return _executable(launcher[0], "--launcher"), *launcher[1:]


def oracle(cache: Path) -> Toolchain:
    """Return MPICH from PyPI, in a virtual environment of its own."""
    folder = cache / "oracle" / ORACLE_PACKAGE.replace("==", "-")
    python = folder / "bin" / "python"
    with exclusive(cache / "oracle" / "lock"):
        if not (folder / "bin" / "mpicc").exists():
            venv.create(folder, with_pip=True, clear=True)
            installed = subprocess.run(
                [python, "-m", "pip", "install", "-q", ORACLE_PACKAGE],
                capture_output=True,
                text=True,
                timeout=600,
            )
            if installed.returncode:
                raise SuiteError(
                    f"pip could not install {ORACLE_PACKAGE} to compare "
                    f"with: {installed.stderr.strip().splitlines()[-1]}"
                )
    return Toolchain(
        cc=str(folder / "bin" / "mpicc"),
        launcher=(str(folder / "bin" / "mpiexec"), "-n"),
    )


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, so that two runs share one build folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run to let go of {path}", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _executable(name: str, option: str) -> str:
    beside = Path(sys.executable).parent / name
    if os.sep not in name and beside.exists():
        return str(beside)
    found = shutil.which(name)
    if not found:
        raise SuiteError(
            f"{name} is neither beside {sys.executable} nor on PATH; "
            f"install tbmpi there or give {option}"
        )
    return str(Path(found).absolute())
