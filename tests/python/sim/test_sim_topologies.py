# SPDX-License-Identifier: MIT
"""Programs on all topologies: the same answers as on one machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
JOBS = int(os.environ.get("TBMPI_SIM_JOBS", "5"))
TOPOLOGIES = ["mesh:4", "ring:4", "line:4", "star:4", "mesh:2x2"]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_byte_between_all_pairs(macs, tokens, topology):
    done = macs.run("--sim", topology, "-n", "4", "--timeout", "60", tokens, "1")
    out = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.search(r"^[1-9]\d* rounds of 4 ranks, 0 bytes wrong$", out, re.MULTILINE)
    macs_of_ranks = dict(re.findall(r"rank (\d) on (\w+)", out))
    a_mac = 2 if topology == "mesh:2x2" else 1
    assert macs_of_ranks == {str(r): f"mac{r // a_mac}" for r in range(4)}


@pytest.mark.parametrize("topology", ["ring:3", "line:3"])
def test_several_ranks_on_each_mac(macs, tokens, topology):
    words = ("--sim", topology, "--ranks-per-node", "2", "--timeout", "60")
    done = macs.run(*words, tokens, "1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"rounds of 6 ranks, 0 bytes wrong" in done.stdout


def test_macs_without_ranks_pass_packets_on(macs, tokens):
    words = ("--sim", "line:3", "-n", "2", "--timeout", "60")
    done = macs.run(*words, tokens, "0.5")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("topology", ["mesh:2", "mesh:3", "mesh:2x2"])
def test_ranks_that_own_the_verbs(macs, tokens, topology):
    words = ("-q", "--sim", topology, "--router", "never", "--timeout", "60")
    done = macs.run(*words, tokens, "1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b" 0 bytes wrong" in done.stdout


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_heat2d_equals_one_rank(macs, topology):
    program = (sys.executable, str(ROOT / "examples/heat2d.py"))
    size = ("--size", "96", "--steps", "60")
    words = ("--sim", topology, "-n", "4", "--timeout", "90")
    done = macs.run(*words, *program, *size)
    assert done.returncode == 0, done.stderr.decode()
    assert b"equal to one rank, bit by bit" in done.stdout + done.stderr


def test_many_jobs_leave_nothing(macs, tokens):
    for _ in range(JOBS):
        done = macs.run("--sim", "mesh:2", "--timeout", "60", tokens, "0")
        assert (done.returncode, done.stderr) == (0, b"")


def test_caps_of_the_devices(macs, tokens):
    job = macs.start_sim("mesh:4", "-N", "8", "--timeout", "100", tokens, "40")
    macs.wait_for(
        lambda: all(n["pool"]["state"] == "up" for n in shown(macs, job)["nodes"]), 60
    )
    facts = shown(macs, job)
    for node in facts["nodes"]:
        pool = node["pool"]
        for free, slots in zip(pool["free"], pool["slots"], strict=True):
            assert 0 < free < slots
    devices = facts["fabric"]["devices"]
    assert len(devices) == 12
    for device in devices:
        (holder,) = device["holders"]
        assert holder["qps"] == 3
        assert 1 <= holder["mrs"] <= 16
    job.terminate()
    assert macs.finish(job)[0] == 143


def shown(macs, job):
    return macs.ask(job, do="show")


def test_commands_on_a_running_job(macs, tokens):
    job = macs.start_sim("mesh:3", "--timeout", "60", tokens, "30")
    number = str(job.pid)

    def tbmpi(*words: str, code: int = 0) -> str:
        command = [str(Path(sys.executable).with_name("tbmpi")), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    macs.wait_for(lambda: "is up" in tbmpi("info", "--pool", number), 30)
    assert "mesh:3  3 ranks of tokens" in tbmpi("sim", "list")
    assert "cable 2: mac1 rdma_en3 -- mac2 rdma_en3, plugged in" in tbmpi(
        "sim", "show", number
    )
    pools = tbmpi("info", "--pool", number)
    assert pools.count("3 queue pairs") == 6
    assert len(re.findall(r"free slots: \d+ of \d+ of 4 KiB, ", pools)) == 3
    routes = tbmpi("info", "--routes", number)
    assert routes.count("direct") == 6
    assert json.loads(tbmpi("sim", "show", number, "--json"))["job"] == job.pid
    assert tbmpi("sim", "fault", number, "pull", "mac0-mac1") == ""
    assert "cable 0: mac0 rdma_en2 -- mac1 rdma_en2, pulled" in tbmpi(
        "sim", "show", number
    )
    macs.wait_for(
        lambda: "mac0 to mac1: over mac2" in tbmpi("info", "--routes", number), 30
    )
    assert "the cables are 0 to 2" in tbmpi("sim", "fault", number, "pull 7", code=1)
    assert "no simulated job 1 runs" in tbmpi("sim", "show", "1", code=1)
    job.terminate()
    assert macs.finish(job)[0] == 143


def test_routes_and_pools_of_a_running_job(macs, tokens):
    job = macs.start_sim("line:3", "--timeout", "60", tokens, "20")
    macs.wait_for(lambda: shown(macs, job)["nodes"][0]["routes"][2]["hops"] == 2, 30)
    routes = shown(macs, job)["nodes"][0]["routes"]
    assert (routes[1]["hops"], routes[1]["next"]) == (1, 1)
    assert (routes[2]["hops"], routes[2]["next"]) == (2, 1)
    macs.wait_for(lambda: shown(macs, job)["nodes"][2]["routes"][0]["got"] > 0)
    job.terminate()
    assert macs.finish(job)[0] == 143
