# SPDX-License-Identifier: MIT
"""The agent of a job on one machine: starts its ranks there and speaks for them.

tbmpirun starts one on each machine of a job (ssh.py) and talks with it over its
standard input and output (wire.py). It ends all it has started when tbmpirun
says so, is gone, or has been silent for too long; when it is killed itself,
its guard does.

What it is told comes in this order: prepare (check the programs, listen),
dial (connect with other machines' ranks), start; then lines of the start-up
protocol, signals, input, end. It answers ready, linked, started; then tells
what ranks say, print, and how they end, and at last done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tbmpi import info
from tbmpi.launch import as_told, links
from tbmpi.launch.board import Note
from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.guard import Guard
from tbmpi.launch.nodes import Node
from tbmpi.launch.output import Sink
from tbmpi.launch.plan import Plan
from tbmpi.launch.ranks import LocalNode, make_room, prepare_output
from tbmpi.launch.segment import Segment
from tbmpi.launch.site import Boards, Helper, Outfit, Processes
from tbmpi.launch.wire import Message, Wire

# Before the first message: a login script may have printed something.
MARK = b"\0tbmpi-agent 1\n"
SILENCE = 15.0  # seconds after which the other side counts as gone
PING = 2.0
LATE_OUTPUT = 0.5
NOTES_EVERY = 0.5


class WireSink:
    """Takes the ranks' output to tbmpirun; in output.Source's words a sink."""

    def __init__(self, wire: Wire, number: int) -> None:
        self._wire = wire
        self._number = number
        self.unfinished: object = None

    def write(self, data: bytes) -> None:
        """Sends it on."""
        self._wire.send({"tell": "out", "to": self._number}, data)

    @property
    def behind(self) -> bool:
        """Whether tbmpirun reads more slowly than the ranks write."""
        return self._wire.behind

    def on_caught_up(self, call: Callable[[], None]) -> None:
        """Calls `call` when it has caught up."""
        self._wire.on_caught_up(call)

    async def drained(self) -> None:
        """Waits until all is on its way."""
        await self._wire.drained()


class Machine:
    """What a job gives the ranks of this machine; see site.Site.

    They share a segment; each has a socket to every rank elsewhere and the
    ends of the pipes by which ranks of one machine wake each other.
    """

    helpers: Sequence[Helper] = ()

    def __init__(
        self, plan: Plan, told: Mapping[str, Any], own: links.Links, crowd: int
    ) -> None:
        self._plan = plan
        self._job: str = told["job"]
        self._node = plan.nodes[told["self"]]
        self._links = own
        self._crowd = crowd
        self._segment: Segment | None = None
        self._boards = Boards((), {})
        self._pipes: dict[int, tuple[int, int]] = {}

    @staticmethod
    def sockets(plan: Plan, node: Node) -> int:
        """One a pair of ranks, one of which is elsewhere."""
        return len(node.ranks) * (plan.size - len(node.ranks))

    @property
    def descriptors(self) -> int:
        """The sockets, and two ends of a pipe a rank."""
        return self.sockets(self._plan, self._node) + 2 * len(self._node.ranks) + 8

    def prepare(self) -> None:
        """Makes the segment and the pipes."""
        self._segment = Segment(len(self._node.ranks))
        self._boards = Boards([self._node], {self._node.number: self._segment})
        for rank in self._node.ranks:
            self._pipes[rank] = os.pipe()

    def outfit(self, rank: int) -> Outfit:
        """For a rank."""
        assert self._segment is not None
        handed = {"TBMPI_SHM_FD": self._segment.fd}
        if self._plan.size == len(self._node.ranks):
            return Outfit(handed=handed)
        far = self._links.take(rank)
        marked = {f"link{other}": fd for other, fd in far.items()}
        lent = list(marked.values())
        marked |= {f"bell{each}": pipe[1] for each, pipe in self._pipes.items()}
        marked["ear"] = self._pipes[rank][0]
        text = as_told.plan_text(self._plan, self._job, self._node, far, self._crowd)
        return Outfit({}, handed, text, marked, lent)

    def helper_outfit(self, helper: Helper) -> Outfit:
        """There are no helpers."""
        raise NotImplementedError(helper.name)

    def note(self, rank: int) -> Note:
        """The rank's note."""
        return self._boards.note(rank)

    async def started(self, processes: Processes) -> None:
        """The ranks have their ends now, and we need none."""
        self._close_pipes()

    def leftovers(self) -> list[str]:
        """There are no devices."""
        return []

    def _close_pipes(self) -> None:
        for pipe in self._pipes.values():
            for fd in pipe:
                os.close(fd)
        self._pipes.clear()

    def close(self) -> None:
        """Gives all back; notes stay readable."""
        self._close_pipes()
        self._links.close()
        if self._segment is not None:
            self._segment.close()


class Agent:
    """One job. `guard` starts its processes; `reader`, `writer` are the wire."""

    def __init__(self, guard: Guard, reader: int, writer: int, feed: int) -> None:
        self._guard = guard
        self._wire = Wire(reader, writer, self._told, self._wire_ended)
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._plan: Plan | None = None
        self._mine: tuple[int, ...] = ()
        self._links: links.Links | None = None
        self._site: Machine | None = None
        self._node: LocalNode | None = None
        self._feed = feed  # the writing end of our standard input
        self._stopped = False
        self._sent: dict[str, Any] = {}

    async def run(self) -> None:
        """Serves until tbmpirun has gone, and ends what there is."""
        signal_names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for signum in signal_names:
            self._loop.add_signal_handler(signum, self._over.set)
        self._wire.send(as_told.greeting(info.version()))
        self._keep(self._watch())
        await self._over.wait()
        if self._node is not None:
            self._node.end()
            await self._node.gone()
        for task in self._tasks:
            task.cancel()
        if self._site is not None:
            self._site.close()
        elif self._links is not None:
            self._links.close()
        self._wire.close()

    def _keep(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    def _fail(self, why: BaseException | None) -> None:
        if isinstance(why, LaunchError):
            self._wire.send({"tell": "failed", "why": str(why), "code": why.code})
        else:
            text = f"a defect in tbmpi's agent, please report it: {why!r}"
            self._wire.send({"tell": "failed", "why": text, "code": FAILED})

    async def _watch(self) -> None:
        """Says that this side lives, and looks whether the other does."""
        while True:
            await asyncio.sleep(PING)
            self._wire.send({"tell": "ping"})
            silent = self._loop.time() - self._wire.heard
            if silent > SILENCE and not self._stopped:
                self._over.set()

    def _wire_ended(self, _why: str) -> None:
        self._over.set()

    # ---------------------------------------------------------------- told

    def _told(self, message: Message, data: bytes) -> None:
        handler = getattr(self, f"_do_{message.get('do')}", None)
        if handler is None:
            self._fail(LaunchError(f"no such order: {message.get('do')}", FAILED))
            return
        try:
            handler(message, data)
        except LaunchError as why:
            self._fail(why)

    def _do_ping(self, message: Message, data: bytes) -> None:
        """Nothing but a sign of life."""

    def _do_prepare(self, told: Message, _data: bytes) -> None:
        self._plan = plan = as_told.plan(told)
        node = plan.nodes[told["self"]]
        self._mine = node.ranks
        prepare_output(plan, self._mine)
        others = {
            each.number: each.ranks
            for each in plan.nodes
            if each.number != node.number and each.ranks
        }
        address = as_told.address(told) if others else "127.0.0.1"
        secret = bytes.fromhex(told["secret"])
        if others:
            make_room(len(self._mine), Machine.sockets(plan, node) + 64)
        own = links.Links(told["job"], secret, address, self._mine, others)
        if not others:
            own.shut_door()
        self._links = own
        self._site = Machine(plan, told, own, told["crowd"])
        self._wire.send({"tell": "ready", "address": own.address, "port": own.port})
        self._keep(self._await_links())

    async def _await_links(self) -> None:
        assert self._links is not None
        await self._links.complete.wait()
        self._links.shut_door()
        self._wire.send({"tell": "linked"})

    def _do_dial(self, told: Message, _data: bytes) -> None:
        for node, address, port in told["to"]:
            self._keep(self._dial(node, address, port))

    async def _dial(self, node: int, address: str, port: int) -> None:
        assert self._links is not None
        try:
            await self._links.dial(node, address, port)
        except links.Unreached as why:
            self._wire.send({"tell": "unreached", "node": node, "why": str(why)})

    def _do_start(self, _told: Message, _data: bytes) -> None:
        assert self._plan is not None and self._site is not None
        sinks: Any = (WireSink(self._wire, 1), WireSink(self._wire, 2))
        self._node = LocalNode(
            self._plan, self._guard, self._site, sinks, self, self._mine
        )
        self._keep(self._live(self._node, sinks))
        self._keep(self._tell_notes())

    async def _live(self, node: LocalNode, sinks: tuple[Sink, Sink]) -> None:
        try:
            await node.start()
            self._wire.send({"tell": "started"})
        except LaunchError as why:
            self._fail(why)
            node.end()
        left = await node.gone()
        await node.output_ended(LATE_OUTPUT)
        self._wire.send({"tell": "done", "left": left, "notes": self._notes()})
        await self._wire.drained()

    def _do_tell(self, told: Message, data: bytes) -> None:
        if self._node is not None and told["rank"] in self._node.processes:
            self._node.send(told["rank"], data)

    def _do_signal(self, told: Message, _data: bytes) -> None:
        signum = told["signum"]
        if signum in (signal.SIGSTOP, signal.SIGCONT):
            self._stopped = signum == signal.SIGSTOP
            self._wire.heard = self._loop.time()
        if self._node is not None and told["to"] == "ranks":
            self._node.signal_ranks(signum)
        elif self._node is not None:
            self._node.signal_groups(signum)

    def _do_stacks(self, _told: Message, _data: bytes) -> None:
        if self._node is not None:
            self._keep(self._say_stacks(self._node))

    async def _say_stacks(self, node: LocalNode) -> None:
        assert self._site is not None
        sink = WireSink(self._wire, 2)
        running = sorted(node.running)
        pids = {r: node.process_of(r, self._site.note(r)) for r in running}
        await node.say_stacks(
            pids,
            lambda line: sink.write(line.encode(errors="backslashreplace") + b"\n"),
        )
        self._wire.send({"tell": "stacked"})

    def _do_end(self, told: Message, _data: bytes) -> None:
        if self._node is not None:
            self._node.end(told["ask"], told["kill"])

    def _do_input(self, _told: Message, data: bytes) -> None:
        if self._feed >= 0:
            self._keep(self._swallow(data))

    async def _swallow(self, data: bytes) -> None:
        """One piece at a time is on its way, so nothing piles up here."""
        while data and self._feed >= 0:
            try:
                data = data[os.write(self._feed, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except OSError:  # nobody reads it any more
                return
        if not data:
            self._wire.send({"tell": "ate"})

    def _do_no_input(self, _told: Message, _data: bytes) -> None:
        if self._feed >= 0:
            os.close(self._feed)
            self._feed = -1

    # -------------------------------------------------- what the ranks do

    def rank_said(self, rank: int, line: bytes) -> None:
        """A line of the start-up protocol."""
        if line.startswith(b"cmd=abort") and self._node is not None:
            # One that was killed may be why this one gives up.
            self._node.look()
            self._wire.send({"tell": "notes", "notes": self._notes()})
        self._wire.send({"tell": "said", "rank": rank}, line)

    def rank_garbled(self, rank: int, what: str) -> None:
        """What came is not the start-up protocol."""
        self._wire.send({"tell": "garbled", "rank": rank, "what": what})

    def ranks_ended(self, ended: Sequence[tuple[int, int]]) -> None:
        """Ranks have ended."""
        notes = self._notes()
        self._wire.send({"tell": "ended", "ended": list(ended), "notes": notes})

    def helper_ended(self, helper: Helper, status: int) -> None:
        """There are no helpers."""

    def helper_failed(self, helper: Helper, status: int) -> None:
        """There are no helpers."""

    def ranks_lost(self) -> None:
        """Somebody has killed our guard."""
        why = "the guard of this job, which started its ranks, was killed"
        self._wire.send({"tell": "lost", "why": why})

    def machine_lost(self, what: str) -> None:
        """This is but one machine."""

    def _notes(self) -> dict[str, Any]:
        """The ranks' notes, with times in seconds ago: clocks differ."""
        assert self._site is not None
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        found = {}
        for rank in self._mine:
            note = self._site.note(rank)
            ago = (now - note.since) / 1e9 if note.since else None
            found[str(rank)] = {**vars(note), "since": ago}
        return found

    async def _tell_notes(self) -> None:
        while True:
            await asyncio.sleep(NOTES_EVERY)
            notes = self._notes()
            known = {rank: {**n, "since": None} for rank, n in notes.items()}
            if known != self._sent:
                self._sent = known
                self._wire.send({"tell": "notes", "notes": notes})


def main() -> int:
    """Runs an agent at the other end of standard input and output."""
    reader, writer = os.dup(0), os.dup(1)
    hungry, feed = os.pipe()
    os.set_blocking(feed, False)
    os.dup2(hungry, 0)
    os.close(hungry)
    os.dup2(2, 1)  # nothing that prints may get into the wire
    os.write(writer, MARK)
    with contextlib.closing(Guard()) as guard, contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(guard, reader, writer, feed))
    return 0


async def _run(guard: Guard, reader: int, writer: int, feed: int) -> None:
    await Agent(guard, reader, writer, feed).run()


if __name__ == "__main__":
    sys.exit(main())
