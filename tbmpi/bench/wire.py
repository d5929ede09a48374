# SPDX-License-Identifier: MIT
"""What the emulated cables alone would take, to measure software against.

The model is the fabric's: a message arrives `latency` after its last byte has
left, and a cable carries `rate` bytes a second each way (csrc/fabric). It says
nothing of frames, headers and acknowledgements, which are ours to pay for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tbmpi.bench.errors import BenchError
from tbmpi.launch import fabric, topology
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.topology import Topology

_TIMES = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Wire:
    """The way from the first Mac to the second: microseconds and GB/s."""

    latency: float
    rate: float
    cables: int = 1
    hops: int = 1

    def usec(self, family: str, size: int) -> float:
        """The time of an operation if software took none; NaN: no model."""
        carried = size / (1e3 * self.rate * self.cables) if self.rate else 0.0
        if family == "latency":
            return self.hops * (self.latency + carried)
        if family in ("bandwidth", "bibandwidth"):
            return carried
        return math.nan

    def words(self) -> str:
        """The model for captions."""
        cables = "" if self.cables == 1 else f" over {self.cables} cables"
        hops = "" if self.hops == 1 else f", {self.hops} hops"
        return f"wire: {self.latency:g} us, {self.rate:g} GB/s each way{cables}{hops}"


@dataclass(frozen=True)
class Emulation:
    """Emulated Macs to run on, as options of tbmpirun, and their wire."""

    options: tuple[str, ...]
    wire: Wire


def emulation(sim: str, router: str, given: str | None) -> Emulation:
    """What --sim, --router and --wire ask for; BenchError if they cannot be."""
    try:
        there = topology.find(sim)
        settings = {**fabric.defaults(), **there.settings}
    except LaunchError as problem:
        raise BenchError(str(problem)) from problem
    options = ["--quiet", "--sim", sim, "--ranks-per-node", "1", "--router", router]
    if given is not None:
        latency, comma, rate = given.partition(",")
        if not comma:
            raise BenchError(f"--wire takes LATENCY,GB/s as in 5us,1, not {given!r}")
        settings |= {"latency": latency, "rate": rate}
        for name in ("latency", "rate"):
            options += ["--fault", f"set {name} {settings[name]}"]
    return Emulation(tuple(options), _wire(there, settings))


def _wire(there: Topology, settings: dict[str, str]) -> Wire:
    cables = len(there.between(0, 1)) or 1
    return Wire(
        _microseconds(settings["latency"]),
        _number("rate", settings["rate"]),
        cables,
        _hops(there, 0, 1),
    )


def _microseconds(text: str) -> float:
    for unit, factor in _TIMES.items():
        if text.endswith(unit):
            return _number("latency", text.removesuffix(unit)) * factor
    raise BenchError(f"the wire's latency is a time such as 5us, not {text!r}")


def _number(what: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise BenchError(f"the wire's {what} is a number of 0 or more, not {text!r}")
    return number


def _hops(there: Topology, start: int, end: int) -> int:
    reached: Sequence[int] = [start]
    seen = {start}
    for hops in range(len(there.hosts)):
        if end in reached:
            return hops
        reached = [n for host in reached for n in there.neighbours(host) - seen]
        seen.update(reached)
    raise BenchError(f"{there.name}: no way between its first two Macs")
