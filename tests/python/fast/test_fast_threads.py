# SPDX-License-Identifier: MIT
"""How many threads a rank's numerical library is to start."""

from __future__ import annotations

import os

import pytest

from tbmpi.launch.plan import threads_of_rank


@pytest.mark.parametrize(
    ("cores", "ranks", "threads"), [(8, 1, 8), (8, 4, 2), (8, 3, 2), (2, 4, 1)]
)
def test_cores_are_dealt_out(
    monkeypatch: pytest.MonkeyPatch, cores: int, ranks: int, threads: int
) -> None:
    usable = set(range(cores))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable, raising=False)
    assert threads_of_rank(ranks) == threads


def test_without_affinity_all_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert threads_of_rank(4) == 2
