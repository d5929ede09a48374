# SPDX-License-Identifier: MIT
"""Find the BLAS to link HPL with, by linking a program that calls it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tbmpi.hpl.errors import HplError

# Fortran names: both libraries have them, and HPL needs nothing else of BLAS.
PROBE = "void dgemm_(void); int main(void) { dgemm_(); return 0; }\n"


@dataclass(frozen=True)
class Blas:
    """A BLAS: its name, linker options, and variables that set its threads."""

    name: str
    link: tuple[str, ...]
    thread_variables: tuple[str, ...]


ACCELERATE = Blas(
    "Accelerate", ("-framework", "Accelerate"), ("VECLIB_MAXIMUM_THREADS",)
)
OPENBLAS = Blas(
    "OpenBLAS", ("-lopenblas",), ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
)


def find_blas(cc: str, options: str | None = None) -> Blas:
    """Return the BLAS to use: the user's linker `options`, else the best here.

    Accelerate on macOS, OpenBLAS elsewhere. Raises HplError with the package
    to install.
    """
    if options:
        blas = Blas("user's choice", tuple(shlex.split(options)), (
            *OPENBLAS.thread_variables, "BLIS_NUM_THREADS", "MKL_NUM_THREADS",
        ))  # fmt: skip
        remedy = f"--blas={options!r} gives no dgemm"
    elif sys.platform == "darwin":
        blas = ACCELERATE
        remedy = "install Apple's command line tools: xcode-select --install"
    else:
        blas = OPENBLAS
        remedy = (
            "install OpenBLAS (Debian, Ubuntu: apt-get install libopenblas-dev; "
            "Fedora: dnf install openblas-devel) or name another BLAS with "
            "--blas, as in --blas='-L/opt/blis/lib -lblis'"
        )
    complaint = _link_error(cc, blas.link)
    if complaint:
        raise HplError(f"no BLAS found: {remedy} (the linker: {complaint})")
    return blas


def _link_error(cc: str, link: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(PROBE)
        try:
            linked = subprocess.run(
                [cc, str(source), "-o", f"{folder}/probe", *link, "-lm"],
                capture_output=True,
                text=True,
                timeout=120,
            )
        except FileNotFoundError:
            raise HplError(f"the compiler wrapper {cc} does not exist") from None
    if linked.returncode == 0:
        return ""
    lines = linked.stderr.strip().splitlines()
    said = [line for line in lines if "cannot find" in line or "undefined" in line]
    return (said or lines or ["no message"])[0]
