# SPDX-License-Identifier: MIT
"""The sockets that run along emulated cables, and go silent with them.

Both ends' owners hold a stream socket; we stand between and pass on what
comes. While a cable is pulled we pass on nothing, not even an end of file, and
when it is plugged in again what was sent goes on, as TCP would have it.

An owner must not take our silence for a cable's: so each has a socket to us on
which everything comes back, by the same loop that serves the wires.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

CHUNK = 65536
LOOK = 0.02  # seconds after which a pulled cable is noticed


class Wires:
    """The relays of all cables. `is_pulled` says of a cable's number whether
    it is."""

    def __init__(self, is_pulled: Callable[[int], bool]) -> None:
        self._is_pulled = is_pulled
        self._wires: dict[int, _Wire] = {}
        self._echoes: list[socket.socket] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, cable: int) -> tuple[int, int]:
        """Descriptors for the two ends' owners; they are the caller's."""
        ours_a, theirs_a = socket.socketpair()
        ours_b, theirs_b = socket.socketpair()
        self._wires[cable] = _Wire(
            ours_a, ours_b, lambda number=cable: self._is_pulled(number)
        )
        return theirs_a.detach(), theirs_b.detach()

    def add_echo(self) -> int:
        """A descriptor on which what is written comes back; the caller's."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._echoes.append(ours)
        return theirs.detach()

    def start(self) -> None:
        """Begins to pass on. Call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        for echo in self._echoes:
            self._loop.add_reader(echo, self._answer, echo)
        self._tick()

    def close(self) -> None:
        """Closes all sockets. May be called again."""
        if self._timer is not None:
            self._timer.cancel()
        while self._wires:
            self._wires.popitem()[1].close()
        while self._echoes:
            self._end_echo(self._echoes[0])

    def _answer(self, echo: socket.socket) -> None:
        # A few bytes a second: there is room for them, or nobody reads them.
        try:
            data = echo.recv(CHUNK)
            if data and echo.send(data) == len(data):
                return
        except BlockingIOError:
            return
        except OSError:
            pass  # its owner has gone
        self._end_echo(echo)

    def _end_echo(self, echo: socket.socket) -> None:
        if self._loop is not None:
            self._loop.remove_reader(echo)
        self._echoes.remove(echo)
        echo.close()

    def _tick(self) -> None:
        for wire in self._wires.values():
            wire.look()
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._tick)


class _Wire:
    def __init__(
        self, a: socket.socket, b: socket.socket, is_pulled: Callable[[], bool]
    ) -> None:
        self._silent = True
        self._is_pulled = is_pulled
        self._ways = (_Way(a, b, self.look), _Way(b, a, self.look))
        self._sockets = (a, b)

    def look(self) -> bool:
        """Follows the cable's state; whether it is silent now."""
        silent = self._is_pulled()
        if silent != self._silent:
            self._silent = silent
            for way in self._ways:
                way.pause() if silent else way.resume()
        return silent

    def close(self) -> None:
        for way in self._ways:
            way.pause()
        for end in self._sockets:
            end.close()


class _Way:
    """One direction: reads from one socket, writes to the other.

    It has `look` called before each step, which pauses it if need be.
    """

    def __init__(
        self, source: socket.socket, target: socket.socket, look: Callable[[], bool]
    ) -> None:
        source.setblocking(False)
        self._source, self._target = source, target
        self._look = look
        self._data = b""
        self._ended = self._closed = False

    def resume(self) -> None:
        """Goes on where it was."""
        loop = asyncio.get_running_loop()
        if self._data or (self._ended and not self._closed):
            loop.add_writer(self._target, self._write)
        elif not self._ended:
            loop.add_reader(self._source, self._read)

    def pause(self) -> None:
        """Touches neither socket until resume()."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._source)
        loop.remove_writer(self._target)

    def _read(self) -> None:
        if self._look():
            return
        try:
            self._data = self._source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._data = b""
        self._ended = not self._data
        asyncio.get_running_loop().remove_reader(self._source)
        self._write()

    def _write(self) -> None:
        if self._look():
            return
        try:
            if self._data:
                self._data = self._data[self._target.send(self._data) :]
        except BlockingIOError:
            pass
        except OSError:  # that end has gone: so has what was for it
            self._data, self._ended = b"", True
        if self._ended and not self._data:
            with contextlib.suppress(OSError):
                self._target.shutdown(socket.SHUT_WR)
            self._closed = True
        asyncio.get_running_loop().remove_writer(self._target)
        self.resume()
