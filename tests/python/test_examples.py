# SPDX-License-Identifier: MIT
"""Every example checks its own result; here they run on 1 to 4 ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT = 100.0


def run(ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    """An example on some ranks."""
    launcher = [sys.executable, "-m", "tbmpi.launch", "-n", str(ranks)]
    return subprocess.run(
        [*launcher, sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_heat2d(ranks: int, tmp_path: Path) -> None:
    picture = tmp_path / "heat.png"
    words = [str(EXAMPLES / "heat2d.py"), "--size", "61", "--steps", "40"]
    done = run(ranks, *words, "--out", str(picture))
    assert done.returncode == 0, done.stderr
    assert "equal to one rank, bit by bit" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_heat2d_notices_a_wrong_result(tmp_path: Path) -> None:
    source = (EXAMPLES / "heat2d.py").read_text()
    broken = source.replace(
        "    grid.Sendrecv(plate[1], up", "    return\n    grid.Sendrecv(plate[1], up"
    )
    assert broken != source
    (tmp_path / "broken.py").write_text(broken)
    words = ["--size", "40", "--steps", "40", "--out", str(tmp_path / "heat.png")]
    done = run(2, str(tmp_path / "broken.py"), *words)
    assert done.returncode == 1
    assert "NOT equal to one rank" in done.stdout


def test_heat2d_refuses_nonsense() -> None:
    done = run(3, str(EXAMPLES / "heat2d.py"), "--size", "1")
    assert done.returncode == 2
    assert done.stderr.count("too small for 3 ranks") == 1


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem
)
def test_help(path: Path) -> None:
    done = run(1, str(path), "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
