# SPDX-License-Identifier: MIT
"""Two Macs and their cables: the probes are run, the rows come back."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tbmpi import _paths
from tbmpi.launch import control
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.fabric import Fabric, room_needed
from tbmpi.launch.topology import Topology
from tbmpi.selftest import alone, findings
from tbmpi.selftest.ends import End, Said, Task, Wire, wait_for
from tbmpi.selftest.findings import Meaning, Row


@dataclass
class Result:
    """Of one pair: the rows of the table, and every line that was printed."""

    names: tuple[str, str]
    wires: tuple[Wire, ...]
    rows: list[Row] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)


def new_task(
    names: tuple[str, str], wires: Sequence[Wire], daring: bool, patience: float
) -> Task:
    """A task with a name of its own."""
    return Task(secrets.token_hex(16), names, tuple(wires), daring, patience)


# ------------------------------------------------------------ emulated Macs


def simulated(
    topology: Topology, switches: Mapping[str, str], daring: bool, patience: float
) -> list[Result]:
    """Every two neighbours of a topology, one after the other."""
    there = replace(topology, settings={**topology.settings, **switches})
    folder = control.make_folder(room_needed(there))
    try:
        fabric = Fabric(folder / "fabric", there)
        pairs = sorted({tuple(sorted(cable.pair)) for cable in there.cables})
        return [
            _simulated_pair(there, fabric.path, (a, b), daring, patience)
            for a, b in pairs
        ]
    finally:
        control.remove_folder(folder)


def _simulated_pair(
    there: Topology, fabric: Path, hosts: tuple[int, int], daring: bool, patience: float
) -> Result:
    wires = [
        Wire(
            (cable.a.device, cable.b.device),
            (cable.a.address, cable.b.address),
        )
        for cable in there.between(*hosts)
    ]
    names = (there.hosts[hosts[0]], there.hosts[hosts[1]])
    task = new_task(names, wires, daring, patience)
    return both_here(task, [_environment(fabric, host) for host in hosts])


def _environment(fabric: Path, host: int) -> dict[str, str]:
    library = os.environ.get("TBMPI_LIBRDMA") or str(_paths.fabric_library())
    return {
        **os.environ,
        "TBMPI_FABRIC": str(fabric),
        "TBMPI_FABRIC_HOST": str(host),
        "TBMPI_LIBRDMA": library,
    }


def both_here(task: Task, env: Sequence[Mapping[str, str]]) -> Result:
    """Both ends are processes of this machine."""
    first = before(task, env[0])
    sockets: tuple[list[int], list[int]] = ([], [])
    for _ in range(task.channels):
        for side, end in enumerate(socket.socketpair()):
            sockets[side].append(end.detach())
    ends: list[End] = []
    try:
        for side in (0, 1):
            ends.append(End(task, side, sockets[side], env[side]))
        wait_for(ends)
    finally:
        for end in ends:
            end.stop()
    said = [end.said() for end in ends]
    return gather(task, said, [*first, *after(task, env[0])])


# -------------------------------------------------- what one end does alone


def before(task: Task, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """What one end finds out by itself, before the probes."""
    try:
        return [alone.sharing(*task.wires[0].addresses, env)]
    except LaunchError:
        return []  # the probes say more about a device that does not open


def after(task: Task, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same, after them: it may spoil the device."""
    if not task.daring:
        return []
    try:
        return [alone.leak(*task.wires[0].addresses, env)]
    except LaunchError:
        return []


# ------------------------------------------------------------------- rows


def gather(task: Task, said: Sequence[Said], more: Sequence[dict[str, Any]]) -> Result:
    """The rows of both ends' lines, and of `more` that side 0 found alone."""
    result = Result(task.names, task.wires)
    lines = [line for end in said for line in end.lines if "probe" in line]
    result.lines = [*lines, *more]
    for line in more:
        result.rows += findings.rows_of(line, task.names[0])
    for line in lines:
        place = _cable_name(line) if _of_cable(line) else _device(task, line)
        result.rows += findings.rows_of(line, place)
    for number in range(len(task.wires)):
        own = [line for line in lines if line["cable"] == number]
        result.rows += findings.summed(own, f"cable {number}")
    for side, end in enumerate(said):
        if end.trouble:
            meaning = Meaning(findings.BAD, end.trouble)
            result.rows.append(Row("end", task.names[side], "failed", "", meaning))
    return result


OF_DEVICE = frozenset(
    (
        *("open", "port", "gid", "advertised", "queue_pairs", "domains", "queues"),
        *("regions", "region_scope", "access", "alignment", "depth", "types"),
        *("errno", "channel", "inline"),
    )
)


def _of_cable(line: Mapping[str, Any]) -> bool:
    return line["probe"] not in OF_DEVICE


def _device(task: Task, line: Mapping[str, Any]) -> str:
    side = task.names.index(line["mac"])
    if len(task.wires) == 1:
        return str(line["mac"])
    return f"{line['mac']} {task.wires[line['cable']].devices[side]}"


def _cable_name(line: Mapping[str, Any]) -> str:
    return f"cable {line['cable']}" if line["cable"] >= 0 else "all cables"
