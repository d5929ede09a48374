# SPDX-License-Identifier: MIT
"""The sockets between ranks: who gets in, and who does not."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from tbmpi.launch import links
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.wire import HEAD, MOST, Wire, pack

JOB = "0" * 32
SECRET = b"a secret of 32 bytes, not random"


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Runs a test's coroutine for a limited time."""

    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(limited())


def pair(secret: bytes = SECRET, job: str = JOB) -> tuple[links.Links, links.Links]:
    """Two machines with two ranks each."""
    a = links.Links(JOB, SECRET, "127.0.0.1", (0, 1), {1: (2, 3)})
    b = links.Links(job, secret, "127.0.0.1", (2, 3), {0: (0, 1)})
    return a, b


def test_all_pairs_are_joined():
    async def work() -> None:
        a, b = pair()
        await a.dial(1, b.address, b.port)
        await asyncio.gather(a.complete.wait(), b.complete.wait())
        mine, theirs = a.take(1), b.take(2)
        assert sorted(mine) == [2, 3]
        assert sorted(theirs) == [0, 1]
        os.write(mine[2], b"to 2")
        assert os.read(theirs[1], 9) == b"to 2"
        for fd in (*mine.values(), *theirs.values()):
            os.close(fd)
        a.close()
        b.close()

    run(work)


@pytest.mark.parametrize("other", [{"secret": b"another one"}, {"job": "1" * 32}])
def test_another_secret_or_job(other):
    async def work() -> None:
        a, b = pair(**other)
        with pytest.raises(links.Unreached, match="closed it without an answer"):
            await a.dial(1, b.address, b.port)
        assert not b.complete.is_set()
        assert b.take(2) == {}
        a.close()
        b.close()

    run(work)


def test_a_false_door():
    """Who listens must prove itself too: its answer is not just any 32 bytes."""

    async def impostor(reader, writer) -> None:
        writer.write(links.MAGIC + bytes(links.NONCE))
        await reader.readexactly(links.CALL)
        writer.write(bytes(links.PROOF))
        await writer.drain()

    async def work() -> None:
        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        a, b = pair()
        with pytest.raises(links.Unreached):
            await a.dial(1, "127.0.0.1", port)
        assert a.take(0) == {}
        server.close()
        a.close()
        b.close()

    run(work)


NOISE = [
    b"",
    b"GET / HTTP/1.1\r\nHost: mac\r\n\r\n" + b"x" * 200,
    links.MAGIC + bytes(links.CALL),
    b"\xff" * 4096,
    struct.pack("!II", 2**32 - 1, 2**32 - 1) * 100,
]


def test_strangers_change_nothing():
    """Port scans, and more connections than are taken at a time."""

    async def work() -> None:
        a, b = pair()
        flood = []
        for at in range(links.STRANGERS + 40):
            sock = socket.create_connection((b.address, b.port))
            flood.append(sock)
            sock.setblocking(False)
            sock.send(NOISE[at % len(NOISE)])
            await asyncio.sleep(0)
        while NOISE and b._strangers > links.STRANGERS // 2:
            flood.pop(0).close()
            await asyncio.sleep(0)
        await a.dial(1, b.address, b.port)
        await b.complete.wait()
        for sock in flood:
            sock.close()
        a.close()
        b.close()

    run(work)


def test_refused_and_silent_ports(monkeypatch):
    monkeypatch.setattr(links, "PATIENCE", 0.3)

    async def work() -> None:
        a, b = pair()
        door = socket.create_server(("127.0.0.1", 0))
        with pytest.raises(links.Unreached, match=r"no answer .* within 0\.3 s"):
            await a.dial(1, *door.getsockname())
        port = door.getsockname()[1]
        door.close()
        with pytest.raises(links.Unreached, match="refused"):
            await a.dial(1, "127.0.0.1", port)
        with pytest.raises(links.Unreached, match="is no address"):
            await a.dial(1, "mac2", port)
        a.close()
        b.close()

    run(work)


def test_addresses():
    assert links.is_ours("127.0.0.1")
    assert not links.is_ours("192.0.2.1")
    assert not links.is_ours("0.0.0.0")
    with pytest.raises(LaunchError, match="--iface none9"):
        links.of_interface("none9")

    async def work() -> None:
        with pytest.raises(LaunchError, match=r"cannot listen at 192\.0\.2\.1"):
            links.Links(JOB, SECRET, "192.0.2.1", (0,), {1: (1,)})

    run(work)


# ---------------------------------------------------------------------- wire


def test_messages_arrive_whole():
    async def work() -> None:
        got: list = []
        reader, writer = os.pipe()
        spare, other = os.pipe()
        wire = Wire(reader, other, lambda *m: got.append(m), got.append)
        data = pack({"a": 1}, b"\0\n") + pack({"b": 2})
        for at in range(len(data)):
            os.write(writer, data[at : at + 1])
            await asyncio.sleep(0)
        os.close(writer)
        while len(got) < 3:
            await asyncio.sleep(0.01)
        assert got == [
            ({"a": 1}, b"\0\n"), ({"b": 2}, b""), "the connection has ended",
        ]  # fmt: skip
        assert wire.ended
        os.close(spare)

    run(work)


@pytest.mark.parametrize(
    "data",
    [
        HEAD.pack(MOST + 1, 0),
        HEAD.pack(0, MOST + 1),
        HEAD.pack(2, 0) + b"[]",
        HEAD.pack(1, 0) + b"x",
        b"Last login: Monday on ttys000\n",
    ],
)
def test_nonsense_ends_a_wire(data):
    async def work() -> None:
        got: list = []
        reader, writer = os.pipe()
        spare, other = os.pipe()
        wire = Wire(reader, other, lambda *m: got.append(m), got.append)
        os.write(writer, data)
        while not got:
            await asyncio.sleep(0.01)
        assert got == ["what came is no message of tbmpi's"]
        assert wire.ended
        for fd in (writer, spare):
            os.close(fd)

    run(work)
