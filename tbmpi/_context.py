# SPDX-License-Identifier: MIT
"""What tbmpi itself keeps for a communicator, as an attribute of it.

Methods on objects that take several messages need room for them apart from the
user's: a duplicate of the communicator with tags of its own. It is made when it
is first needed, by a call that all ranks make, and freed with the communicator.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING, Any

from tbmpi._ffi import check, ffi, lib

if TYPE_CHECKING:
    from tbmpi._comm import Comm
    from tbmpi._intercomm import Intercomm
    from tbmpi._intracomm import Intracomm

_PACKET_BYTES = 1024
_MAKING = threading.Lock()


class Packet:
    """The length of a message and, if it is short, the message."""

    __slots__ = ("_length", "address")
    size = _PACKET_BYTES

    def __init__(self) -> None:
        self.address = ffi.new("char[]", self.size)
        self._length = ffi.cast("int64_t *", self.address)

    def write(self, data: Any) -> None:
        """Puts in bytes, or the parts of a message."""
        self._length[0] = len(data)
        if self.is_whole():
            whole = data if data.__class__ is bytes else b"".join(data.pieces)
            ffi.memmove(self.address + 8, whole, len(whole))

    def length(self) -> int:
        """Number of bytes of the message."""
        return self._length[0]

    def is_whole(self) -> bool:
        """Whether the message is in the packet."""
        return self._length[0] <= self.size - 8

    def bytes(self) -> bytes:
        """The message."""
        return ffi.buffer(self.address + 8, self._length[0])[:]


class Context:
    """What belongs to one communicator."""

    def __init__(self) -> None:
        self.locks: dict[Hashable, threading.Lock] = {}
        self._packets: list[Packet] = []
        self._duplicate: Any = None
        self._united: Any = None
        self._local: tuple[Intracomm, bool] | None = None
        self._tag = 0

    def lock(self, key: Hashable) -> threading.Lock:
        """The lock of that name."""
        with _MAKING:
            return self.locks.setdefault(key, threading.Lock())

    def take_packet(self) -> Packet:
        """A packet for one broadcast, to be given back after it."""
        with self.lock("bcast"):
            return self._packets.pop() if self._packets else Packet()

    def give_back(self, packet: Packet) -> None:
        """The packet may be used again."""
        self._packets.append(packet)

    def duplicate(self, comm: Comm) -> tuple[Any, int]:
        """A duplicate of the communicator, and a tag to use there. Collective."""
        if self._duplicate is None:
            out = ffi.new("MPI_Comm *")
            check(lib.MPI_Comm_dup(comm._h, out))
            self._duplicate = comm._plain()._of(out[0])
        self._tag = self._tag + 1 if self._tag < _largest_tag() else 0
        return self._duplicate, self._tag

    def united(self, comm: Comm) -> Any:
        """An intracommunicator of all ranks, both groups'. Collective at first."""
        if not comm.Is_inter():
            return self.duplicate(comm)[0]
        if self._united is None:
            self._united = comm.Merge()  # type: ignore[attr-defined]
        return self._united

    def local(self, comm: Intercomm) -> tuple[Intracomm, bool]:
        """An intercommunicator's own group, and whether it is the lower one.

        Collective.
        """
        if self._local is None:
            group, all_ranks = comm.Get_group(), self.united(comm)
            united = all_ranks.Get_group()
            lower = united.Translate_ranks([0], group)[0] != lib.MPI_UNDEFINED
            self._local = all_ranks.Create_group(group), lower
            united.Free()
            group.Free()
        return self._local

    def free(self) -> None:
        """Frees what was made, with the communicator. Collective."""
        local = self._local and self._local[0]
        for comm in (self._duplicate, self._united, local):
            if comm is not None:
                comm.Free()
        self._duplicate = self._united = self._local = None


@cache
def _largest_tag() -> int:
    from tbmpi._comm import Comm

    return Comm._of(lib.MPI_COMM_WORLD).Get_attr(lib.MPI_TAG_UB)


@cache
def _key() -> int:
    from tbmpi._comm import Comm

    return Comm.Create_keyval(delete_fn=_dropped)


def _dropped(_comm: Comm, _keyval: int, context: Context) -> None:
    context.free()


def of(comm: Comm) -> Context:
    """The communicator's context, made if there is none."""
    context = comm._context
    if context is None:
        with _MAKING:
            context = comm.Get_attr(_key())
            if context is None:
                context = Context()
                comm.Set_attr(_key(), context)
        comm._context = context
    return context


# ----------------------------------- under the names that mpi4py's modules import


def _comm_lock(comm: Comm, key: Hashable | None = None) -> threading.Lock:
    """A lock that belongs to a communicator, made at first."""
    return of(comm).lock(key)


def _comm_lock_table(comm: Comm) -> dict[Hashable, threading.Lock]:
    """The locks of a communicator by their names."""
    return of(comm).locks


def _commctx_intra(comm: Intracomm) -> tuple[Intracomm, int]:
    """A duplicate for messages of a library's own, and a tag. Collective at first."""
    return of(comm).duplicate(comm)


def _commctx_inter(comm: Intercomm) -> tuple[Intercomm, int, Intracomm, bool]:
    """A duplicate, a tag, the local group's communicator, whether it is the lower.

    Collective at first.
    """
    context = of(comm)
    return *context.duplicate(comm), *context.local(comm)
