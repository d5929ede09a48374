# SPDX-License-Identifier: MIT
"""Every example checks its own result; here they run on 1 to 4 ranks.

A broken copy of each shows that the check is one. TBMPI_EXAMPLES_OVER are words
for tbmpirun, such as "--sim ring:4".
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHARED = "shared.py"  # what the examples import
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.name != SHARED)
LIMIT = 100.0
OVER = shlex.split(os.environ.get("TBMPI_EXAMPLES_OVER", ""))

# Words for a short run, and what the example then says about its result.
SHORT = {
    "cg": ("--size 40", "the known solution to 1e-08"),
    "fft2d": ("--size 61 --repeats 2", "equal to numpy's"),
    "heat2d": ("--size 61 --steps 40", "equal to one rank, bit by bit"),
    "matmul": ("--size 150", "equal to numpy's product"),
    "montecarlo": ("--batches 30", "hits equal to one rank's"),
    "nbody": ("--bodies 101 --steps 5", "energy and momentum kept"),
    "taskfarm": ("--limit 130000", "as by a sieve"),
    "tensor_parallel": ("--layers 2 --tokens 12", "tokens equal to one rank's"),
    "wordcount": (f"{EXAMPLES}/heat2d.py {EXAMPLES}/cg.py", "counts equal to"),
}

# A line, and what makes its result wrong on two ranks.
MISTAKES = {
    "cg": ("self.comm.Isend(x[", "self.comm.Isend(0 * x["),
    "fft2d": ("(end - start, b - a), (0, a)", "(end - start, b - a), (0, 0)"),
    "heat2d": ("grid.Sendrecv(plate[1], up", "grid.Sendrecv(0 * plate[1], up"),
    "matmul": ("grid.row.Bcast(left, at_left)", "left[...] = 1"),
    "montecarlo": ("range(COMM_WORLD.rank, args", "range(0, args"),
    "nbody": ("here = coming", "pass"),
    "taskfarm": ("total += result", "total += result + 1"),
    "tensor_parallel": (
        "tb.all_sum(layer.neurons(norm(x)), self.comm)",
        "layer.neurons(norm(x))",
    ),
    "wordcount": ("total.update(parcel)", "total = Counter(parcel)"),
}

# Options that make no sense on three ranks, and the complaint.
NONSENSE = {
    "cg": ("--size 1", "--size 1 is too small for 3 ranks"),
    "fft2d": ("--size 2", "--size 2 is too small for 3 ranks"),
    "heat2d": ("--size 1", "--size 1 is too small for 3 ranks"),
    "matmul": ("--size 2", "--size 2 is too small for 3 ranks"),
    "montecarlo": ("--batches none", "'none' is not a whole number above 0"),
    "nbody": ("--bodies 2", "--bodies 2 are too few for 3 ranks"),
    "taskfarm": ("--limit -4", "'-4' is not a whole number above 0"),
    "tensor_parallel": ("--tokens 0", "'0' is not a whole number above 0"),
    "wordcount": ("nowhere.txt", "no such file: nowhere.txt"),
}


def run(
    ranks: int, program: Path, words: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """An example on some ranks."""
    words_first = ("-q", *OVER) if OVER else ()
    launcher = [sys.executable, "-m", "tbmpi.launch", *words_first, "-n", str(ranks)]
    return subprocess.run(
        [*launcher, sys.executable, str(program), *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_result(name: str, ranks: int, tmp_path: Path) -> None:
    words, claim = SHORT[name]
    done = run(ranks, EXAMPLES / f"{name}.py", words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(claim) == 1
    assert "WRONG" not in done.stdout
    assert not done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_result_is_noticed(name: str, tmp_path: Path) -> None:
    source = (EXAMPLES / f"{name}.py").read_text()
    right, wrong = MISTAKES[name]
    assert source.count(right) == 1
    broken = tmp_path / "broken.py"
    broken.write_text(source.replace(right, wrong))
    shutil.copy(EXAMPLES / SHARED, tmp_path)
    done = run(2, broken, SHORT[name][0], tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count(": WRONG, not ") == 1


@pytest.mark.parametrize("name", NAMES)
def test_nonsense_is_refused(name: str, tmp_path: Path) -> None:
    words, complaint = NONSENSE[name]
    done = run(3, EXAMPLES / f"{name}.py", words, tmp_path)
    assert done.returncode == 2
    assert done.stderr.count(complaint) == 1
    assert not done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_help(name: str, tmp_path: Path) -> None:
    done = run(2, EXAMPLES / f"{name}.py", "--help", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage:") == 1


def test_heat2d_draws(tmp_path: Path) -> None:
    words = f"{SHORT['heat2d'][0]} --out {tmp_path}/heat.png"
    done = run(2, EXAMPLES / "heat2d.py", words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")
