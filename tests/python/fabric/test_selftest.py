# SPDX-License-Identifier: MIT
"""tbmpi selftest sees what each switch of the fabric does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tbmpi import _paths
from tbmpi.launch.errors import LaunchError
from tbmpi.selftest import ends, findings, remote

LIMIT = 120.0
COMMAND = (str(Path(sys.executable).with_name("tbmpi")), "selftest")


@dataclass(frozen=True)
class Answer:
    """What the command said."""

    code: int
    facts: dict[str, Any]
    complaint: str

    def rows(self, probe: str) -> list[dict[str, Any]]:
        """All rows of a probe."""
        return [
            row
            for pair in self.facts["pairs"]
            for row in pair["rows"]
            if row["probe"] == probe
        ]

    def seen(self, probe: str) -> set[str]:
        """What its rows say was seen."""
        return {row["seen"] for row in self.rows(probe)}

    def values(self, probe: str) -> list[Mapping[str, Any]]:
        """Their figures."""
        return [row["values"] for row in self.rows(probe)]

    def lines(self, probe: str) -> list[Mapping[str, Any]]:
        """The figures as the program printed them."""
        return [
            line["values"]
            for pair in self.facts["pairs"]
            for line in pair["lines"]
            if line["probe"] == probe
        ]


def selftest(*words: str, env: Mapping[str, str] | None = None) -> Answer:
    """Runs it, for JSON."""
    done = subprocess.run(
        [*COMMAND, "--json", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=None if env is None else {**os.environ, **env},
    )
    facts = json.loads(done.stdout) if done.stdout else {}
    return Answer(done.returncode, facts, done.stderr)


def simulated(*switches: str) -> Answer:
    """Two emulated Macs, with these switches."""
    words = [word for switch in switches for word in ("--set", switch)]
    return selftest("--sim", "mesh:2", "--daring", *words)


Check = Callable[[Answer], bool]


def sees(probe: str, what: str) -> Check:
    """Every row of the probe says so."""
    return lambda answer: answer.seen(probe) == {what}


def counts(probe: str, count: int) -> Check:
    """Every row counts so many."""
    return lambda answer: {row["count"] for row in answer.values(probe)} == {count}


def fails_to_connect(number: int) -> Check:
    """Nothing can be sent, for that reason."""
    return lambda answer: (
        answer.code == 1
        and not answer.facts["works"]
        and {row["errno"] for row in answer.values("connect")} == {number}
    )


def least(answer: Answer) -> float:
    """The least latency of a frame, in us."""
    return min(row["least_us"] for row in answer.lines("latency"))


def rate(answer: Answer) -> float:
    """Bandwidth with the longest slots, in GB/s: a burst in the middle of all.

    One whose sender has lost the processor looks faster than it was.
    """
    long = [row["median"] for row in answer.lines("rate") if row["frames"] == 32]
    return min(long)


def is_lossy(answer: Answer) -> bool:
    """About one frame in a hundred is lost."""
    return 0.004 < answer.values("loss")[0]["share"] < 0.02


def lateness(answer: Answer) -> float:
    """How late late messages are, in us."""
    return max(row["late_us"] for row in answer.values("late"))


# What is set, and what must be seen then; by the switches that this is about.
SWITCHES: list[tuple[str, tuple[str, ...], Check]] = [
    ("latency", ("latency=400us",), lambda a: 400 <= least(a) < 600),
    ("rate", ("rate=0.2",), lambda a: 0.1 < rate(a) <= 0.21),
    ("loss", ("loss=1%",), lambda a: is_lossy(a) and a.seen("lost") == {"vanish"}),
    ("corrupt", ("corrupt=1%",), lambda a: a.values("damage")[0]["messages"] > 20),
    ("delays delay", ("delays=20%", "delay=20ms"), lambda a: 18e3 < lateness(a) < 60e3),
    ("lost", ("loss=1%", "lost=fail"), sees("lost", "fail")),
    ("send_read", ("send_read=post",), sees("send_read", "post")),
    ("scribble", ("scribble=off",), sees("scribble", "off")),
    ("scribble", ("scribble=all",), sees("scribble", "all")),
    ("credit", ("credit=drop",), sees("credit", "drop")),
    ("mismatch", ("mismatch=queue",), sees("mismatch", "queue")),
    ("overpost", ("overpost=corrupt",), sees("overpost", "corrupt")),
    ("overpost", ("overpost=refuse",), sees("overpost", "refuse")),
    ("recv_before_rts", ("recv_before_rts=accept",), sees("early_receive", "accepted")),
    ("rdma_write", ("rdma_write=swallow",), sees("rdma_write", "swallow")),
    ("sge", ("sge=split",), sees("sge", "split")),
    ("depth", ("depth=exact",), sees("depth", "exact")),
    ("depth", ("depth=half",), sees("depth", "less")),
    ("qp_max", ("qp_max=6",), counts("queue_pairs", 6)),
    ("pd_max", ("pd_max=5",), counts("domains", 5)),
    ("cq_max", ("cq_max=7",), counts("queues", 7)),
    ("mr_max", ("mr_max=50",), counts("regions", 50)),
    ("mr_scope", ("mr_scope=pd",), sees("region_scope", "domain")),
    ("mr_access", ("mr_access=wide",), sees("access", "wide")),
    ("mr_access", ("mr_access=local",), sees("access", "local")),
    ("mr_4g", ("mr_4g=refuse",), sees("line", "refuse")),
    ("mr_4g", ("mr_4g=ignore",), sees("line", "ignore")),
    ("gid_index", ("gid_index=2",), lambda a: a.values("gid")[0]["index"] == 2),
    ("neighbour", ("neighbour=empty",), fails_to_connect(60)),
    ("rtr_errno", ("rtr_errno=14",), fails_to_connect(14)),
    ("leak", ("leak=on",), sees("leak", "on")),
    (
        "leak_errno",
        ("leak=on", "leak_errno=16"),
        lambda a: a.values("leak")[0]["errno"] == 16,
    ),
    ("present", ("present=ethernet",), sees("port", "other")),
    ("errno", ("errno=native",), sees("errno", "native")),
]  # fmt: skip
# It only makes chance repeatable.
NOT_TO_BE_SEEN = {"seed"}
# What is seen where nothing is set.
USUAL = {
    "port": "thunderbolt", "gid": "first", "access": "any", "depth": "more",
    "types": "only_uc", "errno": "darwin", "channel": "none", "connect": "works",
    "early_receive": "refused", "mtu": "any", "credit": "hold", "mismatch": "receive",
    "longest": "arrives", "send_read": "late", "scribble": "frames", "sge": "refuse",
    "unsignaled": "quiet", "order": "overtakes", "loss": "none", "damage": "none",
    "sequence": "kept", "sharing": "machine", "leak": "off", "line": "alias",
    "overpost": "len_error", "rdma_write": "refuse", "region_scope": "device",
    "alignment": "page", "link": "works",
}  # fmt: skip


def test_every_switch_is_tried_or_named_as_invisible(switches: list[str]):
    known = {line.split()[0] for line in switches}
    tried = {name for names, _, _ in SWITCHES for name in names.split()}
    assert tried | NOT_TO_BE_SEEN == known


def test_the_usual_fabric():
    answer = simulated()
    assert answer.code == 0, answer.complaint
    assert answer.facts["works"]
    assert {probe: answer.seen(probe) for probe in USUAL} == {
        probe: {what} for probe, what in USUAL.items()
    }
    assert least(answer) >= 5
    assert 0.1 < rate(answer) < 9.5
    names = {row["probe"] for pair in answer.facts["pairs"] for row in pair["rows"]}
    assert names <= set(findings.TITLES)
    assert "rdma_en2" in json.dumps(answer.facts["pairs"][0]["cables"])


@pytest.mark.parametrize(
    ("switches", "check"),
    [
        pytest.param(switches, check, id=",".join(switches))
        for _, switches, check in SWITCHES
    ],
)
def test_a_switch_is_seen(switches, check):
    answer = simulated(*switches)
    assert answer.facts, answer.complaint
    assert check(answer), json.dumps(answer.facts["pairs"][0]["rows"], indent=1)


def test_careful_probes_leave_the_daring_ones_out():
    answer = selftest("--sim", "mesh:2x2")
    assert answer.code == 0
    assert len(answer.rows("credit")) == 2
    for probe in ("overpost", "rdma_write", "line", "leak", "regions", "immediate"):
        assert not answer.rows(probe)


def test_every_two_neighbours_are_looked_at(tmp_path):
    target = tmp_path / "found.json"
    done = subprocess.run(
        [*COMMAND, "--sim", "line:3", "--output", str(target)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "tbmpi can work here" in done.stdout
    assert "two processes on a device" in done.stdout
    found = json.loads(target.read_text())
    assert [pair["macs"] for pair in found["pairs"]] == [
        ["mac0", "mac1"],
        ["mac1", "mac2"],
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name another Mac, or emulated ones"),
        (("mac2", "--sim", "mesh:2"), "name another Mac, or emulated ones"),
        (("--sim", "cube:3"), "no such topology"),
        (("--sim", "mesh:2", "--set", "loss"), "it takes SWITCH=VALUE"),
        (("--sim", "mesh:2", "--set", "speed=3"), "there is no switch 'speed'"),
        (("--sim", "mesh:2", "--patience", "0"), "is no time of"),
    ],
)
def test_wrong_words_say_what_is_wrong(words, says):
    answer = selftest(*words)
    assert answer.code and says in answer.complaint
    assert not answer.facts


# ------------------------------------------------------------- another Mac


@pytest.fixture
def two_macs(fabric, tmp_path: Path) -> dict[str, str]:
    """The environment of Mac 0, from which `ssh` leads to Mac 1."""
    folder = tmp_path / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    ssh.write_text(
        "#!/bin/sh\n"
        'while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done\n'
        "[ $1 = nowhere ] && { echo no route >&2; exit 255; }\n"
        "export TBMPI_FABRIC_HOST=1\n"
        'exec sh -c "$2"\n'
    )
    ssh.chmod(0o755)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "TBMPI_FABRIC": str(fabric.path),
        "TBMPI_FABRIC_HOST": "0",
        "TBMPI_LIBRDMA": str(_paths.fabric_library()),
    }


def test_another_mac_is_asked_over_ssh(two_macs, fabric):
    answer = selftest("mac1", env=two_macs)
    assert answer.code == 0, answer.complaint
    assert answer.seen("link") == {"works"}
    assert {row["place"] for row in answer.rows("port")} >= {"mac1"}
    assert not fabric.call("check").stdout


def test_a_mac_that_does_not_answer_is_named(two_macs):
    answer = selftest("nowhere", env=two_macs)
    assert answer.code and "nowhere does not answer" in answer.complaint


def test_a_cable_that_is_not_there(two_macs):
    answer = selftest("mac1", "--cable", "rdma_en2:rdma_en9", env=two_macs)
    assert answer.code
    assert "no device rdma_en9 on mac1" in answer.complaint
    assert "rdma_en3 (169.254.1.2)" in answer.complaint


def test_a_port_that_is_down_is_said(two_macs, fabric):
    fabric.fault("pull", "0")
    answer = selftest("mac1", env=two_macs)
    assert answer.code and "which cables join" in answer.complaint


def device(name: str, address: str) -> dict[str, Any]:
    """One that is up."""
    return {"device": name, "up": True, "addresses": [address]}


def test_cables_are_found_by_their_nets():
    here = [device("rdma_en2", "192.168.0.1"), device("rdma_en3", "192.168.0.5")]
    there = [device("rdma_en7", "192.168.0.6"), device("rdma_en4", "192.168.0.2")]
    wires = remote.find_wires(here, there, [], "mac2")
    assert [wire.devices for wire in wires] == [
        ("rdma_en2", "rdma_en4"),
        ("rdma_en3", "rdma_en7"),
    ]
    far = [device("rdma_en7", "169.254.9.6")]
    assert remote.find_wires(here[:1], far, [], "mac2")[0].devices[1] == "rdma_en7"
    with pytest.raises(LaunchError, match="which cables join"):
        remote.find_wires(here, far, [], "mac2")


def test_a_crash_is_told_with_its_probe():
    begun = [{"begin": "port"}, {"probe": "port"}, {"begin": "credit"}]
    assert ends.explain(-11, begun, "") == (
        "it was killed by SIGSEGV in the probe 'credit'"
    )
    assert ends.explain(1, begun, "the other end has gone") == "the other end has gone"
