# SPDX-License-Identifier: MIT
"""Where in a JSON text a value stands, so that an error can name its line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json.decoder import JSONDecoder, scanstring

Step = str | int
_SPACE = re.compile(r"[ \t\r\n]*")


def line_of(text: str, where: Sequence[Step]) -> int:
    """The line, from 1, of the value that the keys and indices lead to.

    `text` is valid JSON. Where a key is missing, the line of the object that
    lacks it.
    """
    return place_of(text, where)[0]


def place_of(text: str, where: Sequence[Step]) -> tuple[int, int]:
    """The same with the column, from 1, where the value begins."""
    at = _skip(text, 0)
    for step in where:
        found = _member(text, at, step)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _member(text: str, at: int, step: Step) -> int | None:
    """Where the member `step` of the object or list at `at` begins."""
    if text[at] != ("{" if isinstance(step, str) else "["):
        return None
    close = "}" if isinstance(step, str) else "]"
    at, index, last = _skip(text, at + 1), 0, None
    while text[at] != close:
        name: Step = index
        if close == "}":
            name, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)  # past the colon
        if name == step:
            last = at  # of a key that is there twice, the last one counts
        _, at = JSONDecoder().raw_decode(text, at)
        at, index = _skip(text, at), index + 1
        if text[at] == ",":
            at = _skip(text, at + 1)
    return last
