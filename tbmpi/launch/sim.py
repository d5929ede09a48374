# SPDX-License-Identifier: MIT
"""Emulated Macs on this machine: what ``tbmpirun --sim`` gives each process.

Ranks of one Mac share a segment, those of different Macs nothing. Each Mac has
a pool and a router, which own its emulated devices; sockets join the routers
along the cables and over the management network. With ``--router never`` the
Mac's only rank takes the router's place. A private folder holds the fabric's
state and the socket by which ``tbmpi sim`` finds the job; all else has no name.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tbmpi import _paths
from tbmpi._gen import pool as pool_layout
from tbmpi._gen.settings import SETTINGS
from tbmpi.launch import control, faults, pools
from tbmpi.launch.board import Note
from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.fabric import Fabric, room_needed
from tbmpi.launch.guard import Guard, GuardLost
from tbmpi.launch.nodes import Node
from tbmpi.launch.plan import STALE, Plan, Simulation, plan_head
from tbmpi.launch.segment import Memory, Segment
from tbmpi.launch.site import Boards, Helper, Outfit, Processes
from tbmpi.launch.topology import Cable
from tbmpi.launch.wires import Wires

_SUFFIXES = {"k": 10, "m": 20, "g": 30}


class SimSite:
    """The emulated machines of a plan; see site.Site."""

    def __init__(self, plan: Plan, guard: Guard) -> None:
        assert plan.sim is not None
        self._plan = plan
        self._sim: Simulation = plan.sim
        self._began = time.time()
        self._processes: Processes | None = None
        self._server: control.Server | None = None
        self._to_come: list[asyncio.Task[None]] = []
        self._segments: dict[int, Segment] = {}
        self._pools: dict[int, Memory] = {}
        self._ends: dict[int, dict[str, int]] = {node.number: {} for node in plan.nodes}
        self._boards = Boards((), {})
        self._agent = -1
        self._job = secrets.token_hex(16)
        needed = [_paths.fabric_command(), _paths.fabric_library()]
        needed += [_paths.router()] if self._sim.routers else []
        for path in needed:
            if not path.exists():
                raise LaunchError(f"--sim needs {path}, which is not built", FAILED)
        self._folder = control.make_folder(room_needed(self._sim.topology))
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            with contextlib.suppress(GuardLost):
                guard.remove_at_end(str(self._folder))
            self._fabric = Fabric(self._folder / "fabric", self._sim.topology)
            self._wires = Wires(self._fabric.is_pulled)
            undo.pop_all()

    # --------------------------------------------------------- what is offered

    @property
    def helpers(self) -> Sequence[Helper]:
        """A router a Mac."""
        if not self._sim.routers:
            return []
        common = self._plan.ranks[0].env
        env = {key: value for key, value in common.items() if not STALE.match(key)}
        program = (str(_paths.router()),)
        return [
            Helper(f"router of {node.name}", node.number, program, env)
            for node in self._plan.nodes
        ]

    @property
    def descriptors(self) -> int:
        """Four a Mac, four a cable, one for each Mac a Mac knows."""
        nodes, cables = len(self._plan.nodes), len(self._sim.topology.cables)
        return 5 * nodes + 4 * cables + nodes * nodes + 4

    def prepare(self) -> None:
        """Makes the memory and the sockets, and the faults of the first hour."""
        routed = self._sim.routers
        size = pool_size(self._plan.ranks[0].env) if routed else 0
        for node in self._plan.nodes:
            if node.ranks:
                self._segments[node.number] = Segment(len(node.ranks))
            if routed:
                need = f"the pool of {node.name} (TBMPI_POOL) needs"
                self._pools[node.number] = Memory(size, need)
        self._boards = Boards(self._plan.nodes, self._segments)
        self._connect()
        self._fabric.check(words for each in self._sim.faults for words in each.words)
        for fault in self._sim.faults:
            if fault.at is None:
                self._fabric.apply(fault.words)

    def _connect(self) -> None:
        """Sockets and pipes for all owners of verbs, by the plan's names."""
        for cable in self._sim.topology.cables:
            first, second = self._wires.add(cable.number)
            self._ends[cable.a.host][f"wire{cable.number}"] = first
            self._ends[cable.b.host][f"wire{cable.number}"] = second
        reader, self._agent = os.pipe()
        for node in range(len(self._plan.nodes)):
            self._ends[node]["agent"] = os.dup(reader)
            self._ends[node]["relay"] = self._wires.add_echo()
            for other in range(node):
                first, second = socket.socketpair()
                self._ends[node][f"mgmt{other}"] = first.detach()
                self._ends[other][f"mgmt{node}"] = second.detach()
        os.close(reader)

    def outfit(self, rank: int) -> Outfit:
        """For a rank: its Mac's memory, and the verbs if it owns them."""
        return self._outfit(self._node_of(rank), owner=not self._sim.routers)

    def helper_outfit(self, helper: Helper) -> Outfit:
        """For a router: the verbs."""
        return self._outfit(self._plan.nodes[helper.node], owner=True)

    def _outfit(self, node: Node, owner: bool) -> Outfit:
        marked = self._ends[node.number] if owner else {}
        library = self._plan.ranks[0].env.get("TBMPI_LIBRDMA")
        env = {
            "TBMPI_FABRIC": str(self._fabric.path),
            "TBMPI_FABRIC_HOST": str(node.number),
            "TBMPI_LIBRDMA": library or str(_paths.fabric_library()),
            "TBMPI_HOST_NAME": node.name,
        }
        handed = {}
        if node.number in self._segments:
            handed["TBMPI_SHM_FD"] = self._segments[node.number].fd
        if node.number in self._pools:
            handed["TBMPI_POOL_FD"] = self._pools[node.number].fd
        text = plan_text(self._plan, self._job, node, list(marked))
        if owner:
            self._ends[node.number] = {}
        return Outfit(env, handed, text, marked, list(marked.values()))

    def _node_of(self, rank: int) -> Node:
        return next(node for node in self._plan.nodes if rank in node.ranks)

    def note(self, rank: int) -> Note:
        """The rank's note."""
        return self._boards.note(rank)

    # ------------------------------------------------------------ while it runs

    async def started(self, processes: Processes) -> None:
        """Answers ``tbmpi sim`` from now on; the faults' clocks begin to run."""
        self._processes = processes
        self._wires.start()
        self._server = await control.serve(self._folder, self._answer)
        for fault in self._sim.faults:
            if fault.at is not None or fault.signum:
                self._to_come.append(asyncio.create_task(self._await(fault)))

    async def _await(self, fault: faults.Fault) -> None:
        await asyncio.sleep(fault.at or 0.0)
        try:
            await self._commit(fault)
        except LaunchError as problem:
            text = f"tbmpirun: '{fault.text}' did not happen: {problem}"
            print(text, file=sys.stderr)

    async def _commit(self, fault: faults.Fault) -> None:
        """Makes a fault happen. Raises LaunchError when the fabric refuses."""
        assert self._processes is not None
        # In a thread: a stopped process may keep the fabric locked for seconds.
        await asyncio.to_thread(self._fabric.apply, fault.words)
        for group in fault.victims(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, fault.signum)

    async def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What ``tbmpi sim`` and ``tbmpi info`` ask; raises LaunchError."""
        if request.get("do") == "fault":
            fault = faults.parse(str(request.get("fault")), self._sim.topology)
            fault.check_ranks(self._plan.size)
            await self._commit(fault)
            return {}
        if request.get("do") == "show":
            return await self._show()
        raise LaunchError(f"no such request: {request.get('do')}")

    async def _show(self) -> dict[str, Any]:
        assert self._processes is not None
        devices = await asyncio.to_thread(self._fabric.show)
        nodes = [
            {
                "name": node.name,
                "ranks": list(node.ranks),
                "router": self._processes.group_of_helper(node.number),
                **pools.show(self._pools.get(node.number), len(self._plan.nodes)),
            }
            for node in self._plan.nodes
        ]
        return {
            "job": os.getpid(),
            "topology": self._sim.topology.name,
            "program": self._plan.ranks[0].name,
            "ranks": self._plan.size,
            "seconds": round(time.time() - self._began, 1),
            "nodes": nodes,
            "cables": [self._cable(cable) for cable in self._sim.topology.cables],
            "fabric": devices,
        }

    def _cable(self, cable: Cable) -> dict[str, Any]:
        hosts = self._sim.topology.hosts
        return {
            "number": cable.number,
            "ends": [f"{hosts[end.host]} {end.device}" for end in cable.ends],
            "state": "pulled" if self._fabric.is_pulled(cable.number) else "plugged in",
        }

    def leftovers(self) -> list[str]:
        """What queue pairs and so on a real Mac would have lost."""
        try:
            return self._fabric.held()
        except LaunchError as problem:
            return [str(problem)]

    def close(self) -> None:
        """Removes the folder and closes what is open."""
        for task in self._to_come:
            task.cancel()
        if self._server is not None:
            self._server.close()
        if hasattr(self, "_wires"):
            self._wires.close()
        for ends in self._ends.values():
            for fd in ends.values():
                os.close(fd)
            ends.clear()
        if self._agent >= 0:
            os.close(self._agent)
            self._agent = -1
        for memory in (*self._segments.values(), *self._pools.values()):
            memory.close()
        control.remove_folder(self._folder)


def pool_size(env: Mapping[str, str]) -> int:
    """What TBMPI_POOL says, in bytes; LaunchError when it says nonsense."""
    default = next(row.default for row in SETTINGS if row.variable == "TBMPI_POOL")
    text = env.get("TBMPI_POOL", default)
    digits = text.rstrip("kmgKMG")
    suffix = text[len(digits) :].lower()
    if not digits.isdecimal() or len(suffix) > 1:
        raise LaunchError(
            f"TBMPI_POOL is '{text}'; it takes a size in bytes such as 64m"
        )
    size = int(digits) << _SUFFIXES.get(suffix, 0)
    if size < pool_layout.POOL_LEAST:
        raise LaunchError(
            f"TBMPI_POOL is '{text}'; a pool has at least "
            f"{pool_layout.POOL_LEAST >> 20}m"
        )
    return size


def plan_text(plan: Plan, job: str, node: Node, ends: Sequence[str]) -> str:
    """The plan as a process of `node` reads it (csrc/net/plan.h).

    `ends` names what the owner of the verbs holds: wire0, mgmt1, agent, …; their
    descriptors' numbers are filled in for {wire0}, … when it is started.
    """
    assert plan.sim is not None
    there = plan.sim.topology
    processes = plan.size + (len(plan.nodes) if plan.sim.routers else 0)
    owner = "router" if plan.sim.routers else "rank"
    lines = plan_head(plan, job, node, owner, processes)
    for cable in there.cables:
        a, b = (f"{end.host} {end.device} {end.gid}" for end in cable.ends)
        lines.append(f"cable {cable.number} {a} {b}")
    for kind in ("wire", "mgmt"):
        mine = sorted(int(name[4:]) for name in ends if name.startswith(kind))
        lines += [f"{kind} {number} {{{kind}{number}}}" for number in mine]
    lines += [f"{name} {{{name}}}" for name in ("agent", "relay") if name in ends]
    return "\n".join(lines) + "\n"
