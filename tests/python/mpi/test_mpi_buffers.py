# SPDX-License-Identifier: MIT
"""Memory of all kinds: arrays by their interfaces, MPI.buffer, how long it lives."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import weakref
from array import array
from typing import Any

import numpy as np
import pytest

from tbmpi import COMM_SELF, MPI, _foreign

pytestmark = pytest.mark.mpi


def through(out: Any, into: Any) -> Any:
    """Sends to oneself."""
    COMM_SELF.Sendrecv(out, 0, 0, into, 0, 0)
    return into


# ------------------------------------------------------------- array interfaces


class Tensor:
    """A numpy array that shows itself by DLPack only, as on a device of some type."""

    def __init__(self, values: Any, device: int = 1) -> None:
        self.array = np.asarray(values)
        self.device = device
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        if options.get("dl_device") == (1, 0) and self.device == 8:
            raise BufferError("cannot be seen from the host")
        options.pop("stream", None)
        return self.array.__dlpack__(**options)


class Interface:
    """A numpy array that shows itself by an array interface only."""

    def __init__(self, values: Any, name: str, **changes: Any) -> None:
        self.array = np.asarray(values)
        setattr(self, name, dict(self.array.__array_interface__, **changes))


@pytest.mark.parametrize("code", "bhilqBHILQfdFD?e")
def test_dlpack(code: str) -> None:
    out, into = Tensor(np.arange(5).astype(code)), Tensor(np.zeros(5, code))
    through(out, into)
    assert np.array_equal(out.array, into.array)
    assert out.asked == [{"max_version": (1, 0), "copy": False}]


def test_dlpack_that_is_refused() -> None:
    with pytest.raises(BufferError, match="not contiguous"):
        through(Tensor(np.arange(10)[::2]), np.zeros(5, int))
    with pytest.raises(BufferError, match="read-only"):
        through(np.zeros(5, int), Tensor(np.broadcast_to(5, 5)[:1]))
    with pytest.raises(BufferError, match="DLPack's type 8"):
        through(Tensor(np.arange(5), device=8), np.zeros(5, int))
    shared = Tensor(np.arange(5), device=14)
    assert np.array_equal(through(shared, np.zeros(5, int)), shared.array)


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_array_interfaces(name: str) -> None:
    out, into = Interface(np.arange(6.0), name), Interface(np.zeros(6), name)
    through(out, into)
    assert np.array_equal(out.array, into.array)
    with pytest.raises(BufferError, match="not contiguous"):
        through(Interface(np.arange(6.0)[::2], name), into)
    with pytest.raises(BufferError, match="masked"):
        through(Interface(np.arange(6.0), name, mask=into), into)
    with pytest.raises(BufferError, match="byte order"):
        swapped = out.array.dtype.newbyteorder().str
        through(Interface(out.array, name, typestr=swapped, descr=None), into)


def test_memory_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is on a device if the device's driver is in this process."""
    values = np.arange(5)
    cuda = Interface(values, "__cuda_array_interface__"), Tensor(values, 2)
    for thing in cuda:
        assert np.array_equal(through(thing, np.zeros(5, int)), values)
    monkeypatch.setattr(_foreign, "_is_loaded", lambda name: "cuda" in name)
    for thing in cuda:
        with pytest.raises(BufferError, match="on a device"):
            COMM_SELF.Send(thing, 0)
    for device in (10, 13):
        assert np.array_equal(through(Tensor(values, device), np.zeros(5, int)), values)


def test_item_types_that_buffers_cannot_tell() -> None:
    out, into = np.array(["2020-01-01"], "M8[D]"), np.zeros(1, "M8[D]")
    through([out, MPI.BYTE], [into, MPI.BYTE])
    assert out == into


# ------------------------------------------------------------------- MPI.buffer


def test_a_buffer_and_its_views() -> None:
    source = array("i", range(6))
    over = MPI.buffer(source)
    assert over.address == source.buffer_info()[0]
    assert over.obj is source and over.nbytes == len(over) == 24
    assert over.cast("i").tolist() == list(range(6))
    part = over[4:12]
    assert type(part) is MPI.buffer and part.obj is over
    part[:] = 255
    assert source[1:3].tolist() == [-1, -1]
    with pytest.raises(ValueError, match="3 bytes do not fit 8"):
        part[:] = b"abc"
    frozen = over.toreadonly()
    with pytest.raises(TypeError, match="read-only"):
        frozen[0] = 1
    with pytest.raises(BufferError, match="read-only"):
        COMM_SELF.Recv(frozen, 0)
    into = MPI.buffer.allocate(24, clear=True)
    assert through(over, into).tobytes() == source.tobytes()
    with pytest.raises(BufferError):
        MPI.buffer.frombuffer(b"abc")
    over.release()
    assert (over.address, over.nbytes, over.obj) == (0, 0, None)
    del part, frozen
    source.append(1)


def test_freed_memory_lives_as_long_as_its_views() -> None:
    mem = MPI.Alloc_mem(80)
    values = np.frombuffer(mem, "d")
    values[:] = 7
    MPI.Free_mem(mem)
    assert mem.nbytes == 0 and (values == 7).all()
    MPI.Free_mem(mem)
    with pytest.raises(TypeError):
        MPI.Free_mem(values)  # type: ignore[arg-type]


def test_a_request_keeps_its_memory() -> None:
    values = np.zeros(1000)
    request = COMM_SELF.Irecv(values, 0, 5)
    gone = weakref.ref(values)
    resizable = bytearray(10)
    sent = COMM_SELF.Issend(resizable, 0, 6)
    with pytest.raises(BufferError):
        resizable.append(1)
    del values
    gc.collect()
    assert gone() is not None
    COMM_SELF.Send(np.ones(1000), 0, 5)
    request.Wait()
    COMM_SELF.Recv(bytearray(10), 0, 6)
    sent.Wait()
    resizable.append(1)
    gc.collect()
    assert gone() is None


def test_a_dropped_request_keeps_its_memory() -> None:
    values = np.arange(100_000.0)
    gone = weakref.ref(values)
    COMM_SELF.Issend(values, 0, 8)
    del values
    gc.collect()
    assert gone() is not None
    into = np.zeros(100_000)
    COMM_SELF.Recv(into, 0, 8)
    assert np.array_equal(into, np.arange(100_000.0))
    for _ in range(40):
        COMM_SELF.Isend(np.zeros(1), MPI.PROC_NULL)
    assert gone() is None


def test_garbage_with_memory_in_it() -> None:
    """Cycles of requests, views and buffers; the collector takes them in any order."""
    for _ in range(200):
        loop: list[Any] = [memoryview(bytearray(100)), MPI.buffer.allocate(100)[3:9]]
        loop += [COMM_SELF.Irecv(thing, 0, 9) for thing in loop]
        loop += [MPI.buffer(loop[0]), loop]
        for request in loop[2:4]:
            request.Cancel()
            request.Wait()
        loop += [COMM_SELF.Recv_init(thing, 0, 9) for thing in loop[:2]]
        for request in loop[-2:]:
            request.Free()
    del loop
    gc.collect()


def test_bsend_needs_memory_until_it_is_detached() -> None:
    room = bytearray(10_000)
    COMM_SELF.Attach_buffer(room)
    with pytest.raises(BufferError):
        room.append(1)
    COMM_SELF.Bsend(np.arange(10.0), 0, 3)
    assert through(np.zeros(1), np.ones(1)) == 0
    into = np.zeros(10)
    COMM_SELF.Recv(into, 0, 3)
    COMM_SELF.Flush_buffer()
    assert COMM_SELF.Detach_buffer() is room
    room.append(1)
    assert np.array_equal(into, np.arange(10.0))


def test_receives_of_unknown_size_take_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    requests = [COMM_SELF.irecv(source=0, tag=4) for _ in range(50)]
    for k in range(50):
        COMM_SELF.send(k, 0, 4)
    assert MPI.Request.waitall(requests) == list(range(50))
    unit = 1 if sys.platform == "darwin" else 1024
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * unit < 200 * 2**20


LITTLE_ADDRESS_SPACE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
from tbmpi import COMM_SELF, MPI
requests = [COMM_SELF.irecv(source=0, tag=4) for _ in range(300)]
for k in range(300):
    COMM_SELF.send(k, 0, 4)
assert MPI.Request.waitall(requests) == list(range(300))
bytes(1 << 30)
"""


def test_receives_of_unknown_size_with_little_address_space() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_ADDRESS_SPACE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
