# SPDX-License-Identifier: MIT
"""The ranks' output on its way to the user: nothing lost, lines kept whole.

Source reads the pipe of one rank, Sink writes one descriptor of ours. A sink
writes from a thread, because a terminal or a pager may block for hours while
the job has to be served; a source stops reading while its sink is behind, so
that a rank that writes too fast waits, as it would on a plain pipe.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable

CHUNK = 65536
BEHIND = 1 << 20  # bytes that may wait for a slow reader
PATIENCE = 0.05  # seconds until a line without its end, a prompt, is shown


class Sink:
    """Writes to a descriptor from a thread of its own, in order.

    `on_broken` is called in the loop, once, when nobody reads any more; what
    follows is dropped.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, on_broken: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_broken = on_broken
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._broken = False
        self._paused: list[Callable[[], None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self.unfinished: object = None  # whose line is begun and not ended

    def write(self, data: bytes) -> None:
        """Takes bytes to be written soon; never blocks."""
        with self._changed:
            if self._broken:
                return
            self._waiting.append(data)
            self._bytes += len(data)
            self._idle.clear()
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    @property
    def behind(self) -> bool:
        """Whether a source should stop reading; see on_caught_up()."""
        return self._bytes > BEHIND

    def on_caught_up(self, call: Callable[[], None]) -> None:
        """Calls `call`, once, when the sink is not behind any more."""
        self._paused.append(call)

    async def drained(self) -> None:
        """Waits until all is written or nobody reads."""
        await self._idle.wait()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                data = b"".join(self._waiting)
                self._waiting.clear()
            broken = not _write_all(self._fd, data)
            with self._changed:
                self._bytes -= len(data)
                if broken:
                    self._broken = True
                    self._waiting.clear()
                    self._bytes = 0
            try:
                self._loop.call_soon_threadsafe(self._written)
            except RuntimeError:  # the loop is closed: the launcher is leaving
                return
            if broken:
                return

    def _written(self) -> None:
        if self._broken and self._on_broken is not None:
            tell, self._on_broken = self._on_broken, _nothing
            tell()
        if not self.behind:
            paused, self._paused = self._paused, []
            for call in paused:
                call()
        if self._bytes == 0:
            self._idle.set()


def _nothing() -> None:
    pass


def _write_all(fd: int, data: bytes) -> bool:
    """Writes all of it; False when nobody will read it."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # somebody else made the terminal non-blocking
            select.select([], [fd], [])
        except OSError:
            return False
    return True


class Source:
    """Reads one rank's stream and hands it to a sink.

    Modes: raw passes bytes on as they come; otherwise lines of different
    ranks do not mix, and with `tag` each begins with it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        sink: Sink,
        tag: bytes = b"",
        raw: bool = False,
    ) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._sink = sink
        self._raw = raw
        self._rest = b""
        self._timer: asyncio.TimerHandle | None = None
        self.tag = tag
        self.received = 0
        self.ended = asyncio.Event()
        loop.add_reader(fd, self._readable)

    def finish(self) -> None:
        """Takes what is there and stops: somebody outside the job holds on."""
        while not self.ended.is_set() and self._readable():
            pass
        if not self.ended.is_set():
            self._end()

    def _readable(self) -> bool:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._end()
            return False
        self.received += len(data)
        if self._raw:
            self._sink.write(data)
        else:
            self._take(data)
        if self._sink.behind:
            self._loop.remove_reader(self._fd)
            self._sink.on_caught_up(self._resume)
        return True

    def _resume(self) -> None:
        if not self.ended.is_set():
            self._loop.add_reader(self._fd, self._readable)

    def _take(self, data: bytes) -> None:
        lines, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if newline:
            self._show(lines + newline)
        if len(self._rest) > CHUNK:
            self._flush()
        elif self._rest and self._timer is None:
            self._timer = self._loop.call_later(PATIENCE, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._rest:
            rest, self._rest = self._rest, b""
            self._show(rest)

    def _show(self, data: bytes) -> None:
        sink = self._sink
        if self.tag:
            lead = self.tag
            if sink.unfinished is self:
                lead = b""
            elif sink.unfinished is not None:
                lead = b"\n" + lead
            body, end = (data[:-1], b"\n") if data.endswith(b"\n") else (data, b"")
            data = lead + body.replace(b"\n", b"\n" + self.tag) + end
        sink.unfinished = None if data.endswith(b"\n") else self
        sink.write(data)

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._flush()
        self.ended.set()
