# SPDX-License-Identifier: MIT
"""The surface is the MPI 5.0 standard ABI: nothing less, nothing more.

The other opinion is mpi_abi.h of the mpich wheel on PyPI. The library is the
installed package's, or the file that TBMPI_LIB names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "csrc/include/mpi.h"
REFERENCE_PACKAGE = "mpich==5.0.2"

# The standard has these two with int and large counts; the reference header
# has the large-count form under the small name.
PARTITIONED = {"Psend_init", "Precv_init", "Psend_init_c", "Precv_init_c"}

# Macros of the headers' own making.
NO_CONSTANTS = {"MPI_H_ABI", "MPI_ABI_Aint", "MPI_ABI_Offset", "MPI_ABI_Count"}

COMPILERS = [
    (cc, std)
    for cc, std in (
        ("gcc", "c11"),
        ("g++", "c++17"),
        ("clang", "c11"),
        ("clang++", "c++17"),
    )
    if shutil.which(cc)
]


def run(*command: str | Path, **options: object) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def cache_folder() -> Path:
    """Where the reference wheel is kept."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "tbmpi/abi"
    return Path.home() / ".cache/tbmpi/abi"


@pytest.fixture(scope="session")
def reference() -> Path:
    """mpi_abi.h of another implementation."""
    folder = cache_folder()
    stem = REFERENCE_PACKAGE.replace("==", "-")
    header = folder / stem / "mpi_abi.h"
    if not header.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        run(*pip, "--dest", folder, REFERENCE_PACKAGE)
        (wheel,) = folder.glob(f"{stem}-*.whl")
        header.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith("/mpi_abi.h"))
            part = header.with_suffix(f".{os.getpid()}")
            part.write_bytes(archive.read(name))
        part.rename(header)
        wheel.unlink()
    return header


@pytest.fixture(scope="session")
def library() -> Path:
    """The built library."""
    if os.environ.get("TBMPI_LIB"):
        path = Path(os.environ["TBMPI_LIB"])
    else:
        from tbmpi import _paths

        path = _paths.library()
    assert path.exists(), f"{path} is not there: build it, or set TBMPI_LIB"
    return path


@cache
def code(header: Path) -> str:
    """A header without comments and continued lines."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return text.replace("\\\n", " ")


def parameter_type(text: str) -> str:
    """A parameter's type: no name, arrays as the pointers that they are."""
    text = " ".join(text.replace("*", " * ").split())
    array = re.fullmatch(r"(.*?)((?:\[\d*\] ?)*)", text)
    words = array[1].split()
    if len(words) > 1 and words[-1] not in ("*", "int", "void"):
        words.pop()
    first, *others = re.findall(r"\[\d*\]", array[2]) or [None]
    return " ".join(words) + (" *" if first else "") + "".join(others)


def prototypes(header: Path) -> dict[str, tuple[str, ...]]:
    """Result and parameter types by function name."""
    pattern = r"^([A-Za-z_][\w ]*?[ *]+)(P?MPI_\w+)\s*\(([^()]*)\)\s*;"
    out = {}
    for result, name, inside in re.findall(pattern, code(header), re.MULTILINE):
        if not result.startswith("typedef"):
            types = [parameter_type(p) for p in inside.split(",")]
            out[name] = (" ".join(result.split()), *types)
    return out


def callbacks(header: Path) -> dict[str, tuple[str, ...]]:
    """Result and parameter types of the callback types."""
    pattern = r"^typedef (\w+)\s*\(?\s*(MPI_\w+)\s*\)?\s*\(([^()]*)\)\s*;"
    found = re.findall(pattern, code(header), re.MULTILINE)
    return {
        name: (result, *(parameter_type(p) for p in inside.split(",")))
        for result, name, inside in found
    }


def constants(header: Path) -> dict[str, str]:
    """Names of constants, and the type that a macro casts its value to."""
    text = code(header)
    out = {}
    for name, value in re.findall(
        r"^#define (MPI_\w+)[ \t]+(\S.*)$", text, re.MULTILINE
    ):
        cast = re.match(r"\(\((.*?)\)", value)
        out[name] = cast[1].replace(" ", "") if cast else ""
    for body in re.findall(r"\benum\b[^{;]*\{(.*?)\}", text, re.DOTALL):
        out |= dict.fromkeys(re.findall(r"\b(MPI_\w+)\s*=", body), "enum")
    return {name: cast for name, cast in out.items() if name not in NO_CONSTANTS}


def values(header: Path, names: list[str], folder: Path) -> dict[str, int]:
    """What the compiler makes of constants and of the layout of types."""
    sizes = ["MPI_Aint", "MPI_Count", "MPI_Offset", "MPI_Status", "MPI_Comm"]
    fields = ["MPI_SOURCE", "MPI_TAG", "MPI_ERROR", "MPI_internal"]
    rows = [f'{{"{n}", (long long)(intptr_t){n}}},' for n in names]
    rows += [f'{{"sizeof {t}", sizeof({t})}},' for t in sizes]
    rows += [f'{{"alignof {t}", _Alignof({t})}},' for t in sizes]
    rows += [f'{{"offsetof {f}", offsetof(MPI_Status, {f})}},' for f in fields]
    program = folder / f"{header.stem}_values.c"
    program.write_text(
        f'#include "{header}"\n#include <stddef.h>\n#include <stdio.h>\n'
        "static const struct { const char *name; long long value; } all[] = {\n"
        + "\n".join(rows)
        + "\n};\nint main(void)\n{\n"
        "    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)\n"
        '        printf("%s=%lld\\n", all[k].name, all[k].value);\n'
        "    return 0;\n}\n"
    )
    binary = program.with_suffix("")
    run("cc", "-std=c11", program, "-o", binary)
    pairs = (line.rsplit("=", 1) for line in run(binary).splitlines())
    return {name: int(value) for name, value in pairs}


def exported(path: Path) -> set[str]:
    """Names that a shared library defines for others."""
    if sys.platform == "darwin":
        rows = run("nm", "-gU", path).splitlines()
        return {row.split()[-1].removeprefix("_") for row in rows if row}
    rows = run("nm", "-D", "--defined-only", path).splitlines()
    return {row.split()[-1].split("@")[0] for row in rows}


def listed() -> set[str]:
    """Names that shall be exported."""
    return set((ROOT / "csrc/gen/exports.txt").read_text().split())


def test_generated_files_are_current() -> None:
    run(sys.executable, ROOT / "tools/bindgen", "--check")


def test_number_of_functions() -> None:
    surface = json.loads((ROOT / "tbmpi/_gen/surface.json").read_text())
    names = prototypes(HEADER)
    assert len(surface) == 503
    assert sum(n.startswith("MPI_") for n in names) == 664
    assert sum(n.startswith("PMPI_") for n in names) == 664
    assert listed() == set(names)


def test_prototypes_equal_the_reference(reference: Path) -> None:
    skip = {f"{p}MPI_{n}" for n in PARTITIONED for p in ("", "P")}
    ours, theirs = prototypes(HEADER), prototypes(reference)
    ours = {n: t for n, t in ours.items() if n not in skip}
    theirs = {n: t for n, t in theirs.items() if n not in skip}
    assert ours == theirs


@pytest.mark.parametrize("name", ["Psend_init", "Precv_init"])
def test_partitioned_prototypes(reference: Path, name: str) -> None:
    ours = prototypes(HEADER)
    theirs = prototypes(reference)[f"MPI_{name}"]
    small = [t.replace("MPI_Count", "int") for t in theirs]
    assert ours[f"MPI_{name}_c"] == ours[f"PMPI_{name}_c"] == theirs
    assert ours[f"MPI_{name}"] == ours[f"PMPI_{name}"] == tuple(small)


def test_profiling_prototypes_are_twins() -> None:
    names = prototypes(HEADER)
    for name, types in names.items():
        if name.startswith("MPI_"):
            assert names["P" + name] == types


def test_callbacks_equal_the_reference(reference: Path) -> None:
    assert len(callbacks(HEADER)) == 23
    assert callbacks(HEADER) == callbacks(reference)


def test_constants_equal_the_reference(reference: Path, tmp_path: Path) -> None:
    ours, theirs = constants(HEADER), constants(reference)
    assert len(ours) > 300
    assert ours == theirs
    names = sorted(ours)
    assert values(HEADER, names, tmp_path) == values(reference, names, tmp_path)


def test_library_exports_the_surface(library: Path) -> None:
    found = exported(library)
    assert len(listed()) == 2 * 664
    assert found - listed() == set(), "exported but not in the ABI"
    assert listed() - found == set(), "in the ABI but not exported"


@pytest.mark.parametrize(("compiler", "standard"), COMPILERS)
def test_header_compiles(compiler: str, standard: str, tmp_path: Path) -> None:
    source = tmp_path / ("x.cpp" if "++" in standard else "x.c")
    source.write_text('#include "mpi.h"\n#include "tbmpi.h"\n#include "mpi.h"\n')
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{HEADER.parent}"]
    run(compiler, f"-std={standard}", *flags, "-c", source, "-o", tmp_path / "x.o")


@pytest.mark.parametrize(("compiler", "standard"), COMPILERS)
def test_removed_names_cost_no_symbol(
    compiler: str, standard: str, tmp_path: Path
) -> None:
    source = tmp_path / ("x.cpp" if "++" in standard else "x.c")
    source.write_text(
        '#include "mpi.h"\n'
        "int main() { MPI_Aint a; MPI_Datatype t; int n = 1;\n"
        "  MPI_Address(&n, &a); MPI_Type_extent(MPI_INT, &a);\n"
        "  MPI_Type_lb(MPI_INT, &a); MPI_Type_ub(MPI_INT, &a);\n"
        "  MPI_Type_hvector(1, 1, 8, MPI_INT, &t);\n"
        "  return MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN); }\n"
    )
    binary = tmp_path / "x.o"
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}", "-c", "-o", binary]
    run(compiler, f"-std={standard}", *flags, source)
    rows = run("nm", "-u", binary).splitlines()
    used = {row.split()[-1].lstrip("_") for row in rows if "MPI_" in row}
    assert used == {
        "MPI_Get_address",
        "MPI_Type_get_extent",
        "MPI_Type_create_hvector",
        "MPI_Comm_set_errhandler",
    }


def test_library_never_calls_a_public_name() -> None:
    call = re.compile(r"\bP?MPI_[A-Z][a-z]\w*\s*\(")
    quoted = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
    # The MLX shim and Python's extension are programs like any other, in front
    # of the library.
    sources = [
        path
        for path in (ROOT / "csrc").rglob("*.[ch]")
        if path.parent.name not in ("gen", "include", "api", "mlx", "python")
    ]
    assert sources
    for path in sources:
        assert not call.findall(quoted.sub("", path.read_text())), path


def test_python_declares_the_large_forms() -> None:
    pattern = r"^(?!typedef)\w[\w ]*?[ *]+(MPI_\w+)\("
    text = (ROOT / "tbmpi/_gen/mpi.cdef").read_text()
    names = set(re.findall(pattern, text, re.MULTILINE))
    every = {name for name in listed() if name.startswith("MPI_")}
    twins = {name for name in every if name + "_c" in every}
    assert names == every - twins
