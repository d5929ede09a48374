# SPDX-License-Identifier: MIT
"""Messages between tbmpirun and its agents, over a pair of pipes.

A message is an object and, behind it, bytes. On the wire: two lengths, big-
endian, the object as JSON, the bytes. Both ends belong to one user; all the
same a length is checked before anything is done with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
from collections.abc import Callable
from typing import Any

HEAD = struct.Struct(">II")
MOST = 16 << 20  # of either part: an environment may be long
CHUNK = 1 << 18
BEHIND = 1 << 20  # bytes that may wait for a slow reader

Message = dict[str, Any]


def pack(message: Message, data: bytes = b"") -> bytes:
    """A message as it goes over the wire."""
    text = json.dumps(message).encode()
    return HEAD.pack(len(text), len(data)) + text + data


class Wire:
    """Owns a descriptor to read from and one to write to.

    `on_message` gets each message; `on_end` is called once, with a reason,
    when there will be none any more. Both in the event loop.
    """

    def __init__(
        self,
        reader: int,
        writer: int,
        on_message: Callable[[Message, bytes], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._on_message = on_message
        self._on_end = on_end
        self._in = bytearray()
        self._out = bytearray()
        self._waiting = False
        self._paused: list[Callable[[], None]] = []
        self._drained = asyncio.Event()
        self._drained.set()
        self.ended = False
        self.paused = False
        self.heard = self._loop.time()
        for fd in (reader, writer):
            os.set_blocking(fd, False)
        self._loop.add_reader(reader, self._readable)

    def send(self, message: Message, data: bytes = b"") -> None:
        """Queues a message; a peer that is gone does not get it."""
        if not self.ended:
            self._out += pack(message, data)
            self._drained.clear()
            self._flush()

    def feed(self, data: bytes) -> None:
        """Takes bytes that were read before there was a wire."""
        self._in += data
        self._hand_out()

    def pause(self) -> None:
        """Hands out nothing and reads nothing: what came last cannot be used yet."""
        if not self.paused and not self.ended:
            self.paused = True
            self._loop.remove_reader(self._reader)

    def resume(self) -> None:
        """Goes on; what the other side has said meanwhile comes now."""
        if self.paused and not self.ended:
            self.paused = False
            self.heard = self._loop.time()
            self._loop.add_reader(self._reader, self._readable)
            self._hand_out()

    def _hand_out(self) -> None:
        while not self.ended and not self.paused and self._next():
            pass

    @property
    def behind(self) -> bool:
        """Whether who sends much should stop; see on_caught_up()."""
        return len(self._out) > BEHIND

    def on_caught_up(self, call: Callable[[], None]) -> None:
        """Calls `call`, once, when the wire is not behind any more."""
        self._paused.append(call)

    async def drained(self) -> None:
        """Waits until all is written or nobody reads."""
        await self._drained.wait()

    def close(self) -> None:
        """Closes both descriptors; may be called again."""
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            self._loop.remove_writer(self._writer)
            for fd in {self._reader, self._writer}:
                os.close(fd)
            self._reader = self._writer = -1
        self.ended = True
        self._out.clear()
        self._drained.set()

    def _end(self, why: str) -> None:
        if not self.ended:
            self.close()
            self._on_end(why)

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: os.write(self._writer, self._out[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            # What was said before can still be read; its end tells.
            self._out.clear()
        if bool(self._out) != self._waiting:
            self._waiting = bool(self._out)
            if self._waiting:
                self._loop.add_writer(self._writer, self._flush)
            else:
                self._loop.remove_writer(self._writer)
        if not self._out:
            self._drained.set()
        if not self.behind:
            paused, self._paused = self._paused, []
            for call in paused:
                self._loop.call_soon(call)

    def _readable(self) -> None:
        try:
            data = os.read(self._reader, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end("the connection has ended")
            return
        self.heard = self._loop.time()
        self._in += data
        self._hand_out()

    def _next(self) -> bool:
        """Hands out the first message if it is whole."""
        if len(self._in) < HEAD.size:
            return False
        texts, bytes_ = HEAD.unpack_from(self._in)
        if texts > MOST or bytes_ > MOST:
            self._end("what came is no message of tbmpi's")
            return False
        whole = HEAD.size + texts + bytes_
        if len(self._in) < whole:
            return False
        text = bytes(self._in[HEAD.size : HEAD.size + texts])
        data = bytes(self._in[HEAD.size + texts : whole])
        del self._in[:whole]
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self._end("what came is no message of tbmpi's")
            return False
        self._on_message(message, data)
        return True
