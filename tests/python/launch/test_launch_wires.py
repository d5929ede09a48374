# SPDX-License-Identifier: MIT
"""The sockets along emulated cables: what passes, and what does not."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tbmpi.launch.wires import LOOK, Wires

SOON = 4 * LOOK


class Cables:
    """Wires with a set of cables that are pulled."""

    def __init__(self) -> None:
        self.pulled: set[int] = set()
        self.wires = Wires(lambda cable: cable in self.pulled)

    def add(self, cable: int) -> tuple[socket.socket, socket.socket]:
        a, b = (socket.socket(fileno=fd) for fd in self.wires.add(cable))
        a.setblocking(False)
        b.setblocking(False)
        return a, b


@pytest.fixture
def cables():
    return Cables()


async def received(sock: socket.socket) -> bytes | None:
    """What comes soon; None: nothing does."""
    loop = asyncio.get_running_loop()
    try:
        return await asyncio.wait_for(loop.sock_recv(sock, 1 << 20), SOON)
    except TimeoutError:
        return None


def run(cables, scene) -> None:
    """Runs a scene of an event loop with the wires going."""

    async def whole() -> None:
        cables.wires.start()
        await asyncio.wait_for(scene(), 20)
        cables.wires.close()

    asyncio.run(whole())


def test_both_ways(cables):
    async def scene():
        a, b = cables.add(0)
        c, d = cables.add(1)
        await asyncio.sleep(SOON)
        a.send(b"to b")
        b.send(b"to a")
        c.send(b"to d")
        assert await received(b) == b"to b"
        assert await received(a) == b"to a"
        assert await received(d) == b"to d"

    run(cables, scene)


def test_silence_and_the_end_of_it(cables):
    async def scene():
        a, b = cables.add(7)
        cables.add(8)
        await asyncio.sleep(SOON)
        cables.pulled.add(7)
        a.send(b"one ")
        assert await received(b) is None
        b.send(b"back")
        assert await received(a) is None
        cables.pulled.clear()
        assert await received(a) == b"back"
        a.send(b"two")
        got = await received(b)
        got += await received(b) or b""
        assert got == b"one two"

    run(cables, scene)


def test_a_pull_that_nobody_had_time_to_see(cables):
    async def scene():
        a, b = cables.add(0)
        await asyncio.sleep(SOON)
        for _ in range(50):
            cables.pulled.add(0)
            a.send(b"x")
            await asyncio.sleep(0)
            cables.pulled.clear()
            await asyncio.sleep(LOOK / 10)
        total = b""
        while len(total) < 50:
            part = await received(b)
            assert part
            total += part

    run(cables, scene)


def test_an_end_is_passed_on_but_not_over_a_pulled_cable(cables):
    async def scene():
        a, b = cables.add(0)
        await asyncio.sleep(SOON)
        cables.pulled.add(0)
        await asyncio.sleep(SOON)
        a.send(b"last")
        a.close()
        assert await received(b) is None
        cables.pulled.clear()
        assert await received(b) == b"last"
        assert await received(b) == b""

    run(cables, scene)


def test_much_data_through_a_slow_reader(cables):
    async def scene():
        a, b = cables.add(0)
        loop = asyncio.get_running_loop()
        data = bytes(range(256)) * 4096 * 4
        sending = asyncio.create_task(loop.sock_sendall(a, data))
        got = b""
        while len(got) < len(data):
            part = await received(b)
            assert part
            got += part
        await sending
        assert got == data

    run(cables, scene)


def test_one_who_does_not_read_holds_up_the_sender_only(cables):
    async def scene():
        a, b = cables.add(0)
        await asyncio.sleep(SOON)
        with pytest.raises(BlockingIOError):
            while True:
                a.send(b"x" * 65536)
                await asyncio.sleep(0.001)
        b.send(b"fine")
        assert await received(a) == b"fine"

    run(cables, scene)


def test_what_an_owner_asks_comes_back(cables):
    async def scene():
        echo = socket.socket(fileno=cables.wires.add_echo())
        echo.setblocking(False)
        echo.send(b"early")
        assert await received(echo) is None  # nobody passes on yet
        cables.wires.close()
        echo.close()

    asyncio.run(scene())

    async def another():
        asks, leaves = (socket.socket(fileno=cables.wires.add_echo()) for _ in range(2))
        asks.setblocking(False)
        cables.wires.start()
        asks.send(b"are you there?")
        assert await received(asks) == b"are you there?"
        leaves.close()
        asks.send(b"still?")
        assert await received(asks) == b"still?"
        cables.wires.close()

    asyncio.run(another())
