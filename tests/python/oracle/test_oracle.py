# SPDX-License-Identifier: MIT
"""Random programs on two engines: what one rank sees, it sees on both.

TBMPI_ORACLE names the folder into which pip has put MPICH 5. TBMPI_ORACLE_PROGRAMS
is how many programs are tried in each test, TBMPI_ORACLE_SEED which ones. What
fails is made smaller for up to five minutes, unless TBMPI_ORACLE_SHRINK is 0.
Programs on which MPICH itself crashes count as not tried; there may be few of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st
from oracle_engines import NO_ANSWER, Engine, difference, failure, mpich, ours
from oracle_programs import programs

FOLDER = os.environ.get("TBMPI_ORACLE")
PROGRAMS = int(os.environ.get("TBMPI_ORACLE_PROGRAMS", "25"))
SEED = int(os.environ.get("TBMPI_ORACLE_SEED", "1"))
SHRINK = os.environ.get("TBMPI_ORACLE_SHRINK", "1") != "0"
CRASHES = 0.1  # of the programs, of MPICH
PHASES = (Phase.generate, Phase.shrink) if SHRINK else (Phase.generate,)

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="TBMPI_ORACLE does not say where MPICH is"),
    pytest.mark.timeout(3600),
]

WHERE = [
    pytest.param(ranks, words, id=" ".join((str(ranks), *words)))
    for ranks, words in [
        *[(ranks, ()) for ranks in (1, 2, 3, 4)],
        (4, ("--sim", "ring:4")),
        (4, ("--sim", "mesh:2x2")),
        (3, ("--sim", "line:3")),
    ]
]


@pytest.fixture
def engines(ranks: int, words: tuple[str, ...]) -> Iterator[tuple[Engine, Engine]]:
    """The two, on the same number of ranks."""
    pair = ours(ranks, words), mpich(ranks, Path(FOLDER or ""))
    try:
        yield pair
    finally:
        for engine in pair:
            engine.close()


@pytest.mark.parametrize(("ranks", "words"), WHERE)
def test_both_engines_see_the_same(
    engines: tuple[Engine, Engine], ranks: int, words: tuple[str, ...]
) -> None:
    crashes = 0

    @seed(SEED)
    @settings(
        max_examples=PROGRAMS,
        phases=PHASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal crashes
        program = data.draw(programs(ranks))
        ours_saw, other_saw = (engine.run(program) for engine in engines)
        if any(
            failure(answer).startswith(NO_ANSWER) for answer in other_saw
        ) and not any(map(failure, ours_saw)):
            crashes += 1
            reject()
        found = difference(ours_saw, other_saw)
        assert not found, f"{found}\nprogram: {json.dumps(program)}"

    run()
    assert crashes <= CRASHES * PROGRAMS
