# SPDX-License-Identifier: MIT
"""The server of the PMI-1 wire protocol, by which ranks find each other.

A rank holds one end of a socket pair, named by PMI_FD, and sends lines of
``key=value`` words that begin with ``cmd=``; MPICH's Hydra speaks the same.
Server knows the protocol and no sockets: lines in, replies out, so that a
rank on another host can be served through whatever carries its lines.
Channel is the socket of a rank on this host.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

KVSNAME_MAX = 256
KEY_MAX = 64
VALUE_MAX = 1024
LINE_MAX = 4096
KEYS_PER_RANK = 4096


class Stage(enum.Enum):
    """How far a rank has come, as far as the protocol tells."""

    NEW = "has not called MPI_Init"
    JOINED = "is between MPI_Init and MPI_Finalize"
    FINALIZED = "has called MPI_Finalize"
    ABORTED = "has called MPI_Abort"


class ProtocolError(Exception):
    """A rank sent what no PMI client sends."""


@dataclass
class Abort:
    """A rank's wish that the job end."""

    rank: int
    code: int
    message: str


@dataclass
class _Client:
    appnum: int
    stage: Stage = Stage.NEW
    left: bool = False
    keys: int = 0
    spawn: bool = False  # within a multi-line spawn command


Replies = list[tuple[int, bytes]]


@dataclass
class Server:
    """The job's key-value space and barrier, for `size` ranks.

    `mapping` says in PMI's words which ranks share a machine. handle() takes
    one line of one rank and returns the lines to send, each with the rank it is
    for. An abort shows in `aborted`.
    """

    size: int
    name: str
    appnums: tuple[int, ...]
    mapping: str
    aborted: Abort | None = None
    _space: dict[str, str] = field(default_factory=dict)
    _waiting: set[int] = field(default_factory=set)
    _left: int = 0

    def __post_init__(self) -> None:
        self._clients = [_Client(appnum) for appnum in self.appnums]
        self._space["PMI_process_mapping"] = self.mapping

    def stage(self, rank: int) -> Stage:
        """How far this rank has come."""
        return self._clients[rank].stage

    def leave(self, rank: int) -> None:
        """The rank's process has ended."""
        self._clients[rank].left = True
        self._left += 1
        self._waiting.discard(rank)

    def stuck(self) -> tuple[int, int] | None:
        """A rank that waits for one that has ended, as (waiting, ended).

        Whoever has called MPI_Init waits, there or later, for all others to
        call it; whoever is in a barrier here waits for all to enter.
        """
        if not self._left:
            return None
        gone = [r for r, client in enumerate(self._clients) if client.left]
        never = [r for r in gone if self._clients[r].stage is Stage.NEW]
        if self._waiting and gone:
            return min(self._waiting), (never or gone)[0]
        if never:
            for rank, client in enumerate(self._clients):
                if client.stage is Stage.JOINED and not client.left:
                    return rank, never[0]
        return None

    def handle(self, rank: int, line: bytes) -> Replies:
        """One line, without its newline. Raises ProtocolError for garbage."""
        client = self._clients[rank]
        if client.spawn or line.startswith(b"mcmd="):
            client.spawn = line != b"endcmd"
            return [] if client.spawn else _refuse(rank, "spawn")
        words = _words(line)
        command = words.get("cmd", "")
        handler = _HANDLERS.get(command)
        if handler is not None:
            return handler(self, rank, words)
        if not command.replace("_", "").isalnum():
            raise ProtocolError(f"sent {line[:60]!r} on the descriptor PMI_FD names")
        return _refuse(rank, command.removesuffix("_name"))

    # Each handler answers one command.

    def _init(self, rank: int, words: dict[str, str]) -> Replies:
        version = words.get("pmi_version")
        self._clients[rank].stage = Stage.JOINED
        rc = 0 if version == "1" else -1
        return _reply(rank, f"response_to_init pmi_version=1 pmi_subversion=1 rc={rc}")

    def _maxes(self, rank: int, _words: dict[str, str]) -> Replies:
        limits = (
            f"kvsname_max={KVSNAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}"
        )
        return _reply(rank, f"maxes rc=0 {limits}")

    def _appnum(self, rank: int, _words: dict[str, str]) -> Replies:
        return _reply(rank, f"appnum rc=0 appnum={self._clients[rank].appnum}")

    def _kvsname(self, rank: int, _words: dict[str, str]) -> Replies:
        return _reply(rank, f"my_kvsname rc=0 kvsname={self.name}")

    def _universe(self, rank: int, _words: dict[str, str]) -> Replies:
        return _reply(rank, f"universe_size rc=0 size={self.size}")

    def _put(self, rank: int, words: dict[str, str]) -> Replies:
        key, value = words.get("key", ""), words.get("value", "")
        client = self._clients[rank]
        problem = ""
        if words.get("kvsname") != self.name:
            problem = "unknown_kvsname"
        elif not key or len(key) > KEY_MAX:
            problem = "bad_key_length"
        elif len(value) > VALUE_MAX:
            problem = "value_too_long"
        elif client.keys >= KEYS_PER_RANK:
            problem = "too_many_keys"
        if problem:
            return _reply(rank, f"put_result rc=-1 msg={problem}")
        client.keys += 1
        self._space[key] = value
        return _reply(rank, "put_result rc=0 msg=success")

    def _get(self, rank: int, words: dict[str, str]) -> Replies:
        value = self._space.get(words.get("key", ""))
        if words.get("kvsname") != self.name or value is None:
            return _reply(rank, "get_result rc=1 msg=key_not_found value=unknown")
        return _reply(rank, f"get_result rc=0 msg=success value={value}")

    def _barrier(self, rank: int, _words: dict[str, str]) -> Replies:
        self._waiting.add(rank)
        if len(self._waiting) < self.size:
            return []
        self._waiting.clear()
        return [(r, b"cmd=barrier_out rc=0\n") for r in range(self.size)]

    def _finalize(self, rank: int, _words: dict[str, str]) -> Replies:
        self._clients[rank].stage = Stage.FINALIZED
        self._clients[rank].keys = 0
        return _reply(rank, "finalize_ack rc=0")

    def _abort(self, rank: int, words: dict[str, str]) -> Replies:
        self._clients[rank].stage = Stage.ABORTED
        code = words.get("exitcode", "1")
        number = int(code) if code.lstrip("-").isdigit() else 1
        if self.aborted is None:
            self.aborted = Abort(rank, number, words.get("message", ""))
        return []


_HANDLERS: dict[str, Callable[[Server, int, dict[str, str]], Replies]] = {
    "init": Server._init,
    "get_maxes": Server._maxes,
    "get_appnum": Server._appnum,
    "get_my_kvsname": Server._kvsname,
    "get_universe_size": Server._universe,
    "put": Server._put,
    "get": Server._get,
    "barrier_in": Server._barrier,
    "finalize": Server._finalize,
    "abort": Server._abort,
}


def _words(line: bytes) -> dict[str, str]:
    """The key=value words of a line; the last of some keys may hold spaces."""
    text = line.decode("utf-8", "backslashreplace")
    tails = [text.find(tail) for tail in (" value=", " message=")]
    cut = min((at for at in tails if at >= 0), default=len(text))
    last, found, rest = text[cut + 1 :].partition("=")
    pairs = [word.partition("=") for word in text[:cut].split()]
    words = {key: value for key, _, value in pairs}
    return {**words, last: rest} if found else words


def _reply(rank: int, text: str) -> Replies:
    return [(rank, f"cmd={text}\n".encode())]


def _refuse(rank: int, what: str) -> Replies:
    return _reply(rank, f"{what}_result rc=-1 msg=not_supported_by_tbmpirun")


class Channel:
    """One rank's socket: cuts what it sends into lines, sends it replies.

    `on_line` gets each line; `on_garbage` a sentence when a line is too long.
    A rank that closes its end is not an error here: its exit decides.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_line: Callable[[bytes], None],
        on_garbage: Callable[[str], None],
    ) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._on_line = on_line
        self._on_garbage = on_garbage
        self._in = b""
        self._out = b""
        self._blocked = False
        loop.add_reader(sock, self._readable)

    def send(self, data: bytes) -> None:
        """Queues a reply; a rank that is gone does not get it."""
        self._out += data
        self._flush()

    def drain(self) -> None:
        """Takes all lines that have arrived. Called when the rank has ended."""
        while self._sock.fileno() >= 0 and self._readable():
            pass

    def close(self) -> None:
        """Closes the socket; may be called again."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

    def _readable(self) -> bool:
        try:
            data = self._sock.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        *lines, self._in = (self._in + data).split(b"\n")
        if max(map(len, (*lines, self._in))) > LINE_MAX:
            self.close()
            self._on_garbage(f"sent a line of more than {LINE_MAX} bytes")
            return False
        for line in lines:
            self._on_line(line)
        return True

    def _flush(self) -> None:
        if self._sock.fileno() < 0:
            return
        with contextlib.suppress(BlockingIOError, InterruptedError):
            try:
                self._out = self._out[self._sock.send(self._out) :]
            except ConnectionError:
                self._out = b""
        # Replies only ever answer, so a rank that does not read them is not
        # read from either: nothing here grows without bound.
        if self._out and not self._blocked:
            self._loop.remove_reader(self._sock)
            self._loop.add_writer(self._sock, self._flush)
        elif self._blocked and not self._out:
            self._loop.remove_writer(self._sock)
            self._loop.add_reader(self._sock, self._readable)
        self._blocked = bool(self._out)
