# SPDX-License-Identifier: MIT
"""Host files, in the formats that users of other launchers have.

Told apart by looking at them: text that begins with ``[`` or ``{`` is JSON.

    mac1 slots=2 max-slots=4     Open MPI: a line a host, # for remarks
    mac1:2                       Hydra
    ["mac1", "mac2"]             names alone
    ["10.0.0.1:5000", …]         addresses with a port, as a ring of MLX or of exo
    [["10.0.0.1:5000", …], …]    takes them: one entry, or list, a host
    [{"ssh": "mac1", "ips": ["10.0.0.1"], "rdma": [null, "rdma_en2"]}, …]
    {"backend": "jaccl", "envs": ["K=V"], "hosts": […]}
                                 MLX: `rdma` has an entry a host: null, a device,
                                 or several; rank follows the order

Every error names the file, the line and, in JSON, the column.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tbmpi.launch.errors import LaunchError
from tbmpi.launch.hosts import Devices, Host, check_name, host_and_count, merge
from tbmpi.launch.hosts import slot_count as _slot_count
from tbmpi.launch.json_lines import Step, place_of

MOST_BYTES = 4 << 20
MOST_HOSTS = 4096


@dataclass(frozen=True)
class HostFile:
    """What a host file says."""

    hosts: tuple[Host, ...]
    env: tuple[tuple[str, str], ...] = ()
    backend: str = ""


def read(path: str) -> HostFile:
    """Reads a host file in any of the formats; LaunchError when it cannot."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or "not a text file"
        raise LaunchError(f"cannot read the host file {path}: {reason}") from why
    if len(data) > MOST_BYTES:
        raise LaunchError(f"the host file {path} has more than {MOST_BYTES} bytes")
    return parse(path, text)


def parse(path: str, text: str) -> HostFile:
    """The same of a text; `path` is for the messages."""
    is_json = text.lstrip()[:1] in ("[", "{")
    found = _Json(path, text).read() if is_json else _lines(path, text)
    if not found.hosts:
        raise LaunchError(f"the host file {path} names no host")
    if len(found.hosts) > MOST_HOSTS:
        raise LaunchError(f"the host file {path} names more than {MOST_HOSTS} hosts")
    return found


# --------------------------------------------------------------------- lines


def _lines(path: str, text: str) -> HostFile:
    hosts = []
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.split("#")[0].split()
        if words:
            try:
                hosts.append(_line(words))
            except LaunchError as why:
                raise LaunchError(f"{path} line {number}: {why}") from why
    return HostFile(tuple(merge(hosts)))


def _line(words: Sequence[str]) -> Host:
    host = host_and_count(words[0])
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key == "slots" and value.isdigit():
            slots = _slot_count(f"{host.name} {word}", value)
            host = replace(host, slots=slots, counted=True)
        elif not (key in ("max-slots", "max_slots") and value.isdigit()):
            raise LaunchError(f"'{word}' is not understood; a line is: host [slots=N]")
    return host


# ---------------------------------------------------------------------- JSON


class _Json:
    """One file. Values are named by the keys and indices that lead to them."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def _bad(self, where: Sequence[Step], what: str) -> LaunchError:
        line, column = place_of(self._text, where)
        return LaunchError(f"{self._path} line {line} column {column}: {what}")

    def read(self) -> HostFile:
        try:
            data: Any = json.loads(self._text)
        except json.JSONDecodeError as why:
            raise LaunchError(
                f"{self._path} line {why.lineno} column {why.colno}: this is not "
                f"valid JSON: {why.msg}"
            ) from why
        except (ValueError, RecursionError) as why:
            raise LaunchError(f"{self._path} is not valid JSON: {why}") from why
        if isinstance(data, dict):
            return self._object(data)
        return HostFile(self._hosts(data, []))

    def _object(self, data: dict[str, Any]) -> HostFile:
        backend = data.get("backend", "")
        if not isinstance(backend, str):
            raise self._bad(["backend"], "'backend' is a text")
        envs = data.get("envs", [])
        if not isinstance(envs, list):
            raise self._bad(["envs"], "'envs' is a list of texts such as K=V")
        pairs = []
        for at, each in enumerate(envs):
            key, equals, value = str(each).partition("=")
            if not key or not equals:
                raise self._bad(["envs", at], "an environment variable is K=V")
            pairs.append((key, value))
        if "hosts" not in data:
            raise self._bad([], "'hosts' is missing: the list of hosts")
        hosts = self._hosts(data["hosts"], ["hosts"])
        return HostFile(hosts, tuple(pairs), backend)

    def _hosts(self, entries: Any, where: list[Step]) -> tuple[Host, ...]:
        if not isinstance(entries, list):
            raise self._bad(where, "'hosts' must be a list")
        hosts = [self._host(each, [*where, at]) for at, each in enumerate(entries)]
        names: dict[str, int] = {}
        for at, host in enumerate(hosts):
            if host.name in names:
                raise self._bad(
                    [*where, at],
                    f"host '{host.name}' is there twice, also as entry "
                    f"{names[host.name] + 1}; a host has one entry",
                )
            names[host.name] = at
            self._check_row(host, at, len(hosts), [*where, at])
        self._check_both_ways(hosts, where)
        return tuple(hosts)

    def _host(self, entry: Any, where: list[Step]) -> Host:
        if isinstance(entry, str):
            return self._named(entry, where)
        if isinstance(entry, list):
            texts = self._texts(entry, where, "an address")
            if not texts:
                raise self._bad(where, "a host needs an address")
            first = self._named(texts[0], [*where, 0])
            ports = [_without_port(text) for text in texts]
            return replace(first, addresses=tuple(dict.fromkeys(ports)))
        if not isinstance(entry, dict):
            raise self._bad(where, 'a host needs a name, as in {"ssh": "mac1"}')
        return self._described(entry, where)

    def _named(self, text: str, where: list[Step]) -> Host:
        address = _without_port(text)
        try:
            if address != text:
                return Host(check_name(address), addresses=(address,))
            return host_and_count(text)
        except LaunchError as why:
            raise self._bad(where, str(why)) from why

    def _described(self, entry: dict[str, Any], where: list[Step]) -> Host:
        name = entry.get("ssh")
        if not isinstance(name, str):
            raise self._bad(where, 'a host needs a name, as in {"ssh": "mac1"}')
        try:
            check_name(name)
        except LaunchError as why:
            raise self._bad([*where, "ssh"], str(why)) from why
        ips = self._texts(entry.get("ips", []), [*where, "ips"], "an address")
        for at, text in enumerate(ips):
            if not _is_address(text):
                raise self._bad([*where, "ips", at], f"'{text}' is no IP address")
        rdma = self._rdma(entry.get("rdma") or [], [*where, "rdma"])
        return Host(name, addresses=ips, rdma=rdma)

    def _texts(self, data: Any, where: list[Step], what: str) -> tuple[str, ...]:
        if not isinstance(data, list):
            raise self._bad(where, f"this is no list, of which each entry is {what}")
        for at, text in enumerate(data):
            if not isinstance(text, str) or not text:
                raise self._bad([*where, at], f"this is not {what}")
        return tuple(data)

    def _rdma(self, row: Any, where: list[Step]) -> tuple[Devices, ...]:
        if not isinstance(row, list):
            raise self._bad(where, "'rdma' is a list with an entry for each host")
        found: list[Devices] = []
        for at, each in enumerate(row):
            if each is None or (isinstance(each, str) and each):
                found.append(each)
            else:
                found.append(self._texts(each, [*where, at], "a device"))
        return tuple(found)

    def _check_row(self, host: Host, at: int, hosts: int, where: list[Step]) -> None:
        where = [*where, "rdma"]
        if host.rdma and len(host.rdma) != hosts:
            raise self._bad(
                where,
                f"host '{host.name}' has {len(host.rdma)} entries in 'rdma' and there "
                f"are {hosts} hosts: the matrix must be square",
            )
        if host.rdma and host.rdma[at]:
            raise self._bad([*where, at], f"host '{host.name}' has a cable to itself")

    def _check_both_ways(self, hosts: Sequence[Host], where: list[Step]) -> None:
        def cables(a: int, b: int) -> int:
            devices = hosts[a].rdma[b] if hosts[a].rdma else None
            return 1 if isinstance(devices, str) else len(devices or ())

        for a in range(len(hosts)):
            for b in range(len(hosts)):
                if cables(a, b) != cables(b, a):
                    raise self._bad(
                        [*where, a, "rdma", b],
                        f"host '{hosts[a].name}' names {cables(a, b)} devices towards "
                        f"'{hosts[b].name}' and that one {cables(b, a)} back: a cable "
                        "has two ends",
                    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _without_port(text: str) -> str:
    """``10.0.0.1:5000`` without its port; other texts as they are."""
    head, colon, port = text.rpartition(":")
    bare = head.strip("[]")
    whole = head.startswith("[") or ":" not in head
    return bare if colon and port.isdigit() and whole and _is_address(bare) else text


# ------------------------------------------------------------------- writing


def write(path: str, hosts: Sequence[Host], backend: str = "") -> None:
    """Writes hosts as MLX does. Raises LaunchError."""
    entries = [
        {
            "ssh": host.name,
            "ips": list(host.addresses),
            "rdma": [list(d) if isinstance(d, tuple) else d for d in host.rdma],
        }
        for host in hosts
    ]
    data = {"backend": backend, "envs": [], "hosts": entries}
    try:
        Path(path).write_text(json.dumps(data, indent=4) + "\n", encoding="utf-8")
    except OSError as why:
        raise LaunchError(f"cannot write the host file {path}: {why.strerror}") from why
