# SPDX-License-Identifier: MIT
"""Cables between the virtual nodes of one guest: veth pairs with Soft-RoCE.

Soft-RoCE of the kernels in use sends and receives in the first network
namespace only, so all nodes live there. Rules make packets between two of its
addresses leave through one end of the pair and arrive at the other, as on a
cable, instead of taking the short way inside the kernel.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

SYSCTL = Path("/proc/sys/net/ipv4/conf")
RDMA = Path("/sys/class/infiniband")
TABLE = 100
MTU = 9000  # so that the RDMA MTU is 4096
GIDS = 8  # of a device that are looked at; the table has a thousand
READY_SECONDS = 10.0
COMMAND_SECONDS = 60.0
# Packets of this machine look for a cable first, arriving ones for an address.
RULES = (
    "rule add pref 1000 lookup local",
    "rule del pref 0",
    f"rule add pref {TABLE} iif lo lookup {TABLE}",
)


@dataclass(frozen=True)
class End:
    """One end of a cable."""

    node: int
    netdev: str
    device: str
    address: str

    @property
    def gid(self) -> str:
        """As in a plan and in the device's table."""
        return f"::ffff:{self.address}"


@dataclass(frozen=True)
class Cable:
    """Two ends."""

    a: End
    b: End


def lay(pairs: Sequence[tuple[int, int]]) -> list[Cable]:
    """Lays a cable for each pair of nodes. Names follow node and cable,
    addresses the cable, as in tbmpi/launch/topology.py."""
    cables = [Cable(*_ends(number, pair)) for number, pair in enumerate(pairs)]
    for name in ("all", "default"):
        _allow_own(name)
    # One process for all: starting one takes an emulated processor long.
    _batch("ip", [*RULES, *(line for cable in cables for line in _links(cable))])
    ends = [end for cable in cables for end in (cable.a, cable.b)]
    devices = (f"link add {end.device} type rxe netdev {end.netdev}" for end in ends)
    _batch("rdma", devices)
    until = time.monotonic() + READY_SECONDS
    for end in ends:
        while gid_index(end) is None:
            if time.monotonic() > until:
                raise RuntimeError(f"{end.device} has no GID {end.gid}")
            time.sleep(0.05)
    return cables


def gid_index(end: End) -> int | None:
    """Where the address stands in the device's table: the kernel fills that a
    moment after the address has come."""
    wanted = f"ffff{IPv4Address(end.address):x}"
    for index in range(GIDS):
        text = (RDMA / end.device / "ports/1/gids" / str(index)).read_text()
        if text.strip().replace(":", "").endswith(wanted):
            return index
    return None


def lose(cable: Cable, percent: float) -> None:
    """Makes the cable lose packets at random, both ways."""
    loss = f"root netem loss {percent}%"
    ends = (cable.a, cable.b)
    _batch("tc", (f"qdisc replace dev {end.netdev} {loss}" for end in ends))


def heal(cable: Cable) -> None:
    """Ends what lose began."""
    _batch("tc", (f"qdisc del dev {end.netdev} root" for end in (cable.a, cable.b)))


def pull(cable: Cable) -> None:
    """Pulls the cable: both ends lose their carrier."""
    _batch("ip", [f"link set {cable.a.netdev} down"])


def _allow_own(name: str) -> None:
    """Packets may come from an address of this machine; ARP answers are strict."""
    values = {"rp_filter": 0, "accept_local": 1, "arp_ignore": 1, "arp_announce": 2}
    for key, value in values.items():
        (SYSCTL / name / key).write_text(str(value))


def _ends(number: int, pair: tuple[int, int]) -> Iterator[End]:
    for last, node in enumerate(pair, 1):
        netdev = f"n{node}c{number}"
        address = f"169.254.{number + 1}.{last}"
        yield End(node, netdev, f"rdma_{netdev}", address)


def _links(cable: Cable) -> Iterator[str]:
    a, b = cable.a, cable.b
    pair = f"{a.netdev} mtu {MTU} type veth peer name {b.netdev} mtu {MTU}"
    yield f"link add {pair}"
    for end in (a, b):
        yield f"addr add {end.address}/30 dev {end.netdev}"
        yield f"link set {end.netdev} up"
    for end, other in ((a, b), (b, a)):
        way = f"{other.address}/32 dev {end.netdev} src {end.address}"
        yield f"route add {way} table {TABLE}"


def _batch(tool: str, lines: Iterable[str]) -> None:
    done = subprocess.run(
        [tool, "-b", "-"],
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"{tool} -b: {done.stderr.strip()}")
