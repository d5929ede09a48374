# SPDX-License-Identifier: MIT
"""Host lists, in the formats that users of other launchers have.

Open MPI's ``host slots=N``, Hydra's ``host:N``, and MLX's JSON (a list of
hosts, or an object with ``hosts``) are told apart by looking at them.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbmpi.launch.errors import LaunchError

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Host:
    """A machine and how many ranks it takes."""

    name: str
    slots: int = 1


def local_name() -> str:
    """This machine's name without its domain; asks no resolver."""
    return socket.gethostname().split(".")[0] or "localhost"


def is_local(name: str) -> bool:
    """Whether `name` means this machine, as far as names alone can tell."""
    full = socket.gethostname().lower()
    return name.lower() in LOCAL_NAMES | {full, full.split(".")[0]}


def parse_list(text: str) -> list[Host]:
    """Reads the comma list of -H and -hosts: ``a:2,b``."""
    return _merge([_host_and_count(item) for item in text.split(",") if item])


def read_file(path: str) -> list[Host]:
    """Reads a host file in any of the formats; LaunchError when it cannot."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or "not a text file"
        raise LaunchError(f"cannot read the host file {path}: {reason}") from why
    if text.lstrip()[:1] in ("[", "{"):
        hosts = _from_json(path, text)
    else:
        hosts = _from_lines(path, text)
    if not hosts:
        raise LaunchError(f"the host file {path} names no host")
    return _merge(hosts)


def _from_lines(path: str, text: str) -> list[Host]:
    hosts = []
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.split("#")[0].split()
        if not words:
            continue
        host = _host_and_count(words[0])
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key in ("slots", "max-slots", "max_slots") and value.isdigit():
                if key == "slots":
                    host = Host(host.name, int(value))
            else:
                raise LaunchError(
                    f"{path} line {number}: '{word}' is not understood; "
                    "a line is: host [slots=N]"
                )
        hosts.append(host)
    return hosts


def _from_json(path: str, text: str) -> list[Host]:
    try:
        data: Any = json.loads(text)
    except ValueError as why:
        raise LaunchError(f"the host file {path} is not valid JSON: {why}") from why
    entries = data.get("hosts", []) if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise LaunchError(f"{path}: 'hosts' must be a list")
    hosts = []
    for entry in entries:
        name = entry.get("ssh") if isinstance(entry, dict) else entry
        if not isinstance(name, str):
            raise LaunchError(f'{path}: a host needs a name, as in {{"ssh": "mac1"}}')
        hosts.append(Host(name))
    return hosts


def _host_and_count(text: str) -> Host:
    name, colon, count = text.rpartition(":")
    if not colon or ":" in name:  # no count, or a bare IPv6 address
        return Host(text)
    if not count.isdigit():
        raise LaunchError(f"host '{text}': the part after ':' is a number of ranks")
    return Host(name, int(count))


def _merge(hosts: list[Host]) -> list[Host]:
    """A host named twice takes as many ranks as its entries together."""
    slots: dict[str, int] = {}
    for host in hosts:
        slots[host.name] = slots.get(host.name, 0) + host.slots
    return [Host(name, count) for name, count in slots.items()]
