# SPDX-License-Identifier: MIT
"""HPL.dat, HPL's output, and the files in the folder hpl/."""

from pathlib import Path

from tbmpi.hpl.blas import ACCELERATE, OPENBLAS
from tbmpi.hpl.build import make_file
from tbmpi.hpl.dat import Parameters, render
from tbmpi.hpl.results import parse, progress_of

FOLDER = Path(__file__).parents[3] / "hpl"

HEAD = """\
================================================================================
HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
"""
ROW = """\
WC15C2R4        1000   128     2     3               0.30             2.2480e+00
HPL_pdgesv() start time Mon Nov 30 19:17:08 2026

--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.53029565e-03 ...... PASSED
"""
FAILED_ROW = """\
WR00L2C8        2000    64     1     2               1.25              4.268e+00
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=  17.03029565e+03 ...... FAILED
||Ax-b||_oo  . . . . . . . . . . . . . . . . . =           0.000123
"""
TAIL = """\
================================================================================

Finished      2 tests with the following results:
              1 tests completed and passed residual checks,
              {failed} tests completed and failed residual checks,
              {skipped} tests skipped because of illegal input values.
--------------------------------------------------------------------------------

End of Tests.
"""


def test_a_good_run():
    report = parse(HEAD + ROW + TAIL.format(failed=0, skipped=0))
    (result,) = report.results
    assert report.passed
    assert (result.n, result.nb, result.p, result.q) == (1000, 128, 2, 3)
    assert (result.seconds, result.gflops) == (0.30, 2.248)
    assert result.residual == "3.53029565e-03"
    assert (result.depth, result.broadcast) == (1, 5)


def test_a_failed_residual():
    report = parse(HEAD + ROW + FAILED_ROW + TAIL.format(failed=1, skipped=0))
    assert [result.passed for result in report.results] == [True, False]
    assert report.failed == 1
    assert not report.passed


def test_skipped_or_cut_off_is_not_passed():
    assert not parse(HEAD + ROW + TAIL.format(failed=0, skipped=1)).passed
    assert not parse(HEAD + ROW).passed
    assert not parse("").passed


def test_complaints_of_hpl_are_kept():
    text = (
        "HPL ERROR from process # 0, on line 419 of function HPL_pdinfo:\n"
        ">>> Need at least 4 processes for these tests <<<\n"
    )
    troubles = parse(text).troubles
    assert "Need at least 4 processes for these tests" in troubles


def test_progress_reports():
    line = "Column=000000512 Fraction=51.2% Gflops=7.554e+00"
    assert progress_of(line) == 0.512
    assert progress_of("Column of numbers") is None


def test_dat_has_hpls_31_lines_and_the_lists():
    text = render(
        Parameters(
            ns=[1000, 2000],
            nbs=[128],
            grids=[(1, 4), (2, 2)],
            column_major=True,
            broadcasts=range(6),
            depths=(0, 1),
            swap=1,
        )
    )
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    assert len(lines) == 31
    assert lines[3][0] == "6"
    assert lines[4][0] == "2"
    assert lines[5][:2] == ["1000", "2000"]
    assert lines[8][0] == "1"
    assert lines[9][0] == "2"
    assert lines[10][:2] == ["1", "2"]
    assert lines[11][:2] == ["4", "2"]
    assert lines[22][:6] == ["0", "1", "2", "3", "4", "5"]
    assert lines[24][:2] == ["0", "1"]
    assert lines[25][0] == "1"


def test_the_sample_files_are_what_the_command_writes():
    sample = Parameters(ns=[20000], nbs=[256], grids=[(2, 2)])
    assert (FOLDER / "HPL.dat").read_text() == render(sample)
    for blas in (ACCELERATE, OPENBLAS):
        arch = f"tbmpi-{blas.name.lower()}"
        text = make_file("$(HOME)/hpl-2.3", "tbmpicc", blas, arch)
        assert (FOLDER / f"Make.{arch}").read_text() == text
