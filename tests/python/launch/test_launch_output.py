# SPDX-License-Identifier: MIT
"""Output and input: nothing lost, lines whole, pipes that close."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time

import pytest


def test_success_says_nothing(launcher):
    done = launcher.run("-n", "4", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_streams_stay_apart(launcher):
    done = launcher.run("-n", "2", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n" * 2, b"err\n" * 2)


@pytest.mark.parametrize("mode", [(), ("--output", "raw"), ("--tag-output",)])
def test_big_output_arrives_whole(launcher, mode):
    rank = launcher.python(
        """
        import os, sys
        rank = os.environ["TBMPI_RANK"]
        for line in range(20000):
            sys.stdout.buffer.write(f"{rank} {line} {'x' * (line % 200)}\\n".encode())
        """
    )
    launcher.env["PYTHONUNBUFFERED"] = ""
    done = launcher.run(*mode, "-n", "3", *rank)
    assert done.returncode == 0
    for number in range(3):
        tag = f"[{number}] " if mode == ("--tag-output",) else ""
        wanted = [f"{tag}{number} {line} {'x' * (line % 200)}" for line in range(20000)]
        lines = done.stdout.decode().splitlines()
        got = [line for line in lines if line.startswith(f"{tag}{number} ")]
        if mode != ("--output", "raw"):
            assert got == wanted
        assert len(done.stdout) >= 3 * sum(len(line) + 1 for line in wanted)


def test_bytes_are_not_touched(launcher):
    rank = launcher.python(
        """
        import random, sys
        sys.stdout.buffer.write(random.Random(1).randbytes(3_000_000))
        """
    )
    import random

    wanted = random.Random(1).randbytes(3_000_000)
    done = launcher.run("-n", "1", *rank)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(wanted).digest()


def test_tags(launcher):
    done = launcher.run("-l", "-n", "2", "sh", "-c", "printf 'a\\n\\nb'; echo e >&2")
    assert sorted(done.stdout.split(b"\n")) == sorted(
        b"[0] a|[0] |[0] b|[1] a|[1] |[1] b".split(b"|")
    )
    assert sorted(done.stderr.splitlines()) == [b"[0] e", b"[1] e"]


def test_a_prompt_without_newline_is_shown(launcher):
    job = launcher.start("-n", "2", "sh", "-c", "printf 'name? '; sleep 20")
    os.set_blocking(job.stdout.fileno(), False)
    seen = bytearray()
    launcher.wait_for(
        lambda: seen.extend(job.stdout.read() or b"") or seen.count(b"?") == 2
    )
    job.terminate()
    assert launcher.finish(job)[0] == 143


def test_output_to_files(launcher):
    done = launcher.run(
        "--output", "dir=out/deep", "-n", "11", "sh", "-c", "echo $PMI_RANK; echo e >&2"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (launcher.folder / "out/deep/rank.07/stdout").read_text() == "7\n"
    assert (launcher.folder / "out/deep/rank.10/stderr").read_text() == "e\n"
    done = launcher.run(
        "-outfile-pattern", "o.%r", "-n", "2", "sh", "-c", "echo $PMI_RANK"
    )
    assert (launcher.folder / "o.1").read_text() == "1\n"


def test_a_folder_that_cannot_be_made(launcher):
    done = launcher.run("--output", "dir=/dev/null/x", "-n", "2", "true")
    assert done.returncode == 2
    assert b"cannot write the output file /dev/null/x" in done.stderr


def test_a_rank_that_closes_stdout_goes_on(launcher):
    done = launcher.run(
        "-n", "2", "sh", "-c", "echo hi; exec >&-; sleep 0.2; echo e >&2"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n" * 2, b"e\n" * 2)


@pytest.mark.parametrize("ranks", ["1", "3"])
def test_nobody_reads_our_output(launcher, ranks):
    yes = launcher.start("-n", ranks, "yes")
    head = subprocess.run(
        ["head", "-3"], stdin=yes.stdout, stdout=subprocess.PIPE, timeout=20
    )
    yes.stdout.close()
    yes.stdout = None
    start = time.monotonic()
    code, _, err = launcher.finish(yes)
    assert (head.stdout, code, err) == (b"y\n" * 3, 141, "")
    assert time.monotonic() - start < 3


def test_nobody_reads_our_errors(launcher):
    job = launcher.start("-n", "2", "sh", "-c", "echo e >&2; sleep 0.2; echo out")
    job.stderr.close()
    job.stderr = None
    assert launcher.finish(job)[:2] == (0, "out\nout\n")


def test_a_slow_reader_loses_nothing_and_holds_the_ranks_back(launcher):
    job = launcher.start("-n", "2", "sh", "-c", "yes | head -c 4000000")
    time.sleep(0.7)
    assert job.poll() is None
    out = launcher.finish(job)[1]
    assert out == "y\n" * 4_000_000


def test_our_descriptors_are_closed(launcher):
    for closing in ("<&-", ">&-", "2>&-"):
        command = " ".join(launcher.command("-n", "2", "true"))
        done = subprocess.run(
            ["sh", "-c", f"exec {command} {closing}"], env=launcher.env, timeout=20
        )
        assert done.returncode == 0


def test_stdin_goes_to_rank_0_and_the_others_see_its_end(launcher):
    done = launcher.run(
        "-n", "3", "sh", "-c", "echo $PMI_RANK $(wc -l)", stdin=b"a\nb\n"
    )
    assert sorted(done.stdout.split(b"\n")) == [b"", b"0 2", b"1 0", b"2 0"]


@pytest.mark.parametrize(
    ("who", "counts"), [("none", "0 0 0"), ("1", "0 2 0"), ("all", "2 2 2")]
)
def test_stdin_for_others(launcher, who, counts):
    counting = "echo $PMI_RANK $(wc -l)"
    done = launcher.run(
        "--stdin", who, "-n", "3", "sh", "-c", counting, stdin=b"a\nb\n"
    )
    lines = sorted(done.stdout.decode().splitlines())
    assert [line.split()[1] for line in lines] == counts.split()


def test_stdin_for_all_is_not_held_back_by_one(launcher):
    data = os.urandom(3_000_000)
    script = "if [ $PMI_RANK = 1 ]; then sleep 0.5; exit 0; fi; wc -c"
    done = launcher.run("--stdin", "all", "-n", "3", "sh", "-c", script, stdin=data)
    assert done.stdout.split() == [b"3000000"] * 2
    file = launcher.folder / "data"
    file.write_bytes(data)
    with file.open("rb") as source:
        done = launcher.run(
            "--stdin", "all", "-n", "2", "wc", "-c", stdin=source.fileno()
        )
    assert done.stdout.split() == [b"3000000"] * 2


def test_a_terminal_is_handed_to_a_single_rank(launcher):
    leader, follower = os.openpty()
    rank = launcher.python("print(sys.stdin.isatty(), sys.stdout.isatty())")
    ends = {"stdin": follower, "stdout": follower, "stderr": follower}
    job = launcher.start("-n", "1", *rank, **ends)
    os.close(follower)
    seen = b""
    while not seen.endswith(b"\n"):
        seen += os.read(leader, 100)
    assert seen == b"True True\r\n"
    assert job.wait(20) == 0
    os.close(leader)


def test_output_of_a_process_that_left_the_job_is_not_waited_for(launcher):
    daemon = launcher.python(
        """
        import subprocess, sys
        subprocess.Popen(["sleep", "3"], start_new_session=True)
        print("done")
        """
    )
    start = time.monotonic()
    done = subprocess.run(
        launcher.command("-n", "2", *daemon),
        stdout=subprocess.PIPE,
        env=launcher.env,
        timeout=20,
    )
    assert done.stdout == b"done\n" * 2
    assert time.monotonic() - start < 2.5
    launcher.clean()


def test_many_ranks(launcher):
    done = launcher.run("-n", "300", "sh", "-c", "echo $PMI_RANK")
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(map(int, done.stdout.split())) == list(range(300))


def test_dry_run_starts_nothing(launcher):
    done = launcher.run("--dry-run", "-x", "A=b c", "-n", "2", "sh", "-c", "exit 3")
    assert done.returncode == 0
    assert b"A=b c" in done.stdout
    assert done.stdout.count(b"sh -c 'exit 3'") == 2


def test_help_and_version_and_info(launcher):
    assert launcher.run("--help").stdout.startswith(b"usage: tbmpirun")
    assert launcher.run("--version").stdout.startswith(b"tbmpirun (tbmpi)")
    assert b"operations" in launcher.run("--info").stdout


def test_usage_error_is_one_line(launcher):
    done = launcher.run("-n", "0", "true")
    assert (done.returncode, done.stdout) == (2, b"")
    assert (
        done.stderr == b"tbmpirun: the number of ranks (-n) must be at least 1, not 0\n"
    )


def test_python_ranks_show_lines_as_they_are_printed(launcher):
    rank = launcher.python("import time; print('early'); time.sleep(20)")
    job = launcher.start("-n", "2", *rank)
    assert [job.stdout.readline() for _ in range(2)] == [b"early\n"] * 2
    job.kill()
    job.wait()
    job.stdout.close()
    job.stderr.close()
    launcher.assert_nothing_left(within=2)
