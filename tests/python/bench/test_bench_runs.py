# SPDX-License-Identifier: MIT
"""The order of runs, failures, and the choice of settings."""

from dataclasses import replace
from pathlib import Path

import pytest

from tbmpi.bench import engines
from tbmpi.bench.engines import Engine, Library, Settings
from tbmpi.bench.program import Figure, Output
from tbmpi.bench.runs import Contender, Plan, interleave, with_best_settings


def read_number(text: str) -> Output:
    """Read what the fake programmes print: one time in microseconds."""
    usec = float(text)
    figure = Figure("latency", 8, usec, usec, usec)
    return Output({figure.key: figure}, {})


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(ranks=2, rounds=3, seconds=20, scratch=tmp_path)


def contender(folder: Path, name: str, script: str) -> Contender:
    """Return a library whose launcher runs a shell script once."""
    place = folder / name
    place.mkdir()
    launcher = place / "launch"
    launcher.write_text('#!/bin/sh\nshift 2\nexec /bin/sh -c "$1"\n')
    launcher.chmod(0o755)
    library = Library(name, "compile", "launch")
    return Contender(Engine(library, place), (script,), read_number)


def test_the_order_rotates(tmp_path: Path, plan: Plan) -> None:
    group = [contender(tmp_path, name, "echo 1") for name in "abc"]
    runs = list(interleave(group, plan))
    assert "".join(run.name for run in runs) == "abcbcacab"
    assert [run.round for run in runs] == [0] * 3 + [1] * 3 + [2] * 3
    assert not any(run.error for run in runs)


def test_two_failures_in_a_row_end_a_contender(tmp_path: Path, plan: Plan) -> None:
    bad = contender(tmp_path, "bad", "echo no such device >&2; exit 7")
    good = contender(tmp_path, "good", "echo 1")
    runs = list(interleave([bad, good], plan))
    assert [run.name for run in runs].count("bad") == 2
    assert [run.name for run in runs].count("good") == 3
    [error] = {run.error for run in runs if run.name == "bad"}
    assert error == "exit code 7: no such device"


def test_unreadable_output_and_hangs_are_failures(tmp_path: Path, plan: Plan) -> None:
    short = replace(plan, rounds=1, seconds=1)
    group = [
        contender(tmp_path, "odd", "echo nothing"),
        contender(tmp_path, "hangs", "sleep 60"),
    ]
    odd, hangs = interleave(group, short)
    assert "could not convert" in odd.error
    assert hangs.error == "stopped after 1 s"


def test_a_missing_launcher_is_a_failure(tmp_path: Path, plan: Plan) -> None:
    gone = contender(tmp_path, "gone", "echo 1")
    (tmp_path / "gone" / "launch").unlink()
    [run] = interleave([gone], replace(plan, rounds=1))
    assert "No such file" in run.error


def test_the_best_documented_settings_are_used(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "usable_cores", lambda: 1)
    tried = contender(tmp_path, "peer", 'echo "${TIME:-9}"')
    choices = (
        Settings("as delivered"),
        Settings("quick", {"TIME": "2"}),
        Settings("broken", {"TIME": "none"}),
    )
    library = replace(tried.engine.library, crowded_settings=choices)
    tried = replace(tried, engine=replace(tried.engine, library=library))
    best, scores = with_best_settings(tried, tried, plan)
    assert best.engine.settings.name == "quick"
    assert scores["as delivered"] == pytest.approx(9)
    assert scores["quick"] == pytest.approx(2)
    assert scores["broken"] == float("inf")


def test_with_enough_cores_nothing_is_tried(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "usable_cores", lambda: 2)
    tried = contender(tmp_path, "peer", "exit 1")
    assert with_best_settings(tried, tried, plan) == (tried, {})
