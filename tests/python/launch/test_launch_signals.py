# SPDX-License-Identifier: MIT
"""Signals to the launcher reach the ranks, as if the ranks had got them."""

from __future__ import annotations

import os
import signal
import time

import pytest

LISTENING = """
    import os, signal, sys, time
    def note(signum, frame):
        print("got", signal.Signals(signum).name, flush=True)
        {then}
    for name in ("INT", "TERM", "HUP", "USR1", "USR2"):
        signal.signal(getattr(signal, "SIG" + name), note)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
"""


def start(launcher, *command: str, ranks: int = 2):
    job = launcher.start("-n", str(ranks), *command)
    for _ in range(ranks):
        assert job.stdout.readline() == b"ready\n"
    return job


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_ranks_may_end_well(launcher, name):
    job = start(launcher, *launcher.python(LISTENING.format(then="sys.exit(0)")))
    os.kill(job.pid, getattr(signal, "SIG" + name))
    assert launcher.finish(job) == (0, f"got SIG{name}\n" * 2, "")


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_ranks_that_do_not_care_die_of_it_without_a_word(launcher, name, code):
    job = start(launcher, "sh", "-c", "echo ready; exec sleep 30")
    os.kill(job.pid, getattr(signal, "SIG" + name))
    assert launcher.finish(job, 5) == (code, "", "")


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_user_signals(launcher, name):
    job = start(launcher, *launcher.python(LISTENING.format(then="pass")))
    os.kill(job.pid, getattr(signal, "SIG" + name))
    assert [job.stdout.readline() for _ in range(2)] == [
        f"got SIG{name}\n".encode()
    ] * 2
    os.kill(job.pid, signal.SIGINT)
    assert [job.stdout.readline() for _ in range(2)] == [b"got SIGINT\n"] * 2
    assert job.poll() is None
    os.kill(job.pid, signal.SIGINT)
    began = time.monotonic()
    assert launcher.finish(job, 5)[::2] == (130, "")
    assert time.monotonic() - began < 2


def test_a_rank_that_waits_for_an_interrupted_one_is_ended(launcher):
    script = "[ $PMI_RANK = 0 ] || trap '' INT; echo ready; exec sleep 30"
    job = start(launcher, "sh", "-c", script)
    began = time.monotonic()
    os.kill(job.pid, signal.SIGINT)
    assert launcher.finish(job, 5)[0] == 130
    assert time.monotonic() - began < 2.5


def test_stop_and_continue(launcher):
    script = "echo ready; while :; do sleep 0.05; echo tick; done"
    job = start(launcher, "sh", "-c", script)
    os.kill(job.pid, signal.SIGTSTP)
    launcher.wait_for(lambda: os.waitpid(job.pid, os.WNOHANG | os.WUNTRACED)[0])
    os.set_blocking(job.stdout.fileno(), False)
    time.sleep(0.2)
    job.stdout.read()
    time.sleep(0.4)
    assert not job.stdout.read()
    os.kill(job.pid, signal.SIGCONT)
    launcher.wait_for(lambda: b"tick" in (job.stdout.read() or b""))
    os.kill(job.pid, signal.SIGTERM)
    assert launcher.finish(job, 5)[0] == 143


def test_an_ignored_hangup_stays_ignored(launcher):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        job = start(launcher, "sh", "-c", "echo ready; sleep 0.5; echo done")
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(job.pid, signal.SIGHUP)
    assert launcher.finish(job, 5) == (0, "done\ndone\n", "")
