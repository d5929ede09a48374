# SPDX-License-Identifier: MIT
"""tbmpicc and tbmpicxx, the command tbmpi, and the generated facts."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tbmpi import _paths, aliases, command, wrapper
from tbmpi._gen.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[3]

STAND_IN = """
int MPI_Init(int *c, char ***v) { (void)c; (void)v; return 0; }
int MPI_Get_version(int *v, int *s) { *v = 5; *s = 0; return 0; }
int MPI_Get_library_version(char *t, int *n) { *t = 0; *n = 0; return 0; }
int MPI_Finalize(void) { return 0; }
"""

PROGRAM = """
#include <mpi.h>
int main(int argc, char **argv) { MPI_Init(&argc, &argv); return MPI_Finalize(); }
"""


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A package folder with our header and a library of four functions.

    The wrappers only add flags, so that any library of the right name shows
    whether they are the right ones.
    """
    folder = tmp_path / "pack age"
    (folder / "lib").mkdir(parents=True)
    (folder / "include").mkdir()
    shutil.copy(ROOT / "csrc/include/mpi.h", folder / "include")
    source = tmp_path / "library.c"
    source.write_text(STAND_IN)
    darwin = sys.platform == "darwin"
    named = (
        f"-Wl,-install_name,@rpath/{_paths.LIBRARY}"
        if darwin
        else f"-Wl,-soname,{_paths.LIBRARY}"
    )
    library = folder / "lib" / _paths.LIBRARY
    build = ["cc", "-shared", "-fPIC", named, str(source), "-o", str(library)]
    subprocess.run(build, check=True, timeout=60)
    (tmp_path / "prog.c").write_text(PROGRAM)
    monkeypatch.setattr(_paths, "package_file", folder.joinpath)
    monkeypatch.chdir(tmp_path)
    return folder


def call(language: wrapper.Language, *words: str) -> None:
    """Runs the wrapper in a child, since it becomes the compiler."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(wrapper.main(language, words))
        finally:
            os._exit(99)
    assert os.waitpid(child, 0)[1] == 0


def test_a_program_finds_its_library_by_itself(package):
    call(wrapper.C, "prog.c", "-o", "prog")
    subprocess.run(["./prog"], check=True, timeout=20)


def test_compiling_and_linking_apart(package):
    call(wrapper.C, "-c", "prog.c", "-o", "prog.o")
    call(wrapper.C, "prog.o", "-o", "prog")
    subprocess.run(["./prog"], check=True, timeout=20)


def test_cxx(package):
    shutil.copy("prog.c", "prog.cc")
    call(wrapper.CXX, "prog.cc", "-o", "prog")
    subprocess.run(["./prog"], check=True, timeout=20)


def show(*words: str) -> str:
    """The wrapper's answer to a question."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert wrapper.main(wrapper.C, words) == 0
    return out.getvalue().rstrip("\n")


def test_questions(package, capsys):
    include, lib = f"-I{package}/include", package / "lib"
    line = "printf '%s\\n' " + show("-show", "a b.c", '-DX="$y"')
    words = subprocess.check_output(["sh", "-c", line], text=True).splitlines()
    assert words[1:4] == [include, "a b.c", '-DX="$y"']
    assert f"{lib}/{_paths.LIBRARY}" in show("-show", "a.c", "-o", "a")
    assert "-rpath" not in show("-show", "-c", "a.c")
    assert show("-showme:compile") == f'-I"{package}/include"'
    assert f'-Wl,"-rpath,{lib}"' in show("--showme:link")
    assert show("-showme:incdirs") == f"{package}/include"
    assert show("-showme:libdirs") == str(lib)
    assert show("-showme:libs") == "mpi_abi"
    assert "tbmpi" in show("-showme:version")
    assert "-I" in show("-compile_info")
    assert "-rpath" in show("-link-info")
    assert wrapper.main(wrapper.C, ["-showme:purple"]) == 1
    assert "not known" in capsys.readouterr().err


def test_choosing_the_compiler(package, monkeypatch):
    assert show("-cc=clang -m64", "-showme:command") == "clang -m64"
    monkeypatch.setenv("TBMPI_CC", "gcc-99 -O1")
    assert show("-show", "a.c").startswith("gcc-99 -O1 ")
    assert wrapper.main(wrapper.C, ["a.c"]) == 127


@pytest.mark.parametrize("words", [("--version",), ("-dumpmachine",), ("-o", "x")])
def test_without_a_file_nothing_is_added(package, words):
    assert wrapper.command_line(["cc"], words, asked=False) == ["cc", *words]


def test_a_package_that_is_not_built(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_paths, "package_file", tmp_path.joinpath)
    assert wrapper.main(wrapper.C, ["-show"]) == 1
    assert "pip install" in capsys.readouterr().err


def test_cmake_finds_it(package, tmp_path):
    assert shutil.which("cmake"), "cmake, which built this package, is needed"
    script = tmp_path / "tbmpicc"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\nfrom tbmpi import _paths, wrapper\n"
        f"_paths.package_file = Path({str(package)!r}).joinpath\n"
        "sys.exit(wrapper.cc_main())\n"
    )
    script.chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p C)\n"
        "find_package(MPI REQUIRED)\nadd_executable(p prog.c)\n"
        "target_link_libraries(p MPI::MPI_C)\n"
    )
    configure = ["cmake", "-S", ".", "-B", "out", f"-DMPI_C_COMPILER={script}"]
    subprocess.run(configure, check=True, timeout=100, stdout=subprocess.DEVNULL)
    build = ["cmake", "--build", "out"]
    subprocess.run(build, check=True, timeout=100, stdout=subprocess.DEVNULL)
    subprocess.run(["out/p"], check=True, timeout=20)


def test_generated_facts_are_up_to_date():
    check = [sys.executable, str(ROOT / "tools/factgen.py"), "--check"]
    subprocess.run(check, check=True, timeout=20)


def test_every_setting_has_a_help_line():
    assert len(SETTINGS) >= 10
    for row in SETTINGS:
        assert row.variable.startswith("TBMPI_")
        assert row.help
        assert "\n" not in row.help


def test_info(capsys):
    assert command.main(["info"]) == 0
    assert "operations" in capsys.readouterr().out
    assert command.main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {"version", "library", "implemented", "processors"} <= set(facts)
    assert command.main(["info", "--settings"]) == 0
    text = capsys.readouterr().out
    assert all(row.variable in text for row in SETTINGS)
    assert command.main(["info", "--settings", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(SETTINGS)
    assert command.main(["info", "--missing"]) == 0
    assert "MPI_" in capsys.readouterr().out


def test_commands(capsys):
    assert command.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in command.SUBCOMMANDS)
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tbmpi ")
    assert command.main([]) == 2
    assert command.main(["inof"]) == 2
    assert "did you mean info?" in capsys.readouterr().err


def test_aliases(tmp_path, capsys):
    commands = tmp_path / "bin"
    commands.mkdir()
    assert aliases.install(commands, commands) == 1
    assert "install the package first" in capsys.readouterr().err
    for name in set(aliases.ALIASES.values()):
        (commands / name).write_text("")
    assert aliases.install(commands, commands) == 0
    assert aliases.install(commands, commands) == 0
    assert (commands / "mpirun").resolve() == (commands / "tbmpirun").resolve()
    assert os.readlink(commands / "mpic++") == "tbmpicxx"
    assert aliases.remove(commands) == 0
    assert not os.path.lexists(commands / "mpirun")
    assert (commands / "tbmpirun").exists()


def test_aliases_never_replace_what_is_not_ours(tmp_path, capsys):
    commands, other = tmp_path / "bin", tmp_path / "other"
    commands.mkdir()
    other.mkdir()
    for name in set(aliases.ALIASES.values()):
        (commands / name).write_text("")
    (other / "mpiexec").write_text("Hydra")
    assert aliases.install(other, commands) == 1
    assert "mpiexec of another MPI" in capsys.readouterr().err
    assert os.listdir(other) == ["mpiexec"]
    assert aliases.remove(other) == 0
    assert (other / "mpiexec").read_text() == "Hydra"
