# SPDX-License-Identifier: MIT
"""The C programme: built and run with a real library, and its output read."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tbmpi.bench.engines import Engine, find_ours, find_peer
from tbmpi.bench.errors import BenchError
from tbmpi.bench.processes import Finished, run_limited
from tbmpi.bench.program import (
    FAMILIES,
    SOURCES,
    Effort,
    arguments,
    build,
    library_name,
    read_output,
    time_limit,
)

BRIEF = Effort(samples=2, budget=0.001, size_limit=8, family_limit=40)
P2P_SIZES = (1, 8, 4096, 1 << 20)
# Damages what every collective or receive delivers, by the profiling
# interface of MPI: the last byte of the result is changed.
DAMAGE = """
#include <mpi.h>
static void damage(void *buf, int n) { if (n > 0) ((char *)buf)[n - 1] ^= 64; }
static int bytes(int n, MPI_Datatype t)
{ int size; PMPI_Type_size(t, &size); return n * size; }
int MPI_Recv(void *b, int n, MPI_Datatype t, int f, int g, MPI_Comm c,
             MPI_Status *s)
{ int e = PMPI_Recv(b, n, t, f, g, c, s); damage(b, bytes(n, t)); return e; }
int MPI_Bcast(void *b, int n, MPI_Datatype t, int r, MPI_Comm c)
{ int e = PMPI_Bcast(b, n, t, r, c); damage(b, bytes(n, t)); return e; }
int MPI_Alltoall(const void *s, int n, MPI_Datatype t, void *r, int m,
                 MPI_Datatype u, MPI_Comm c)
{
    int size, e = PMPI_Alltoall(s, n, t, r, m, u, c);
    PMPI_Comm_size(c, &size); damage(r, size * bytes(m, u)); return e;
}
int MPI_Allgather(const void *s, int n, MPI_Datatype t, void *r, int m,
                  MPI_Datatype u, MPI_Comm c)
{
    int size, e = PMPI_Allgather(s, n, t, r, m, u, c);
    PMPI_Comm_size(c, &size); damage(r, size * bytes(m, u)); return e;
}
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Return a real library: tbmpi, or TBMPI_TEST_MPI=openmpi=PREFIX."""
    word = os.environ.get("TBMPI_TEST_MPI")
    try:
        found = find_peer(word, Path()) if word else find_ours("auto")
    except BenchError as error:
        pytest.skip(str(error))
    assert found
    return found


@pytest.fixture(scope="module")
def program(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "bench"
    build(engine.compiler, path)
    return path


def launch(engine: Engine, ranks: int, folder: Path, *words: str | Path) -> Finished:
    command = engine.command(ranks, words)
    return run_limited(command, 120, engine.environment(folder))


def test_python_and_c_know_the_same_families() -> None:
    sources = (SOURCES / "pairs.c", SOURCES / "coll.c")
    text = "".join(path.read_text() for path in sources)
    names = re.findall(r'\.name = "(\w+)"', text)
    assert tuple(names) == FAMILIES


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_family_gives_right_data(
    engine: Engine, program: Path, tmp_path: Path, ranks: int
) -> None:
    words = arguments(FAMILIES, P2P_SIZES, BRIEF)
    done = launch(engine, ranks, tmp_path, program, *words)
    assert done.code == 0, done.complaint()
    output = read_output(done.stdout)
    assert output.head["ranks"] == ranks
    assert {family for family, _ in output.figures} == set(FAMILIES)
    assert not [key for key, f in output.figures.items() if f.wrong]
    assert all(figure.q1 > 0 for figure in output.figures.values())
    skipped = {(family, size) for family, size, _ in output.skipped}
    assert ("allreduce", 1) in skipped
    assert ("msgrate", 1 << 20) in skipped


def test_one_rank_can_run_the_collectives(
    engine: Engine, program: Path, tmp_path: Path
) -> None:
    words = arguments(("barrier", "reduce"), (8,), BRIEF)
    done = launch(engine, 1, tmp_path, program, *words)
    assert done.code == 0, done.complaint()
    assert len(read_output(done.stdout).figures) == 2


def test_damaged_data_is_counted(engine: Engine, tmp_path: Path) -> None:
    damage = tmp_path / "damage.c"
    damage.write_text(DAMAGE)
    program = tmp_path / "damaged"
    sources = sorted(SOURCES.glob("*.c"))
    compiled = subprocess.run(
        [engine.compiler, "-O1", "-o", program, *sources, damage],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    families = ("latency", "bcast", "allgather", "alltoall")
    words = arguments(families, (8, 4096), BRIEF)
    done = launch(engine, 2, tmp_path, program, *words)
    assert done.code == 0, done.complaint()
    wrong = {k for k, f in read_output(done.stdout).figures.items() if f.wrong}
    assert wrong == {(f, size) for f in families for size in (8, 4096)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--families", "latencey"), "no such family: latencey"),
        (("--sizes", "8,x"), "not: x"),
        (("--samples", "0"), "samples are 1 to 64, not: 0"),
        (("--budget", "-1"), "at most 3600 s, not: -1"),
        (("--colour", "red"), "unknown option: --colour"),
        (("--families",), "option without a value: --families"),
    ],
)
def test_the_programme_refuses_bad_options(
    engine: Engine,
    program: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    message: str,
) -> None:
    done = launch(engine, 2, tmp_path, program, *words)
    assert done.code == 2
    assert message in done.stderr + done.stdout


def test_a_family_ends_at_its_time_limit(
    engine: Engine, program: Path, tmp_path: Path
) -> None:
    effort = Effort(samples=64, budget=30, size_limit=30, family_limit=0.5)
    words = arguments(("allreduce",), (), effort)
    done = launch(engine, 2, tmp_path, program, *words)
    assert done.code == 0, done.complaint()
    output = read_output(done.stdout)
    assert output.skipped
    assert done.seconds < 20


def test_output_that_stops_early_is_refused() -> None:
    head = json.dumps({"library": "Some MPI v1.2, more", "ranks": 2})
    with pytest.raises(ValueError, match="stops before its end"):
        read_output(head + "\n")
    output = read_output(f"noise\n{head}\n" + '{"end":true}\n')
    assert library_name(output.head) == "Some MPI v1.2"


def test_the_time_limit_grows_with_the_families() -> None:
    one = time_limit(FAMILIES[:1], BRIEF)
    assert time_limit(FAMILIES, BRIEF) > one > BRIEF.family_limit
