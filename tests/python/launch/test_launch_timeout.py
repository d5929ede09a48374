# SPDX-License-Identifier: MIT
"""--timeout: where every rank is, and then the end."""

from __future__ import annotations

import time

from tbmpi.launch.board import operations


def test_python_ranks(launcher):
    call = list(operations()).index("MPI_Recv") + 1
    rank = launcher.python(
        f"""
        import time
        from pmi_client import Client, Note
        me = Client()
        note = Note(me.rank)
        me.init()
        def stuck_here():
            note.call({call}, 1 - me.rank, 5)
            time.sleep(30)
        stuck_here()
        """
    )
    start = time.monotonic()
    done = launcher.run("--timeout", "1.5", "-n", "2", *rank)
    assert time.monotonic() - start < 6
    text = done.stderr.decode()
    assert done.returncode == 124
    assert "reached its time limit of 1.5 s" in text
    for number in (0, 1):
        assert f"rank {number} on " in text
        assert f"in MPI_Recv with rank {1 - number}, tag 5, for " in text
        assert f"[{number}]   File " in text
    assert text.count("in stuck_here") == 2


def test_other_ranks(launcher):
    done = launcher.run("--timeout", "0.5", "-n", "2", "sleep", "30")
    text = done.stderr.decode()
    assert done.returncode == 124
    assert text.count("has not called MPI_Init") == 2
    # From gdb, from macOS's sample, or from /proc.
    assert text.count("sleep") >= 2


def test_ranks_that_have_ended(launcher):
    done = launcher.run(
        "--timeout", "0.8", "-n", "2", "sh", "-c", "[ $PMI_RANK = 0 ] || sleep 30"
    )
    assert done.returncode == 124
    assert b"rank 0 on " in done.stderr
    assert b" has ended\n" in done.stderr


def test_a_job_within_its_limit(launcher):
    done = launcher.run("--timeout", "20", "-n", "2", "true")
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_limit_from_the_environment(launcher):
    launcher.env["MPIEXEC_TIMEOUT"] = "0.5"
    assert launcher.run("-n", "1", "sleep", "30").returncode == 124
    launcher.env["MPIEXEC_TIMEOUT"] = "x"
    done = launcher.run("-n", "1", "sleep", "30")
    assert done.returncode == 2
    assert b"MPIEXEC_TIMEOUT takes a number of seconds" in done.stderr
