# SPDX-License-Identifier: MIT
"""Several sockets over one pair of pipes, such as ssh's.

Pieces of a socket's stream travel as a channel's number, a length and bytes; a
length of 0 says that the channel has ended. Channel 0 carries our own messages:
JSON, one a piece.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

HEAD = struct.Struct("!BI")
CHUNK = 65536
MESSAGE_MOST = 16 << 20
OWN = 0


class TunnelEnded(Exception):
    """The other end has gone, or speaks another language."""


class Tunnel:
    """One end of it. `source` and `target` are descriptors, and stay open."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._lock = threading.Lock()
        self._sockets: dict[int, socket.socket] = {}

    def tell(self, message: Any) -> None:
        """Sends a message of our own."""
        self._write(OWN, json.dumps(message).encode())

    def hear(self) -> Any:
        """The next message of our own; what comes for sockets is passed on."""
        while True:
            channel, data = self._read()
            if channel == OWN:
                return json.loads(data)
            self._pass_on(channel, data)

    def open(self, channels: int) -> list[int]:
        """Begins to carry that many sockets; descriptors of their other ends."""
        far = []
        for channel in range(1, channels + 1):
            near, other = socket.socketpair()
            self._sockets[channel] = near
            far.append(other.detach())
        for channel in self._sockets:
            threading.Thread(target=self._carry, args=(channel,), daemon=True).start()
        return far

    def close(self) -> None:
        """Ends all sockets."""
        for near in self._sockets.values():
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)  # wakes its thread
            near.close()
        self._sockets.clear()

    def _carry(self, channel: int) -> None:
        near = self._sockets[channel]
        data = b"-"
        while data:
            try:
                data = near.recv(CHUNK)
            except OSError:
                return
            try:
                self._write(channel, data)
            except OSError:
                return

    def _pass_on(self, channel: int, data: bytes) -> None:
        near = self._sockets.get(channel)
        if near is None:
            return
        try:
            if data:
                near.sendall(data)
            else:
                near.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _write(self, channel: int, data: bytes) -> None:
        pieces: Sequence[bytes] = (HEAD.pack(channel, len(data)), data)
        with self._lock:
            for piece in pieces:
                while piece:
                    piece = piece[os.write(self._target, piece) :]

    def _read(self) -> tuple[int, bytes]:
        channel, length = HEAD.unpack(self._exactly(HEAD.size))
        if length > MESSAGE_MOST:
            raise TunnelEnded("the other end does not speak tbmpi's language")
        return channel, self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = os.read(self._source, length - len(data))
            if not piece:
                raise TunnelEnded("the other end has gone")
            data += piece
        return data
