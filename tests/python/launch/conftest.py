# SPDX-License-Identifier: MIT
"""The launcher under test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import Launcher


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher in an empty folder; what a test leaves is a failure."""
    it = Launcher(tmp_path)
    try:
        yield it
        it.assert_nothing_left()
    finally:
        it.clean()
