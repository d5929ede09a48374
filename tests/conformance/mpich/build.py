# SPDX-License-Identifier: MIT
"""Unpack, configure and compile MPICH's test/mpi for one MPI."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from toolchain import SuiteError, Toolchain

from tbmpi.hpl.build import compiler_fingerprint

CONFIGURE_LIMIT = 600
MAKE_LIMIT = 1800
# C only. Strict: the tests keep to what the standard defines, no extensions.
CONFIGURE_OPTIONS = (
    "--disable-fortran",
    "--disable-cxx",
    "--disable-romio",
    "--enable-strictmpi",
    "--enable-threads=multiple",
    "--disable-dependency-tracking",
    # Optimising coll/allred.c takes a compiler minutes.
    "CFLAGS=-O0",
)
# What tests call by names that later standards replaced, or the ABI has not.
RENAMED = {
    "MPIX_Delete_error_class": "MPI_Remove_error_class",
    "MPIX_Delete_error_code": "MPI_Remove_error_code",
    "MPIX_Delete_error_string": "MPI_Remove_error_string",
    "MPI_Fint": "int",
    "MPI_Message_c2f": "MPI_Message_toint",
    "MPI_Message_f2c": "MPI_Message_fromint",
    "PMPI_Message_c2f": "PMPI_Message_toint",
    "PMPI_Message_f2c": "PMPI_Message_fromint",
}


def build_name(version: str, cc: str) -> str:
    """Return the name of the folder to build in: what a build depends on."""
    recipe = repr((CONFIGURE_OPTIONS, RENAMED, compiler_fingerprint(cc)))
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    return f"mpich-{version}-{digest}"


def suite_version(tarball: Path) -> str:
    """Return the MPICH version in the tarball's name."""
    match = re.match(r"mpich[_-](\d[\d.]*\d)", tarball.name)
    if not match:
        raise SuiteError(f"{tarball.name} does not look like mpich_VERSION.orig.tar.xz")
    return match[1]


def prepare(tarball: Path, folder: Path, toolchain: Toolchain) -> Path:
    """Unpack, configure and build the helper libraries, once per folder.

    Returns the suite's top folder. A folder that an interrupted run left
    unfinished is made again.
    """
    suite = folder / "suite"
    ready = folder / "ready"
    if ready.exists():
        return suite
    shutil.rmtree(suite, ignore_errors=True)
    _unpack(tarball, suite)
    names = f"CPPFLAGS={_renames(toolchain.cc)}"
    _run(
        ["./configure", f"MPICC={toolchain.cc}", names, *CONFIGURE_OPTIONS],
        suite,
        folder / "configure.log",
        CONFIGURE_LIMIT,
    )
    for helper in ("dtpools", "util"):
        _run(["make"], suite / helper, folder / f"{helper}.log", MAKE_LIMIT)
    ready.touch()
    return suite


def compile_programs(suite: Path, folder: str, programs: Iterable[str]) -> None:
    """Compile what is missing of `programs`; go on where one fails."""
    missing = [name for name in programs if not (suite / folder / name).exists()]
    if missing:
        subprocess.run(
            ["make", "-k", f"-j{os.cpu_count() or 1}", *missing],
            cwd=suite / folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=MAKE_LIMIT,
        )


def why_missing(suite: Path, folder: str, program: str) -> str:
    """Return what make says about a program that could not be built."""
    made = subprocess.run(
        ["make", program],
        cwd=suite / folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=MAKE_LIMIT,
    )
    return made.stdout


def _renames(cc: str) -> str:
    """Return options that give old names a meaning where mpi.h has only new ones."""
    header = subprocess.run(
        [cc, "-E", "-P", "-xc", "-"],
        input="#include <mpi.h>\n",
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    declared = set(re.findall(r"\w+", header)) | {"int"}
    return " ".join(
        f"-D{old}={new}"
        for old, new in RENAMED.items()
        if old not in declared and new in declared
    )


def _unpack(tarball: Path, suite: Path) -> None:
    """Unpack test/mpi alone, with its time stamps.

    Without them make would want to run the autotools again.
    """
    pattern = re.compile(r"[^/]+/test/mpi/(.+)")
    with tarfile.open(tarball) as archive:
        members = []
        for member in archive:
            match = pattern.fullmatch(member.name)
            if match:
                member.name = match[1]
                members.append(member)
        if not members:
            raise SuiteError(f"{tarball} has no folder test/mpi")
        archive.extractall(suite, members, filter="data")


def _run(argv: list[str], cwd: Path, log: Path, limit: float) -> None:
    with log.open("wb") as sink:
        try:
            done = subprocess.run(
                argv,
                cwd=cwd,
                # Some configure tests grep messages of the compiler.
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            raise SuiteError(f"{argv[0]} did not end in {limit} s in {cwd}") from None
    if done.returncode:
        tail = log.read_text(errors="replace").splitlines()[-3:]
        raise SuiteError(f"{argv[0]} failed in {cwd}: {' | '.join(tail)} (log: {log})")
