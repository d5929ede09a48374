# SPDX-License-Identifier: MIT
"""Compile HPL with a compiler wrapper and a BLAS."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from tbmpi.hpl.blas import Blas
from tbmpi.hpl.errors import HplError
from tbmpi.hpl.obtain import Source, as_program, unpack

ARCH = "tbmpi"
MAKE_SECONDS = 900
# hpcc's HPL is a function; HPCC_Defaults is what it calls after bad input.
DRIVER = """\
#include <stdio.h>
#include "hpl.h"

void HPCC_Defaults(void)
{
    fprintf(stderr, "HPL.dat cannot be used\\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    HPL_RuntimeData data;
    int failure = 0;

    MPI_Init(&argc, &argv);
    HPL_main(argc, argv, &data, &failure);
    MPI_Finalize();
    return failure ? 1 : 0;
}
"""


def make_file(top: str, cc: str, blas: Blas, arch: str = ARCH) -> str:
    """Return HPL's Make.<arch> for a tree at `top`."""
    values = {
        "SHELL": "/bin/sh",
        "CD": "cd",
        "CP": "cp",
        "LN_S": "ln -fs",
        "MKDIR": "mkdir -p",
        "RM": "/bin/rm -f",
        "TOUCH": "touch",
        "ARCH": arch,
        "TOPdir": top,
        "INCdir": "$(TOPdir)/include",
        "BINdir": "$(TOPdir)/bin/$(ARCH)",
        "LIBdir": "$(TOPdir)/lib/$(ARCH)",
        "HPLlib": "$(LIBdir)/libhpl.a",
        "LAlib": " ".join(blas.link),
        "F2CDEFS": "-DAdd_ -DF77_INTEGER=int -DStringSunStyle",
        "HPL_INCLUDES": "-I$(INCdir) -I$(INCdir)/$(ARCH)",
        "HPL_LIBS": "$(HPLlib) $(LAlib) -lm",
        "HPL_OPTS": "-DHPL_PROGRESS_REPORT",
        "HPL_DEFS": "$(F2CDEFS) $(HPL_OPTS) $(HPL_INCLUDES)",
        "CC": cc,
        "CCNOOPT": "$(HPL_DEFS) -w",
        "CCFLAGS": "$(HPL_DEFS) -O3 -w",
        "LINKER": "$(CC)",
        "LINKFLAGS": "$(CCFLAGS)",
        "ARCHIVER": "ar",
        "ARFLAGS": "cr",
        "RANLIB": "ranlib",
    }
    return "".join(f"{name:12} = {value}\n" for name, value in values.items())


def build_xhpl(origin: Path, folder: Path, cc: str, blas: Blas) -> Path:
    """Return the program xhpl, built from `origin` below `folder` if need be.

    The build is kept by its sources, compile line and BLAS; one run at a time
    builds. Raises HplError.
    """
    if any(char.isspace() for char in str(folder.resolve())):
        raise HplError(f"HPL cannot be built in a path with spaces: {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = folder / _build_name(origin, cc, blas)
        program = place / "xhpl"
        if not program.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            _build(unpack(origin, place), place, cc, blas)
    return program


def _build(source: Source, place: Path, cc: str, blas: Blas) -> None:
    tree = source.tree
    if source.inside_hpcc:
        as_program(tree)
    (tree / f"Make.{ARCH}").write_text(make_file(str(tree.resolve()), cc, blas))
    log = place / "build.log"
    # In this order, one by one: HPL's make files do not say what needs what.
    for target in ("startup", "refresh", "build"):
        _make(["make", f"arch={ARCH}", f"-j{os.cpu_count() or 1}", target], tree, log)
    if source.inside_hpcc:
        driver = place / "driver.c"
        driver.write_text(DRIVER)
        library = tree / "lib" / ARCH / "libhpl.a"
        include = f"-I{tree / 'include'}"
        link = [str(library), *blas.link, "-lm"]
        command = [cc, "-w", "-O3", include, str(driver), "-o", "xhpl.part", *link]
        _make(command, place, log)
    else:
        shutil.copy2(tree / "bin" / ARCH / "xhpl", place / "xhpl.part")
    (place / "xhpl.part").rename(place / "xhpl")


def _make(command: list[str], cwd: Path, log: Path) -> None:
    with log.open("ab") as sink:
        try:
            made = subprocess.run(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                timeout=MAKE_SECONDS,
            )
        except FileNotFoundError:
            raise HplError(f"{command[0]} is not installed, HPL needs it") from None
        except subprocess.TimeoutExpired:
            raise HplError(f"building HPL took over {MAKE_SECONDS} s") from None
    if made.returncode:
        lines = log.read_text(errors="replace").splitlines()
        wrong = [line for line in lines if "rror" in line] or lines
        raise HplError(
            f"building HPL failed: {wrong[0] if wrong else shlex.join(command)} "
            f"(all of it: {log})"
        )


def _build_name(origin: Path, cc: str, blas: Blas) -> str:
    parts = [
        str(origin.resolve()),
        str(origin.stat().st_mtime_ns),
        compiler_fingerprint(cc),
        *blas.link,
    ]
    return "xhpl-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def compiler_fingerprint(cc: str) -> str:
    """Return what a program built with the wrapper `cc` depends on, as a digest.

    That is the compile line and the meaning of mpi.h, not the library file: a
    rebuilt library needs no rebuilt programs. Raises HplError.
    """
    try:
        said = subprocess.run(
            [cc, "-show"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        said += subprocess.run(
            [cc, "-E", "-P", "-dD", "-x", "c", "-"],
            input="#include <mpi.h>\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no message"]
        raise HplError(f"the compiler wrapper {cc} does not work: {lines[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HplError(f"the compiler wrapper {cc} does not work: {error}") from None
    return hashlib.sha256(said.encode()).hexdigest()[:12]
