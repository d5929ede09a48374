# SPDX-License-Identifier: MIT
"""How the runner of mpi4py's suite reads what the ranks say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).parents[2] / "conformance"
# A rank that runs tests in the way that a plan in its environment says.
RANK = """
import json, os, sys
folder = sys.argv[sys.argv.index("--log") + 1]
plan = json.loads(os.environ["PLAN"])
chosen = json.load(open(folder + "/chosen"))
out = open(f"{folder}/{os.getpid()}", "w", buffering=1)
say = lambda *event: out.write(json.dumps(event) + "\\n")
say("engine", "m", "lib 1")
for test in chosen:
    say("start", test, "")
    if plan.get(test) == "crash":
        os._exit(9)
    if plan.get(test) in ("fail", "skip"):
        say(plan[test], test, "because")
    say("stop", test, 0.5)
"""


@pytest.fixture(autouse=True)
def conformance_modules(monkeypatch):
    """Make the runner's modules importable for one test, and only for it."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(CONFORMANCE))
    yield
    for name in set(sys.modules) - before:
        source = getattr(sys.modules[name], "__file__", None)
        if source and Path(source).is_relative_to(CONFORMANCE):
            del sys.modules[name]


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Runs RANK, on one rank whatever is asked."""
    from mpi4py import launch

    program = tmp_path / "rank.py"
    program.write_text(RANK)
    monkeypatch.setattr(launch, "RANK", program)

    def make(**plan: str) -> launch.Engine:
        env = {"PLAN": json.dumps({f"test_a.C.{k}": v for k, v in plan.items()})}
        words = ("/usr/bin/env", "-u")
        return launch.Engine("alias", words, sys.executable, env, "m", "lib")

    return make


def names(*tests: str) -> dict[str, float]:
    return {f"test_a.C.{test}": 5.0 for test in tests}


def test_a_crash_costs_one_test(engine, tmp_path) -> None:
    from mpi4py.launch import run_tests

    made = engine(b="crash", c="fail", d="skip")
    found, end = run_tests(made, tmp_path, 1, names("a", "b", "c", "d"), tmp_path / "l")
    assert {test[-1]: finding.status for test, finding in found.items()} == {
        "a": "pass",
        "b": "crash",
        "c": "fail",
        "d": "skip",
    }
    assert "exit code 9" in found["test_a.C.b"].why
    assert (found["test_a.C.c"].why, found["test_a.C.a"].seconds) == ("because", 0.5)
    assert end == ""


def test_no_progress_ends_the_run(engine, tmp_path) -> None:
    from mpi4py.launch import run_tests

    made = engine()
    made.env.pop("PLAN")
    found, _ = run_tests(made, tmp_path, 1, names("a", "b"), tmp_path / "l")
    assert [finding.status for finding in found.values()] == ["unreached"] * 2


def test_the_wrong_library_is_noticed(engine, tmp_path) -> None:
    from dataclasses import replace

    from mpi4py.launch import run_tests
    from toolchain import SuiteError

    made = replace(engine(), library="other")
    with pytest.raises(SuiteError, match="m on lib 1, not m on other"):
        run_tests(made, tmp_path, 1, names("a"), tmp_path / "l")


def test_ranks_that_differ(tmp_path) -> None:
    from mpi4py.launch import _read

    stories = {
        "1": [("start", "t.C.a"), ("stop", "t.C.a"), ("start", "t.C.b")],
        "2": [("start", "t.C.a"), ("fail", "t.C.a"), ("stop", "t.C.a")],
    }
    for rank, story in stories.items():
        lines = [json.dumps([*event, "1"]) for event in story]
        (tmp_path / rank).write_text("\n".join(lines))
    record = _read(tmp_path, ["t.C.a", "t.C.b", "t.C.c"])
    # b has to run again: one rank did not get there, so the other one waited.
    assert [record.status(f"t.C.{test}") for test in "abc"] == [
        "fail",
        "unreached",
        "unreached",
    ]


def test_a_fixture_stands_for_its_class(tmp_path) -> None:
    from mpi4py.launch import _read

    event = ["skip", "setUpClass (t.C)", "no such thing"]
    (tmp_path / "1").write_text(json.dumps(event))
    record = _read(tmp_path, ["t.C.a", "t.D.a"])
    assert record.status("t.C.a") == "skip" and record.why["t.C.a"] == "no such thing"
    assert record.status("t.D.a") == "unreached"


def test_names_of_entries() -> None:
    from mpi4py.launch import entry_of, file_of

    assert entry_of("test_a.C.test") == "test_a/C.test"
    broken = "unittest.loader._FailedTest.test_b"
    assert (file_of(broken), entry_of(broken)) == ("test_b", "test_b/_FailedTest")


def test_lists_by_number_of_ranks() -> None:
    import expectations
    from mpi4py.suite import _expand

    listed = expectations.parse("a/C.t : always\na/C.u 2 4 : sometimes", "list")
    assert set(_expand(listed, (1, 2)).known) == {"a/C.t 1", "a/C.t 2", "a/C.u 2"}


@pytest.mark.parametrize(
    "why, judged",
    [("mpi-world-size<2", "pass"), ("cupy", "pass"), ("mpi-win", "skip")],
)
def test_which_skips_are_no_fault(why: str, judged: str) -> None:
    from mpi4py.launch import Finding
    from mpi4py.suite import _judged

    assert _judged(Finding("skip", why)) == judged


def test_a_quick_run_has_few_launches() -> None:
    from mpi4py.suite import PACKS, _jobs, _options

    chosen = [f"test_{name}.C.{k}" for name in "abcdefghij" for k in range(2)]
    jobs = _jobs(chosen, _options(["alias", "--quick", "-j", "1", "-n", "1,2"]))
    assert len(jobs) == 2 * PACKS
    for ranks in (1, 2):
        tests = [test for job in jobs if job.ranks == ranks for test in job.tests]
        assert sorted(tests) == chosen
    assert len(_jobs(chosen, _options(["alias", "-n", "1"]))) == 10
