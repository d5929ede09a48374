# SPDX-License-Identifier: MIT
"""MPI.Comm: groups of ranks that exchange messages.

What ranks do with a communicator is in three files, by kind of message:
_comm_p2p, _comm_coll and _comm_objects. This one has the communicator itself.
"""

from __future__ import annotations

from typing import Any, Self

from tbmpi import _life
from tbmpi._comm_coll import Collectives
from tbmpi._comm_objects import Objects
from tbmpi._comm_p2p import PointToPoint
from tbmpi._errhandler import Errhandler
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._group import Group
from tbmpi._handle import Handle
from tbmpi._info import Info
from tbmpi._request import Request

ATTRIBUTES_OF_INT = (
    lib.MPI_TAG_UB,
    lib.MPI_IO,
    lib.MPI_HOST,
    lib.MPI_WTIME_IS_GLOBAL,
    lib.MPI_APPNUM,
    lib.MPI_LASTUSEDCODE,
    lib.MPI_UNIVERSE_SIZE,
)


class Comm(PointToPoint, Collectives, Objects, Handle):
    """A communicator. Calls that make one are collective over the old one."""

    __slots__ = ("_known",)
    _ctype = "MPI_Comm"
    _null = lib.MPI_COMM_NULL

    # Ranks to send to, ranks to receive from, whether an intercommunicator;
    # and the own rank. A communicator never changes, so they are asked once.
    _known: tuple[int, int, bool, int] | None

    def __new__(cls, comm: Comm | None = None) -> Self:
        """A null communicator, or another name for `comm`."""
        self = super().__new__(cls, comm)
        self._known = None
        return self

    # ------------------------------------------------------------- inquiries

    def Get_rank(self) -> int:
        """This process's rank, 0 to size - 1."""
        known = self._known or self._ask()
        return known[3]

    def Get_size(self) -> int:
        """Number of ranks, of the local group for an intercommunicator."""
        known = self._known or self._ask()
        return known[0]

    def Is_inter(self) -> bool:
        """Whether it joins two groups (an intercommunicator)."""
        return (self._known or self._ask())[2]

    def Is_intra(self) -> bool:
        """Whether it has one group."""
        return not self.Is_inter()

    def _ask(self) -> tuple[int, int, bool, int]:
        out = ffi.new("int[4]")
        check(lib.MPI_Comm_size(self._h, out))
        check(lib.MPI_Comm_test_inter(self._h, out + 1))
        check(lib.MPI_Comm_rank(self._h, out + 2))
        if out[1]:
            check(lib.MPI_Comm_remote_size(self._h, out + 3))
        others = out[3] if out[1] else out[0]
        self._known = (out[0], others, bool(out[1]), out[2])
        return self._known

    def _sizes(self) -> tuple[int, int, bool]:
        return (self._known or self._ask())[:3]

    def Get_group(self) -> Group:
        """The (local) group; free it after use."""
        out = ffi.new("MPI_Group *")
        check(lib.MPI_Comm_group(self._h, out))
        return Group._of(out[0])

    def Compare(self, comm: Comm) -> int:
        """MPI.IDENT, CONGRUENT (same ranks), SIMILAR (other order) or UNEQUAL."""
        out = ffi.new("int *")
        check(lib.MPI_Comm_compare(self._h, comm._h, out))
        return out[0]

    def Get_topology(self) -> int:
        """MPI.CART, MPI.GRAPH, MPI.DIST_GRAPH or MPI.UNDEFINED."""
        out = ffi.new("int *")
        check(lib.MPI_Topo_test(self._h, out))
        return out[0]

    def Get_name(self) -> str:
        """The name, for messages and debuggers."""
        out = ffi.new("char[]", lib.MPI_MAX_OBJECT_NAME + 1)
        length = ffi.new("int *")
        check(lib.MPI_Comm_get_name(self._h, out, length))
        return text(out, length[0])

    def Set_name(self, name: str) -> None:
        """Names the communicator."""
        check(lib.MPI_Comm_set_name(self._h, name.encode()))

    def Get_attr(self, keyval: int) -> int | None:
        """A predefined attribute, such as MPI.TAG_UB; None if it is not set."""
        value, flag = ffi.new("void **"), ffi.new("int *")
        check(lib.MPI_Comm_get_attr(self._h, keyval, value, flag))
        if not flag[0]:
            return None
        if keyval in ATTRIBUTES_OF_INT:
            return ffi.cast("int *", value[0])[0]
        return int(ffi.cast("intptr_t", value[0]))

    # ---------------------------------------------------------------- making

    def _made(self, kind: type[Any], function: Any, *args: Any) -> Any:
        out = ffi.new("MPI_Comm *")
        check(function(self._h, *args, out))
        return kind._of(out[0])

    def _plain(self) -> type[Comm]:
        """The class of communicators that are made from this one."""
        from tbmpi._intercomm import Intercomm
        from tbmpi._intracomm import Intracomm

        return Intercomm if self.Is_inter() else Intracomm

    def Dup(self, info: Info | None = None) -> Self:
        """A communicator of the same ranks whose messages are kept apart."""
        if info is not None:
            return self.Dup_with_info(info)
        return self._made(type(self), lib.MPI_Comm_dup)

    Clone = Dup

    def Dup_with_info(self, info: Info) -> Self:
        """As Dup, with hints."""
        return self._made(type(self), lib.MPI_Comm_dup_with_info, info._h)

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        """Starts Dup; the communicator is valid when the request is complete."""
        place = ffi.new("MPI_Comm *")
        request = Request._started(place)
        if info is None:
            check(lib.MPI_Comm_idup(self._h, place, request._p))
        else:
            check(lib.MPI_Comm_idup_with_info(self._h, info._h, place, request._p))
        return type(self)._of(place[0]), request

    def Create(self, group: Group) -> Any:
        """A communicator of `group`; MPI.COMM_NULL for ranks outside it."""
        return self._made(self._plain(), lib.MPI_Comm_create, group._h)

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """One communicator for each color, its ranks in the order of `key`.

        MPI.UNDEFINED as color gives MPI.COMM_NULL.
        """
        return self._made(self._plain(), lib.MPI_Comm_split, color, key)

    def Split_type(
        self, split_type: int, key: int = 0, info: Info | None = None
    ) -> Any:
        """As Split, by what ranks share: MPI.COMM_TYPE_SHARED is the machine."""
        hints = lib.MPI_INFO_NULL if info is None else info._h
        return self._made(
            self._plain(), lib.MPI_Comm_split_type, split_type, key, hints
        )

    def Free(self) -> None:
        """Frees the communicator, on all ranks; it becomes MPI.COMM_NULL."""
        self._free_with(lib.MPI_Comm_free)
        self._known = None

    def Disconnect(self) -> None:
        """Waits for all messages and frees the communicator."""
        self._free_with(lib.MPI_Comm_disconnect)
        self._known = None

    # -------------------------------------------------------- errors and hints

    def Abort(self, errorcode: int = 0) -> None:
        """Ends the whole job with that exit code (1 for 0); does not return."""
        _life.abort(errorcode)

    def Get_errhandler(self) -> Errhandler:
        """The error handler."""
        out = ffi.new("MPI_Errhandler *")
        check(lib.MPI_Comm_get_errhandler(self._h, out))
        return Errhandler._of(out[0])

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Changes what errors do: MPI.ERRORS_RETURN makes them exceptions."""
        check(lib.MPI_Comm_set_errhandler(self._h, errhandler._h))

    def Call_errhandler(self, errorcode: int) -> None:
        """Does what an error with that code would do."""
        check(lib.MPI_Comm_call_errhandler(self._h, errorcode))

    def Get_info(self) -> Info:
        """The hints in use; free it after use."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Comm_get_info(self._h, out))
        return Info._of(out[0])

    def Set_info(self, info: Info) -> None:
        """Gives hints."""
        check(lib.MPI_Comm_set_info(self._h, info._h))

    rank = property(Get_rank, doc="This process's rank.")
    size = property(Get_size, doc="Number of ranks.")
    group = property(Get_group, doc="The group; free it after use.")
    name = property(Get_name, Set_name, doc="The name.")
    info = property(Get_info, Set_info, doc="The hints in use.")
    is_inter = property(Is_inter, doc="Whether it is an intercommunicator.")
    is_intra = property(Is_intra, doc="Whether it is not an intercommunicator.")
    topology = property(Get_topology, doc="See Get_topology.")

    @property
    def is_topo(self) -> bool:
        """Whether the ranks are arranged in a topology."""
        return self.Get_topology() != lib.MPI_UNDEFINED


Comm._family = Comm
