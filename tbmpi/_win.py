# SPDX-License-Identifier: MIT
"""MPI.Win: memory that other ranks read and write (one-sided communication)."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from tbmpi import _life, buffers
from tbmpi._attributes import Attributes
from tbmpi._datatype import Datatype
from tbmpi._errhandler import WithErrhandler
from tbmpi._fast import Exporter
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._group import Group
from tbmpi._handle import Handle, hints
from tbmpi._info import Info
from tbmpi._memory import BottomType, at, buffer, memory, numeric
from tbmpi._op import Op
from tbmpi._request import Request
from tbmpi._typecodes import as_datatype

if TYPE_CHECKING:
    from tbmpi._intracomm import Intracomm

# Where in the target's window: displacement, (displacement, count) or
# (displacement, count, datatype); None is the beginning.
Target = Any
SUM = Op._of(lib.MPI_SUM)
PROC_NULL = lib.MPI_PROC_NULL


class _Held:
    """What a window must keep alive, shared by all objects of one window."""

    __slots__ = ("attached", "memory", "pending")

    def __init__(self, window: Any = None) -> None:
        self.memory = window
        self.attached: dict[int, Any] = {}
        # Memory of operations under way, by target rank.
        self.pending: dict[int, list[Any]] = {}


class Win(Exporter, Attributes, WithErrhandler, Handle):
    """A window: a piece of memory of each rank that the others can access.

    Put, Get and the like begin to move data between an origin buffer here and a
    target rank's window; they are complete after the synchronization that ends
    the epoch (Fence, Unlock, Complete) or a flush. `target` says where in the
    window: None, a displacement, (displacement, count) or (displacement, count,
    datatype), in units of the target's `disp_unit`. Errors raise MPI.Exception.
    """

    __slots__ = ("_held",)
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Win"
    _null = lib.MPI_WIN_NULL
    _own: ClassVar[dict[int, str]] = {
        lib.MPI_WIN_BASE: "intptr_t",
        lib.MPI_WIN_SIZE: "MPI_Aint *",
        lib.MPI_WIN_DISP_UNIT: "int *",
        lib.MPI_WIN_CREATE_FLAVOR: "int *",
        lib.MPI_WIN_MODEL: "int *",
    }

    _held: _Held

    def __new__(cls, win: Win | None = None) -> Self:
        """A null window, or another name for `win`."""
        self = Handle.__new__(cls, win)
        self._held = _Held() if win is None else win._held
        return self

    # -------------------------------------------------------------- making

    @classmethod
    def Create(
        cls,
        memory: Any,
        disp_unit: int = 1,
        info: Info | None = None,
        comm: Intracomm | None = None,
    ) -> Self:
        """A window of `memory`, a writable buffer; None or MPI.BOTTOM is no bytes.

        Collective over `comm` (MPI.COMM_SELF if None). Displacements count units
        of `disp_unit` bytes.
        """
        address: Any = lib.MPI_BOTTOM
        size = 0
        if memory is not None and memory.__class__ is not BottomType:
            address = _memory(memory)
            size = len(address)
        window = (address, size, disp_unit)
        win = cls._made(lib.MPI_Win_create_c, *window, hints(info), _over(comm))
        win._held.memory = address
        return win

    @classmethod
    def Allocate(
        cls,
        size: int,
        disp_unit: int = 1,
        info: Info | None = None,
        comm: Intracomm | None = None,
    ) -> Self:
        """A window of `size` bytes of new memory, which Free gives back.

        Collective; the size may differ between ranks. See tomemory().
        """
        base = ffi.new("void **")
        window = (size, disp_unit, hints(info), _over(comm), base)
        return cls._made(lib.MPI_Win_allocate_c, *window)

    @classmethod
    def Allocate_shared(
        cls,
        size: int,
        disp_unit: int = 1,
        info: Info | None = None,
        comm: Intracomm | None = None,
    ) -> Self:
        """As Allocate, in memory that all ranks of `comm` share: see Shared_query.

        The ranks must be on one machine; Split_type(MPI.COMM_TYPE_SHARED).
        """
        base = ffi.new("void **")
        window = (size, disp_unit, hints(info), _over(comm), base)
        return cls._made(lib.MPI_Win_allocate_shared_c, *window)

    @classmethod
    def Create_dynamic(
        cls, info: Info | None = None, comm: Intracomm | None = None
    ) -> Self:
        """A window without memory; Attach adds some. Targets are addresses then."""
        return cls._made(lib.MPI_Win_create_dynamic, hints(info), _over(comm))

    @classmethod
    def _made(cls, function: Any, *args: Any) -> Self:
        out = ffi.new("MPI_Win *")
        check(function(*args, out))
        win = cls._of(out[0])
        _life.set_errhandler(lib.MPI_Win_set_errhandler, win._h)
        return win

    def Attach(self, memory: Any) -> None:
        """Adds a writable buffer to a window of Create_dynamic."""
        address = _memory(memory)
        check(lib.MPI_Win_attach(self._h, address, len(address)))
        self._held.attached[numeric(address)] = address

    def Detach(self, memory: Any) -> None:
        """Removes memory that Attach added. No access to it may be under way."""
        address = _memory(memory)
        check(lib.MPI_Win_detach(self._h, address))
        self._held.attached.pop(numeric(address), None)

    def Free(self) -> None:
        """Frees the window, on all ranks. No view of its memory may be in use."""
        self._free_with(lib.MPI_Win_free)
        self._held = _Held()

    # ----------------------------------------------------------- inquiries

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """A rank's part of a shared window: its memory here and its disp_unit.

        MPI.PROC_NULL is the first rank with memory.
        """
        size, unit = ffi.new("MPI_Aint *"), ffi.new("MPI_Aint *")
        base = ffi.new("void **")
        check(lib.MPI_Win_shared_query_c(self._h, rank, size, unit, base))
        return self._buffer(numeric(base[0]), size[0]), unit[0]

    def tomemory(self) -> buffer:
        """This rank's memory of the window."""
        base, size, _ = self.attrs
        return self._buffer(base, size)

    def _buffer(self, address: int, size: int) -> buffer:
        return buffer._over(at(address, size, self._held.memory), self)

    def _exported(self) -> Any:
        base, size, _ = self.attrs
        return memoryview(ffi.buffer(at(base, size, self)))

    def Get_group(self) -> Group:
        """The ranks of the window; free it after use."""
        out = ffi.new("MPI_Group *")
        check(lib.MPI_Win_get_group(self._h, out))
        return Group._of(out[0])

    def Get_info(self) -> Info:
        """The hints in use; free it after use."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Win_get_info(self._h, out))
        return Info._of(out[0])

    def Set_info(self, info: Info) -> None:
        """Gives hints. Collective."""
        check(lib.MPI_Win_set_info(self._h, info._h))

    def Get_name(self) -> str:
        """The name, for messages and debuggers."""
        out = ffi.new("char[]", lib.MPI_MAX_OBJECT_NAME + 1)
        length = ffi.new("int *")
        check(lib.MPI_Win_get_name(self._h, out, length))
        return text(out, length[0])

    def Set_name(self, name: str) -> None:
        """Names the window."""
        check(lib.MPI_Win_set_name(self._h, name.encode()))

    group = property(Get_group, doc="The ranks of the window; free it after use.")
    info = property(Get_info, Set_info, doc="The hints in use.")
    name = property(Get_name, Set_name, doc="The name.")

    @property
    def group_size(self) -> int:
        """Number of ranks."""
        return self._of_group(Group.Get_size)

    @property
    def group_rank(self) -> int:
        """This process's rank."""
        return self._of_group(Group.Get_rank)

    def _of_group(self, ask: Any) -> int:
        group = self.Get_group()
        try:
            return ask(group)
        finally:
            group.Free()

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Address and size in bytes of this rank's memory, and its disp_unit."""
        return (
            self.Get_attr(lib.MPI_WIN_BASE) or 0,
            self.Get_attr(lib.MPI_WIN_SIZE) or 0,
            self.Get_attr(lib.MPI_WIN_DISP_UNIT) or 1,
        )

    @property
    def flavor(self) -> int:
        """How it was made: an MPI.WIN_FLAVOR_ constant."""
        return self.Get_attr(lib.MPI_WIN_CREATE_FLAVOR)

    @property
    def model(self) -> int:
        """MPI.WIN_UNIFIED or MPI.WIN_SEPARATE."""
        return self.Get_attr(lib.MPI_WIN_MODEL)

    # -------------------------------------------------------- communication

    def Put(self, origin: Any, target_rank: int, target: Target = None) -> None:
        """Writes `origin` to the target."""
        place = _Place(origin, False, target_rank, target)
        self._begin(lib.MPI_Put_c, target_rank, *place.origin, *place.target)

    def Get(self, origin: Any, target_rank: int, target: Target = None) -> None:
        """Reads from the target into `origin`, a writable buffer."""
        place = _Place(origin, True, target_rank, target)
        self._begin(lib.MPI_Get_c, target_rank, *place.origin, *place.target)

    def Accumulate(
        self, origin: Any, target_rank: int, target: Target = None, op: Op = SUM
    ) -> None:
        """Combines `origin` with the target by `op`, element by element, there."""
        place = _Place(origin, False, target_rank, target)
        self._begin(
            lib.MPI_Accumulate_c, target_rank, *place.origin, *place.target, op._h
        )

    def Get_accumulate(
        self,
        origin: Any,
        result: Any,
        target_rank: int,
        target: Target = None,
        op: Op = SUM,
    ) -> None:
        """As Accumulate; `result` gets what was there before. MPI.NO_OP reads."""
        place = _Place(origin, False, target_rank, target)
        before = _block(result, True, target_rank)
        ends = (*place.origin, *before, *place.target)
        self._begin(lib.MPI_Get_accumulate_c, target_rank, *ends, op._h)

    def Fetch_and_op(
        self,
        origin: Any,
        result: Any,
        target_rank: int,
        target_disp: int = 0,
        op: Op = SUM,
    ) -> None:
        """As Get_accumulate for a single element, quicker."""
        ends, kind = _single_elements(target_rank, origin=origin, result=result)
        where = (*ends, kind, target_rank, target_disp)
        self._begin(lib.MPI_Fetch_and_op, target_rank, *where, op._h)

    def Compare_and_swap(
        self,
        origin: Any,
        compare: Any,
        result: Any,
        target_rank: int,
        target_disp: int = 0,
    ) -> None:
        """Writes `origin` if the target equals `compare`: one element of ints.

        `result` gets what was there before.
        """
        ends, kind = _single_elements(
            target_rank, origin=origin, compare=compare, result=result
        )
        where = (*ends, kind, target_rank, target_disp)
        self._begin(lib.MPI_Compare_and_swap, target_rank, *where)

    def Rput(self, origin: Any, target_rank: int, target: Target = None) -> Request:
        """As Put; the request is complete when `origin` may be changed."""
        place = _Place(origin, False, target_rank, target)
        return self._request(lib.MPI_Rput_c, *place.origin, *place.target)

    def Rget(self, origin: Any, target_rank: int, target: Target = None) -> Request:
        """As Get; the request is complete when the data are here."""
        place = _Place(origin, True, target_rank, target)
        return self._request(lib.MPI_Rget_c, *place.origin, *place.target)

    def Raccumulate(
        self, origin: Any, target_rank: int, target: Target = None, op: Op = SUM
    ) -> Request:
        """As Accumulate; the request is complete when `origin` may be changed."""
        place = _Place(origin, False, target_rank, target)
        ends = (*place.origin, *place.target)
        return self._request(lib.MPI_Raccumulate_c, *ends, op._h)

    def Rget_accumulate(
        self,
        origin: Any,
        result: Any,
        target_rank: int,
        target: Target = None,
        op: Op = SUM,
    ) -> Request:
        """As Get_accumulate; the request is complete when `result` is here."""
        place = _Place(origin, False, target_rank, target)
        before = _block(result, True, target_rank)
        ends = (*place.origin, *before, *place.target)
        return self._request(lib.MPI_Rget_accumulate_c, *ends, op._h)

    def _begin(self, function: Any, target_rank: int, *args: Any) -> None:
        check(function(*args, self._h))
        self._held.pending.setdefault(target_rank, []).append(args)

    def _request(self, function: Any, *args: Any) -> Request:
        request = Request._started(args)
        check(function(*args, self._h, request._p))
        return request

    # ------------------------------------------------------ synchronization

    def Fence(self, assertion: int = 0) -> None:
        """Ends an epoch and begins another, on all ranks. Blocks for them."""
        self._complete(lib.MPI_Win_fence, assertion)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begins to access the ranks of `group`, which call Post."""
        check(lib.MPI_Win_start(group._h, assertion, self._h))

    def Complete(self) -> None:
        """Ends what Start began."""
        self._complete(lib.MPI_Win_complete)

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Lets the ranks of `group`, which call Start, access this window."""
        check(lib.MPI_Win_post(group._h, assertion, self._h))

    def Wait(self) -> Literal[True]:
        """Blocks until all that Post let in have called Complete."""
        check(lib.MPI_Win_wait(self._h))
        return True

    def Test(self) -> bool:
        """Whether all that Post let in have called Complete."""
        flag = ffi.new("int *")
        check(lib.MPI_Win_test(self._h, flag))
        return bool(flag[0])

    def Lock(
        self,
        rank: int,
        lock_type: int = lib.MPI_LOCK_EXCLUSIVE,
        assertion: int = 0,
    ) -> None:
        """Begins to access a rank's window, alone or by MPI.LOCK_SHARED."""
        check(lib.MPI_Win_lock(lock_type, rank, assertion, self._h))

    def Unlock(self, rank: int) -> None:
        """Ends what Lock began; all operations are complete."""
        self._complete_one(lib.MPI_Win_unlock, rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begins to access all ranks' windows, shared."""
        check(lib.MPI_Win_lock_all(assertion, self._h))

    def Unlock_all(self) -> None:
        """Ends what Lock_all began; all operations are complete."""
        self._complete(lib.MPI_Win_unlock_all)

    def Flush(self, rank: int) -> None:
        """Completes the operations on a rank's window, here and there."""
        self._complete_one(lib.MPI_Win_flush, rank)

    def Flush_all(self) -> None:
        """Completes all operations, here and at their targets."""
        self._complete(lib.MPI_Win_flush_all)

    def Flush_local(self, rank: int) -> None:
        """Completes the operations on a rank's window here: buffers are free."""
        self._complete_one(lib.MPI_Win_flush_local, rank)

    def Flush_local_all(self) -> None:
        """Completes all operations here: buffers are free."""
        self._complete(lib.MPI_Win_flush_local_all)

    def Sync(self) -> None:
        """Orders accesses to the window's memory by this rank and by others."""
        check(lib.MPI_Win_sync(self._h))

    def _complete(self, function: Any, *args: Any) -> None:
        """A call after which no operation uses a buffer here any more."""
        check(function(*args, self._h))
        self._held.pending.clear()

    def _complete_one(self, function: Any, rank: int) -> None:
        """The same for the operations on one rank's window."""
        check(function(rank, self._h))
        self._held.pending.pop(rank, None)


Win._family = (Win,)


def _memory(thing: Any) -> Any:
    return memory(thing, writable=True)


def _over(comm: Intracomm | None) -> Any:
    return lib.MPI_COMM_SELF if comm is None else comm._h


def _block(message: Any, writable: bool, rank: int) -> buffers.Block:
    if rank != PROC_NULL:
        return buffers.block(message, writable)
    if isinstance(message, list | tuple) and message:
        kind = message[-1]
        if isinstance(kind, Datatype | str):
            return ffi.NULL, 0, as_datatype(kind)._h
    return buffers.NOTHING


class _Place:
    """Both ends of an operation as C takes them: origin, and rank and target."""

    __slots__ = ("origin", "target")

    def __init__(self, origin: Any, writable: bool, rank: int, target: Target) -> None:
        self.origin = _block(origin, writable, rank)
        _, count, kind = self.origin
        place = 0
        if target is None:
            given: Any = ()
        elif isinstance(target, list | tuple):
            given = target
        elif hasattr(target, "__index__"):
            given = (target,)
        else:
            given = None
        if given is None or len(given) > 3:
            raise ValueError(
                f"target: expected an int or up to 3 items, displacement, count and "
                f"datatype, got {target!r}"
            )
        if given:
            place = index(given[0])
        if len(given) > 1:
            count = index(given[1])
        if len(given) > 2:
            kind = as_datatype(given[2])._h
        self.target = (rank, place, count, kind)


def _single_elements(rank: int, **messages: Any) -> tuple[list[Any], Any]:
    """Addresses of messages of one element each, and their datatype."""
    blocks = {
        name: _block(message, name == "result", rank)
        for name, message in messages.items()
    }
    kinds = [kind for _, _, kind in blocks.values()]
    if rank != PROC_NULL:
        for name, (_, count, _) in blocks.items():
            if count != 1:
                raise ValueError(f"{name}: expected a single element, got {count}")
        for name, kind in zip(blocks, kinds, strict=True):
            if kind != kinds[0]:
                raise ValueError(f"origin and {name} have different datatypes")
    return [address for address, _, _ in blocks.values()], kinds[0]
