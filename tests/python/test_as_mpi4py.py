# SPDX-License-Identifier: MIT
"""Programs written for mpi4py, unchanged: tbmpirun --as-mpi4py, python -m tbmpi."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LIMIT = 60.0
PROGRAM = """
    import mpi4py
    mpi4py.rc.irecv_bufsz = 1000
    from mpi4py import MPI
    import mpi4py.rc
    comm = MPI.COMM_WORLD
    total = comm.allreduce(comm.rank)
    comm.rank or print(comm.size, total, MPI.__name__, mpi4py.rc.irecv_bufsz)
"""
# An mpi4py that is installed, as far as the hook is concerned.
PACKAGE = """
    import sys
    class Rc: pass
    rc = Rc()
    sys.modules[__name__ + ".rc"] = rc
    __version__ = "installed"
"""


def python(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python, which has tbmpi."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        cwd=cwd,
        input=more.get("stdin", ""),
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def launched(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    launcher = ("-m", "tbmpi.launch", "--as-mpi4py", "-n", "2")
    return python(*launcher, sys.executable, *words, cwd=path)


def test_launcher(program: Path) -> None:
    done = launched(program.parent, str(program))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "2 1 tbmpi.MPI 1000\n"


def test_children_have_the_hook_too(tmp_path: Path) -> None:
    code = "from mpi4py import MPI; print(MPI.__name__, MPI.COMM_WORLD.size)"
    outer = f"""
        import subprocess, sys
        from mpi4py import MPI
        said = subprocess.run([sys.executable, "-c", {code!r}], capture_output=True)
        MPI.COMM_WORLD.rank or print(said.stdout.decode(), end="")
    """
    done = launched(tmp_path, "-c", textwrap.dedent(outer))
    assert (done.returncode, done.stdout) == (0, "tbmpi.MPI 1\n"), done.stderr


def test_sitecustomize_of_others_still_runs(program: Path, monkeypatch) -> None:
    other = program.parent / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import os\nif 'TBMPI_RANK' in os.environ: print('other')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(other))
    done = launched(program.parent, "-c", "import mpi4py.MPI")
    assert (done.returncode, done.stdout) == (0, "other\nother\n"), done.stderr


@pytest.mark.parametrize(
    "words", [("program.py",), ("-m", "program"), ("-c", PROGRAM), ("-",)]
)
def test_run(program: Path, words: tuple[str, ...]) -> None:
    texts = [textwrap.dedent(word) for word in words]
    done = python("-m", "tbmpi", *texts, cwd=program.parent, stdin=program.read_text())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 0 tbmpi.MPI 1000\n"


def test_arguments_and_exit_code(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv); sys.exit(3)"
    done = python("-m", "tbmpi", "-c", code, "-x", "y", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "['-c', '-x', 'y']\n")


@pytest.mark.parametrize(
    "words, complaint",
    [
        (("nothing.py",), "no such file: nothing.py"),
        (("--nonsense",), "unknown option --nonsense"),
        (("-m",), "-m needs a module"),
        (("-c",), "-c needs Python code"),
    ],
)
def test_bad_words(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    done = python("-m", "tbmpi", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert complaint in done.stderr and "Traceback" not in done.stderr


def test_mpi4py_that_is_installed_keeps_its_own_modules(program: Path) -> None:
    package = program.parent / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(PACKAGE))
    (package / "extra.py").write_text("from . import MPI\nname = MPI.__name__\n")
    code = """
        import mpi4py, mpi4py.extra
        print(mpi4py.__version__, mpi4py.extra.name, type(mpi4py.rc).__module__)
        print(mpi4py.__spec__.loader.__class__.__name__)
    """
    done = python("-m", "tbmpi", "-c", textwrap.dedent(code), cwd=program.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "installed tbmpi.MPI tbmpi._rc\nSourceFileLoader\n"


def test_what_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    done = python("-m", "tbmpi", "-c", "import mpi4py.futures", cwd=tmp_path)
    assert done.returncode == 1
    assert "mpi4py.futures is part of mpi4py" in done.stderr


def test_too_late(tmp_path: Path) -> None:
    code = """
        import sys, types
        sys.modules["mpi4py.MPI"] = types.ModuleType("mpi4py.MPI")
        from tbmpi import as_mpi4py
        as_mpi4py.install()
    """
    done = python("-c", textwrap.dedent(code), cwd=tmp_path)
    assert "mpi4py.MPI is imported already" in done.stderr


def test_python_without_tbmpi_is_told(tmp_path: Path) -> None:
    """The start-up file must do no harm where tbmpi cannot be imported."""
    import tbmpi.as_mpi4py as package

    startup = Path(package.__file__).with_name("startup") / "sitecustomize.py"
    code = f"""
        import importlib.machinery, sys
        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name == "tbmpi":
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Hidden())
        exec(compile(open({str(startup)!r}).read(), {str(startup)!r}, "exec"),
             {{"__file__": {str(startup)!r}, "__name__": "sitecustomize"}})
        print("alive")
        import mpi4py.MPI
    """
    done = python("-S", "-c", textwrap.dedent(code), cwd=tmp_path)
    assert done.stdout == "alive\n"
    assert "has no tbmpi" in done.stderr
