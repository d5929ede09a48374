# SPDX-License-Identifier: MIT
"""The command, with a compiler and a launcher that only pretend."""

import json
import stat

import pytest

from tbmpi.hpl import blas, cli, main
from tbmpi.hpl.errors import HplError

# Answers as HPL would: one passed system for every N, NB and grid in HPL.dat.
FAKE_XHPL = r"""#!/usr/bin/env python3
import sys
lines = open("HPL.dat").read().splitlines()
words = [line.split() for line in lines]
count = lambda at: int(words[at][0])
ns, nbs = words[5][:count(4)], words[7][:count(6)]
grids = list(zip(words[10][:count(9)], words[11][:count(9)]))
verdict = "FAILED" if MODE == "fail" else "PASSED"
if MODE == "illegal":
    print(">>> Need at least 4 processes for these tests <<<")
    sys.exit(1)
for n in ns:
    for nb in nbs:
        for p, q in grids:
            speed = int(nb) + int(p)
            print(f"WR11C2R4 {n} {nb} {p} {q} 0.5 {speed:.4e}")
            print(f"||Ax-b||_oo/(eps*N)= 3.5e-03 ...... {verdict}")
print("  0 tests completed and failed residual checks,")
if MODE == "die":
    sys.exit(3)
print("End of Tests.")
"""


@pytest.fixture
def hpl(tmp_path, monkeypatch):
    """Return a function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    launcher = tmp_path / "launch"
    launcher.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    xhpl = tmp_path / "xhpl"
    for path in (launcher, xhpl):
        path.touch()
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cli, "find_blas", lambda cc, options: blas.OPENBLAS)
    monkeypatch.setattr(cli, "find_origin", lambda source, cache: tmp_path)
    monkeypatch.setattr(cli, "build_xhpl", lambda *arguments: xhpl)

    def run(*argv, mode="pass"):
        xhpl.write_text(FAKE_XHPL.replace("MODE", repr(mode)))
        machine = "localhost,memory=16G,cores=4"
        return main(["--cc", "/bin/true", "--host", machine, *argv])

    monkeypatch.setattr(cli, "_launcher", lambda options: [str(launcher), "-n"])
    monkeypatch.setattr(
        cli, "_command", lambda launch, plan, *rest: [*launch, str(sum(plan.ranks))]
    )
    return run


def test_a_given_n_is_run_at_once(hpl, tmp_path, capsys):
    assert hpl("--n", "3000", "--grid", "2x2") == 0
    said = capsys.readouterr().out
    assert "N 3000, NB 128, 2x2: 130 Gflops" in said
    assert "PASSED" in said
    kept = json.loads((tmp_path / "hpl-run" / "result.json").read_text())
    assert kept["passed"] is True
    assert [run["n"] for run in kept["runs"]] == [3000]


def test_filling_the_memory_climbs(hpl, tmp_path):
    assert hpl() == 0
    kept = json.loads((tmp_path / "hpl-run" / "result.json").read_text())
    sizes = [run["n"] for run in kept["runs"]]
    assert sizes[:2] == [2000, 10000]
    assert sizes[2] == kept["plan"]["n"] > 30000


def test_yes_skips_the_climb(hpl, tmp_path):
    assert hpl("--yes") == 0
    kept = json.loads((tmp_path / "hpl-run" / "result.json").read_text())
    assert len(kept["runs"]) == 1


def test_a_failed_residual_ends_the_climb(hpl, tmp_path, capsys):
    assert hpl(mode="fail") == 1
    assert "FAILED" in capsys.readouterr().out
    kept = json.loads((tmp_path / "hpl-run" / "result.json").read_text())
    assert kept["passed"] is False
    assert [run["n"] for run in kept["runs"]] == [2000]


def test_search_takes_the_fastest(hpl, tmp_path):
    assert hpl("--search", "--n", "4000", "--ranks", "2") == 0
    kept = json.loads((tmp_path / "hpl-run" / "result.json").read_text())
    assert (kept["plan"]["nb"], kept["plan"]["p"]) == (256, 2)
    assert kept["plan"]["n"] == 4000


@pytest.mark.parametrize(
    "mode, words",
    [
        ("illegal", "Need at least 4 processes"),
        ("die", "exit code 3"),
    ],
)
def test_a_run_that_does_not_end_well_is_explained(hpl, capsys, mode, words):
    assert hpl("--n", "1000", mode=mode) == 2
    assert words in capsys.readouterr().err


def test_plan_only_prints_an_hpl_dat(hpl, capsys):
    assert hpl("--plan-only", "--n", "5000", "--ranks", "4") == 0
    said = capsys.readouterr().out
    assert "plan: N 5000, NB 128, grid 2x2; ranks: 4 on localhost" in said
    assert "HPLinpack benchmark input file" in said


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--grid", "4"], "'4' is not a grid such as 2x4"),
        (["--n", "0"], "'0' is not a number of 1 or more"),
        (["--memory-fraction", "2"], "'2' is not a number above 0"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_words_are_named(argv, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_missing_wrapper_is_named(capsys):
    assert main(["--n", "100", "--cc", "/nowhere/mpicc"]) == 2
    assert "/nowhere/mpicc is neither" in capsys.readouterr().err


def test_a_missing_blas_names_the_package(tmp_path, monkeypatch):
    cc = tmp_path / "cc"
    cc.write_text("#!/bin/sh\necho '/usr/bin/ld: cannot find -lopenblas' >&2\nexit 1\n")
    cc.chmod(0o755)
    monkeypatch.setattr(blas.sys, "platform", "linux")
    with pytest.raises(HplError, match="apt-get install libopenblas-dev"):
        blas.find_blas(str(cc))
    with pytest.raises(HplError, match="--blas='-lnone' gives no dgemm"):
        blas.find_blas(str(cc), "-lnone")
