# SPDX-License-Identifier: MIT
"""The sockets that join the ranks of different machines.

An agent connects them before the ranks start and hands them over, so that
only one program per machine, this interpreter, ever listens or dials: macOS's
firewall and its question about the local network go by program. Each side
proves that it knows the job's secret (HMAC-SHA256 over both sides' nonces)
before anything else is believed; whoever cannot is cut off.

    listener   "TBL1", nonce
    dialler    "TBL1", nonce, its rank, the other's, proof
    listener   proof
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hmac
import ipaddress
import os
import secrets
import socket
import struct
import sys
from collections.abc import Mapping, Sequence

from tbmpi.launch.errors import FAILED, LaunchError

MAGIC = b"TBL1"
NONCE = 16
PROOF = 32
RANKS = struct.Struct("!II")
CALL = len(MAGIC) + NONCE + RANKS.size + PROOF
PATIENCE = 10.0  # seconds for a connection and its handshake
AT_ONCE = 32
# Strangers may hold so many connections open; more are closed at once.
STRANGERS = 256


class Unreached(Exception):
    """Why another machine could not be reached."""


class Links:
    """All connections between the ranks `mine` and those of other machines.

    `others` maps each other machine's number to its ranks. The sockets belong
    to this object until take() gives them away. Raises LaunchError when it
    cannot listen at `address`.
    """

    def __init__(
        self,
        job: str,
        secret: bytes,
        address: str,
        mine: Sequence[int],
        others: Mapping[int, Sequence[int]],
    ) -> None:
        self._job = job.encode()
        self._secret = secret
        self._mine = tuple(mine)
        self._others = others
        self._wanted = {
            (r, s) for r in mine for ranks in others.values() for s in ranks
        }
        self._there: dict[tuple[int, int], socket.socket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers = 0
        self.complete = asyncio.Event()
        self._door = _listen(address)
        self.address, self.port = self._door.getsockname()[:2]
        self._keep(self._serve())
        self._look()

    def _keep(self, work: object) -> None:
        task = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look(self) -> None:
        if len(self._there) == len(self._wanted):
            self.complete.set()

    def _add(self, pair: tuple[int, int], sock: socket.socket) -> bool:
        if pair not in self._wanted or pair in self._there:
            return False
        self._there[pair] = sock
        self._look()
        return True

    def take(self, rank: int) -> dict[int, int]:
        """The descriptors of a rank's connections, by the other rank."""
        pairs = [pair for pair in self._there if pair[0] == rank]
        return {pair[1]: self._there.pop(pair).detach() for pair in pairs}

    def close(self) -> None:
        """Listens no more, and closes what nobody has taken."""
        for task in self._tasks:
            task.cancel()
        self._door.close()
        for sock in self._there.values():
            sock.close()
        self._there.clear()

    def shut_door(self) -> None:
        """Listens no more: all are connected."""
        for task in self._tasks:
            task.cancel()
        self._door.close()

    def _proof(self, who: bytes, nonces: bytes, ranks: bytes) -> bytes:
        text = who + self._job + nonces + ranks
        return hmac.digest(self._secret, text, "sha256")

    # ---------------------------------------------------------------- listening

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self._door)
            except OSError:
                await asyncio.sleep(0.05)  # out of descriptors, for the moment
                continue
            if self._strangers >= STRANGERS:
                sock.close()
                continue
            self._strangers += 1
            self._keep(self._answer(sock))

    async def _answer(self, sock: socket.socket) -> None:
        try:
            sock.setblocking(False)
            async with asyncio.timeout(PATIENCE):
                pair = await self._examine(sock)
            if pair is not None and self._add(pair, sock):
                return
            sock.close()
        except (OSError, TimeoutError, EOFError):
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise
        finally:
            self._strangers -= 1

    async def _examine(self, sock: socket.socket) -> tuple[int, int] | None:
        loop = asyncio.get_running_loop()
        nonce = secrets.token_bytes(NONCE)
        await loop.sock_sendall(sock, MAGIC + nonce)
        call = await _receive(sock, CALL)
        theirs, ranks = call[len(MAGIC) : len(MAGIC) + NONCE], call[-PROOF - 8 : -PROOF]
        proof = self._proof(b"dial", nonce + theirs, ranks)
        if call[: len(MAGIC)] != MAGIC or not hmac.compare_digest(proof, call[-PROOF:]):
            return None
        caller, called = RANKS.unpack(ranks)
        if (called, caller) not in self._wanted:
            return None
        await loop.sock_sendall(sock, self._proof(b"door", nonce + theirs, ranks))
        return called, caller

    # ------------------------------------------------------------------ dialling

    async def dial(self, node: int, address: str, port: int) -> None:
        """Connects all of ours with all ranks of a machine. Raises Unreached."""
        pairs = [(r, s) for r in self._mine for s in self._others[node]]
        missing = iter([pair for pair in pairs if pair not in self._there])

        async def some() -> None:
            for pair in missing:
                sock = await self._call(pair, address, port)
                if not self._add(pair, sock):
                    sock.close()

        # One alone first: where it fails, the others would too.
        first = next(missing, None)
        if first is not None:
            self._add(first, await self._call(first, address, port))
            await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def _call(
        self, pair: tuple[int, int], address: str, port: int
    ) -> socket.socket:
        loop = asyncio.get_running_loop()
        family, where = _resolved(address, port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(PATIENCE):
                await loop.sock_connect(sock, where)
                await self._introduce(sock, pair)
        except TimeoutError as why:
            sock.close()
            raise Unreached(f"no answer from {address} within {PATIENCE:g} s") from why
        except EOFError as why:
            sock.close()
            raise Unreached(_cut_off(address)) from why
        except OSError as why:
            sock.close()
            raise Unreached(_refused(address, why)) from why
        except asyncio.CancelledError:
            sock.close()
            raise
        return sock

    async def _introduce(self, sock: socket.socket, pair: tuple[int, int]) -> None:
        loop = asyncio.get_running_loop()
        hello = await _receive(sock, len(MAGIC) + NONCE)
        nonces = hello[len(MAGIC) :] + secrets.token_bytes(NONCE)
        ranks = RANKS.pack(*pair)
        proof = self._proof(b"dial", nonces, ranks)
        await loop.sock_sendall(sock, MAGIC + nonces[NONCE:] + ranks + proof)
        answer = await _receive(sock, PROOF)
        expected = self._proof(b"door", nonces, ranks)
        if hello[: len(MAGIC)] != MAGIC or not hmac.compare_digest(answer, expected):
            raise EOFError


async def _receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await asyncio.get_running_loop().sock_recv(sock, size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _resolved(address: str, port: int) -> tuple[int, tuple]:
    flags = socket.AI_NUMERICHOST
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)
    except OSError as why:
        raise Unreached(f"{address} is no address: {why}") from why
    return found[0][0], found[0][4]


def _cut_off(address: str) -> str:
    text = f"{address} took the connection and closed it without an answer"
    if sys.platform == "darwin":
        text += (
            "; macOS's firewall does that: allow this Python there with "
            "/usr/libexec/ApplicationFirewall/socketfilterfw --add and --unblockapp "
            f"{os.path.realpath(sys.executable)}"
        )
    return text


def _refused(address: str, why: OSError) -> str:
    if why.errno == errno.EHOSTUNREACH and sys.platform == "darwin":
        return (
            f"{address}: no route; on a directly connected network that is macOS's "
            "Local Network privacy: allow it for the terminal program in System "
            "Settings, Privacy & Security, Local Network"
        )
    return f"{address}: {os.strerror(why.errno) if why.errno else why}"


def _listen(address: str) -> socket.socket:
    try:
        family, where = _resolved(address, 0)
    except Unreached as why:
        raise LaunchError(str(why), FAILED) from why
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        door.setblocking(False)
        door.bind(where)
        door.listen(1024)
    except OSError as why:
        door.close()
        raise LaunchError(
            f"cannot listen at {address}: {why.strerror}", FAILED
        ) from why
    return door


# ------------------------------------------------------------------ addresses


def is_ours(address: str) -> bool:
    """Whether this machine has that address."""
    with contextlib.suppress(OSError, Unreached):
        family, where = _resolved(address, 0)
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind(where)
            return not ipaddress.ip_address(address.split("%")[0]).is_unspecified
    return False


def of_interface(name: str) -> str:
    """The IPv4 address of a network interface; LaunchError if it has none."""
    request = 0xC0206921 if sys.platform == "darwin" else 0x8915  # SIOCGIFADDR
    packed = struct.pack("16s16x", name.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            answer = fcntl.ioctl(sock, request, packed)
    except OSError as why:
        raise LaunchError(
            f"--iface {name}: the interface has no IPv4 address here "
            f"({why.strerror}); see ifconfig",
            FAILED,
        ) from why
    return socket.inet_ntoa(answer[20:24])
