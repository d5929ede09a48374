# SPDX-License-Identifier: MIT
"""The life of one job: what counts as a failure, and what follows from it.

The first failure decides the exit code and is the one that is reported; from
then on everything only ends. A rank fails when it is killed, calls MPI_Abort,
exits with another code than 0, leaves MPI open (MPI_Init without
MPI_Finalize), or leaves others waiting for it in MPI_Init. A code other than
0 after MPI_Finalize is a failure too, but nobody can be waiting for that rank
any more, so the others finish in peace.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tbmpi.launch import report
from tbmpi.launch.board import Note
from tbmpi.launch.errors import FAILED, SIGNAL_BASE, TIMED_OUT, LaunchError
from tbmpi.launch.guard import Guard
from tbmpi.launch.nodes import process_mapping
from tbmpi.launch.output import Sink
from tbmpi.launch.plan import Plan
from tbmpi.launch.pmi import ProtocolError, Server, Stage
from tbmpi.launch.ranks import GRACE, LocalNode, prepare_output
from tbmpi.launch.report import PREFIX, Failure
from tbmpi.launch.site import Helper, Site, ThisMachine

if TYPE_CHECKING:
    from tbmpi.launch.cluster import Cluster

DEADLY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOLD = (signal.SIGUSR1, signal.SIGUSR2)
# Ranks that got a deadly signal may clean up; then whoever waits for one that
# has gone is ended.
AFTER_SIGNAL = 1.5
LATE_OUTPUT = 0.5  # silence after which a pipe held outside the job is given up
NEWS = 0.3  # seconds that news from another machine may take


class Job:
    """Runs a plan. One job per process: it owns signals and descriptors."""

    def __init__(self, plan: Plan, guard: Guard) -> None:
        self._plan = plan
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._site: Site | Cluster
        name = f"kvs_{os.getpid()}_{secrets.token_hex(4)}"
        apps = tuple(rank.app for rank in plan.ranks)
        self._server = Server(plan.size, name, apps, process_mapping(plan.nodes))
        self._out = Sink(self._loop, 1, self._nobody_reads)
        self._err = Sink(self._loop, 2, lambda: None)
        self._node: LocalNode | Cluster
        sinks = self._out, self._err
        if plan.cluster is not None:
            from tbmpi.launch.cluster import Cluster

            self._site = self._node = Cluster(plan, sinks, self)
        else:
            self._site = _site(plan, guard)
            self._node = LocalNode(plan, guard, self._site, sinks, self)
        # A rank may give up because of one on another machine, of whose end
        # we hear a little later.
        self._lag = 0.0 if plan.cluster is None else NEWS
        self._failure: Failure | None = None
        self._notes: list[Note] = []
        self._told_to_end: int | None = None
        self._chores: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Starts the ranks, waits for their end, returns the exit code."""
        try:
            return await self._run()
        finally:
            self._site.close()

    async def _run(self) -> int:
        self._loop.set_exception_handler(self._went_wrong)
        self._catch_signals()
        if self._plan.cluster is None:
            prepare_output(self._plan, range(self._plan.size))
        problem: LaunchError | None = None
        try:
            await self._node.start()
        except LaunchError as why:
            problem = why
            self._fail(Failure(why.code))
        if self._plan.timeout is not None:
            self._loop.call_later(self._plan.timeout, self._time_is_up)
        left = await self._node.gone()
        if self._server.aborted is not None:  # all may have ended before _abort()
            self._note(self._by_abort())
        for what in self._site.leftovers():
            self._say(f"{PREFIX}left in emulated devices: {what}")
        # Not before: a rank's child finds out here that its rank has joined.
        self._site.close()
        await self._finish_chores()
        await self._node.output_ended(LATE_OUTPUT)
        self._say_last(left)
        await self._out.drained()
        await self._err.drained()
        if problem is not None:
            raise problem
        return self._failure.code if self._failure else 0

    async def _finish_chores(self) -> None:
        if self._chores:
            await asyncio.gather(*self._chores)

    def _say(self, line: str) -> None:
        self._err.write(line.encode(errors="backslashreplace") + b"\n")

    def _say_last(self, left: list[int]) -> None:
        if self._failure and self._failure.what:
            host = self._plan.ranks[self._failure.rank].host
            notes = [
                note if note.present else self._site.note(rank)
                for rank, note in enumerate(self._notes)
            ]
            self._say(report.death_line(self._failure, host, notes))
        if left:
            numbers = " ".join(map(str, left))
            self._say(
                f"{PREFIX}the system does not end these processes of the job: {numbers}"
            )

    # ---------------------------------------------------- what the node tells

    def rank_said(self, rank: int, line: bytes) -> None:
        """A line of the start-up protocol: answer it."""
        try:
            replies = self._server.handle(rank, line)
        except ProtocolError as why:
            self.rank_garbled(rank, str(why))
            return
        for receiver, reply in replies:
            self._node.send(receiver, reply)
        if self._server.aborted is not None:
            # Not now: a rank that was killed may be why this one gives up,
            # and its end may be the next thing that is seen.
            self._loop.call_later(self._lag, self._abort)
        self._look_for_waiters()

    def rank_garbled(self, rank: int, what: str) -> None:
        """What came is not the start-up protocol."""
        self._fail(Failure(FAILED, rank, what))

    def ranks_ended(self, ended: Sequence[tuple[int, int]]) -> None:
        """Ranks have ended together, as far as one can see from here."""
        for rank, _ in ended:
            self._server.leave(rank)
        # Of several, a killed one is likelier the cause than those that left
        # with an error code or none at all.
        for rank, status in sorted(
            ended, key=lambda pair: (pair[1] >= 0, pair[1] == 0)
        ):
            self._rank_ended(rank, status)
        self._look_for_waiters()

    def helper_ended(self, helper: Helper, status: int) -> None:
        """What the ranks cannot do without has gone."""
        failure = report.by_exit(-1, status, finalized=False)
        if not self._node.closing:
            self._say(f"{PREFIX}{helper.name} {failure.what}; the job ends with it")
        self._fail(Failure(failure.code or FAILED))

    def helper_failed(self, helper: Helper, status: int) -> None:
        """The job has ended as it has, but something may be left."""
        what = report.by_exit(-1, status, finalized=False).what
        self._say(f"{PREFIX}{helper.name} {what} when it was told to end")

    def ranks_lost(self) -> None:
        """Somebody killed the process that waits for the ranks."""
        if not self._node.closing:
            what = "the guard of this job, which started its ranks, was killed"
            self._say(f"{PREFIX}{what}; the job ends with it")
        self._fail(Failure(FAILED))

    def machine_lost(self, what: str) -> None:
        """A machine of the job cannot be reached any more."""
        if not self._node.closing:
            self._say(f"{PREFIX}{what}; the job ends with it")
        self._fail(Failure(FAILED))

    def _rank_ended(self, rank: int, status: int) -> None:
        stage = self._server.stage(rank)
        if self._node.closing:
            return
        if status >= 0 and self._server.aborted is not None:
            if not self._lag:  # else _abort() comes
                self._fail(self._by_abort())
        elif status == 0 and stage is Stage.JOINED:
            what = "ended with exit code 0 without MPI_Finalize"
            self._fail(Failure(FAILED, rank, what))
        elif status != 0 and self._told_to_end in (-status, status - SIGNAL_BASE):
            # The user wanted this, so there is nothing to tell.
            self._fail(Failure(SIGNAL_BASE + self._told_to_end))
        elif status > 0 and stage is Stage.FINALIZED:
            self._note(report.by_exit(rank, status, finalized=True))
        elif status != 0:
            self._fail(report.by_exit(rank, status, finalized=False))

    def _look_for_waiters(self) -> None:
        stuck = self._server.stuck()
        if stuck is None or self._node.closing:
            return
        waiting, ended = stuck
        finalized = self._server.stage(ended) is Stage.FINALIZED
        done = "after MPI_Finalize" if finalized else "without calling MPI_Init"
        what = f"ended with exit code 0 {done}; rank {waiting} waits for it"
        self._fail(Failure(FAILED, ended, what))

    def _abort(self) -> None:
        self._node.look()
        self._fail(self._by_abort())

    def _by_abort(self) -> Failure:
        aborted = self._server.aborted
        assert aborted is not None
        note = self._site.note(aborted.rank)
        return report.by_abort(aborted.rank, aborted.code, note.reason)

    # ---------------------------------------------------------------- ending

    def _note(self, failure: Failure) -> None:
        """The first failure counts; what the ranks do now goes with it."""
        if self._failure is None:
            self._failure = failure
            self._notes = self._all_notes()

    def _all_notes(self) -> list[Note]:
        return [self._site.note(rank) for rank in range(self._plan.size)]

    def _fail(self, failure: Failure) -> None:
        if self._node.closing:
            return
        self._note(failure)
        if self._told_to_end is not None:
            self._node.end(AFTER_SIGNAL, AFTER_SIGNAL)
        else:
            self._node.end()

    def _nobody_reads(self) -> None:
        """Our standard output is closed, as by `| head`: end like a filter."""
        self._fail(Failure(SIGNAL_BASE + signal.SIGPIPE))

    def _went_wrong(
        self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """A mistake in the launcher itself: say it, and leave nobody waiting."""
        error = context.get("exception")
        lines = traceback.format_exception(error) if error else [context["message"]]
        self._say(f"{PREFIX}a defect in tbmpirun, please report it:")
        self._say("".join(lines).rstrip())
        self._fail(Failure(FAILED))

    def _time_is_up(self) -> None:
        if self._node.running and not self._node.closing:
            task = self._loop.create_task(self._report_and_end())
            self._chores.add(task)

    async def _report_and_end(self) -> None:
        self._note(Failure(TIMED_OUT))
        limit = f"{self._plan.timeout:g} s"
        self._say(f"{PREFIX}the job reached its time limit of {limit}; its ranks are:")
        notes = self._all_notes()
        running = sorted(self._node.running)
        pids = {r: self._node.process_of(r, notes[r]) for r in running}
        for r, note in enumerate(notes):
            stage = self._server.stage(r).value if r in pids else "has ended"
            host = self._plan.ranks[r].host
            self._say(report.state_line(r, host, pids.get(r), note, stage))
        await self._node.say_stacks(pids, self._say)
        self._node.end(GRACE / 2, GRACE)

    # --------------------------------------------------------------- signals

    def _catch_signals(self) -> None:
        for signum in DEADLY:
            # Ignored signals stay ignored: nohup, or a shell's background.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._loop.add_signal_handler(signum, self._told, signum)
        for signum in TOLD:
            self._loop.add_signal_handler(signum, self._node.signal_ranks, signum)
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            self._loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._loop.add_signal_handler(signal.SIGCONT, self._continue)

    def _told(self, signum: int) -> None:
        if not self._node.running:
            # Only output is left, and whoever should read it does not. The
            # guard ends what else there may be.
            os._exit(SIGNAL_BASE + signum)
        if self._told_to_end is None:
            self._told_to_end = signum
            self._node.signal_groups(signum)
        else:  # the second time is an order
            self._note(Failure(SIGNAL_BASE + signum))
            self._node.end(0.0, 0.0)

    def _stop(self) -> None:
        # What is sent to us as SIGTSTP a program may catch and ignore; a job
        # of which one rank goes on would be no better off.
        self._node.signal_groups(signal.SIGSTOP)
        self._node.signal_helpers(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _continue(self) -> None:
        self._node.signal_helpers(signal.SIGCONT)
        self._node.signal_groups(signal.SIGCONT)


def _site(plan: Plan, guard: Guard) -> Site:
    if plan.sim is None:
        return ThisMachine(plan.size)
    from tbmpi.launch.sim import SimSite

    return SimSite(plan, guard)


def run(plan: Plan) -> int:
    """Runs the job from start to end and returns the exit code.

    Raises LaunchError when it could not be started; nothing is left then.
    """
    with contextlib.closing(Guard()) as guard:
        return asyncio.run(_run(plan, guard))


async def _run(plan: Plan, guard: Guard) -> int:
    return await Job(plan, guard).run()
