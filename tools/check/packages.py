# SPDX-License-Identifier: MIT
"""The wheel in environments of its own, and the cross-compilation for macOS."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

from report import Outcome, Trouble, one
from run import ROOT, WORK, Runner

OTHER = "mpich==5.0.2"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
TARGET = "aarch64-macos.14.0"
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")
HELLO = """
#include <mpi.h>
#include <stdio.h>
int main(void)
{
    int rank, size, sum;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, sum %d\\n", size, sum);
    MPI_Finalize();
    return 0;
}
"""
SAYS = "2 ranks, sum 1"
# The folders of csrc that libmpi_abi is made of; the others are compiled as well.
LIBRARY = ("base", "net", "engine", "mpi", "coll", "rma", "gen")
PYTHON = (
    "from tbmpi import MPI, COMM_WORLD as c; s = c.allreduce(c.rank); "
    "v = MPI.get_vendor()[0]; c.rank or print(f'{c.size} ranks, sum {s}', v)"
)


# ----------------------------------------------------------------------- wheel


def wheel(runner: Runner) -> Outcome:
    """The wheel alone, and before and after another MPI in one environment."""
    folder = runner.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "hello.c").write_text(HELLO)
    # Without isolation, for what it would install is here; it then finds most
    # of the library built already.
    build = ("wheel", "--quiet", "--no-build-isolation", "--no-deps")
    runner.must(*PIP, *build, "--wheel-dir", folder, ROOT)
    wheels = list(folder.glob("tbmpi-*.whl"))
    if len(wheels) != 1:
        raise Trouble(f"expected one wheel in {folder}, found {len(wheels)}")
    ours = str(wheels[0])
    total = one("-cp311-abi3-" in ours, f"{wheels[0].name} is not an abi3 wheel")
    alone = Environment(runner, folder / "alone", ours)
    total += alone.check_ours("alone")
    for order in ((ours, OTHER), (OTHER, ours)):
        label = "tbmpi, then mpich" if order[0] == ours else "mpich, then tbmpi"
        both = Environment(
            runner, folder / label.replace(", ", "-").replace(" ", "-"), *order
        )
        total += both.check_ours(label) + both.check_other(label)
        first = "tbmpi" if order[0] == OTHER else "mpich"
        both.pip("uninstall", "--yes", first)
        label += f", {first} removed"
        total += both.check_other(label) if first == "tbmpi" else both.check_ours(label)
    return total


class Environment:
    """A virtual environment with some packages."""

    def __init__(self, runner: Runner, folder: Path, *packages: str) -> None:
        self._runner = runner
        self._folder = folder
        self._bin = folder / "bin"
        venv.create(folder)
        for package in packages:
            self.pip("install", "--quiet", package)

    def pip(self, *words: str) -> None:
        """Installs into the environment, or removes from it."""
        self._runner.must(*PIP, "--python", self._bin / "python", *words)

    def _run(self, *words: str | Path) -> str:
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "PYTHONSAFEPATH": "1"}
        done = self._runner.run(*words, env=env, limit=60, cwd=self._folder)
        return done.output if done.good else f"exit code {done.code}: {done.why()}"

    def check_ours(self, label: str) -> Outcome:
        """tbmpicc, tbmpirun and the Python package do what they should."""
        source, program = self._folder.parent / "hello.c", self._folder / "hello"
        self._run(self._bin / "tbmpicc", source, "-o", program)
        launch = (self._bin / "tbmpirun", "-n", "2")
        said = self._run(*launch, program)
        spoke = self._run(*launch, self._bin / "python", "-c", PYTHON)
        told = self._run(self._bin / "tbmpi", "info")
        return (
            one(SAYS in said, f"{label}: the C program: {said.strip()[-160:]}")
            + one(f"{SAYS} tbmpi" in spoke, f"{label}: Python: {spoke.strip()[-160:]}")
            + one("operations" in told, f"{label}: tbmpi info: {told.strip()[-160:]}")
        )

    def check_other(self, label: str) -> Outcome:
        """MPICH's commands still are MPICH's."""
        source, program = self._folder.parent / "hello.c", self._folder / "hello-mpich"
        self._run(self._bin / "mpicc", source, "-o", program)
        said = self._run(self._bin / "mpiexec", "-n", "2", program)
        return one(SAYS in said, f"{label}: MPICH: {said.strip()[-160:]}")


# ----------------------------------------------------------------------- macOS


def macos(runner: Runner) -> Outcome:
    """All of csrc and the extension modules, compiled and linked for a Mac.

    Nothing is run: this machine is none.
    """
    compiler = zig(runner)
    compile_one = (
        *compiler,
        "cc",
        "-target",
        TARGET,
        *WARNINGS,
        "-O2",
        "-fvisibility=hidden",
    )
    include = ("-I", ROOT / "csrc", "-I", ROOT / "csrc/include", '-DTB_VERSION="0"')
    total, objects, made = Outcome(), [], {}
    for source in sorted((ROOT / "csrc").rglob("*.c")):
        if source.parent.name == "python":
            continue  # see _extensions
        target = runner.folder / (
            source.relative_to(ROOT).as_posix().replace("/", "_") + ".o"
        )
        done = runner.run(*compile_one, *include, "-c", source, "-o", target)
        total += one(done.good, f"{source.relative_to(ROOT)}: {done.why()}")
        made.setdefault(source.parent.name, []).append(target)
        if source.parent.name in LIBRARY:
            objects.append(target)
    if total.failed:
        return total
    library = runner.folder / "libmpi_abi.1.dylib"
    name = ("-install_name", "@rpath/libmpi_abi.1.dylib")
    done = runner.run(
        *compiler, "cc", "-target", TARGET, "-shared", *name, *objects, "-o", library
    )
    total += one(done.good, f"the library does not link: {done.why()}")
    if done.good:
        total += _read_back(runner, library)
        shim = runner.folder / "csrc_mlx_shim.c.o"
        front = ("-shared", shim, library, "-o", runner.folder / "libtbmpi_mlx.dylib")
        done = runner.run(*compiler, "cc", "-target", TARGET, *front)
        total += one(done.good, f"libtbmpi_mlx does not link: {done.why()}")
    for program in ("router", "selftest"):
        parts = (*made[program], *made["net"], *made["base"])
        target = runner.folder / program
        done = runner.run(*compiler, "cc", "-target", TARGET, *parts, "-o", target)
        total += one(done.good, f"tbmpi-{program} does not link: {done.why()}")
    return total + _extensions(runner, compiler)


def zig(runner: Runner) -> tuple[str | Path, ...]:
    """A cross-compiler, in an environment that the groups share."""
    folder = WORK / "zig"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder)
        runner.must(*PIP, "--python", python, "install", "--quiet", "ziglang", "lief")
        (folder / ".ready").touch()
    return python, "-m", "ziglang"


READ_BACK = """
import lief, sys
binary = lief.MachO.parse(sys.argv[1]).at(0)
wanted = set(open(sys.argv[2]).read().split())
have = {symbol.name.removeprefix("_") for symbol in binary.exported_symbols}
have -= {"__dso_handle", "_mh_dylib_header"}  # zig's linker adds these
name = [c.name for c in binary.commands if c.command.name == "ID_DYLIB"]
print("install name:", *name)
print("architecture:", binary.header.cpu_type.name)
print("exports:", "same" if have == wanted else f"{len(have ^ wanted)} differ, such as "
      + ", ".join(sorted(have ^ wanted)[:4]))
print("signature:", "yes" if binary.has_code_signature else "no")
"""
EXPECTED = (
    "install name: @rpath/libmpi_abi.1.dylib",
    "architecture: ARM64",
    "exports: same",
    "signature: yes",
)


def _read_back(runner: Runner, library: Path) -> Outcome:
    python = WORK / "zig/bin/python"
    exports = ROOT / "csrc/gen/exports.txt"
    said = runner.must(python, "-c", READ_BACK, library, exports).splitlines()
    total = Outcome()
    for line in EXPECTED:
        topic = line.split(":")[0]
        found = next((text for text in said if text.startswith(topic)), "nothing")
        total += one(found == line, f"the library: {found}, expected {line}")
    return total


def _extensions(runner: Runner, compiler: tuple[str | Path, ...]) -> Outcome:
    generated = runner.folder / "_abi.c"
    runner.must(sys.executable, ROOT / "tools/cffigen.py", generated)
    include = (
        *("-I", ROOT / "csrc/include", "-I", ROOT / "tbmpi/_gen"),
        *("-I", sysconfig.get_path("include")),
    )
    link = ("-shared", "-Wl,-undefined,dynamic_lookup", "-w")
    words = (*compiler, "cc", "-target", TARGET, *link, *include)
    total = Outcome()
    for name, sources, limited in (
        ("_abi", [generated], ("-DPy_LIMITED_API=0x030b0000",)),
        ("_fast", sorted((ROOT / "csrc/python").glob("*.c")), ()),
    ):
        module = runner.folder / f"{name}.abi3.so"
        done = runner.run(*words, *limited, *sources, "-o", module)
        total += one(done.good, f"the extension module {name}: {done.why()}")
    return total
