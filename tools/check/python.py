# SPDX-License-Identifier: MIT
"""The Python side: pytest, on one process or under tbmpirun."""

from __future__ import annotations

import re
import sys

import native
from native import junit
from report import Outcome, Trouble
from run import ROOT, Runner, ours

# Tests that mostly wait go several at a time, as many as still keep to their times.
ABREAST = ("-n", "3")
PAIRED = ("-n", "2")
QUIET = ("-q", "-p", "no:cacheprovider")
# A rank that hangs in MPI is deaf to signals, so a thread ends it.
LIMITED = ("--timeout", "60", "--timeout-method", "thread")
MPI_TESTS = "tests/python/mpi"
RANKS = (1, 2, 3, 4)
MLX_TESTS = "tests/python/mlx"
MLX_RANKS = (2, 4)
MLX_OVER = (("-q", "--sim", "ring:4"), ("-q", "--sim", "mesh:2x2"))
COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def run_pytest(
    runner: Runner, *paths: str, env: dict[str, str] | None = None
) -> Outcome:
    """Runs test files, or what else pytest takes; MPI's own need tbmpirun and are
    left out."""
    result = runner.folder / "pytest.xml"
    result.unlink(missing_ok=True)
    words = ("-m", "pytest", *QUIET, "-m", "not mpi")
    done = runner.python(*words, f"--junitxml={result}", *paths, env=env)
    if not result.exists():
        raise Trouble(f"pytest gave no result: {done.why()}")
    outcome = junit(result)
    if not done.good and not outcome.failed:
        raise Trouble(f"pytest failed: {done.why()}")
    return outcome


def abi(runner: Runner) -> Outcome:
    """The surface against another implementation's header."""
    return run_pytest(runner, "tests/python/test_abi.py")


def launcher(runner: Runner) -> Outcome:
    """tbmpirun."""
    return run_pytest(runner, *ABREAST, "tests/python/launch")


def commands(runner: Runner) -> Outcome:
    """The other commands, and how Python programs start and end."""
    names = ("bench", "conformance", "fabric", "fast", "hpl", "plugin")
    names += ("test_life.py", "test_as_mpi4py.py")
    paths = [f"tests/python/{name}" for name in names]
    paths = [path for path in paths if (ROOT / path).exists()]
    return run_pytest(runner, *ABREAST, *paths)


def examples(runner: Runner) -> Outcome:
    """Every example, on 1 to 4 ranks; in the full set on emulated Macs too."""
    path = "tests/python/test_examples.py"
    total = run_pytest(runner, *PAIRED, path)
    if runner.full:
        over = {"TBMPI_EXAMPLES_OVER": "--sim ring:4"}
        total += run_pytest(runner, path, "-k", "test_result", env=over)
    return total


def fuzz(runner: Runner) -> Outcome:
    """What must not believe its input. The C drivers run with the units; in the full
    set again, for longer, with sanitizers."""
    env = {"TBMPI_FUZZ_EXAMPLES": "5000" if runner.full else "100"}
    total = run_pytest(runner, "tests/python/fuzz", env=env)
    return total + native.fuzz(runner) if runner.full else total


def faults(runner: Runner) -> Outcome:
    """Ranks killed at random moments."""
    runs = "200" if runner.full else "20"
    env = {"TBMPI_FAULT_RUNS": runs}
    return run_pytest(runner, "tests/python/test_faults.py", env=env)


def sim(runner: Runner) -> Outcome:
    """Emulated Macs: programs on all topologies, and what goes wrong there."""
    env = {
        "TBMPI_STOPPED_SECONDS": "20" if runner.full else "3",
        "TBMPI_FAULT_RUNS": "50" if runner.full else "6",
        "TBMPI_FLOOD_ROUNDS": "100" if runner.full else "8",
        "TBMPI_SIM_JOBS": "50" if runner.full else "5",
    }
    return run_pytest(runner, *PAIRED, "tests/python/sim", env=env)


def mpi(runner: Runner) -> Outcome:
    """The Python API on several ranks; a test counts once for each number of them."""
    return on_ranks(runner, [ours("tbmpirun"), "-n"], {})


def mlx(runner: Runner) -> Outcome:
    """MLX: its own communication, unmodified, and ours for its arrays."""
    total = run_pytest(runner, MLX_TESTS)
    for words in ((), *(MLX_OVER if runner.full else ())):
        launch = [ours("tbmpirun"), *words, "-n"]
        total += on_ranks(runner, launch, {}, MLX_TESTS, MLX_RANKS)
    return total


def on_ranks(
    runner: Runner,
    launch: list[object],
    env: dict[str, str],
    tests: str = MPI_TESTS,
    numbers: tuple[int, ...] = RANKS,
) -> Outcome:
    """Tests that need several ranks, under a launcher."""
    total = Outcome()
    pytest = (sys.executable, "-m", "pytest", *QUIET, *LIMITED)
    words = [*pytest, "-x", "--only-mpi", "-m", "mpi", tests]
    for ranks in numbers:
        alone = ("--ignore", f"{MPI_TESTS}/test_mpi_p2p.py") if ranks == 1 else ()
        command = [*map(str, launch), str(ranks), *words, *alone]
        done = runner.run(*command, limit=300, env=env)
        total += _worst(done.output, ranks, done.good)
    return total


def _worst(output: str, ranks: int, good: bool) -> Outcome:
    """All ranks say what they counted; the one with most failures counts."""
    found = []
    for line in output.splitlines():
        if not re.search(r" in [\d.]+s", line):
            continue
        counts = {name.rstrip("s"): int(number) for number, name in COUNT.findall(line)}
        bad = counts.get("failed", 0) + counts.get("error", 0)
        found.append(Outcome(counts.get("passed", 0), bad, counts.get("skipped", 0)))
    worst = max(found, key=lambda outcome: outcome.failed, default=Outcome())
    if not good and not worst.failed:
        worst.failed = 1
    if worst.failed:
        lines = [
            text
            for text in output.splitlines()
            if re.match(r"FAILED|E  |tbmpirun", text)
        ]
        why = lines[-1] if lines else "no result"
        worst.reasons = [f"on {ranks} ranks: {why}"]
    return worst
