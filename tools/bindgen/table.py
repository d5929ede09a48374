# SPDX-License-Identifier: MIT
"""Reads the two tables of csrc/api into plain objects."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

SIGILS = "^&!*?"
WHEN = ("root", "leaf", "own")
MARKS = ("anytime", "nolock", "todo", "tool", "cast", "inline", "form", "on=file")


class TableError(Exception):
    """A line of a table that cannot be understood."""


@dataclass
class Kind:
    """What a parameter is: its C types, its object, the check made of it."""

    name: str
    small: str  # C declaration with @ for the name
    large: str  # the same in the _c form
    check: str = ""  # C expression; @ the argument, $ the communicator
    object: str = ""  # struct of a handle's object, e.g. tb_comm
    handle: str = ""  # MPI type of a handle

    @property
    def wide(self) -> bool:
        """Whether the two forms of a function differ in it, or could."""
        return self.small != self.large or self.name == "aints"


@dataclass
class Param:
    """One parameter of an operation."""

    name: str
    kind: Kind
    sigil: str = ""  # one of ^ & ! * ? or nothing
    when: str = ""
    large_only: bool = False
    callback: bool = False  # its type gains _c in the _c form

    @property
    def view(self) -> bool:
        """An array of counts or displacements, seen as struct tb_counts."""
        return self.kind.wide and self.kind.small.endswith("[]")

    @property
    def out_view(self) -> bool:
        """A wide integer that is written through struct tb_count_out."""
        return self.kind.wide and self.sigil in ("^", "&")

    def declare(self, large: bool) -> str:
        """The C declaration in the public prototype."""
        text = self.kind.large if large else self.kind.small
        if self.sigil in ("^", "&", "!", "*"):
            text = text.replace("@", "*@")
        return text.replace("@", self.name)


@dataclass
class Operation:
    """One line of functions.txt: an operation, one or two functions."""

    name: str  # without MPI_
    params: list[Param]
    returns: str = "int"
    twin: bool = False
    marks: list[str] = field(default_factory=list)
    impl: str = ""
    file: str = ""
    variadic: bool = False

    @property
    def function(self) -> str:
        """The internal function behind it."""
        return "tb_" + (self.impl or self.name.lower())

    @property
    def implemented(self) -> bool:
        return "todo" not in self.marks

    def forms(self) -> list[tuple[str, bool]]:
        """Names of its functions without MPI_; whether it is the _c form."""
        if self.twin:
            return [(self.name, False), (self.name + "_c", True)]
        return [(self.name, True)]

    def visible(self, large: bool) -> list[Param]:
        """The parameters of one form."""
        return [p for p in self.params if large or not p.large_only]

    def prototype(self, name: str, large: bool) -> tuple[str, list[str]]:
        """`int MPI_X` and its parameters, as text."""
        params = [p.declare(large) for p in self.visible(large)]
        if self.variadic:
            params.append("...")
        return f"{self.returns} {name}", params or ["void"]


@dataclass
class Section:
    """One [section] of constants.txt."""

    shape: str  # define, handle, alias, enum or cast
    type: str
    title: str
    values: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Api:
    """Both tables."""

    operations: list[Operation]
    callbacks: list[Operation]
    sections: list[Section]
    handles: list[Kind]


def logical_lines(path: Path) -> list[tuple[int, str]]:
    """Numbered lines without comments; an indented one continues the last."""
    out: list[tuple[int, str]] = []
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            continue
        if line[0] == " ":
            start, text = out[-1]
            glue = "" if text.endswith("(") else " "
            out[-1] = (start, text + glue + line.strip())
        else:
            out.append((number, line))
    return out


def parse_kind(line: str) -> Kind:
    """A `kind` or `handle` line."""
    word, name, rest = line.split(None, 2)
    types, _, check = (part.strip() for part in rest.partition(";"))
    if word == "handle":
        handle, obj = types.split()
        declaration = f"{handle} @"
        return Kind(name, declaration, declaration, check, obj, handle)
    small, _, large = (part.strip() for part in types.partition("|"))
    return Kind(name, small, large or small, check)


def raw_kind(text: str, callback: bool) -> Kind:
    """A C type that stands for itself: `MPI_Request[]`, `char***`."""
    stem, brackets = re.fullmatch(r"(.*?)((?:\[\d*\])*)", text).groups()
    name = stem.rstrip("*")
    stars = stem[len(name) :]
    small = f"{name} {stars}@{brackets}"
    large = f"{name}_c {stars}@{brackets}" if callback else small
    return Kind(text, small, large)


def parse_param(text: str, kinds: dict[str, Kind]) -> Param:
    """`[+]name:kind` with what may stand around the kind."""
    name, _, spelled = text.partition(":")
    large_only = name.startswith("+")
    name = name.lstrip("+")
    callback = spelled.endswith("+c")
    spelled = spelled.removesuffix("+c")
    spelled, _, when = spelled.partition("@")
    sigil = spelled[-1] if spelled[-1] in SIGILS and spelled[:-1] in kinds else ""
    kind = kinds.get(spelled[:-1] if sigil else spelled)
    if kind is None:
        if not re.search(r"MPI_|\*|const", spelled):
            raise TableError(f"no such kind: {spelled!r}")
        kind = raw_kind(spelled, callback)
    if when and when not in WHEN:
        raise TableError(f"cannot read {text!r}")
    return Param(name, kind, sigil, when, large_only, callback)


def parse_operation(line: str, kinds: dict[str, Kind]) -> Operation:
    """One operation or callback."""
    match = re.fullmatch(r"(?:callback )?MPI_(\w+)\((.*)\)([^()]*)", line)
    if not match:
        raise TableError("expected MPI_Name(parameters) marks")
    name, inside, tail = match.groups()
    texts = [t.strip() for t in inside.split(",") if t.strip()]
    op = Operation(name, [], variadic="..." in texts)
    op.params = [parse_param(t, kinds) for t in texts if t != "..."]
    words = tail.split()
    if words[:1] == ["->"]:
        op.returns = words[1]
        words = words[2:]
    for word in words:
        if word == "+c":
            op.twin = True
        elif word.startswith("impl="):
            op.impl = word[5:]
        elif word in MARKS:
            op.marks.append(word)
        else:
            raise TableError(f"no such mark: {word!r}")
    return op


def parse_sections(path: Path) -> list[Section]:
    """constants.txt."""
    sections: list[Section] = []
    for number, line in logical_lines(path):
        head = re.fullmatch(r"\[(\w+)(?: ([^]]+))?\] ?(.*)", line)
        if head:
            sections.append(Section(head[1], head[2] or "", head[3]))
            continue
        words = line.split()
        if len(words) != 2 or not sections:
            raise TableError(f"{path}:{number}: expected NAME VALUE")
        sections[-1].values.append((words[0], words[1]))
    return sections


def load(folder: Path) -> Api:
    """Reads csrc/api."""
    path = folder / "functions.txt"
    kinds: dict[str, Kind] = {}
    api = Api([], [], parse_sections(folder / "constants.txt"), [])
    file = ""
    for number, line in logical_lines(path):
        try:
            if line.startswith(("kind ", "handle ")):
                kind = parse_kind(line)
                kinds[kind.name] = kind
                if kind.handle:
                    api.handles.append(kind)
            elif line.startswith("file "):
                file = line.split()[1]
            elif line.startswith("callback "):
                api.callbacks.append(parse_operation(line, kinds))
            else:
                op = parse_operation(line, kinds)
                op.file = file
                api.operations.append(op)
        except TableError as error:
            raise TableError(f"{path}:{number}: {error}") from None
    return api
