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
from typing import Any

from tbmpi._ffi import ffi
from tbmpi._memory import CHARS
from tbmpi._pickle import is_split, load, pickle, received
from tbmpi._rc import rc

# Not all Pythons name it. macOS does not count untouched pages anyway.
_NO_RESERVE = getattr(
    mmap, "MAP_NORESERVE", 0x40 if sys.platform == "darwin" else 0x4000
)
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
# Where address space is limited, a landing takes this part of it at most.
_PART_OF_LIMIT = 64
# How many landings are kept for the next receives, each with how many bytes.
_IDLE_LANDINGS = 8
_IDLE_BYTES = 1 << 20

_idle: list[Landing] = []


class Landing:
    """Room for a message of nearly any size."""

    __slots__ = ("address", "size")

    def __init__(self) -> None:
        size = _wanted()
        while True:
            try:
                room: Any = mmap.mmap(-1, size, flags=_FLAGS)
                break
            except (OSError, ValueError):
                # Too many of them, or too little left: then a smaller one.
                size //= 2
                if size < rc.irecv_bufsz:
                    size = max(rc.irecv_bufsz, 1)
                    room = bytearray(size)
                    break
        self.size = size
        self.address = ffi.from_buffer(CHARS, room)


def take() -> Landing:
    """A landing for one receive."""
    try:
        return _idle.pop()
    except IndexError:
        return Landing()


class LandingLoader:
    """From the C status of a receive into a landing to the object."""

    __slots__ = ("_landing",)

    def __init__(self, landing: Landing) -> None:
        self._landing = landing

    def __call__(self, status: Any) -> Any:
        size, landing = received(status), self._landing
        room = ffi.buffer(landing.address, size)
        obj = load(room, size)
        has_left = pickle._is_standard() and not is_split(memoryview(room))
        if has_left and size <= _IDLE_BYTES and len(_idle) < _IDLE_LANDINGS:
            _idle.append(landing)
        return obj


def _wanted() -> int:
    """Bytes of a landing, if there is as much address space."""
    if _counts_untouched_pages():
        return max(rc.irecv_bufsz, 1)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        memory = min(memory, limit // _PART_OF_LIMIT)
    return max(memory, rc.irecv_bufsz, 1)


def _counts_untouched_pages() -> bool:
    """Whether a large landing would take memory from others: Linux can be so strict."""
    try:
        with open("/proc/sys/vm/overcommit_memory", "rb") as setting:
            return setting.read().strip() == b"2"
    except OSError:
        return False
