# SPDX-License-Identifier: MIT
"""How MPI starts and ends in a Python program, seen from outside."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMIT = 60.0
GONE_WITHIN = 2.0  # seconds from a rank's failure to the end of the job


@dataclass
class Outcome:
    """What a program did."""

    code: int
    out: str
    err: str
    ended: float  # time.time() at its end


@pytest.fixture
def run(tmp_path: Path):
    """Runs a script on some ranks, or without a launcher on 0."""

    def start(ranks: int, script: str, *options: str) -> Outcome:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(script))
        launcher = ["-m", "tbmpi.launch", "-n", str(ranks), sys.executable]
        words = [*(launcher if ranks else []), *options, str(path)]
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            cwd=tmp_path,
        )
        return Outcome(done.returncode, done.stdout, done.stderr, time.time())

    return start


def test_import_starts_nothing(run) -> None:
    done = run(
        0,
        """
        import sys
        import tbmpi
        assert "tbmpi._abi" not in sys.modules and "tbmpi.MPI" not in sys.modules
        assert tbmpi.__version__
        assert "COMM_WORLD" in dir(tbmpi)
        print(tbmpi.COMM_WORLD.size, tbmpi.MPI.Is_initialized())
        try:
            tbmpi.nonsense
        except AttributeError as error:
            print(error)
        """,
    )
    assert done.code == 0, done.err
    assert done.out == "1 True\nmodule 'tbmpi' has no attribute 'nonsense'\n"


def test_options(run) -> None:
    done = run(
        0,
        """
        import tbmpi
        tbmpi.rc(initialize=False, thread_level="serialized")
        try:
            tbmpi.rc.nonsense = 1
        except TypeError as error:
            print(error)
        from tbmpi import MPI
        print(MPI.Is_initialized())
        print(MPI.Init_thread(MPI.THREAD_SERIALIZED) >= MPI.THREAD_SERIALIZED)
        print(MPI.Query_thread() >= MPI.THREAD_SERIALIZED, MPI.Is_thread_main())
        MPI.Finalize()
        print(MPI.Is_finalized())
        """,
    )
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith(
        "tbmpi.rc has no option 'nonsense'; there are initialize,"
    )
    assert lines[1:] == ["False", "True", "True True", "True"]


def test_options_from_the_environment(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI4PY_RC_IRECV_BUFSZ", "77")
    monkeypatch.setenv("MPI4PY_RC_INITIALIZE", "no")
    done = run(
        0,
        """
        import tbmpi
        tbmpi.rc.irecv_bufsz = 1
        print(tbmpi.MPI.Is_initialized(), tbmpi.rc.irecv_bufsz)
        """,
    )
    assert done.out == "False 77\n", done.err
    monkeypatch.setenv("MPI4PY_RC_THREADS", "maybe")
    done = run(0, "from tbmpi import MPI")
    assert "MPI4PY_RC_THREADS is 'maybe', not yes or no" in done.err


def test_a_wrong_option_says_what_there_is(run) -> None:
    done = run(0, "import tbmpi\ntbmpi.rc.errors = 'x'\nfrom tbmpi import MPI")
    assert done.code == 1
    assert "tbmpi.rc.errors is 'x', not one of exception, abort" in done.err


def test_a_wrong_library_is_named(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBMPI_LIBMPI", "/no/such/libmpi_abi.so.1")
    done = run(0, "from tbmpi import MPI")
    assert done.code == 1
    assert (
        "no MPI library at /no/such/libmpi_abi.so.1; TBMPI_LIBMPI names it" in done.err
    )
    monkeypatch.setenv("TBMPI_LIBMPI", __file__)
    assert "cannot open the MPI library" in run(0, "from tbmpi import MPI").err


FAIL = """
import os, sys, threading, time
from tbmpi import COMM_WORLD as comm
comm.Barrier()
if comm.rank == 1:
    print("failing", time.time(), flush=True)
    {how}
comm.Barrier()
comm.Barrier()
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("raise ValueError('bad thing')", 1, "ValueError: bad thing"),
        ("sys.exit(3)", 3, "exit code 3"),
        ("raise SystemExit(4)", 4, "exit code 4"),
        ("raise SystemExit('a bare reason')", 1, "a bare reason"),
        ("sys.exit('a reason')", 1, "a reason"),
        ("threading.Thread(target=lambda: 1 / 0).start(); time.sleep(30)", 1, "Zero"),
        ("comm.Abort(7)", 7, "MPI_Abort with code 7"),
        ("comm.bcast(lambda: None, 1)", 1, "pickle"),
    ],
    ids=[
        "exception",
        "exit",
        "bare exit",
        "bare text",
        "text",
        "thread",
        "abort",
        "unpicklable",
    ],
)
def test_a_rank_that_fails_ends_the_job(run, how: str, code: int, said: str) -> None:
    done = run(3, FAIL.format(how=how))
    assert done.code == code, done.err
    assert said in done.err
    began = float(re.search(r"failing (\S+)", done.out)[1])
    assert done.ended - began < GONE_WITHIN
    assert done.err.count("Traceback") == (
        "Error" in said or said in ("Zero", "pickle")
    )
    if "Traceback" in done.err:
        assert re.search(
            r"^rank 1 of 3 on \S+: uncaught exception", done.err, re.MULTILINE
        )


@pytest.mark.parametrize(
    "how",
    [
        "pass",
        "try:\n        sys.exit(5)\n    except SystemExit: pass",
        "pid = os.fork()\n    if not pid: raise RuntimeError\n    os.waitpid(pid, 0)",
        "import atexit; atexit.register(print, 'bye')",
        "try: raise SystemExit(5)\n    except SystemExit as e: print(e.code)",
    ],
    ids=["nothing", "caught", "child", "atexit", "asked"],
)
def test_what_does_not_end_the_job(run, how: str) -> None:
    done = run(3, FAIL.format(how=how))
    assert done.code == 0, done.err


def test_the_end_of_a_program_still_communicates(run) -> None:
    """Functions at exit and objects that go: MPI is finalized after them."""
    done = run(
        2,
        """
        import atexit, os
        atexit.register(lambda: (comm.Barrier(), os.write(1, b"first\\n")))
        from tbmpi import MPI
        comm = MPI.COMM_WORLD

        class Part:
            def __init__(self):
                self.comm = comm.Dup()
            def __del__(self, write=os.write, finalized=MPI.Is_finalized):
                self.comm.Barrier()
                self.comm.Free()
                write(1, b"freed, %d\\n" % finalized())

        part = Part()
        if comm.rank == 0:
            comm.isend(bytes(5_000_000), 1)
        else:
            atexit.register(lambda: print(len(comm.recv()), flush=True))
        """,
    )
    assert (done.code, done.err) == (0, "")
    expected = ["5000000"] + 2 * ["first", "freed, 0"]
    assert sorted(done.out.splitlines()) == sorted(expected)


def test_attributes_of_self_tell_the_end(run) -> None:
    done = run(
        1,
        """
        from tbmpi import MPI
        def gone(owner, keyval, value):
            print(value, MPI.Is_finalized())
        key = MPI.Comm.Create_keyval(delete_fn=gone)
        MPI.COMM_SELF.Set_attr(key, "the end")
        """,
    )
    assert (done.code, done.err, done.out) == (0, "", "the end False\n")


def test_exit_code_0_is_a_normal_end(run) -> None:
    done = run(2, "import sys\nfrom tbmpi import COMM_WORLD as c\nsys.exit(0)")
    assert (done.code, done.err) == (0, "")


def test_no_abort_if_not_wanted(run) -> None:
    script = """
    import tbmpi
    tbmpi.rc.abort = False
    from tbmpi import MPI
    print(tbmpi.COMM_WORLD.size)
    raise ValueError("plain")
    """
    done = run(1, script)
    assert done.code == 1
    assert "uncaught exception" not in done.err and "ValueError: plain" in done.err


def test_children_are_no_ranks(run) -> None:
    done = run(
        2,
        """
        import concurrent.futures, multiprocessing, subprocess, sys

        def size(_):
            from tbmpi import COMM_WORLD
            return COMM_WORLD.size

        if __name__ == "__main__":
            from tbmpi import COMM_WORLD
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
                sizes = list(pool.map(size, range(3)))
            ask = "from tbmpi import COMM_WORLD; print(COMM_WORLD.size)"
            out = subprocess.check_output([sys.executable, "-c", ask], text=True)
            print(COMM_WORLD.gather((sizes, out.strip())))
        """,
    )
    assert done.code == 0, done.err
    assert "[([1, 1, 1], '1'), ([1, 1, 1], '1')]" in done.out
