# SPDX-License-Identifier: MIT
"""Topologies from files: our own JSON, and MLX's host file.

Our own names hosts and cables; what is left out is chosen as for mesh:N:

    {
      "hosts": ["studio", "mini", "laptop"],
      "cables": [
        ["studio", "mini"],
        ["mini:rdma_en3", "laptop:rdma_en2"]
      ],
      "fabric": {"latency": "8us"}
    }

`fabric` sets switches of the emulated fabric (``tbmpi sim --switches``). In
MLX's file each host has a row `rdma` with a device, a list of devices, or null
for every host: as many cables join two hosts, the first with the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NoReturn

from tbmpi.launch import topology
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.json_lines import Step, line_of
from tbmpi.launch.topology import Draft, Topology

# What goes into lines of words: the fabric's description, the plan.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,15}")
_KEYS = ("hosts", "cables", "fabric")


def read(path: str) -> Topology:
    """Reads a file of either kind; LaunchError names file, line and key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or "not a text file"
        raise LaunchError(f"cannot read the topology {path}: {reason}") from why
    try:
        data = json.loads(text)
    except json.JSONDecodeError as why:
        raise LaunchError(
            f"{path} line {why.lineno}: not valid JSON: {why.msg}"
        ) from why
    return _Reader(path, text).topology(data)


class _Reader:
    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def _no(self, where: Sequence[Step], what: str) -> NoReturn:
        line = line_of(self._text, where)
        raise LaunchError(f"{self._path} line {line}: {_key(where)}{what}")

    def topology(self, data: Any) -> Topology:
        where: list[Step] = []
        hosts = data
        if isinstance(data, dict):
            where, hosts = ["hosts"], data.get("hosts")
        if not isinstance(hosts, list):
            self._no([], "a topology is an object with 'hosts' and 'cables'")
        if not 2 <= len(hosts) <= topology.MOST_HOSTS:
            self._no(where, f"2 to {topology.MOST_HOSTS} hosts, not {len(hosts)}")
        if all(isinstance(host, dict) for host in hosts):
            return self._mlx(where, hosts)
        if not isinstance(data, dict):
            self._no([], "a list is MLX's format, whose hosts have 'ssh' and 'rdma'")
        for key in data:
            if key not in _KEYS:
                self._no([key], f"not known; there are {', '.join(_KEYS)}")
        names = [self._name(["hosts", i], host) for i, host in enumerate(hosts)]
        self._once(where, names)
        return topology.build(
            self._path,
            tuple(names),
            self._cables(names, data.get("cables")),
            self._settings(data.get("fabric", {})),
        )

    def _name(self, where: Sequence[Step], value: Any) -> str:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            self._no(where, "a host's name has up to 31 letters, digits, . - or _")
        return value

    def _once(self, where: Sequence[Step], names: list[str]) -> None:
        for number, name in enumerate(names):
            if name in names[:number]:
                self._no([*where, number], f"the host '{name}' is there twice")

    # ----------------------------------------------------------------- cables

    def _cables(self, names: list[str], rows: Any) -> list[Draft]:
        if not isinstance(rows, list):
            self._no(["cables"], 'a list is needed, as in [["mac0", "mac1"]]')
        drafts: list[Draft] = []
        for number, row in enumerate(rows):
            where: list[Step] = ["cables", number]
            if not isinstance(row, list) or len(row) != 2:
                self._no(where, 'a cable has two ends, as in ["mac0", "mac1"]')
            (a, first), (b, second) = (
                self._end([*where, at], end, names) for at, end in enumerate(row)
            )
            if a == b:
                self._no(where, f"both ends are at '{names[a]}'")
            drafts.append((a, b, first, second))
        self._devices_once(drafts, names)
        return drafts

    def _end(
        self, where: Sequence[Step], end: Any, names: list[str]
    ) -> tuple[int, str | None]:
        host, colon, device = end.partition(":") if isinstance(end, str) else ("",) * 3
        if host not in names:
            self._no(where, f"'{host or end}' is not among the hosts")
        if colon and not _DEVICE.fullmatch(device):
            self._no(where, f"'{device}' is no name of a device, as rdma_en2 is")
        return names.index(host), device if colon else None

    def _devices_once(self, drafts: list[Draft], names: list[str]) -> None:
        seen: dict[tuple[int, str], int] = {}
        for number, (a, b, first, second) in enumerate(drafts):
            for host, device in ((a, first), (b, second)):
                if device is None:
                    continue
                earlier = seen.setdefault((host, device), number)
                if earlier != number:
                    self._no(
                        ["cables", number],
                        f"{device} of '{names[host]}' has cable {earlier} already",
                    )

    def _settings(self, table: Any) -> dict[str, str]:
        if not isinstance(table, dict):
            self._no(["fabric"], 'an object is needed, as in {"latency": "8us"}')
        settings = {}
        for key, value in table.items():
            text = json.dumps(value) if isinstance(value, int | float) else value
            if not isinstance(text, str) or len(f"{key} {text}".split()) != 2:
                self._no(["fabric", key], "a switch is set to one word or number")
            settings[key] = text
        return settings

    # ------------------------------------------------------------ MLX's format

    def _mlx(self, where: list[Step], hosts: list[dict[str, Any]]) -> Topology:
        names = [self._ssh_name([*where, i], host) for i, host in _each(hosts)]
        self._once(where, names)
        rows = [self._row([*where, i], host, len(hosts)) for i, host in _each(hosts)]
        drafts: list[Draft] = []
        for a, b in combinations_with_replacement(range(len(rows)), 2):
            here, there = rows[a][b], rows[b][a]
            if a == b and here:
                self._no([*where, a, "rdma", a], "null is needed: a host's own column")
            if len(here) != len(there):
                self._no(
                    [*where, a, "rdma", b],
                    f"{len(here)} devices of '{names[a]}' towards '{names[b]}', "
                    f"{len(there)} the other way; a cable has two ends",
                )
            drafts += [(a, b, *ends) for ends in zip(here, there, strict=True)]
        for host, row in enumerate(rows):
            used = [device for cell in row for device in cell]
            for device in used:
                if used.count(device) > 1:
                    self._no([*where, host, "rdma"], f"{device} is there twice")
        return topology.build(self._path, tuple(names), drafts)

    def _ssh_name(self, where: Sequence[Step], host: dict[str, Any]) -> str:
        name = host.get("ssh")
        if isinstance(name, str):
            name = name.rpartition("@")[2]
        return self._name([*where, "ssh"], name)

    def _row(
        self, where: Sequence[Step], host: dict[str, Any], count: int
    ) -> list[list[str]]:
        row = host.get("rdma")
        if not isinstance(row, list) or len(row) != count:
            self._no([*where, "rdma"], f"a list of {count} is needed, one a host")
        cells = []
        for column, cell in enumerate(row):
            devices = cell if isinstance(cell, list) else [cell] if cell else []
            for device in devices:
                if not isinstance(device, str) or not _DEVICE.fullmatch(device):
                    self._no(
                        [*where, "rdma", column],
                        "null, a device such as rdma_en2, or a list of them",
                    )
            cells.append(devices)
        return cells


def _each(hosts: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate(hosts))


def _key(where: Sequence[Step]) -> str:
    """``cables[3]: ``, or nothing for the whole file."""
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return f"{text.removeprefix('.')}: " if text else ""
