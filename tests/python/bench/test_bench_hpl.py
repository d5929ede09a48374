# SPDX-License-Identifier: MIT
"""HPL's output as a benchmark figure."""

import pytest

from tbmpi.bench.hpl import grid, read

ROW = "WR11C2R4 {n:>10} 128 2 2 {seconds:>10} {gflops:>20}\n"
RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= 0.005 ...... {}\n"
END = "End of Tests.\n"


def result(gflops: str, verdict: str = "PASSED", n: int = 2000) -> str:
    row = ROW.format(n=n, seconds="0.17", gflops=gflops)
    return row + RESIDUAL.format(verdict)


def test_repetitions_become_one_figure_in_microseconds() -> None:
    text = result("3.0000e+01") + result("1.5000e+01") + END
    figure = read(text).figures["hpl", 2000]
    assert len(figure.raw) == 2
    assert figure.raw[1] == pytest.approx(2 * figure.raw[0])
    assert figure.minimum == pytest.approx(2 / 3 * 2000**3 / 30e3, rel=0.01)
    assert figure.wrong == 0


def test_a_failed_residual_is_wrong_data() -> None:
    text = result("3.0e+01", "FAILED") + result("3.0e+01") + END
    assert read(text).figures["hpl", 2000].wrong == 1


def test_output_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="no result"):
        read(result("3.0e+01"))


@pytest.mark.parametrize(
    ("ranks", "shape"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (6, (2, 3))]
)
def test_the_grid_is_as_square_as_it_can_be(ranks: int, shape: tuple[int, int]) -> None:
    assert grid(ranks) == shape
