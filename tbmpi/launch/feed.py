# SPDX-License-Identifier: MIT
"""Standard input for every rank (``--stdin all``).

One reader, one queue per rank that share the same bytes: a rank that does not
read holds nobody back until it lags by LAG bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

CHUNK = 65536
LAG = 64 << 20


class Feed:
    """Copies our standard input to the write ends of pipes, which it owns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._mouths: dict[int, list[bytes]] = {}
        self._room = threading.Event()
        self._room.set()
        self._ended = False

    def add(self, fd: int) -> None:
        """Another rank; `fd` is closed at the end of input."""
        os.set_blocking(fd, False)
        self._mouths[fd] = []

    def start(self) -> None:
        """Begins to read, in a thread: a file cannot be polled."""
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        """Stops; ranks see the end of their input."""
        self._ended = True
        for fd in list(self._mouths):
            self._drop(fd)

    def _read(self) -> None:
        # A closed loop means that the launcher is leaving.
        with contextlib.suppress(RuntimeError):
            while True:
                self._room.wait()
                self._room.clear()  # one piece on its way at a time
                try:
                    data = os.read(0, CHUNK)
                except OSError:
                    data = b""
                self._loop.call_soon_threadsafe(self._spread, data)
                if not data:
                    return

    def _spread(self, data: bytes) -> None:
        if not data:
            self._ended = True
        for fd, queue in list(self._mouths.items()):
            if data:
                queue.append(data)
            self._loop.add_writer(fd, self._writable, fd)
        self._set_room()

    def _writable(self, fd: int) -> None:
        queue = self._mouths[fd]
        try:
            if queue:
                written = os.write(fd, queue[0])
                rest = queue[0][written:]
                queue[:1] = [rest] if rest else []
        except BlockingIOError:
            return
        except OSError:  # this rank reads no more; the others may
            self._drop(fd)
            return
        if not queue:
            self._loop.remove_writer(fd)
            if self._ended:
                self._drop(fd)
        self._set_room()

    def _drop(self, fd: int) -> None:
        self._loop.remove_writer(fd)
        del self._mouths[fd]
        os.close(fd)
        self._set_room()

    def _set_room(self) -> None:
        lag = max((sum(map(len, queue)) for queue in self._mouths.values()), default=0)
        if lag < LAG and not self._ended:
            self._room.set()
