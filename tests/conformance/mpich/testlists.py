# SPDX-License-Identifier: MIT
"""The testlist files of MPICH's test/mpi.

A line is: program, rank count, then key=value options. A name alone is a
folder with a testlist of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

LIMIT_SECONDS = 60.0
# The suite's own limit, which its timeLimit options are relative to.
SUITE_LIMIT_SECONDS = 180.0
DEFAULT_RANKS = 2


@dataclass(frozen=True)
class Entry:
    """One run of one program."""

    folder: str
    program: str
    ranks: int
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    launcher_arguments: tuple[str, ...] = ()
    result_test: str = ""
    time_limit: float | None = None
    memory_gb: float = 0.0
    repeat: int = 1

    @property
    def name(self) -> str:
        """The entry as it is written in the list of known failures."""
        words = [f"{self.folder}/{self.program}", *self.arguments]
        words += [f"env:{setting}" for setting in self.environment]
        words.append(str(self.ranks))
        if self.repeat > 1:
            words.append(f"#{self.repeat}")
        return " ".join(words)

    @property
    def limit(self) -> float:
        """Seconds it may take: 60, or more where the suite allows more."""
        if self.time_limit is None:
            return LIMIT_SECONDS
        if self.time_limit <= LIMIT_SECONDS:
            return self.time_limit
        factor = max(1.0, self.time_limit / SUITE_LIMIT_SECONDS)
        return LIMIT_SECONDS * factor


def collect(suite: Path, folder: str, lists: list[str]) -> list[Entry]:
    """Return the entries of `folder` and all folders below it.

    All of them: the testlists that configure left out (threads/rma where RMA
    is switched off) are read too, so that no switch makes the suite smaller.
    """
    entries: list[Entry] = []
    seen: dict[str, int] = {}
    for name in lists:
        for path in sorted((suite / folder).rglob(name)):
            where = path.parent.relative_to(suite).as_posix()
            for line in path.read_text().splitlines():
                entry = parse_line(line, where)
                if entry is None:
                    continue
                seen[entry.name] = seen.get(entry.name, 0) + 1
                if seen[entry.name] > 1:
                    entry = replace(entry, repeat=seen[entry.name])
                entries.append(entry)
    return entries


def parse_line(line: str, folder: str) -> Entry | None:
    """Parse one line; None for a comment, a folder or a build instruction.

    Raises ValueError on an option that this parser does not know.
    """
    words = line.split("#")[0].split()
    if len(words) < 2 or words[0].startswith("!"):
        return None
    values: dict[str, list[str]] = {}
    for word in words[2:]:
        key, equals, value = word.partition("=")
        if not equals:
            # The suite's own script passes over stray words too.
            continue
        if key not in OPTIONS:
            raise ValueError(f"{folder}/{words[0]}: unknown option {word}")
        values.setdefault(key, []).append(value)
    below, _, program = words[0].rpartition("/")
    return Entry(
        folder=f"{folder}/{below}".rstrip("/"),
        program=program,
        ranks=int(words[1] or DEFAULT_RANKS),
        arguments=tuple(values.get("arg", ())),
        environment=tuple(values.get("env", ())),
        launcher_arguments=tuple(values.get("mpiexecarg", ())),
        result_test=values.get("resultTest", [""])[-1],
        time_limit=float(values["timeLimit"][-1]) if "timeLimit" in values else None,
        memory_gb=float(values.get("mem", ["0"])[-1]),
    )


# strict, mpix and xfail say when the suite itself would leave a test out. Here
# nothing is left out: what fails is on the list of known failures.
OPTIONS = frozenset(
    {"arg", "env", "mpiexecarg", "resultTest", "timeLimit", "mem"}
    | {"lock", "init", "strict", "mpix", "xfail"}
)


def verdict(entry: Entry, code: int | None, output: str) -> str:
    """Return pass, fail or timeout for one run, by the suite's own rules.

    Usually the output has to be "No Errors" and nothing else, and the exit
    code 0. With a result test, the launcher has to report a failure.
    """
    if code is None:
        return "timeout"
    if entry.result_test in ("TestStatus", "TestErrFatal"):
        return "pass" if code else "fail"
    lines = output.splitlines()
    good = [ln for ln in lines if ln.strip() in ("No Errors", "No errors")]
    other = [ln for ln in lines if ln.strip() != "Test Passed"]
    if len(good) != 1 or len(other) != len(good):
        return "fail"
    wants_failure = entry.result_test == "TestStatusNoErrors"
    return "pass" if bool(code) == wants_failure else "fail"
