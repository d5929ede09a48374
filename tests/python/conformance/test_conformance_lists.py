# SPDX-License-Identifier: MIT
"""The conformance runner's own judgement: testlists, expectations, HPCC's output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).parents[2] / "conformance"


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


def entry(line, folder="pt2pt"):
    from mpich.testlists import parse_line

    return parse_line(line, folder)


def test_a_plain_entry():
    found = entry("sendrecv1 4")
    assert found.name == "pt2pt/sendrecv1 4"
    assert (found.ranks, found.limit) == (4, 60)


def test_options_and_names():
    found = entry("p 2 arg=-n=3 arg=-x env=A=b timeLimit=600 mem=1.5 xfail=t strict=F")
    assert found.name == "pt2pt/p -n=3 -x env:A=b 2"
    assert found.arguments == ("-n=3", "-x")
    assert found.environment == ("A=b",)
    assert found.memory_gb == 1.5
    assert found.limit == 200


@pytest.mark.parametrize(
    "time_limit, seconds", [(10, 10), (60, 60), (180, 60), (300, 100)]
)
def test_limits_keep_the_suites_proportions(time_limit, seconds):
    assert entry(f"p 2 timeLimit={time_limit}").limit == seconds


@pytest.mark.parametrize("line", ["", "# p 2", "folder", "!util:all", "   "])
def test_what_is_no_entry(line):
    assert entry(line) is None


def test_unknown_options_are_not_passed_over():
    with pytest.raises(ValueError, match="pt2pt/p: unknown option speed=fast"):
        entry("p 2 speed=fast")
    assert entry("p 2 stray/word arg=1").arguments == ("1",)


def test_folders_below_and_repeats_are_collected(tmp_path):
    from mpich.testlists import collect

    (tmp_path / "threads" / "rma").mkdir(parents=True)
    (tmp_path / "threads" / "testlist").write_text("rma\na 2\na 2\n")
    (tmp_path / "threads" / "rma" / "testlist").write_text("b 3\n")
    names = [found.name for found in collect(tmp_path, "threads", ["testlist"])]
    assert names == ["threads/rma/b 3", "threads/a 2", "threads/a 2 #2"]


@pytest.mark.parametrize(
    "line, code, output, verdict",
    [
        ("p 2", 0, " No Errors\n", "pass"),
        ("p 2", 0, "No errors\nTest Passed\n", "pass"),
        ("p 2", 0, "No Errors\nNo Errors\n", "fail"),
        ("p 2", 0, "warning\n No Errors\n", "fail"),
        ("p 2", 0, "", "fail"),
        ("p 2", 1, " No Errors\n", "fail"),
        ("p 2", None, " No Errors\n", "timeout"),
        ("p 2 resultTest=TestStatus", 1, "died\n", "pass"),
        ("p 2 resultTest=TestStatus", 0, "", "fail"),
        ("p 2 resultTest=TestErrFatal", None, "", "timeout"),
        ("p 2 resultTest=TestStatusNoErrors", 1, "No Errors\n", "pass"),
        ("p 2 resultTest=TestStatusNoErrors", 0, "No Errors\n", "fail"),
    ],
)
def test_verdicts(line, code, output, verdict):
    from mpich.testlists import verdict as judge

    assert judge(entry(line), code, output) == verdict


LIST = """\
# known
total pt2pt 3
pt2pt/a -x 2 : not written
? pt2pt/b 2 : needs memory
"""


def parsed(text=LIST):
    from expectations import parse

    return parse(text, "known.txt")


def judged(statuses, collected=3, complete=True, text=LIST):
    from expectations import judge

    return judge(parsed(text), statuses, {"pt2pt": collected}, complete)


GOOD = {"pt2pt/a -x 2": "fail", "pt2pt/b 2": "skip", "pt2pt/c 2": "pass"}


def test_as_listed_is_right():
    assert judged(GOOD) == []
    assert judged({**GOOD, "pt2pt/b 2": "pass"}) == []
    assert judged({**GOOD, "pt2pt/a -x 2": "timeout"}) == []


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"pt2pt/c 2": "fail"}, "fail, not listed: pt2pt/c 2"),
        ({"pt2pt/c 2": "skip"}, "skip, not listed: pt2pt/c 2"),
        ({"pt2pt/a -x 2": "pass"}, "listed, but passes: pt2pt/a -x 2"),
    ],
)
def test_other_than_listed_is_wrong(change, complaint):
    assert judged({**GOOD, **change}) == [complaint]


def test_totals_must_not_fall():
    assert judged(GOOD, collected=4) == []
    assert judged(GOOD, collected=2) == ["pt2pt: 2 entries collected, 3 expected"]
    assert judged({}, 3, False, "") == ["no total listed: total pt2pt 3"]


def test_stale_names_are_found_in_a_whole_run_only():
    stale = "total pt2pt 3\npt2pt/gone 2 : why\n"
    assert judged({}, 3, True, stale) == ["listed, but no such entry: pt2pt/gone 2"]
    assert judged({}, 3, False, stale) == []


def test_growth():
    from expectations import growth

    new = parsed(LIST + "pt2pt/d 2 : too slow\nrma/x 2 : not written\ntotal rma 1\n")
    assert growth(parsed(), new) == ["added to the list: pt2pt/d 2"]
    assert growth(parsed(), parsed(LIST.replace("total pt2pt 3", ""))) == [
        "total of pt2pt lowered from 3 to 0"
    ]
    assert growth(new, parsed()) == ["total of rma lowered from 1 to 0"]


def test_the_earlier_list_comes_from_git(tmp_path):
    from expectations import one_commit_earlier

    known = tmp_path / "known.txt"
    assert one_commit_earlier(known) is None
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for text in (LIST, LIST + "pt2pt/d 2 : new\n"):
        known.write_text(text)
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
            subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
    assert one_commit_earlier(known) == parsed()


@pytest.mark.parametrize(
    "line", ["pt2pt/a 2", "pt2pt/a 2 : ", "pt2pt/a 2:why", LIST + "pt2pt/b 2 : again"]
)
def test_bad_lists_name_the_line(line):
    with pytest.raises(ValueError, match=r"known\.txt:\d+: "):
        parsed(line)


def test_the_committed_list_can_be_read():
    known = CONFORMANCE / "mpich" / "known.txt"
    assert sum(parsed(known.read_text()).totals.values()) >= 530


HPCC = """\
              1 tests completed and passed residual checks,
              0 tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
Begin of Summary section.
Success=1
HPL_Tflops=0.001
PTRANS_GBs=1
MPIRandomAccess_GUPs=1
MPIFFT_Gflops=1
StarSTREAM_Triad=1
StarDGEMM_Gflops=1
End of Summary section.
End of HPC Challenge tests.
"""


@pytest.mark.parametrize(
    "old, new, complaint",
    [
        ("Success=1", "Success=0", "Success=0"),
        ("0 tests completed and f", "2 tests completed and f", "2 tests completed"),
        ("0 tests skipped", "1 tests skipped", "1 tests skipped"),
        ("Success=1", "Verification FAILED\nSuccess=1", "Verification FAILED"),
        ("End of HPC Challenge tests.", "", "the output ends before"),
        ("MPIFFT_Gflops=1", "", "no figure of MPIFFT"),
    ],
)
def test_hpcc_output(old, new, complaint):
    from hpcc.suite import complaints_about, read_summary

    assert complaints_about(HPCC, read_summary(HPCC)) == []
    text = HPCC.replace(old, new)
    (found,) = complaints_about(text, read_summary(text))
    assert found.startswith(complaint)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path):
    from bounded import descendants, run_bounded

    nap = f"sleep 77.{os.getpid()}"  # of this run alone
    script = f"trap '' TERM; setsid {nap} & {nap} & wait; wait"
    outcome = run_bounded(
        ["sh", "-c", script], cwd=tmp_path, log=tmp_path / "log", limit=0.5
    )
    assert outcome.code is None
    assert outcome.seconds < 15
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,args="], capture_output=True, text=True
    ).stdout
    assert nap not in listing
    assert descendants(2**22) == {}


# ----------------------------------------------------------- PyPI's programs


def test_the_numbers_of_a_program():
    from programs.suite import answer

    assert answer("a note\nanswer: 1 2.5 -3e-9\nanother\n") == [1.0, 2.5, -3e-9]
    assert answer("no numbers") is None
    assert answer("answer: 1\nanswer: 1\n") is None


def test_answers_may_differ_by_rounding_only():
    from programs.suite import same

    assert same([1.0, 2e9], [1.0, 2e9 * (1 + 1e-10)])
    assert not same([1.0], [1.0001])
    assert not same([1.0], [1.0, 2.0])
    assert not same([float("nan")], [1.0])


def test_an_unknown_program_is_named():
    from programs.suite import main
    from toolchain import SuiteError

    with pytest.raises(SuiteError, match="no program nothing-like-it"):
        main(["nothing-like-it"])
