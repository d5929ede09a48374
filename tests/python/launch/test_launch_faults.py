# SPDX-License-Identifier: MIT
"""What --fault takes, and what it refuses in one line."""

from __future__ import annotations

import signal

import pytest

from tbmpi.launch import faults, topology
from tbmpi.launch.errors import LaunchError

MESH = topology.find("mesh:3x2")


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("pull 0", None, (("pull", "0"),)),
        ("at 2s pull 5", 2.0, (("pull", "5"),)),
        ("at 300ms plug 1", 0.3, (("plug", "1"),)),
        ("at 1.5 pull 0-1", 1.5, (("pull", "0"), ("pull", "1"))),
        ("pull mac2-mac1", None, (("pull", "4"), ("pull", "5"))),
        ("at 0s set loss 1%", 0.0, (("set", "loss", "1%"),)),
        ("set rate 1 2", None, (("set", "rate", "1", "2"),)),
        ("pull mac0-2 segv", None, (("pull", "2", "segv"), ("pull", "3", "segv"))),
        ("delay 5% 1ms 0-1", None, tuple(("delay", "5%", "1ms", c) for c in "01")),
        ("drop 0.01", None, (("drop", "0.01"),)),
        ("port mac1 rdma_en2 down", None, (("port", "1", "rdma_en2", "down"),)),
        ("leak on 16", None, (("leak", "on", "16"),)),
    ],
)
def test_faults_of_the_fabric(text, at, words):
    fault = faults.parse(text, MESH)
    assert (fault.at, fault.words, fault.signum) == (at, words, 0)


class Processes:
    """Process groups by what they are."""

    def groups_of(self, node):
        return [100 + node, 200 + node]

    def group_of_rank(self, rank):
        return 300 + rank if rank < 2 else None

    def group_of_helper(self, node):
        return 200 + node


@pytest.mark.parametrize(
    ("text", "signum", "victims"),
    [
        ("kill rank 1", signal.SIGKILL, [301]),
        ("kill rank 2", signal.SIGKILL, []),
        ("kill router mac2", signal.SIGKILL, [202]),
        ("stop 1", signal.SIGSTOP, [101, 201]),
        ("continue mac1", signal.SIGCONT, [101, 201]),
        ("pull 0", 0, []),
    ],
)
def test_faults_of_processes(text, signum, victims):
    fault = faults.parse(text, MESH)
    assert fault.signum == signum
    assert fault.victims(Processes()) == victims


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "what goes wrong begins with one of pull, plug"),
        ("at 2s", "what goes wrong begins with one of"),
        ("explode", "see tbmpi sim faults"),
        ("at noon pull 0", "'at' takes a time such as 2s or 300ms"),
        ("at", "'at' takes a time"),
        ("pull", "it is: pull CABLE, or pull CABLE segv"),
        ("reboot mac7", "no Mac is called mac7"),
        ("pull 6", "the cables are 0 to 5"),
        ("pull 0-3", "'0-3' is neither a cable's number nor two Macs"),
        ("pull mac0", "'mac0' is neither"),
        ("kill 3", "it is: kill rank R, or kill router MAC"),
        ("kill router mac9", "no Mac is called mac9; there are mac0, mac1, mac2"),
        ("stop", "stop takes a Mac"),
        ("stop 3", "no Mac is called 3"),
        ("set loss", "it is: set SWITCH VALUE [CABLE]"),
    ],
)
def test_faults_that_cannot_be(text, says):
    with pytest.raises(LaunchError) as caught:
        faults.parse(text, MESH)
    assert says in str(caught.value)
    assert f"--fault '{text}'" in str(caught.value)


def test_macs_that_no_cable_joins():
    with pytest.raises(LaunchError, match="no cable joins 0-2"):
        faults.parse("pull 0-2", topology.find("line:3"))


def test_ranks_that_the_job_has_not():
    faults.parse("kill rank 3", MESH).check_ranks(4)
    with pytest.raises(LaunchError, match="the job has ranks 0 to 3 only"):
        faults.parse("kill rank 4", MESH).check_ranks(4)
