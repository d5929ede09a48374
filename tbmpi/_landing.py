# SPDX-License-Identifier: MIT
"""Where an object is received whose size is not known yet.

MPI wants a buffer when a receive is posted, before there is a message to ask for
its size. But address space is free where memory is not: a landing is as large as
the memory of the machine, and of it there is only what a message has touched.
"""

from __future__ import annotations

import mmap
import os
import resource
import sys
from functools import cache
from typing import Any

from tbmpi._ffi import ffi
from tbmpi._memory import held
from tbmpi._pickle import is_split, load, pickle, received
from tbmpi._rc import rc

# Not all Pythons name it. macOS does not count untouched pages anyway.
_NO_RESERVE = 0x40 if sys.platform == "darwin" else 0x4000
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FLAGS |= getattr(mmap, "MAP_NORESERVE", _NO_RESERVE)
# All landings together take so much address space at most, of 128 TiB and more,
# or this part of what is allowed; and one alone this part of what is left.
_MOST_ADDRESS_SPACE = 16 << 40
_PART_OF_LIMIT = 4
_PART_OF_REST = 64
# How many landings are kept for the next receives, each with how many bytes.
_IDLE_LANDINGS = 32
_IDLE_BYTES = 256 << 10

_idle: list[Landing] = []
_taken = [0]  # bytes of address space


class _Room(mmap.mmap):
    """Memory of a landing."""

    _size = 0

    def __new__(cls, size: int) -> _Room:
        room = super().__new__(cls, -1, size, flags=_FLAGS)
        room._size = size
        _taken[0] += size
        return room

    def __del__(self, _taken: list[int] = _taken) -> None:
        _taken[0] -= self._size


class Landing:
    """Room for a message of nearly any size."""

    __slots__ = ("address", "size")

    def __init__(self) -> None:
        size = _wanted()
        try:
            room: Any = _Room(size)
        except (OSError, ValueError):
            size = max(rc.irecv_bufsz, 1)
            room = bytearray(size)
        self.size = size
        self.address = held(room, writable=True)


def take() -> Landing:
    """A landing for one receive."""
    try:
        return _idle.pop()
    except IndexError:
        return Landing()


class LandingLoader:
    """From the C status of a receive into a landing to the object, once."""

    __slots__ = ("_landing",)

    _landing: Landing | None

    def __init__(self, landing: Landing) -> None:
        self._landing = landing

    def __call__(self, status: Any) -> Any:
        size, landing = received(status), self._landing
        if landing is None:
            return None
        self._landing = None
        room = ffi.buffer(landing.address, size)
        obj = load(room, size)
        has_left = pickle._is_standard and not is_split(memoryview(room))
        if has_left and size <= _IDLE_BYTES and len(_idle) < _IDLE_LANDINGS:
            _idle.append(landing)
        return obj

    @property
    def advice(self) -> str:
        """What to do if the message was longer."""
        return (
            "address space is short, so irecv reserved little: have fewer under way, "
            "raise tbmpi.rc.irecv_bufsz, or use recv"
        )


def _wanted() -> int:
    """Bytes of a new landing: the machine's memory, if there is room for that."""
    least = max(rc.irecv_bufsz, 1)
    if _counts_untouched_pages():
        return least
    room = _MOST_ADDRESS_SPACE
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY:
            room = min(room, limit // _PART_OF_LIMIT)
    return max(min(_memory(), (room - _taken[0]) // _PART_OF_REST), least)


@cache
def _memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@cache
def _counts_untouched_pages() -> bool:
    """Whether a large landing would take memory from others: Linux can be so strict."""
    try:
        with open("/proc/sys/vm/overcommit_memory", "rb") as setting:
            return setting.read().strip() == b"2"
    except OSError:
        return False
