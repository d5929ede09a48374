# SPDX-License-Identifier: MIT
"""The processes that serve a machine's ranks, such as routers.

They start before the ranks. They end in order after them: asked first, and
made to only when they do not. One that ends by itself is the job's end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress

from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.guard import Guard, GuardLost, Order
from tbmpi.launch.output import Sink, Source
from tbmpi.launch.sessions import Doom, Group
from tbmpi.launch.site import Helper, Site


class Helpers:
    """All helpers of a job, by their process numbers.

    What they print goes to `sink`, line by line; they say who they are.
    """

    def __init__(self, site: Site, guard: Guard, sink: Sink) -> None:
        self._site = site
        self._guard = guard
        self._sink = sink
        self._running: dict[int, Helper] = {}
        self.groups: frozenset[int] = frozenset()
        self.sources: list[Source] = []
        self.dismissed = False

    def start(self) -> None:
        """Starts all. Raises LaunchError; those that were started stay."""
        for helper in self._site.helpers:
            pid = self._start(helper)
            self._running[pid] = helper
            self.groups |= {pid}

    def _start(self, helper: Helper) -> int:
        outfit = self._site.helper_outfit(helper)
        null, (reader, writer) = os.open(os.devnull, os.O_RDONLY), os.pipe()
        try:
            order = Order(
                helper.argv,
                helper.argv[0],
                "/",
                {**helper.env, **outfit.env},
                (null, writer, writer),
                outfit.handed,
                outfit.plan,
                outfit.marked,
            )
            pid = self._guard.start(order)
        except (GuardLost, OSError) as why:
            os.close(reader)
            raise LaunchError(f"cannot start {helper.name}: {why}", FAILED) from why
        finally:
            os.close(null)
            os.close(writer)
            outfit.close()
        loop = asyncio.get_running_loop()
        self.sources.append(Source(loop, reader, self._sink))
        return pid

    @property
    def running(self) -> frozenset[int]:
        """The processes whose end has not been told."""
        return frozenset(self._running)

    def of_node(self, node: int) -> int | None:
        """The machine's helper, if it runs."""
        for pid, helper in self._running.items():
            if helper.node == node:
                return pid
        return None

    def take_ended(self, statuses: Mapping[int, int]) -> list[tuple[Helper, int]]:
        """Which of these processes were helpers, and how they ended.

        One that was killed comes first: it may be why others gave up.
        """
        ended = [
            (self._running.pop(pid), status)
            for pid, status in statuses.items()
            if pid in self._running
        ]
        return sorted(ended, key=lambda pair: pair[1])

    def forget(self) -> None:
        """Nobody will tell of their ends; the session's end is theirs too."""
        self._running.clear()
        self.groups = frozenset()

    def signal(self, signum: int) -> None:
        """Signals all of them."""
        for pid in self._running:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signum)

    def dismiss(self, doom: Doom, ask: float, kill: float) -> None:
        """The ranks have gone: asks the helpers to end in order."""
        self.dismissed = True
        for pid in self._running:
            doom.add(Group(pid), ask, kill)
