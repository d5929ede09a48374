# SPDX-License-Identifier: MIT
"""A job on several machines, as tbmpirun sees it: one agent on each.

Cluster has the methods of ranks.LocalNode, so that the life of a job (job.py)
is the same wherever its ranks are. Nothing starts anywhere before every
machine has its programs, its agent of our version, and its connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from tbmpi import info
from tbmpi.launch import as_told, ssh
from tbmpi.launch.agent import MARK, PING, SILENCE
from tbmpi.launch.board import Note
from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.hosts import Host, is_local
from tbmpi.launch.nodes import Node
from tbmpi.launch.output import Sink
from tbmpi.launch.plan import Plan
from tbmpi.launch.ranks import GRACE, Events
from tbmpi.launch.wire import Message, Wire

AT_ONCE = 16  # ssh connections while they are being made
MEET = 40.0  # seconds for an agent's first words
CONNECT = 60.0  # for all connections between ranks
PREFACE = 65536  # bytes that a login script may print
LAST_WORDS = 2.0
TIDYING = 10.0  # for an agent to end by itself: on a busy machine that takes time
SAME_MISTAKE = 0.5
STACKS = 15.0
INPUT = 65536
ANSWERS = ("hello", "ready", "linked", "unreached", "started", "failed")


class Agent:
    """The agent of one machine, from here. Messages go to `on_message`."""

    def __init__(
        self,
        node: Node,
        host: Host,
        on_message: Callable[[Agent, Message, bytes], None],
        on_end: Callable[[Agent, str], None],
    ) -> None:
        self.node = node
        self.host = host
        self.local = is_local(host.name)
        self.hello: Message = {}
        self.over = False  # it has done what it had to, or it is gone
        self.lost = False  # it is gone
        self._on_message = on_message
        self._on_end = on_end
        self._errors = b""
        self._python = ""
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        self.wire: Wire | None = None
        self._process: Any = None

    # ------------------------------------------------------------- meeting

    async def open(self, command: str, python: str) -> None:
        """Starts it and hears its first words. Raises LaunchError."""
        self._python = python
        words = ssh.local_command(python)
        if not self.local:
            words = ssh.command(command, self.host.name, python)
        try:
            self._process = ssh.start(words)
        except OSError as why:
            raise LaunchError(f"cannot run {words[0]}: {why.strerror}", FAILED) from why
        self._read_errors()
        try:
            rest = await asyncio.wait_for(self._find_mark(), MEET)
        except TimeoutError as why:
            text = f"cannot start on {self.host.name}: no answer within {MEET:g} s"
            raise LaunchError(text, FAILED) from why
        reader, writer = self._process.stdout, self._process.stdin
        self.wire = Wire(
            os.dup(reader.fileno()),
            os.dup(writer.fileno()),
            self._heard,
            lambda why: self._on_end(self, why),
        )
        reader.close()
        writer.close()
        self.wire.feed(rest)
        self.hello = await self.answer("hello", MEET)
        self._check()

    async def _find_mark(self) -> bytes:
        """Skips what a login script prints; what follows the mark."""
        fd = self._process.stdout.fileno()
        os.set_blocking(fd, False)
        seen = b""
        while MARK not in seen:
            await _readable(fd)
            with contextlib.suppress(BlockingIOError):
                data = os.read(fd, 4096)
                if not data or len(seen) > PREFACE:
                    raise LaunchError(await self._why_not(), FAILED)
                seen += data
        return seen.partition(MARK)[2]

    async def _why_not(self) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                while self._process.poll() is None or not self._errors_end:
                    await asyncio.sleep(0.02)
        errors = self._errors.decode(errors="replace")
        code = self._process.poll()
        return ssh.explain(self.host.name, self._python, code, errors)

    def _read_errors(self) -> None:
        """Keeps the last of what ssh, or the agent's Python, complains of."""
        fd = self._process.stderr.fileno()
        os.set_blocking(fd, False)
        loop = asyncio.get_running_loop()
        self._errors_end = False

        def more() -> None:
            try:
                data = os.read(fd, 4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._errors = (self._errors + data)[-4096:]
            if not data:
                self._errors_end = True
                loop.remove_reader(fd)

        loop.add_reader(fd, more)

    def last_error(self) -> str:
        """The last line that ssh, or the agent's Python, has printed."""
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _check(self) -> None:
        ours = as_told.greeting(info.version())
        theirs = self.hello
        for what, key in (("tbmpi", "version"), ("a machine of kind", "kind")):
            if theirs.get(key) != ours[key]:
                raise LaunchError(
                    f"{self.host.name} has {what} {theirs.get(key)} and this machine "
                    f"{ours[key]}: all of a job need the same",
                )

    # -------------------------------------------------------------- talking

    def send(self, message: Message, data: bytes = b"") -> None:
        """Tells it something."""
        if self.wire is not None:
            self.wire.send(message, data)

    def _heard(self, message: Message, data: bytes) -> None:
        if message.get("tell") in ANSWERS:
            self._answers.put_nowait(message)
        else:
            self._on_message(self, message, data)

    async def answer(self, want: str, limit: float) -> Message:
        """Waits for an answer. Raises LaunchError when it is another."""
        try:
            message = await asyncio.wait_for(self._answers.get(), limit)
        except TimeoutError as why:
            text = f"{self.host.name} has not answered within {limit:g} s"
            raise LaunchError(text, FAILED) from why
        if message["tell"] == "failed":
            text = f"{self.host.name}: {message['why']}"
            raise LaunchError(text, int(message["code"]))
        if message["tell"] not in (want, "unreached"):
            text = f"{self.host.name} says {message['tell']} where {want} belongs"
            raise LaunchError(text, FAILED)
        return message

    def fail(self, why: str) -> None:
        """Whoever waits for an answer gets this."""
        self._answers.put_nowait({"tell": "failed", "why": why, "code": FAILED})

    async def close(self) -> None:
        """Lets it go, and waits for its end."""
        if self.wire is not None:
            self.wire.close()
        if self._process is None:
            return
        with contextlib.suppress(ValueError, OSError):
            asyncio.get_running_loop().remove_reader(self._process.stderr.fileno())
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()
        patience = LAST_WORDS if self.lost else TIDYING
        for ask in (lambda: None, self._process.terminate, self._process.kill):
            ask()
            deadline = time.monotonic() + patience
            while self._process.poll() is None and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            if self._process.poll() is not None:
                return


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


class Cluster:
    """The ranks of `plan` on its machines; see ranks.LocalNode.

    It is also what the job has of the machines' memory: the ranks' notes.
    """

    def __init__(self, plan: Plan, sinks: tuple[Sink, Sink], events: Events) -> None:
        assert plan.cluster is not None
        self._plan = plan
        self._request = plan.cluster.request
        self._sinks = sinks
        self._events = events
        self._notes: dict[int, Note] = {}
        self._left: list[int] = []
        self._stacked: list[Agent] = []
        self._changed = asyncio.Event()
        self._began = False
        self._pinging: asyncio.Task[None] | None = None
        self._ate = threading.Event()
        self.closing = False
        self.running: set[int] = set()
        self.agents = [
            Agent(node, plan.cluster.hosts[node.number], self._told, self._ended)
            for node in plan.nodes
            if node.ranks
        ]
        self._agent_of = {r: agent for agent in self.agents for r in agent.node.ranks}

    # ------------------------------------------------------------- starting

    async def start(self) -> None:
        """Meets all agents and lets them start their ranks. Raises LaunchError.

        What fails before the last step has started no rank anywhere.
        """
        self._pinging = asyncio.create_task(self._ping())
        gate = asyncio.Semaphore(AT_ONCE)

        async def meet(agent: Agent) -> None:
            async with gate:
                await agent.open(self._request.ssh, self._request.python)

        await _all(meet(agent) for agent in self.agents)
        if self.closing:
            return
        await self._prepare()
        await self._connect()
        if self.closing:
            return
        self._began = True
        self.running = set(self._agent_of)
        for agent in self.agents:
            agent.send({"do": "start"})
        await _all(agent.answer("started", MEET) for agent in self.agents)
        self._feed()

    async def _prepare(self) -> None:
        told = as_told.telling(self._plan, os.environ)
        told |= {"job": secrets.token_hex(16), "secret": secrets.token_hex(32)}
        crowds: Counter[str] = Counter()
        for agent in self.agents:
            crowds[agent.hello["machine"]] += len(agent.node.ranks)
        for agent in self.agents:
            own = {
                "do": "prepare",
                "self": agent.node.number,
                "crowd": crowds[agent.hello["machine"]],
                "addresses": list(agent.host.addresses),
                "seen": self._seen() if agent.local else "",
            }
            agent.send(told | own)
        ready = await _all(agent.answer("ready", MEET) for agent in self.agents)
        for agent, message in zip(self.agents, ready, strict=True):
            agent.hello |= {"door": [message["address"], message["port"]]}

    def _seen(self) -> str:
        """By which address the others see this machine."""
        for agent in self.agents:
            words = agent.hello.get("ssh", "").split()
            if not agent.local and len(words) == 4:
                return str(words[0])
        return ""

    async def _connect(self) -> None:
        """Each machine dials those behind it; where that fails, they dial it."""
        for at, agent in enumerate(self.agents):
            later = [_door(other) for other in self.agents[at + 1 :]]
            agent.send({"do": "dial", "to": later})
        failed: dict[frozenset[int], str] = {}
        by_node = {agent.node.number: agent for agent in self.agents}

        async def linked(agent: Agent) -> None:
            while True:
                message = await agent.answer("linked", CONNECT)
                if message["tell"] == "linked":
                    return
                other = by_node[message["node"]]
                pair = frozenset((agent.node.number, other.node.number))
                why = f"from {agent.host.name}: {message['why']}"
                if pair in failed:
                    a, b = (by_node[number].host.name for number in sorted(pair))
                    raise LaunchError(
                        f"{a} and {b} cannot connect: {failed[pair]}; {why}", FAILED
                    )
                failed[pair] = why
                other.send({"do": "dial", "to": [_door(agent)]})

        await _all(linked(agent) for agent in self.agents)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING)
            now = asyncio.get_running_loop().time()
            for agent in self.agents:
                agent.send({"do": "ping"})
                wire = agent.wire
                if not wire or wire.ended or wire.paused:
                    continue
                if now - wire.heard > SILENCE:
                    wire.close()
                    self._ended(agent, f"it has been silent for {SILENCE:g} s")

    # ---------------------------------------------------------------- input

    def _feed(self) -> None:
        fed = self.agents if self._plan.stdin == "all" else []
        if self._plan.stdin.isdigit():
            fed = [self._agent_of[int(self._plan.stdin)]]
        for agent in self.agents:
            if agent not in fed:
                agent.send({"do": "no_input"})
        if fed:
            loop = asyncio.get_running_loop()
            args = (loop, fed)
            threading.Thread(target=self._read_input, args=args, daemon=True).start()

    def _read_input(self, loop: asyncio.AbstractEventLoop, fed: list[Agent]) -> None:
        """In a thread: a file cannot be polled, a terminal may take its time."""

        def pass_on(data: bytes) -> None:
            for agent in fed:
                agent.send({"do": "input"} if data else {"do": "no_input"}, data)

        with contextlib.suppress(RuntimeError):  # the loop is closed: all is over
            data = b"x"
            while data:
                try:
                    data = os.read(0, INPUT)
                except OSError:
                    data = b""
                self._ate.clear()
                self._hungry = len(fed)
                loop.call_soon_threadsafe(pass_on, data)
                self._ate.wait()

    def _has_eaten(self) -> None:
        self._hungry -= 1
        if self._hungry <= 0:
            self._ate.set()

    # ----------------------------------------------------------------- told

    def _told(self, agent: Agent, message: Message, data: bytes) -> None:
        tell = message["tell"]
        if "notes" in message:
            self._take_notes(message["notes"])
        if tell == "said":
            self._events.rank_said(message["rank"], data)
        elif tell == "garbled":
            self._events.rank_garbled(message["rank"], message["what"])
        elif tell == "ended":
            self._ranks_ended([(rank, status) for rank, status in message["ended"]])
        elif tell == "out":
            self._show(agent, self._sinks[message["to"] - 1], data)
        elif tell == "lost":
            self._events.machine_lost(f"{agent.host.name}: {message['why']}")
        elif tell == "stacked":
            self._stacked.append(agent)
        elif tell == "ate":
            self._has_eaten()
        elif tell == "done":
            self._left += message["left"]
            agent.over = True
            self._changed.set()

    def _show(self, agent: Agent, sink: Sink, data: bytes) -> None:
        """Output of a rank, which waits as on a plain pipe if nobody reads it."""
        sink.write(data)
        if sink.behind and agent.wire is not None:
            agent.wire.pause()
            sink.on_caught_up(agent.wire.resume)

    def _take_notes(self, notes: dict[str, Any]) -> None:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for rank, fields in notes.items():
            ago = fields["since"]
            since = 0 if ago is None else max(1, now - int(ago * 1e9))
            self._notes[int(rank)] = Note(**{**fields, "since": since})

    def _ranks_ended(self, ended: Sequence[tuple[int, int]]) -> None:
        self.running -= {rank for rank, _ in ended}
        self._changed.set()
        self._events.ranks_ended(ended)

    def _ended(self, agent: Agent, why: str) -> None:
        """Its connection has ended, though it had not done all it had to."""
        agent.fail(f"the connection to its agent: {why}")
        if agent.over:
            return
        agent.over = agent.lost = True
        self.running -= set(agent.node.ranks)
        self._changed.set()
        if self._began:
            last = agent.last_error()
            self._events.machine_lost(
                f"{agent.host.name}, with {agent.node.note}, is lost: "
                f"{why}{f' ({last})' if last else ''}"
            )

    # -------------------------------------------------------------- serving

    def send(self, rank: int, line: bytes) -> None:
        """Sends a rank a line of the start-up protocol."""
        self._agent_of[rank].send({"do": "tell", "rank": rank}, line)

    def note(self, rank: int) -> Note:
        """The rank's note, at most half a second old."""
        return self._notes.get(rank, Note())

    def leftovers(self) -> list[str]:
        """There are no emulated devices."""
        return []

    def close(self) -> None:
        """gone() has given all back."""

    def process_of(self, _rank: int, note: Note) -> int:
        """The rank's process, on its machine."""
        return note.pid

    async def say_stacks(
        self, pids: Mapping[int, int], _say: Callable[[str], None]
    ) -> None:
        """Lets the agents say where their ranks hang."""
        asked = [a for a in self.agents if pids.keys() & set(a.node.ranks)]
        self._stacked.clear()
        for agent in asked:
            agent.send({"do": "stacks"})
        deadline = time.monotonic() + STACKS
        while time.monotonic() < deadline:
            if all(agent.over or agent in self._stacked for agent in asked):
                return
            await asyncio.sleep(0.02)

    def signal_ranks(self, signum: int) -> None:
        """Signals the ranks' own processes."""
        for agent in self.agents:
            agent.send({"do": "signal", "to": "ranks", "signum": int(signum)})

    def signal_groups(self, signum: int) -> None:
        """Signals the ranks and what they started."""
        for agent in self.agents:
            agent.send({"do": "signal", "to": "groups", "signum": int(signum)})

    def signal_helpers(self, signum: int) -> None:
        """There are no helpers."""

    def look(self) -> None:
        """Agents look by themselves."""

    # --------------------------------------------------------------- ending

    def end(self, ask_in: float = 0.0, kill_in: float = GRACE) -> None:
        """Begins to end all ranks everywhere; see gone()."""
        self.closing = True
        self._changed.set()
        for agent in self.agents:
            agent.send({"do": "end", "ask": ask_in, "kill": kill_in})

    async def gone(self) -> list[int]:
        """Waits until nothing is left on any machine that can be reached."""
        while self._began and not all(agent.over for agent in self.agents):
            self._changed.clear()
            await self._changed.wait()
        if self._pinging is not None:
            self._pinging.cancel()
        await asyncio.gather(*(agent.close() for agent in self.agents))
        self._ate.set()
        return sorted(self._left)

    async def output_ended(self, _patience: float) -> None:
        """The agents have seen to that before they were done."""


def _door(agent: Agent) -> list[Any]:
    return [agent.node.number, *agent.hello["door"]]


async def _all(work: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Waits for all. When one fails, soon the others are given up; of several
    failures the first machine's is raised, so that a mistake says the same
    each time."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        await asyncio.wait(tasks, timeout=SAME_MISTAKE)
        return [task.result() for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
