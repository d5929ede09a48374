# SPDX-License-Identifier: MIT
"""A job that fails: one line, the right code, gone in time, nothing left."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tbmpi.launch.board import operations

GONE = 2.0

# Ranks that join, then wait for each other, as in a collective.
WAITING = """
    import os, sys, time
    from pmi_client import Client, Note
    me = Client()
    note = Note(me.rank)
    me.init()
    me.barrier()
    note.call({call})
    {then}
    time.sleep(30)
"""


def number_of(name: str) -> int:
    """The call number that the library writes on the board."""
    return list(operations()).index(name) + 1


def waiting(launcher, then: str = "pass") -> list[str]:
    return launcher.python(WAITING.format(call=number_of("MPI_Allreduce"), then=then))


def timed(launcher, *words: str):
    start = time.monotonic()
    return launcher.run(*words), time.monotonic() - start


@pytest.mark.parametrize("code", [1, 3, 255])
def test_exit_code(launcher, code):
    done, seconds = timed(
        launcher, "-n", "4", "sh", "-c", f"[ $PMI_RANK = 2 ] && exit {code}; sleep 30"
    )
    assert done.returncode == code
    assert done.stderr.decode().count("\n") == 1
    assert f"rank 2 on {host()} ended with exit code {code}" in done.stderr.decode()
    assert seconds < GONE


def host() -> str:
    return os.uname().nodename.split(".")[0]


def test_the_first_failure_counts(launcher):
    script = "case $PMI_RANK in 0) ;; 1) sleep 0.1; exit 5;; *) sleep 0.6; exit 7; esac"
    assert launcher.run("-n", "3", "sh", "-c", script).returncode == 5


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [("KILL", 137, "ran out of memory"), ("SEGV", 139, "SIGSEGV")],
)
def test_a_killed_rank(launcher, name, code, says):
    then = (
        f"me.rank == 1 and (note.call({number_of('MPI_Recv')}, 3, 7), time.sleep(0.3), "
    )
    then += f"os.kill(os.getpid(), __import__('signal').SIG{name}))"
    done, seconds = timed(launcher, "-n", "4", *waiting(launcher, then))
    line = done.stderr.decode().splitlines()[-1]
    assert done.returncode == code
    assert line.startswith(f"tbmpirun: rank 1 on {host()} was killed by signal ")
    assert says in line
    assert "in MPI_Recv (with rank 3, tag 7)" in line
    assert line.endswith("; ranks 0, 2-3 were in MPI_Allreduce")
    assert seconds < GONE + 1.5  # four Pythons start, and one waits


def test_a_killed_program_below_a_shell(launcher):
    done = launcher.run("-n", "2", "sh", "-c", "sh -c 'kill -11 $$'; exit $?")
    assert done.returncode == 139
    assert (
        b"ended with exit code 139 (what it ran was killed by signal 11" in done.stderr
    )


@pytest.mark.parametrize(
    ("given", "code"), [("42", 42), ("0", 1), ("256", 1), ("-1", 255)]
)
def test_abort(launcher, given, code):
    then = f"me.rank == 2 and me.send('cmd=abort exitcode={given}')"
    done = launcher.run("-n", "3", *waiting(launcher, then))
    assert done.returncode == code
    assert (
        f"rank 2 on {host()} called MPI_Abort with code {given}" in done.stderr.decode()
    )


def test_abort_with_a_reason(launcher):
    why = "note.reason('rank 0 on mac1: MPI_Send: no rank 9')"
    then = f"me.rank == 0 and ({why}, me.send('cmd=abort exitcode=6'))"
    done = launcher.run("-n", "2", *waiting(launcher, then))
    assert done.returncode == 6
    assert b"ended the job with code 6: MPI_Send: no rank 9; rank 1 was" in done.stderr


def test_abort_and_exit_at_once(launcher):
    then = "me.rank == 1 and (me.send('cmd=abort exitcode=9'), os._exit(9))"
    done = launcher.run("-n", "2", *waiting(launcher, then))
    assert done.returncode == 9
    assert b"called MPI_Abort with code 9" in done.stderr


def test_a_rank_that_ends_without_finalize(launcher):
    done = launcher.run("-n", "3", *waiting(launcher, "me.rank == 1 and sys.exit(0)"))
    assert done.returncode == 1
    assert f"rank 1 on {host()} ended with exit code 0 without MPI_Finalize" in str(
        done.stderr
    )


@pytest.mark.parametrize("wait", ["me.barrier()", "time.sleep(20)"])
def test_a_rank_that_never_joins_while_others_wait(launcher, wait):
    rank = launcher.python(
        f"""
        import time
        from pmi_client import Client
        me = Client()
        if me.rank != 1:
            me.init()
            {wait}
        """
    )
    done, seconds = timed(launcher, "-n", "3", *rank)
    assert done.returncode == 1
    assert b"rank 1" in done.stderr
    assert b"without calling MPI_Init; rank " in done.stderr
    assert seconds < GONE + 1.5


def test_an_error_after_finalize_lets_the_others_finish(launcher):
    rank = launcher.python(
        """
        import sys, time
        from pmi_client import Client
        me = Client()
        me.init()
        me.barrier()
        me.finalize()
        if me.rank == 0:
            sys.exit(4)
        time.sleep(0.5)
        print("finished")
        """
    )
    done = launcher.run("-n", "3", *rank)
    assert (done.returncode, done.stdout) == (4, b"finished\n" * 2)
    assert b"rank 0 on " in done.stderr
    assert b"ended with exit code 4, after MPI_Finalize" in done.stderr


def test_a_crash_after_somebodys_error_still_ends_the_job(launcher):
    rank = launcher.python(
        """
        import os, sys, time
        from pmi_client import Client
        me = Client()
        me.init()
        me.barrier()
        if me.rank == 0:
            me.finalize()
            sys.exit(4)
        if me.rank == 1:
            time.sleep(0.4)
            os.kill(os.getpid(), 9)
        time.sleep(30)
        """
    )
    assert launcher.run("-n", "3", *rank).returncode == 4


@pytest.mark.parametrize(
    "shell", ["trap '' TERM; sleep 30", "trap '' TERM HUP INT; exec sleep 30"]
)
def test_ranks_that_ignore_sigterm(launcher, shell):
    script = f"[ $PMI_RANK = 0 ] && sleep 0.2 && exit 3; {shell}"
    done, seconds = timed(launcher, "-n", "3", "sh", "-c", script)
    assert done.returncode == 3
    assert seconds < GONE + 0.5


def test_children_of_ranks_that_ignore_everything(launcher):
    child = (
        "import os, signal, time; os.setpgid(0, 0); signal.signal(15, signal.SIG_IGN)"
    )
    rank = launcher.python(
        f"""
        import os, signal, subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "{child}; time.sleep(30)"])
        time.sleep(0.5)
        os._exit(3) if os.environ["PMI_RANK"] == "0" else time.sleep(30)
        """
    )
    done, seconds = timed(launcher, "-n", "3", *rank)
    assert done.returncode == 3
    assert seconds < GONE + 2


def test_children_left_behind_on_success_are_ended(launcher):
    done, seconds = timed(launcher, "-n", "2", "sh", "-c", "sleep 30 & echo done")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n" * 2, b"")
    assert seconds < GONE


def test_a_child_that_ends_soon_after_its_rank_is_left_in_peace(launcher):
    script = "(sleep 0.1; echo late) & exit 0"
    assert launcher.run("-n", "1", "sh", "-c", script).stdout == b"late\n"


def test_python_traceback_comes_before_the_line(launcher):
    rank = launcher.python(
        "import os; os.environ['PMI_RANK'] == '1' and 1 / 0; input()"
    )
    done = launcher.run("-n", "2", "--stdin", "none", *rank)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert any("Error" in line for line in lines[:-1])
    assert lines[-1].startswith("tbmpirun: rank ")


def test_missing_programs(launcher):
    done = launcher.run("-n", "2", "no-such-program-here")
    assert (done.returncode, done.stderr.count(b"\n")) == (127, 1)
    plain = launcher.folder / "plain"
    plain.write_text("echo no first line\n")
    plain.chmod(0o755)
    done = launcher.run("-n", "2", "./plain")
    assert (done.returncode, done.stderr.count(b"\n")) == (126, 1)
    assert b"begins with #!" in done.stderr
    plain.write_text("#!/no/such/shell\n")
    done = launcher.run("-n", "2", "./plain")
    assert (done.returncode, done.stderr.count(b"\n")) == (127, 1)
    assert b"/no/such/shell" in done.stderr


def test_a_missing_second_program_starts_nothing(launcher):
    done = launcher.run("-n", "1", "touch", "x", ":", "-n", "1", "no-such-program-here")
    assert done.returncode == 127
    assert not (launcher.folder / "x").exists()


def test_killing_a_random_rank_at_a_random_moment(launcher):
    dice = random.Random(20)
    rank = waiting(launcher)
    for _ in range(20):
        job = launcher.start("-n", "4", *rank)
        launcher.wait_for(lambda job=job: launcher.ranks(job))
        time.sleep(dice.uniform(0, 0.4))
        os.kill(dice.choice(launcher.ranks(job)), signal.SIGKILL)
        start = time.monotonic()
        code, _, err = launcher.finish(job)
        assert time.monotonic() - start < GONE
        assert code == 137
        assert "was killed by signal 9" in err
        assert err.count("tbmpirun:") == 1


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5, 1.0])
def test_killing_the_launcher(launcher, delay):
    job = launcher.start("-n", "4", "sh", "-c", "trap '' TERM; sleep 30 & sleep 30")
    time.sleep(delay)
    job.kill()
    job.communicate(timeout=20)
    launcher.assert_nothing_left(within=GONE)


def test_killing_the_guard_ends_the_job(launcher):
    job = launcher.start("-n", "4", "sh", "-c", "trap '' TERM; sleep 30 & sleep 30")
    launcher.wait_for(lambda: len(launcher.ranks(job)) == 4)
    (guard,) = launcher.guards(job)
    os.kill(guard, signal.SIGKILL)
    code, out, err = launcher.finish(job, limit=5)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "the guard of this job" in err


def test_ranks_of_a_job_share_a_session_and_have_groups_of_their_own(launcher):
    # Linux's autogroup shares processors between sessions first.
    text = "print(os.getsid(0), os.getpgrp() == os.getpid())"
    done = launcher.run("-n", "3", *launcher.python(f"import os; {text}"))
    session, leads, *others = done.stdout.decode().split()
    assert leads == "True"
    assert others == [session, leads] * 2


def test_a_mistake_in_the_launcher_hangs_nobody(launcher):
    broken = launcher.python(
        """
        from tbmpi.launch import cli, pmi
        def fail(*_):
            raise ZeroDivisionError("planted")
        pmi.Server.handle = fail
        sys.exit(cli.main(sys.argv[1:]))
        """,
        "broken.py",
    )
    rank = waiting(launcher)
    launcher.command = lambda *words: [*broken, *words]
    done = launcher.run("-n", "2", *rank)
    assert done.returncode == 1
    assert b"a defect in tbmpirun" in done.stderr
    assert b"planted" in done.stderr
