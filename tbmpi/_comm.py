# SPDX-License-Identifier: MIT
"""MPI.Comm: groups of ranks that exchange messages.

What ranks do with a communicator is in files of their own, by kind of message:
_comm_p2p, _comm_coll and _comm_started, _comm_objects and _comm_reduce. This one
has the communicator itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from tbmpi import _context, _fast, _life
from tbmpi._attached import Attaching
from tbmpi._attributes import Attributes
from tbmpi._comm_p2p import PointToPoint
from tbmpi._comm_reduce import ObjectReductions
from tbmpi._comm_started import StartedCollectives
from tbmpi._errhandler import WithErrhandler
from tbmpi._ffi import check, ffi, lib, quick, text
from tbmpi._group import Group
from tbmpi._handle import Handle, hints, predefined
from tbmpi._info import Info
from tbmpi._memory import memory
from tbmpi._request import Request

if TYPE_CHECKING:
    from tbmpi._intercomm import Intercomm

_OWN_ATTRIBUTES = (
    lib.MPI_TAG_UB,
    lib.MPI_IO,
    lib.MPI_HOST,
    lib.MPI_WTIME_IS_GLOBAL,
    lib.MPI_APPNUM,
    lib.MPI_LASTUSEDCODE,
    lib.MPI_UNIVERSE_SIZE,
)


class Comm(
    _fast.Communicator,
    PointToPoint,
    StartedCollectives,
    ObjectReductions,
    Attaching,
    Attributes,
    WithErrhandler,
    Handle,
):
    """A communicator. Calls that make one are collective over the old one."""

    __slots__ = ("_context",)
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Comm"
    _null = lib.MPI_COMM_NULL
    _own = dict.fromkeys(_OWN_ATTRIBUTES, "int *")

    # Ranks to send to, ranks to receive from, whether an intercommunicator;
    # and the own rank. A communicator never changes, so they are asked once.
    _known: tuple[int, int, bool, int] | None
    _context: _context.Context | None

    def __new__(cls, comm: Comm | None = None) -> Self:
        """A null communicator, or another name for `comm`.

        TypeError if that is not of this kind.
        """
        self = super().__new__(cls, comm)
        self._known = self._context = None
        if comm is not None and self and not self._is_of_kind():
            raise TypeError(f"{comm!r} is not of the kind {cls.__name__}")
        return self

    def _is_of_kind(self) -> bool:
        return True

    @classmethod
    def fromhandle(cls, handle: int) -> Any:
        """The object of a C handle that is given as an int, unchecked.

        Its class is that of its kind, whichever class is asked.
        """
        found = ffi.cast("MPI_Comm", handle)
        constant = predefined(Comm, found)
        if constant is not None:
            return constant
        comm = Comm._of(found)
        return comm._best()._of(found)

    def _best(self) -> type[Comm]:
        """The class for communicators of this kind."""
        from tbmpi import _topo

        kinds = {
            lib.MPI_CART: _topo.Cartcomm,
            lib.MPI_GRAPH: _topo.Graphcomm,
            lib.MPI_DIST_GRAPH: _topo.Distgraphcomm,
        }
        plain = self._plain()
        return plain if self.Is_inter() else kinds.get(self.Get_topology(), plain)

    # ------------------------------------------------------------- inquiries

    @quick
    def Get_rank(self) -> int:
        """This process's rank, 0 to size - 1."""
        known = self._known or self._ask()
        return known[3]

    @quick
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
        if info is not None:
            return self.Idup_with_info(info)
        return self._starting(lib.MPI_Comm_idup)

    def Idup_with_info(self, info: Info) -> tuple[Self, Request]:
        """As Idup, with hints."""
        return self._starting(lib.MPI_Comm_idup_with_info, info._h)

    def _starting(self, function: Any, *args: Any) -> tuple[Self, Request]:
        place = ffi.new("MPI_Comm *")
        request = Request._started(place)
        check(function(self._h, *args, place, request._p))
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
        split = lib.MPI_Comm_split_type
        return self._made(self._plain(), split, split_type, key, hints(info))

    @classmethod
    def Get_parent(cls) -> Intercomm:
        """The communicator to those that spawned this program, null if none did."""
        from tbmpi._intercomm import Intercomm

        out = ffi.new("MPI_Comm *")
        check(lib.MPI_Comm_get_parent(out))
        return Intercomm._of(out[0])

    @classmethod
    def Join(cls, fd: int) -> Intercomm:
        """A communicator of two processes that a socket joins."""
        from tbmpi._intercomm import Intercomm

        out = ffi.new("MPI_Comm *")
        check(lib.MPI_Comm_join(fd, out))
        return Intercomm._of(out[0])

    def Free(self) -> None:
        """Frees the communicator, on all ranks; it becomes MPI.COMM_NULL."""
        self._free_with(lib.MPI_Comm_free)
        self._forget()

    def Disconnect(self) -> None:
        """Waits for all messages and frees the communicator."""
        self._free_with(lib.MPI_Comm_disconnect)
        self._forget()

    def _forget(self) -> None:
        if not self:
            self._known = self._context = None

    # -------------------------------------------------------- errors and hints

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """Ends the whole job with that exit code (1 for 0); does not return."""
        _life.abort(errorcode)

    def Get_info(self) -> Info:
        """The hints in use; free it after use."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Comm_get_info(self._h, out))
        return Info._of(out[0])

    def Set_info(self, info: Info) -> None:
        """Gives hints."""
        check(lib.MPI_Comm_set_info(self._h, info._h))

    # ------------------------------------------------------ failed processes

    def Revoke(self) -> None:
        """Not there: when a process fails, the job ends. NotImplementedError."""
        raise NotImplementedError("MPI_Comm_revoke is not in the standard ABI")

    def Is_revoked(self) -> bool:
        """False, since a communicator cannot be revoked."""
        return False

    def Get_failed(self) -> Group:
        """An empty group, since the job ends when a process fails."""
        return Group._of(lib.MPI_GROUP_EMPTY).Dup()

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """The number of processes known to have failed, which is 0."""
        return 0

    def Agree(self, flag: int) -> int:
        """The bitwise and of all ranks' flags, on an intercommunicator of both
        groups'. Collective."""
        place = ffi.new("int *", flag)
        request = self._agree(place)
        request.Wait()
        return place[0]

    def Iagree(self, flag: Any) -> Request:
        """Starts Agree, in place on a buffer of one C int.

        The first call for a communicator blocks until all ranks have called it.
        """
        address = memory(flag, writable=True)
        if len(address) != ffi.sizeof("int"):
            raise ValueError(f"expected a buffer of one int, got {len(address)} bytes")
        return self._agree(address)

    def _agree(self, place: Any) -> Request:
        comm, request = _context.of(self).united(self), Request._started(place)
        arguments = (lib.MPI_IN_PLACE, place, 1, lib.MPI_INT, lib.MPI_BAND)
        check(lib.MPI_Iallreduce_c(*arguments, comm._h, request._p))
        return request

    def Shrink(self) -> Any:
        """A communicator of the processes that have not failed, which is all."""
        return self._made(self._plain(), lib.MPI_Comm_dup)

    def Ishrink(self) -> tuple[Any, Request]:
        """Starts Shrink; the communicator is valid when the request is complete."""
        comm, request = self._starting(lib.MPI_Comm_idup)
        return self._plain()._of(comm._h), request

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


Comm._family = (Comm,)
