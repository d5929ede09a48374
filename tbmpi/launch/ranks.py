# SPDX-License-Identifier: MIT
"""The ranks of one machine as processes: start, serve, signal, reap, end.

LocalNode is the machine the launcher runs on. What it offers (start, send,
signal, end, and the calls of Events in return) is all that a job needs of a
machine, so a node behind ssh is another class with the same methods.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Protocol

from tbmpi.launch import segment, stacks
from tbmpi.launch.board import Note, rank_list
from tbmpi.launch.errors import FAILED, NOT_EXECUTABLE, NOT_FOUND, LaunchError
from tbmpi.launch.feed import Feed
from tbmpi.launch.guard import Guard, GuardLost, Order
from tbmpi.launch.helpers import Helpers
from tbmpi.launch.output import Sink, Source
from tbmpi.launch.plan import Plan, RankPlan
from tbmpi.launch.pmi import Channel
from tbmpi.launch.report import PREFIX
from tbmpi.launch.sessions import Crowd, Doom, Group, Session, members
from tbmpi.launch.site import Helper, Outfit, Site

# From SIGTERM to SIGKILL; with the rest of it, a failed job is gone in 2 s.
GRACE = 1.0
# What a rank has left running gets this long to notice before it is asked to.
LINGER = 0.25
STEP = 0.02
GIVE_UP = 5.0
DEBUGGED = 16  # ranks whose stacks are worth a debugger's time
# Descriptors: a socket and two pipes a rank, and the launcher's own.
PER_RANK = 3
OWN = segment.FIRST_DESCRIPTOR + 32


class Events(Protocol):
    """What a node tells the job. Called in the event loop."""

    def rank_said(self, rank: int, line: bytes) -> None:
        """A line of the start-up protocol."""

    def rank_garbled(self, rank: int, what: str) -> None:
        """Something on that line that is no protocol."""

    def ranks_ended(self, ended: Sequence[tuple[int, int]]) -> None:
        """Ranks have ended: (rank, exit code or minus the signal)."""

    def helper_ended(self, helper: Helper, status: int) -> None:
        """A helper has ended, though nobody has asked it to."""

    def helper_failed(self, helper: Helper, status: int) -> None:
        """A helper was asked to end and did not do it in order."""

    def ranks_lost(self) -> None:
        """How the ranks end cannot be known any more: the guard was killed."""

    def machine_lost(self, what: str) -> None:
        """The same of the ranks of one machine, and why."""


class RankProcess:
    """One rank: its process and the launcher's ends of its descriptors.

    `pid` is its process, and also its process group.
    """

    def __init__(self, plan: RankPlan, pid: int) -> None:
        self.plan = plan
        self.pid = pid
        self.channel: Channel | None = None
        self.sources: list[Source] = []


class LocalNode:
    """Runs the ranks of `plan` on this machine: all, or those in `ranks`.

    The sinks take the ranks' output; `site` says what each process is given.
    """

    def __init__(
        self,
        plan: Plan,
        guard: Guard,
        site: Site,
        sinks: tuple[Sink, Sink],
        events: Events,
        ranks: Sequence[int] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._plan = plan
        self._ranks = range(plan.size) if ranks is None else ranks
        self._guard = guard
        self._site = site
        self._sinks = sinks
        self._helpers = Helpers(site, guard, sinks[1])
        self._events = events
        self._doom = Doom()
        self._session = Session(guard.pid)
        self._sweeper: asyncio.Task[None] | None = None
        self._feed: Feed | None = None
        self._changed = asyncio.Event()
        self._all_started = False
        self.closing = False
        self.processes: dict[int, RankProcess] = {}
        self.running: set[int] = set()

    # ------------------------------------------------------------- starting

    async def start(self) -> None:
        """Starts all processes; stops early when the job has failed meanwhile.

        Raises LaunchError when one cannot be started; end() takes back those
        that were.
        """
        make_room(len(self._ranks), self._site.descriptors)
        self._site.prepare()
        self._loop.add_reader(self._guard.fileno(), self.reap)
        if self._plan.stdin == "all":
            self._feed = Feed(self._loop)
        self._helpers.start()
        for number in self._ranks:
            if self.closing:
                return
            self._start_rank(self._plan.ranks[number])
            await asyncio.sleep(0)
            self.reap()  # an end told before the answer to a start wakes nobody
        if self._feed:
            self._feed.start()
        self._all_started = True
        if self._is_over():
            now = time.monotonic()
            self._condemn(self._session, now + LINGER, now + LINGER + GRACE)
        await self._site.started(self)

    def _is_over(self) -> bool:
        """No rank runs, and none will: one may end before the next starts."""
        return not self.running and (self._all_started or self.closing)

    def _start_rank(self, plan: RankPlan) -> None:
        with contextlib.ExitStack() as ours:
            mine, theirs = socket.socketpair()
            ours.callback(mine.close)
            wire = theirs.detach()
            theirs_too = [wire]
            ours.callback(_close, theirs_too)
            stdin = self._stdin(plan.rank, theirs_too)
            stdout, stdout_reader = self._stream(plan.rank, 1, theirs_too)
            stderr, stderr_reader = self._stream(plan.rank, 2, theirs_too)
            outfit = self._site.outfit(plan.rank)
            ours.callback(outfit.close)
            outfit.handed = {**outfit.handed, "PMI_FD": wire}
            pid = _start(self._guard, plan, (stdin, stdout, stderr), outfit)
            outfit.close()
            _close(theirs_too)
            ours.pop_all()
        rank = RankProcess(plan, pid)
        self.processes[plan.rank] = rank
        self.running.add(plan.rank)
        number = plan.rank
        rank.channel = Channel(
            self._loop,
            mine,
            lambda line: self._events.rank_said(number, line),
            lambda what: self._events.rank_garbled(number, what),
        )
        for sink, reader in zip(
            self._sinks, (stdout_reader, stderr_reader), strict=True
        ):
            if reader is not None:
                rank.sources.append(self._source(number, reader, sink))

    def _source(self, rank: int, reader: int, sink: Sink) -> Source:
        output = self._plan.output
        tag = f"[{rank}] ".encode() if output.tag else b""
        return Source(self._loop, reader, sink, tag, output.raw and not tag)

    def _stdin(self, rank: int, theirs: list[int]) -> int:
        """The descriptor that becomes the rank's standard input."""
        if self._feed is not None:
            reader, writer = os.pipe()
            theirs.append(reader)
            self._feed.add(writer)
            return reader
        if self._plan.stdin == str(rank) and not _in_background():
            return 0
        null = os.open(os.devnull, os.O_RDONLY)
        theirs.append(null)
        return null

    def _stream(
        self, rank: int, number: int, theirs: list[int]
    ) -> tuple[int, int | None]:
        """What becomes the rank's descriptor 1 or 2, and our end of it."""
        path = _output_file(self._plan, rank, number)
        if path is not None:
            # Appending lets ranks share a file, if that is what was asked for.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            theirs.append(fd)
            return fd, None
        if self._plan.size == 1 and not self._plan.output.tag and os.isatty(number):
            return number, None
        reader, writer = os.pipe()
        theirs.append(writer)
        return writer, reader

    # -------------------------------------------------------------- serving

    def send(self, rank: int, line: bytes) -> None:
        """Sends a rank a line of the start-up protocol."""
        channel = self.processes[rank].channel
        if channel is not None:
            channel.send(line)

    def signal_ranks(self, signum: int) -> None:
        """Signals the rank's own process: what it started knows nothing of it."""
        for rank in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.processes[rank].pid, signum)

    def signal_groups(self, signum: int) -> None:
        """Signals the rank and what it started, as a terminal would."""
        for rank in self.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.processes[rank].pid, signum)

    def signal_helpers(self, signum: int) -> None:
        """Signals what serves the ranks."""
        self._helpers.signal(signum)

    def groups_of(self, node: int) -> list[int]:
        """The process groups of a machine's ranks and helpers."""
        ranks = [self.group_of_rank(rank) for rank in self._plan.nodes[node].ranks]
        groups = [*ranks, self.group_of_helper(node)]
        return [group for group in groups if group is not None]

    def group_of_rank(self, rank: int) -> int | None:
        """The rank's process group, or None when it has ended."""
        return self.processes[rank].pid if rank in self.running else None

    def group_of_helper(self, node: int) -> int | None:
        """The same of a machine's helper."""
        return self._helpers.of_node(node)

    def process_of(self, rank: int, note: Note) -> int:
        """The rank's MPI process, which a shell may have started."""
        with contextlib.suppress(OSError):
            if note.pid and os.getsid(note.pid) == self._guard.pid:
                return note.pid
        return self.processes[rank].pid

    async def say_stacks(
        self, pids: Mapping[int, int], say: Callable[[str], None]
    ) -> None:
        """Says where ranks hang, whose processes these are.

        Python ranks say it themselves, on their standard error, and die of it.
        """
        pythons = [r for r in pids if stacks.is_python(pids[r])]
        others = [r for r in pids if r not in pythons][:DEBUGGED]
        found = await stacks.of_processes({r: pids[r] for r in others})
        for r, lines in found.items():
            say(f"{PREFIX}the stack of rank {r}:")
            for line in lines:
                say(f"  {line}")
        if pythons:
            say(f"{PREFIX}the Python stacks of {rank_list(pythons)}:")
        for r in pythons:
            for source in self.processes[r].sources:
                source.tag = f"[{r}] ".encode()
            stacks.ask_python(pids[r])

    def look(self) -> None:
        """Makes sure that every rank that has ended by now is reported."""
        with contextlib.suppress(GuardLost):
            self._guard.look()
        self.reap()

    def reap(self) -> None:
        """Hears of ranks that have ended. Each is reported once."""
        try:
            statuses = dict(self._guard.take_ended())
        except GuardLost:
            self._lose_guard()
            return
        for helper, status in self._helpers.take_ended(statuses):
            if not self._helpers.dismissed:
                self._events.helper_ended(helper, status)
            elif status not in (0, -signal.SIGTERM):  # it may only have begun
                self._events.helper_failed(helper, status)
        ended = []
        for number in sorted(self.running):
            rank = self.processes[number]
            if rank.pid in statuses:
                ended.append((number, statuses[rank.pid]))
                self._take_leave(rank)
                now = time.monotonic()
                self._condemn(Group(rank.pid), now + LINGER, now + LINGER + GRACE)
        if ended:
            self._changed.set()
            self._events.ranks_ended(ended)

    def _take_leave(self, rank: RankProcess) -> None:
        self.running.discard(rank.plan.rank)
        if rank.channel is not None:
            rank.channel.drain()
            rank.channel.close()

    def _lose_guard(self) -> None:
        """Nobody tells us of the ranks' ends now, so this is theirs."""
        self._loop.remove_reader(self._guard.fileno())
        self._events.ranks_lost()
        self._helpers.forget()
        self.end()
        for number in sorted(self.running):
            self._take_leave(self.processes[number])
        self._changed.set()

    # --------------------------------------------------------------- ending

    def end(self, ask_in: float = 0.0, kill_in: float = GRACE) -> None:
        """Begins to end all ranks and what they started; see gone()."""
        self.closing = True
        now = time.monotonic()
        self._condemn(self._session, now + ask_in, now + kill_in)

    def _condemn(self, crowd: Crowd, ask: float, kill: float) -> None:
        self._doom.add(crowd, ask, kill)
        if self._is_over():
            self._doom.add(self._session, ask, kill)
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = self._loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        await asyncio.sleep(0 if self._is_over() or self.closing else STEP)
        while self._doom.condemned:
            ranks = frozenset(self.processes[number].pid for number in self.running)
            now = time.monotonic()
            groups = self._helpers.groups
            self._doom.step(now, ranks | self._helpers.running, groups)
            nothing_left = self._is_over() and not self._doom.condemned
            if nothing_left and not self._helpers.dismissed:
                self._helpers.dismiss(self._doom, now, now + GRACE)
            self._changed.set()
            if self._doom.condemned:
                await asyncio.sleep(STEP)

    async def gone(self) -> list[int]:
        """Waits until nothing of the ranks is left.

        Returns the processes that cannot be ended, which is none unless the
        system itself is stuck.
        """
        deadline = float("inf")
        while self.running or self._doom.condemned:
            if self._sweeper is not None and self._sweeper.done():
                self._sweeper.result()  # raises what stopped it
            if deadline == float("inf") and (self.closing or self._is_over()):
                deadline = time.monotonic() + LINGER + 2 * GRACE + GIVE_UP
            if time.monotonic() > deadline:
                left = members(self._doom.condemned)
                return sorted({pid for pids in left.values() for pid in pids})
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), GIVE_UP)
        return []

    async def output_ended(self, patience: float) -> None:
        """Waits for the rest of the output.

        A pipe that a process outside the job holds open is given up when
        nothing has come from it for `patience` seconds.
        """
        sources = [
            *(source for rank in self.processes.values() for source in rank.sources),
            *self._helpers.sources,
        ]
        open_ones = [source for source in sources if not source.ended.is_set()]
        while open_ones:
            before = [source.received for source in open_ones]
            waits = asyncio.gather(*(source.ended.wait() for source in open_ones))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waits, patience)
            for source, count in zip(open_ones, before, strict=True):
                if source.received == count:
                    source.finish()
            open_ones = [source for source in open_ones if not source.ended.is_set()]
        if self._feed:
            self._feed.close()


def _close(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        os.close(fd)


def _start(
    guard: Guard,
    plan: RankPlan,
    standard: tuple[int, int, int],
    outfit: Outfit,
) -> int:
    order = Order(
        plan.argv,
        plan.program,
        plan.cwd,
        {**plan.env, **outfit.env},
        standard,
        outfit.handed,
        outfit.plan,
        outfit.marked,
    )
    try:
        return guard.start(order)
    except GuardLost as why:
        raise LaunchError(
            f"cannot start rank {plan.rank}: the guard of this job was killed", FAILED
        ) from why
    except BlockingIOError as why:
        raise LaunchError(
            f"cannot start rank {plan.rank}: the system allows no more processes "
            "(ulimit -u); run fewer ranks",
            FAILED,
        ) from why
    except OSError as why:
        code = NOT_FOUND if isinstance(why, FileNotFoundError) else NOT_EXECUTABLE
        raise LaunchError(
            f"cannot run {plan.argv[0]}: {_reason(plan, why)}", code
        ) from why


def _reason(plan: RankPlan, why: OSError) -> str:
    try:
        with open(plan.program, "rb") as file:
            first: bytes = _first_line(file)
    except OSError:
        first = b""
    if isinstance(why, FileNotFoundError) and first.startswith(b"#!"):
        interpreter = first[2:].strip().decode(errors="replace")
        return f"its first line asks for {interpreter}, which is not there"
    if why.errno == 8:  # ENOEXEC
        return (
            "it is neither a program for this machine nor a script that begins with #!"
        )
    return why.strerror or str(why)


def _first_line(file: IO[bytes]) -> bytes:
    return file.readline(256)


def make_room(ranks: int, others: int) -> None:
    """Raises the limit of open descriptors when so many ranks need it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = ranks * PER_RANK + others + OWN
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (need, max(hard, need) if hard >= 0 else hard)
        )
    except (ValueError, OSError) as why:
        raise LaunchError(
            f"{ranks} ranks need {need} open descriptors and {hard} are allowed; "
            "run fewer ranks or raise the limit (ulimit -n)",
            FAILED,
        ) from why


def _in_background() -> bool:
    """Whether standard input is a terminal that belongs to somebody else now."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False


def _output_file(plan: Plan, rank: int, number: int) -> str | None:
    output = plan.output
    if output.directory is not None:
        width = len(str(plan.size - 1))
        folder = os.path.join(output.directory, f"rank.{rank:0{width}}")
        return os.path.join(folder, "stdout" if number == 1 else "stderr")
    pattern = output.stdout_pattern if number == 1 else output.stderr_pattern
    if pattern is None:
        return None
    return pattern.replace("%r", str(rank)).replace("%h", plan.ranks[rank].host)


def prepare_output(plan: Plan, ranks: Sequence[int]) -> None:
    """Makes the folders of these ranks' output and empties its files."""
    paths = {_output_file(plan, rank, number) for rank in ranks for number in (1, 2)}
    for path in sorted(filter(None, paths)):
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "wb"):
                pass
        except OSError as why:
            raise LaunchError(
                f"cannot write the output file {path}: {why.strerror}"
            ) from why
