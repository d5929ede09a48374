# SPDX-License-Identifier: MIT
"""The modelled wire, and how --sim is asked for."""

from __future__ import annotations

import math

import pytest
from rich.console import Console

from tbmpi.bench import report, wire
from tbmpi.bench.cli import USAGE, main
from tbmpi.bench.engines import OURS, Engine
from tbmpi.bench.errors import BenchError
from tbmpi.bench.program import Figure


@pytest.fixture(autouse=True)
def fabric(monkeypatch):
    defaults = {"latency": "5us", "rate": "8.9"}
    monkeypatch.setattr(wire.fabric, "defaults", lambda: defaults)


def test_the_model():
    one = wire.Wire(latency=5.0, rate=1.0)
    assert one.usec("latency", 0) == 5.0
    assert one.usec("latency", 8000) == 13.0
    assert one.usec("bandwidth", 1_000_000) == 1000.0
    assert math.isnan(one.usec("msgrate", 8))
    assert math.isnan(one.usec("allreduce", 8))
    two = wire.Wire(latency=5.0, rate=1.0, cables=2, hops=3)
    assert two.usec("bibandwidth", 1_000_000) == 500.0
    assert two.usec("latency", 0) == 15.0
    assert wire.Wire(latency=0.0, rate=0.0).usec("bandwidth", 8) == 0.0


@pytest.mark.parametrize(
    ("sim", "given", "expected"),
    [
        ("mesh:2", None, wire.Wire(5.0, 8.9)),
        ("mesh:2x2", None, wire.Wire(5.0, 8.9, cables=2)),
        ("line:3", "250us,0.2", wire.Wire(250.0, 0.2)),
        ("mesh:4", "0.001s,1", wire.Wire(1000.0, 1.0)),
    ],
)
def test_asking_for_it(sim, given, expected):
    made = wire.emulation(sim, "auto", given)
    assert made.wire == expected
    assert made.options[1:3] == ("--sim", sim)
    assert ("--fault" in made.options) == (given is not None)


def test_two_macs_with_a_third_between(tmp_path):
    path = tmp_path / "far.json"
    path.write_text(
        '{"hosts": ["a", "b", "c"], "cables": [["a", "c"], ["c", "b"]],'
        ' "fabric": {"latency": "7us"}}'
    )
    assert wire.emulation(str(path), "auto", None).wire == wire.Wire(7.0, 8.9, hops=2)


@pytest.mark.parametrize(
    ("sim", "given", "says"),
    [
        ("mesh:1", None, "a mesh has 2 to 16 Macs"),
        ("mesh:2", "5us", "LATENCY,GB/s"),
        ("mesh:2", "5,1", "a time such as 5us"),
        ("mesh:2", "5us,fast", "the wire's rate is a number"),
        ("mesh:2", "-5us,1", "the wire's latency is a number"),
    ],
)
def test_wires_that_cannot_be(sim, given, says):
    with pytest.raises(BenchError) as caught:
        wire.emulation(sim, "auto", given)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--wire", "5us,1"], "--wire is the model of --sim"),
        (["--sim", "mesh:2", "--vs", "mpich"], "leave --vs"),
        (["--sim", "ring:1"], "a ring has 3"),
    ],
)
def test_options_that_do_not_fit(words, says, capsys):
    assert main(words) == USAGE
    assert says in " ".join(capsys.readouterr().err.split())


def test_options_reach_the_launcher(tmp_path):
    engine = Engine(OURS, tmp_path).with_options(("--sim", "mesh:2"))
    assert engine.command(2, ["prog"])[1:] == ["-n", "2", "--sim", "mesh:2", "prog"]
    assert OURS.options == ()


def test_the_table_shows_what_software_adds():
    figures = [
        Figure("latency", 8, 6.5, 6.6, 6.4),
        Figure("bandwidth", 1_000_000, 1250.0, 1260.0, 1240.0),
    ]
    console = Console(width=160, record=True)
    samples = {figure.key: [figure] for figure in figures}
    report.print_alone(console, samples, wire.Wire(5.0, 1.0))
    text = console.export_text()
    latency, bandwidth = (line for line in text.splitlines() if line.startswith("│"))
    assert "5.01" in latency
    assert "1.49" in latency
    assert "1,000" in bandwidth
    assert "80.0" in bandwidth
