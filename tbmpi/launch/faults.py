# SPDX-License-Identifier: MIT
"""What goes wrong in a simulated job, and when: ``--fault 'at 2s pull 0'``.

Cables and switches are the fabric's matter; processes are the launcher's.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tbmpi.launch.errors import LaunchError
from tbmpi.launch.site import Processes
from tbmpi.launch.topology import Topology

# Each form with its explanation, for people.
HELP: tuple[tuple[str, str], ...] = (
    ("pull CABLE", "the cable carries nothing any more, and its socket is silent"),
    ("pull CABLE segv", "the same, and who posts to its device gets a SIGSEGV"),
    ("plug CABLE", "the cable is back"),
    ("drop SHARE [CABLE]", "that share of the frames is lost: 0.01 or 1%"),
    ("corrupt SHARE [CABLE]", "that share of the frames has a wrong bit"),
    ("delay SHARE TIME [CABLE]", "that share of the messages is late by TIME"),
    ("port MAC DEVICE up|down", "a port, with the cable in"),
    ("address MAC DEVICE IP|none [N]", "a port's address, and its GID's index"),
    ("leak on|off [96|16|14]", "what killed processes held is not returned"),
    ("reboot MAC", "and this returns it"),
    ("kill rank R", "SIGKILL for a rank"),
    ("kill router MAC", "SIGKILL for a Mac's router"),
    ("stop MAC", "SIGSTOP for all processes of a Mac"),
    ("stop rank R", "or for a rank"),
    ("stop router MAC", "or for a Mac's router"),
    ("continue MAC", "and SIGCONT; also: rank R, router MAC"),
    ("set SWITCH VALUE [CABLE]", "any switch of the fabric: tbmpi sim switches"),
)
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|)")

# The fabric's faults: fewest and most words, which one is a cable, a Mac.
_FABRIC: dict[str, tuple[int, int, int | None, int | None]] = {
    "pull": (2, 3, 1, None),
    "plug": (2, 2, 1, None),
    "drop": (2, 3, 2, None),
    "corrupt": (2, 3, 2, None),
    "delay": (3, 4, 3, None),
    "set": (3, 4, 3, None),
    "port": (4, 4, None, 1),
    "address": (4, 5, None, 1),
    "leak": (2, 3, None, None),
    "reboot": (2, 2, None, 1),
}


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong `at` seconds after the start; None: before it.

    A fault of the fabric is `words` for each of its commands; one of processes
    a signal for a `rank`, or for a `mac`, whole or its router alone.
    """

    text: str
    at: float | None
    words: tuple[tuple[str, ...], ...] = ()
    signum: int = 0
    rank: int | None = None
    mac: int = -1
    router: bool = False

    def check_ranks(self, size: int) -> None:
        """Raises LaunchError when it is about a rank that the job has not."""
        if self.rank is not None and self.rank >= size:
            raise LaunchError(
                f"--fault '{self.text}': the job has ranks 0 to {size - 1} only"
            )

    def victims(self, processes: Processes) -> list[int]:
        """The process groups to signal."""
        if not self.signum:
            return []
        if self.rank is not None:
            found = [processes.group_of_rank(self.rank)]
        elif self.router:
            found = [processes.group_of_helper(self.mac)]
        else:
            return processes.groups_of(self.mac)
        return [group for group in found if group is not None]


def parse(text: str, there: Topology) -> Fault:
    """Reads ``[at TIME] FAULT``; LaunchError for what cannot be meant."""
    return _Parser(text, there).fault()


class _Parser:
    def __init__(self, text: str, there: Topology) -> None:
        self._text = text
        self._there = there

    def _no(self, what: str) -> NoReturn:
        raise LaunchError(f"--fault '{self._text}': {what}")

    def fault(self) -> Fault:
        words = self._text.split()
        at = None
        if words[:1] == ["at"]:
            at = self._seconds(words[1:2])
            words = words[2:]
        verb = words[0] if words else ""
        if verb in _FABRIC:
            return self._of_fabric(at, words)
        if verb == "kill":
            return self._kill(at, words)
        if verb in ("stop", "continue"):
            return self._signal(at, words)
        verbs = ", ".join(dict.fromkeys(form.split()[0] for form, _ in HELP))
        self._no(f"what goes wrong begins with one of {verbs}; see tbmpi sim faults")

    def _seconds(self, words: Sequence[str]) -> float:
        match = _TIME.fullmatch(words[0] if words else "")
        if not match:
            self._no("'at' takes a time such as 2s or 300ms")
        return float(match[1]) / (1000 if match[2] == "ms" else 1)

    def _of_fabric(self, at: float | None, words: list[str]) -> Fault:
        least, most, cable, mac = _FABRIC[words[0]]
        if not least <= len(words) <= most:
            forms = [form for form, _ in HELP if form.split()[0] == words[0]]
            self._no(f"it is: {', or '.join(forms)}")
        if mac is not None:
            words[mac] = str(self._mac(words[mac]))
        if cable is None or len(words) <= cable:
            return Fault(self._text, at, (tuple(words),))
        before, after = words[:cable], words[cable + 1 :]
        cables = self._cables(words[cable])
        each = tuple((*before, str(number), *after) for number in cables)
        return Fault(self._text, at, each)

    def _cables(self, word: str) -> list[int]:
        count = len(self._there.cables)
        if word.isdecimal():
            if int(word) >= count:
                self._no(f"the cables are 0 to {count - 1}")
            return [int(word)]
        for dash in (match.start() for match in re.finditer("-", word)):
            ends = [self._there.host_number(w) for w in (word[:dash], word[dash + 1 :])]
            if None not in ends:
                found = self._there.between(*ends)
                if not found:
                    self._no(f"no cable joins {word}")
                return [cable.number for cable in found]
        self._no(f"'{word}' is neither a cable's number nor two Macs as in mac0-mac1")

    def _kill(self, at: float | None, words: list[str]) -> Fault:
        return self._of_process(at, words, signal.SIGKILL) or self._no(
            "it is: kill rank R, or kill router MAC"
        )

    def _signal(self, at: float | None, words: list[str]) -> Fault:
        signum = signal.SIGSTOP if words[0] == "stop" else signal.SIGCONT
        found = self._of_process(at, words, signum)
        if found:
            return found
        if len(words) != 2:
            self._no(f"{words[0]} takes a Mac, or rank R, or router MAC")
        return Fault(self._text, at, signum=signum, mac=self._mac(words[1]))

    def _of_process(
        self, at: float | None, words: list[str], signum: int
    ) -> Fault | None:
        match words[1:]:
            case ["rank", number] if number.isdecimal():
                return Fault(self._text, at, signum=signum, rank=int(number))
            case ["router", word]:
                mac = self._mac(word)
                return Fault(self._text, at, signum=signum, mac=mac, router=True)
        return None

    def _mac(self, word: str) -> int:
        number = self._there.host_number(word)
        if number is None:
            self._no(
                f"no Mac is called {word}; there are {', '.join(self._there.hosts)}"
            )
        return number
