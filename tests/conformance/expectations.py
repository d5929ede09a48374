# SPDX-License-Identifier: MIT
"""The committed list of what a suite is known not to pass.

A line is one of

    total FOLDER COUNT      entries that the suite has in FOLDER
    ENTRY : reason          fails, or is skipped, with this reason
    ? ENTRY : reason        may do either, for this reason

and empty lines and lines that begin with # are for the reader. A list may
only shrink: an entry that fails or is skipped and is not on it, one on it that
passes, a smaller total and a line that the list did not have one commit
earlier are all errors.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Expectations:
    """What a list says: totals by folder, reasons by entry."""

    totals: dict[str, int] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    either: dict[str, str] = field(default_factory=dict)


def parse(text: str, name: str) -> Expectations:
    """Parse a list. Raises ValueError naming the file and line at fault."""
    result = Expectations()
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if words[0] == "total" and len(words) == 3 and words[2].isdigit():
            result.totals[words[1]] = int(words[2])
            continue
        entry, colon, reason = line.partition(" : ")
        if not colon or not reason.strip():
            raise ValueError(
                f"{name}:{number}: expected 'ENTRY : reason', not {line!r}"
            )
        target = result.known
        if entry.startswith("? "):
            entry, target = entry[2:], result.either
        entry = " ".join(entry.split())
        if entry in result.known or entry in result.either:
            raise ValueError(f"{name}:{number}: {entry} is listed twice")
        target[entry] = reason.strip()
    return result


def judge(
    expected: Expectations,
    statuses: Mapping[str, str],
    collected: Mapping[str, int],
    complete: bool,
) -> list[str]:
    """Compare one run with the list; return complaints, none if all is well.

    `statuses` maps the entries that ran to pass, skip or a kind of failure;
    `collected` counts the suite's entries by folder, also those not chosen to
    run. `complete` says that all entries of these folders ran, so that listed
    names that do not exist can be found.
    """
    complaints = []
    for entry, status in statuses.items():
        if status == "pass" and entry in expected.known:
            complaints.append(f"listed, but passes: {entry}")
        elif status != "pass" and entry not in (expected.known | expected.either):
            complaints.append(f"{status}, not listed: {entry}")
    for folder, count in collected.items():
        want = expected.totals.get(folder)
        if want is None:
            complaints.append(f"no total listed: total {folder} {count}")
        elif count < want:
            complaints.append(f"{folder}: {count} entries collected, {want} expected")
    if complete:
        complaints += [
            f"listed, but no such entry: {entry}"
            for entry in expected.known | expected.either
            if entry.split("/")[0] in collected and entry not in statuses
        ]
    return complaints


def growth(old: Expectations, new: Expectations) -> list[str]:
    """Return complaints where `new` allows more than `old` did.

    A folder that `old` does not count was not tested then: its first entries
    are free.
    """
    before = old.known | old.either
    complaints = [
        f"added to the list: {entry}"
        for entry in new.known | new.either
        if entry not in before and entry.split("/")[0] in old.totals
    ]
    complaints += [
        f"total of {folder} lowered from {count} to {new.totals.get(folder, 0)}"
        for folder, count in old.totals.items()
        if new.totals.get(folder, 0) < count
    ]
    return complaints


def one_commit_earlier(path: Path) -> Expectations | None:
    """Return the list at HEAD^, None if git or that commit has it not."""
    try:
        shown = subprocess.run(
            ["git", "show", f"HEAD^:./{path.name}"],
            cwd=path.parent,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except FileNotFoundError:
        return None
    if shown.returncode:
        return None
    return parse(shown.stdout, f"HEAD^:{path.name}")
