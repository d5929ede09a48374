# SPDX-License-Identifier: MIT
"""mpi4py from PyPI: its tests, its Python part, or all of it, built for an MPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from bounded import run_bounded
from toolchain import SuiteError

from tbmpi.hpl.build import compiler_fingerprint

VERSION = "4.1.2"
REQUIREMENT = f"mpi4py=={VERSION}"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
DOWNLOAD_SECONDS = 600
BUILD_SECONDS = 1800


def sdist(cache: Path) -> Path:
    """The source archive, fetched once."""
    kept = cache / f"mpi4py-{VERSION}.tar.gz"
    if not kept.exists():
        source = ("--no-deps", "--no-binary", "mpi4py", REQUIREMENT)
        arrivals = cache / "arrivals"
        _pip(["download", "--dest", arrivals, *source], cache, DOWNLOAD_SECONDS)
        (arrivals / kept.name).rename(kept)
    return kept


def tests(tarball: Path, cache: Path) -> Path:
    """The folder with the suite, unpacked from the source archive."""
    folder = cache / f"tests-{_digest(tarball)}"
    if not folder.exists():
        draft = folder.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)
        with tarfile.open(tarball) as archive:
            inside = f"mpi4py-{VERSION}/test/"
            members = [member for member in archive if member.name.startswith(inside)]
            archive.extractall(draft, members, filter="data")
        if not (draft / inside / "main.py").exists():
            raise SuiteError(f"{tarball} has no {inside}main.py")
        (draft / inside).rename(folder)
        shutil.rmtree(draft)
    return folder


def package(cache: Path) -> Path:
    """A folder for PYTHONPATH with the published mpi4py, whose MPI is replaced."""
    folder = cache / f"package-{VERSION}"
    if not folder.exists():
        draft = folder.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)
        wheel = ("--no-deps", "--only-binary", "mpi4py", REQUIREMENT)
        _pip(["install", "--target", draft, *wheel], cache, DOWNLOAD_SECONDS)
        draft.rename(folder)
    return folder


def built(tarball: Path, cc: str, cache: Path) -> Path:
    """The Python of an environment with mpi4py built by the wrapper `cc`."""
    name = f"{_digest(tarball)}-{compiler_fingerprint(cc)}"
    folder = cache / f"built-{name}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder)
        # Without pip's cache: its wheel may be for another MPI.
        words = ("install", "--no-cache-dir", tarball, "numpy", "cffi")
        env = {**os.environ, "MPICC": cc, "MPI4PY_BUILD_MPIABI": "1"}
        _pip(["--python", python, *words], cache, BUILD_SECONDS, env)
        ready.touch()
    return python


def _pip(
    words: Sequence[str | Path],
    cache: Path,
    limit: float,
    env: Mapping[str, str] | None = None,
) -> None:
    log = cache / "pip.log"
    argv = [*PIP, *map(str, words)]
    try:
        outcome = run_bounded(argv, cwd=cache, log=log, limit=limit, env=env)
    except subprocess.SubprocessError as error:
        raise SuiteError(f"pip could not be run: {error}") from None
    if outcome.code != 0:
        lines = [line for line in outcome.output.splitlines() if line.strip()]
        said = [line for line in lines if "rror" in line] or lines or ["no output"]
        raise SuiteError(f"pip could not get {REQUIREMENT}: {said[-1]} (log: {log})")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
