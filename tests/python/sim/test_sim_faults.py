# SPDX-License-Identifier: MIT
"""Cables are pulled, ranks and routers killed, Macs stopped: no hang, no leak.

TBMPI_FAULT_RUNS says how many random deaths there are (6), TBMPI_FAULT_SEED
repeats them, TBMPI_STOPPED_SECONDS says for how long a Mac is stopped (3).
"""

from __future__ import annotations

import os
import random
import re
import time

import pytest

TOLD = 3.0  # seconds from the last success to an error that says why
GONE = 2.5  # seconds from a death to the end of the job, on a loaded machine
REPORTED = 10.0  # seconds of silence that are worth a line
NO_WORD = re.compile("no word from mac1 for 1")
IS_STOPPED = re.compile(r"rank 1 \(process \d+\) has been stopped for 1")
START = 3.0  # seconds that a job may need to start
RUNS = int(os.environ.get("TBMPI_FAULT_RUNS", "6"))
SEED = int(os.environ.get("TBMPI_FAULT_SEED", str(random.randrange(1 << 30))))
STOPPED = float(os.environ.get("TBMPI_STOPPED_SECONDS", "3"))


def exact(done: bytes | str) -> bool:
    text = done.decode() if isinstance(done, bytes) else done
    return re.search(r"[1-9]\d* rounds of \d+ ranks, 0 bytes wrong", text) is not None


@pytest.mark.parametrize("topology", ["mesh:4", "ring:4", "mesh:2x2"])
@pytest.mark.parametrize("how", ["", " segv"])
def test_a_pulled_cable_with_another_way(macs, tokens, topology, how):
    words = ("--sim", topology, "-n", "4", "--fault", f"at 700ms pull 0{how}")
    done = macs.run(*words, "--timeout", "60", tokens, "3")
    err = done.stderr.decode()
    assert done.returncode == 0, err
    assert exact(done.stdout)
    assert len(re.findall(r"^tbmpi.*cable 0 \(", err, re.MULTILINE)) <= 1, err


@pytest.mark.parametrize("router", ["auto", "never"])
def test_a_pulled_cable_of_two_is_said_once(macs, tokens, router):
    words = ("--sim", "mesh:2x2", "--ranks-per-node", "1", "--router", router)
    fault = ("--fault", "at 700ms pull 0")
    done = macs.run(*words, *fault, "--timeout", "60", tokens, "4")
    err = done.stderr.decode()
    assert done.returncode == 0, err
    assert exact(done.stdout)
    assert err.count("cable 0 (rdma_en") == 1, err


NEVER = ("--router", "never")


@pytest.mark.parametrize(
    ("topology", "words", "how"),
    [
        ("line:3", (), ""),
        ("line:3", (), " segv"),
        ("star:4", (), ""),
        ("mesh:2", ("-N", "2"), ""),
        ("mesh:2", ("-N", "2"), " segv"),
        ("mesh:2", NEVER, ""),
    ],
)
def test_without_another_way_each_rank_learns_why(macs, witness, topology, words, how):
    fault = ("--fault", f"at 1s pull 0{how}")
    words = ("-q", "--sim", topology, *words, *fault, "--timeout", "60")
    done = macs.run(*words, witness)
    out = done.stdout.decode()
    said = re.findall(r"^rank (\d+) after (\S+) s: (.*)$", out, re.MULTILINE)
    ranks = 4 if topology == "star:4" or "-N" in words else int(topology[-1])
    assert sorted(int(rank) for rank, _, _ in said) == list(range(ranks)), out
    for rank, seconds, text in said:
        assert float(seconds) <= TOLD, out
        assert re.search(r"cable 0 \(rdma_en\d of mac\d to ", text), text
        assert re.search(r"rank \d cannot be reached", text), f"{rank}: {text}"


def test_a_fault_in_the_verbs_library_ends_a_rank_that_owns_them(macs, witness):
    fault = ("--fault", "at 1s pull 0 segv")
    words = ("-q", "--sim", "mesh:2", *NEVER, *fault, "--timeout", "60")
    done = macs.run(*words, witness)
    assert done.returncode == 128 + 11
    assert b"was killed by signal 11" in done.stderr


@pytest.mark.parametrize("topology", ["line:3", "star:4"])
def test_a_pulled_cable_without_another_way(macs, tokens, topology):
    start = time.monotonic()
    words = ("--sim", topology, "--fault", "at 1s pull 0", "--timeout", "60")
    done = macs.run(*words, tokens, "30")
    err = done.stderr.decode()
    assert done.returncode not in (0, 124)
    assert time.monotonic() - start < 1 + 3 + 5
    assert "cable 0" in err
    assert "mac1" in err


def test_a_cable_that_is_plugged_in_again_too_late_is_not_used(macs, tokens):
    faults = ("--fault", "at 500ms pull 0", "--fault", "at 5s plug 0")
    words = ("--sim", "mesh:3", *faults, "--timeout", "60")
    done = macs.run(*words, tokens, "6")
    assert done.returncode == 0, done.stderr.decode()
    assert exact(done.stdout)


def test_lost_damaged_and_late_frames(macs, tokens):
    faults = ("drop 0.5%", "corrupt 0.1%", "delay 2% 1ms")
    words = [word for fault in faults for word in ("--fault", fault)]
    done = macs.run("--sim", "mesh:2", *words, "--timeout", "90", tokens, "3")
    assert done.returncode == 0, done.stderr.decode()
    assert exact(done.stdout)


@pytest.mark.parametrize("topology", ["mesh:3", "line:3"])
def test_a_killed_rank(macs, tokens, topology):
    job = macs.start_sim(topology, "-N", "2", "--timeout", "60", tokens, "30")
    time.sleep(1.0)
    start = time.monotonic()
    macs.fault(job, "kill rank 3")
    code, _, err = macs.finish(job)
    assert time.monotonic() - start < GONE
    assert code == 137
    assert err.startswith("tbmpirun: rank 3 on mac1 was killed by signal 9")
    assert err.count("\n") == 1  # so no device has anything left


def test_a_killed_router(macs, tokens):
    job = macs.start_sim("mesh:3", "-N", "2", "--timeout", "60", tokens, "30")
    time.sleep(1.0)
    start = time.monotonic()
    macs.fault(job, "kill router mac1")
    code, _, err = macs.finish(job)
    assert time.monotonic() - start < GONE
    assert code == 137
    lines = [line for line in err.splitlines() if line.startswith("tbmpirun: ")]
    assert len(lines) == 1
    assert "router of mac1 was killed by signal 9" in lines[0]


@pytest.mark.parametrize("run", range(RUNS))
def test_a_death_at_any_moment(macs, tokens, run):
    dice = random.Random(SEED + run)
    topology = dice.choice(["mesh:3", "ring:4", "line:3", "star:4"])
    number = dice.randrange(3)
    victim = dice.choice([f"rank {number}", f"router mac{number}"])
    when = round(dice.uniform(0.0, 1.2), 3)
    start = time.monotonic()
    fault = f"at {when}s kill {victim}"
    words = ("--sim", topology, "--fault", fault, "--timeout", "60")
    done = macs.run(*words, tokens, "30")
    note = f"run {run} of seed {SEED}, {topology}, {fault}: {done.stderr.decode()}"
    assert done.returncode == 137, note
    lines = done.stderr.decode().splitlines()
    said = [line for line in lines if line.startswith("tbmpirun: ")]
    assert len(said) == 1, note
    assert "was killed by signal 9" in said[0], note
    assert time.monotonic() - start < START + when + GONE, note


def test_what_a_killed_router_held_is_told_where_that_matters(macs, tokens):
    words = ("--fault", "leak on", "--fault", "at 1s kill router mac1")
    done = macs.run("--sim", "mesh:2", *words, "--timeout", "60", tokens, "30")
    assert done.returncode == 137
    assert b"left in emulated devices: " in done.stderr


@pytest.mark.parametrize("who", ["mac1", "router mac1", "rank 1"])
def test_who_is_stopped_goes_on(macs, tokens, who):
    faults = ("--fault", f"at 700ms stop {who}")
    faults += ("--fault", f"at {0.7 + STOPPED}s continue {who}")
    words = ("--sim", "mesh:2", *faults, "--timeout", "100")
    done = macs.run(*words, tokens, str(STOPPED + 2))
    err = done.stderr.decode()
    assert done.returncode == 0, err
    assert exact(done.stdout)
    report = IS_STOPPED if who == "rank 1" else NO_WORD
    assert bool(report.search(err)) == (STOPPED > REPORTED + 2), err


@pytest.mark.parametrize("who", ["mac1", "rank 1"])
def test_a_stopped_owner_of_verbs_goes_on(macs, tokens, who):
    faults = ("--fault", f"at 700ms stop {who}")
    faults += ("--fault", f"at {0.7 + STOPPED}s continue {who}")
    words = ("-q", "--sim", "mesh:2", "--router", "never", *faults)
    done = macs.run(*words, "--timeout", "100", tokens, str(STOPPED + 2))
    err = done.stderr.decode()
    assert done.returncode == 0, err
    assert exact(done.stdout)
    assert bool(NO_WORD.search(err)) == (STOPPED > REPORTED + 2), err


def test_the_launcher_is_killed(macs, tokens):
    job = macs.start_sim("mesh:3", tokens, "30")
    time.sleep(1.0)
    job.kill()
    job.communicate(timeout=20)
    macs.assert_nothing_left(within=3.0)


def test_a_job_that_reaches_its_time_limit_names_the_macs(macs, tokens):
    done = macs.run("--sim", "mesh:2", "-n", "4", "--timeout", "2", tokens, "30")
    err = done.stderr.decode()
    assert done.returncode == 124
    for rank in range(4):
        assert f"rank {rank} on mac{rank // 2}, process " in err
