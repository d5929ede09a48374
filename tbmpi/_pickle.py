# SPDX-License-Identifier: MIT
"""Python objects as bytes of a message."""

from __future__ import annotations

import pickle as _standard
from collections.abc import Callable
from typing import Any

from tbmpi import buffers
from tbmpi._ffi import check, ffi, lib


class Pickle:
    """How objects become bytes and back.

    ``MPI.pickle.__init__(dill.dumps, dill.loads)`` changes it for all messages;
    every rank must use the same.
    """

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[[Any], Any] | None = None,
        protocol: int | None = None,
    ) -> None:
        """The standard library's pickle unless told otherwise; newest protocol."""
        self._dumps = dumps or _standard.dumps
        self._loads = loads or _standard.loads
        if protocol is None and dumps is None:
            protocol = _standard.HIGHEST_PROTOCOL
        self.PROTOCOL = protocol

    def dumps(self, obj: Any) -> bytes:
        """The object as bytes."""
        if self.PROTOCOL is None:
            return self._dumps(obj)
        return self._dumps(obj, self.PROTOCOL)

    def loads(self, data: Any) -> Any:
        """The object from a bytes-like."""
        return self._loads(data)


pickle = Pickle()


def received(status: Any) -> int:
    """The bytes that a C status tells of."""
    out = ffi.new("MPI_Count *")
    check(lib.MPI_Get_count_c(status, lib.MPI_BYTE, out))
    return out[0]


def load(buffer: Any, size: int) -> Any:
    """The object in the first `size` bytes of a buffer; None if there are none."""
    return pickle.loads(memoryview(buffer)[:size]) if size > 0 else None


class Loader:
    """From the C status of a receive into `buffer` to the object."""

    def __init__(self, buffer: Any) -> None:
        """`buffer` has room for the largest message that is taken."""
        self._buffer = buffer
        self.size = len(buffer)

    def __call__(self, status: Any) -> Any:
        """The object that was received."""
        return load(self._buffer, received(status))


def receive(comm: Any, source: int, tag: int, status: Any) -> Any:
    """Blocks for an object. It is matched by a probe, so it may have any size."""
    message, found = ffi.new("MPI_Message *"), ffi.new("MPI_Status *")
    check(lib.MPI_Mprobe(source, tag, comm, message, found))
    size = received(found)
    address, buffer = buffers.allocate(size)
    check(lib.MPI_Mrecv_c(address, size, lib.MPI_BYTE, message, status))
    return load(buffer, size)


def receive_unmatched(comm: Any, source: int, tag: int, status: Any) -> Any:
    """The same with a plain probe; not for several threads on a communicator."""
    found = ffi.new("MPI_Status *")
    check(lib.MPI_Probe(source, tag, comm, found))
    size = received(found)
    address, buffer = buffers.allocate(size)
    source, tag = found.MPI_SOURCE, found.MPI_TAG
    check(lib.MPI_Recv_c(address, size, lib.MPI_BYTE, source, tag, comm, status))
    return load(buffer, size)
