# SPDX-License-Identifier: MIT
"""Machines of a job as the user names them: in lists, and as what they are.

Host files are read by hostfile.py.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field

from tbmpi.launch.errors import LaunchError

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1"})
MOST_SLOTS = 65535  # ranks have 16 bits (struct tb_hop)

# What ssh may be given as a machine: a name, an address, an alias of its
# configuration, with a user in front. Never an option.
NAME = re.compile(r"[A-Za-z0-9_%.:@\[\]-]+")

Devices = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Host:
    """A machine and how many ranks it takes.

    `counted`: somebody has said how many, so it takes no more. `addresses`
    are those by which the others reach it, the best first; `rdma` names, host
    by host, the devices whose cables lead there. Empty: not said.
    """

    name: str
    slots: int = 1
    counted: bool = field(default=False, compare=False)
    addresses: tuple[str, ...] = field(default=(), compare=False)
    rdma: tuple[Devices, ...] = field(default=(), compare=False)


def local_name() -> str:
    """This machine's name without its domain; asks no resolver."""
    return socket.gethostname().split(".")[0] or "localhost"


def is_local(name: str) -> bool:
    """Whether `name` means this machine, as far as names alone can tell."""
    full = socket.gethostname().lower()
    return name.lower() in LOCAL_NAMES | {full, full.split(".")[0]}


def parse_list(text: str) -> list[Host]:
    """Reads the comma list of -H and -hosts: ``a:2,b``."""
    return merge([host_and_count(item) for item in text.split(",") if item])


def check_name(name: str) -> str:
    """The name, if it can be one; LaunchError."""
    if name.startswith("-") or not NAME.fullmatch(name):
        raise LaunchError(f"host '{name}' is neither a name nor an address")
    return name


def host_and_count(text: str) -> Host:
    """Reads ``host`` or ``host:N``; an IPv6 address alone has no count."""
    name, colon, count = text.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):
        return Host(check_name(text))
    return Host(check_name(name), slot_count(text, count), counted=True)


def slot_count(text: str, count: str) -> int:
    """The number of ranks that `count` says in `text`; LaunchError."""
    if not (count.isascii() and count.isdigit()):
        raise LaunchError(f"host '{text}': the part after ':' is a number of ranks")
    if len(count) > 6 or not 1 <= int(count) <= MOST_SLOTS:
        raise LaunchError(f"host '{text}': a host takes 1 to {MOST_SLOTS} ranks")
    return int(count)


def merge(hosts: list[Host]) -> list[Host]:
    """A host named twice takes as many ranks as its entries together."""
    merged: dict[str, Host] = {}
    for host in hosts:
        first = merged.get(host.name)
        if first is None:
            merged[host.name] = host
        else:
            slots = first.slots + host.slots
            merged[host.name] = Host(host.name, slots, True, first.addresses)
    return list(merged.values())
