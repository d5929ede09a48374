# SPDX-License-Identifier: MIT
"""What module MPI shows of itself: names, documentation, the stub."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tbmpi import MPI

pytestmark = pytest.mark.mpi


def documented() -> Iterator[tuple[str, str | None]]:
    """Public classes, methods, properties and functions, with their docstrings."""
    for name in MPI.__all__:
        thing = getattr(MPI, name)
        if isinstance(thing, type):
            yield name, thing.__doc__
            for member in vars(thing):
                if not member.startswith("_"):
                    what = inspect.getattr_static(thing, member)
                    yield f"{name}.{member}", what.__doc__
        elif inspect.isfunction(thing):
            yield name, thing.__doc__


def test_everything_is_documented() -> None:
    for name, doc in documented():
        first = (doc or "").strip().split("\n\n")[0]
        assert first.endswith((".", ")")), f"{name}: {doc!r}"


def test_all_is_all() -> None:
    public = {name for name in vars(MPI) if not name.startswith("_")}
    assert public - {"annotations"} <= set(MPI.__all__)
    assert len(set(MPI.__all__)) == len(MPI.__all__)


def test_the_stub_has_the_same_names() -> None:
    stub = ast.parse(Path(str(MPI.__file__)).with_suffix(".pyi").read_text())
    found: dict[str, Any] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: None for alias in node.names}
        elif isinstance(node, ast.AnnAssign):
            found[ast.unparse(node.target)] = ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = None
    del found["Final"]
    assert set(found) == set(MPI.__all__)
    for name, kind in found.items():
        if kind and not kind.startswith("Final[dict"):
            assert kind == f"Final[{type(getattr(MPI, name)).__name__}]"


def test_constants_are_what_they_are() -> None:
    for name in ("INT", "SUM", "COMM_WORLD", "INFO_ENV", "ERRORS_RETURN"):
        constant = getattr(MPI, name)
        copy = type(constant)(constant)
        assert copy == constant and copy is not constant
        copy.free() if name != "ERRORS_RETURN" else copy.Free()
        assert not copy and constant
    with pytest.raises(TypeError):
        hash(MPI.INT)


def test_addresses_of_handles() -> None:
    kind = MPI.INT.Dup()
    place = MPI._addressof(kind)
    assert place == MPI._addressof(kind) != MPI._addressof(MPI.Datatype())
    assert kind.Get_size() == 4 and kind == kind.fromhandle(kind.handle)
    kind.Free()
    assert not kind
