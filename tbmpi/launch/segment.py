# SPDX-License-Identifier: MIT
"""A job's shared memory, made before any rank and never left behind.

It has no name when the first rank starts, and on Linux never had one: the ranks
inherit the open descriptor, so whoever is killed at whatever moment, nothing
stays. All bytes are reserved at once, so that a small /dev/shm is one clear
error here and not a bus error in some rank an hour later.
"""

from __future__ import annotations

import _posixshmem  # type: ignore[import-not-found]
import contextlib
import errno
import fcntl
import mmap
import os
import secrets
import struct

from tbmpi._gen import segment as layout
from tbmpi.launch.errors import FAILED, LaunchError

# struct tb_segment_head of csrc/net/segment.h: magic, ranks, maker.
HEAD = struct.Struct("=QII")

# Descriptors handed to ranks lie above those that shell scripts use freely.
FIRST_DESCRIPTOR = 64


def out_of_the_way(fd: int) -> int:
    """Moves a descriptor to where a rank's shell does not tread."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
    os.close(fd)
    return moved


class Memory:
    """Zero-filled shared memory, all of it reserved, for others to inherit.

    `fd` is for them; `view` shows the launcher what they write. The memory
    goes with the last who has it. `need` begins the error when there is too
    little: "3 ranks need".
    """

    def __init__(self, size: int, need: str) -> None:
        self.size = size
        self.fd = out_of_the_way(_unnamed())
        try:
            _reserve(self.fd, self.size)
        except OSError as why:
            self.close()
            raise LaunchError(_too_little(need, size, why), FAILED) from why
        # Through the mapping: macOS has no write() for shared memory.
        self.view = mmap.mmap(self.fd, self.size)

    def close(self) -> None:
        """Gives the descriptor back; `view` stays readable."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Segment(Memory):
    """What the `ranks` ranks of one machine share."""

    def __init__(self, ranks: int) -> None:
        super().__init__(ranks * layout.SEGMENT_PER_RANK, f"{ranks} ranks need")
        HEAD.pack_into(self.view, 0, layout.SEGMENT_MAGIC, ranks, os.getpid())


def _unnamed() -> int:
    """An empty piece of shared memory that has no name, or none any more."""
    if hasattr(os, "O_TMPFILE"):
        with contextlib.suppress(OSError):
            return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
    # Elsewhere it needs a name for the moment between these two calls.
    while True:
        name = f"/tbmpi-{os.getpid():x}-{secrets.token_hex(4)}"
        try:
            fd: int = _posixshmem.shm_open(
                name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600
            )
        except FileExistsError:
            continue
        except OSError as why:
            raise LaunchError(
                f"cannot make shared memory: {why.strerror}", FAILED
            ) from why
        _posixshmem.shm_unlink(name)
        return fd


def _reserve(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        os.ftruncate(fd, size)


def _too_little(need: str, size: int, why: OSError) -> str:
    need = f"{need} {size >> 20} MiB of shared memory"
    if why.errno != errno.ENOSPC:
        return f"{need}: {why.strerror}"
    room = ""
    with contextlib.suppress(OSError):
        disk = os.statvfs("/dev/shm")
        total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        room = f" and /dev/shm has {free >> 20} MiB free of {total >> 20} MiB"
    return f"{need}{room}; run fewer ranks or enlarge it (in a container: --shm-size)"
