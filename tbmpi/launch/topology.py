# SPDX-License-Identifier: MIT
"""Which Macs there are and which cables join them, for ``--sim``.

A topology is a name such as ``mesh:4`` or ``ring:4x2`` (two cables between
neighbours), or a file (see topology_file). Devices are called as macOS calls
them: a Mac's first port is rdma_en2. Both ends of a cable get a link-local
address each, as macOS gives to a port that has none (RFC 3927, which reserves
the first and the last 256 addresses of 169.254/16).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tbmpi.launch.errors import LaunchError

# An address says which cable it belongs to; 169.254.1.x to 169.254.254.x.
MOST_CABLES = 254
MOST_HOSTS = 16
# What one link of the library stripes over: TB_CABLES_MOST of csrc/net/rdma.h.
MOST_BETWEEN = 4
FIRST_DEVICE = 2
# What a Mac Studio has; more are emulated, but nobody can build them.
PORTS_OF_A_MAC = 6

FORMS = "mesh:N, ring:N, line:N, star:N, with NxC for C cables, or a .json file"
_PRESET = re.compile(r"([a-z]+):(\d+)(?:x(\d+))?")


@dataclass(frozen=True)
class Port:
    """One end of a cable: the host's number, its device, its IPv4 address."""

    host: int
    device: str
    address: str

    @property
    def gid(self) -> str:
        """The address as the device's GID table shows it."""
        return f"::ffff:{self.address}"


@dataclass(frozen=True)
class Cable:
    """A cable between two ports; the lower host is `a`."""

    number: int
    a: Port
    b: Port

    @property
    def ends(self) -> tuple[Port, Port]:
        """Both ports."""
        return self.a, self.b

    @property
    def pair(self) -> tuple[int, int]:
        """The hosts it joins."""
        return self.a.host, self.b.host


@dataclass(frozen=True)
class Topology:
    """Hosts by number, and their cables. `settings` are for the fabric."""

    name: str
    hosts: tuple[str, ...]
    cables: tuple[Cable, ...]
    settings: Mapping[str, str]

    def ports(self, host: int) -> list[Port]:
        """The connected ports of a host, in the order of the cables."""
        return [end for c in self.cables for end in c.ends if end.host == host]

    def cables_of(self, host: int) -> list[Cable]:
        """The cables that end at a host."""
        return [cable for cable in self.cables if host in cable.pair]

    def between(self, a: int, b: int) -> list[Cable]:
        """The cables between two hosts."""
        return [cable for cable in self.cables if set(cable.pair) == {a, b}]

    def neighbours(self, host: int) -> set[int]:
        """The hosts one cable away."""
        return {other for c in self.cables_of(host) for other in c.pair} - {host}

    def host_number(self, word: str) -> int | None:
        """The host of that name or number."""
        if word in self.hosts:
            return self.hosts.index(word)
        if word.isdecimal() and int(word) < len(self.hosts):
            return int(word)
        return None


def find(text: str) -> Topology:
    """What ``--sim TEXT`` means; LaunchError when it means nothing."""
    if text.endswith(".json") or "/" in text:
        from tbmpi.launch import topology_file

        return topology_file.read(text)
    match = _PRESET.fullmatch(text)
    if not match or match[1] not in _SHAPES:
        raise LaunchError(f"--sim {text}: no such topology; there are {FORMS}")
    count, strands = int(match[2]), int(match[3] or 1)
    shape = _SHAPES[match[1]]
    if not shape.least <= count <= MOST_HOSTS:
        raise LaunchError(
            f"--sim {text}: a {match[1]} has {shape.least} to {MOST_HOSTS} Macs"
        )
    if not 1 <= strands <= MOST_BETWEEN:
        raise LaunchError(
            f"--sim {text}: 1 to {MOST_BETWEEN} cables join two Macs, not {strands}"
        )
    names = tuple(f"mac{number}" for number in range(count))
    pairs = [pair for pair in shape.pairs(count) for _ in range(strands)]
    return build(text, names, [(*pair, None, None) for pair in pairs])


# A cable to be: two hosts and their devices, or None for the next free one.
Draft = tuple[int, int, str | None, str | None]


def build(
    name: str,
    hosts: tuple[str, ...],
    drafts: Iterable[Draft],
    settings: Mapping[str, str] | None = None,
) -> Topology:
    """Gives devices and addresses to cables, in their order.

    Raises LaunchError for too many of them and for Macs that no cable joins;
    that devices are named once only is the caller's duty.
    """
    drafts = list(drafts)
    if len(drafts) > MOST_CABLES:
        raise LaunchError(
            f"--sim {name}: {len(drafts)} cables are too many; "
            f"at most {MOST_CABLES} can be emulated"
        )
    pairs = [(min(a, b), max(a, b)) for a, b, _, _ in drafts]
    for pair in pairs:
        if pairs.count(pair) > MOST_BETWEEN:
            a, b = (hosts[host] for host in pair)
            raise LaunchError(
                f"--sim {name}: {pairs.count(pair)} cables between {a} and {b} are "
                f"too many; at most {MOST_BETWEEN} join two Macs"
            )
    taken = {(a, device) for a, _, device, _ in drafts}
    taken |= {(b, device) for _, b, _, device in drafts}
    cables = []
    for number, (a, b, first, second) in enumerate(drafts):
        if a > b:
            a, b, first, second = b, a, second, first
        port_a = Port(a, first or _free(a, taken), f"169.254.{number + 1}.1")
        port_b = Port(b, second or _free(b, taken), f"169.254.{number + 1}.2")
        cables.append(Cable(number, port_a, port_b))
    topology = Topology(name, hosts, tuple(cables), dict(settings or {}))
    _check_joined(topology)
    return topology


def _free(host: int, taken: set[tuple[int, str | None]]) -> str:
    number = FIRST_DEVICE
    while (host, f"rdma_en{number}") in taken:
        number += 1
    taken.add((host, f"rdma_en{number}"))
    return f"rdma_en{number}"


def _check_joined(topology: Topology) -> None:
    reached, new = {0}, {0}
    while new:
        new = {n for host in new for n in topology.neighbours(host)} - reached
        reached |= new
    for number, name in enumerate(topology.hosts):
        if number not in reached:
            raise LaunchError(
                f"--sim {topology.name}: no cables lead from {topology.hosts[0]} "
                f"to {name}; every Mac must be reachable, if over others"
            )


# -------------------------------------------------------------------- shapes


def _mesh(count: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(count) for b in range(a + 1, count))


def _ring(count: int) -> Iterator[tuple[int, int]]:
    return ((a, (a + 1) % count) for a in range(count))


def _line(count: int) -> Iterator[tuple[int, int]]:
    return ((a, a + 1) for a in range(count - 1))


def _star(count: int) -> Iterator[tuple[int, int]]:
    return ((0, b) for b in range(1, count))


@dataclass(frozen=True)
class _Shape:
    pairs: Callable[[int], Iterator[tuple[int, int]]]
    least: int


# A ring of two would be two cables between two Macs, which is mesh:2x2.
_SHAPES = {
    "mesh": _Shape(_mesh, 2),
    "ring": _Shape(_ring, 3),
    "line": _Shape(_line, 2),
    "star": _Shape(_star, 3),
}
