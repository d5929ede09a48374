# SPDX-License-Identifier: MIT
"""MPI.Op: the operations of reductions, predefined or in Python.

A Python operation is called by one of a fixed number of C functions (MPI gives
its callback no room for a reference), so that many can exist at a time.
"""

from __future__ import annotations

import operator
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Self

from tbmpi import buffers
from tbmpi._abi import lib as _module
from tbmpi._datatype import Datatype
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle, name_of

Function = Callable[[Any, Any, Datatype | None], Any]

_slots: list[Function | None] = [None] * _module.TB_OP_SLOTS
_slot_of: dict[int, int] = {}  # op handle -> slot
_slots_lock = threading.Lock()


class Op(Handle):
    """An operation; call it with two Python objects to combine them."""

    __slots__ = ()
    _ctype = "MPI_Op"
    _null = lib.MPI_OP_NULL

    def __call__(self, x: Any, y: Any, /) -> Any:
        """Combines two objects as the lowercase reductions do."""
        function = ON_OBJECTS.get(name_of(self))
        if function is not None:
            return function(x, y)
        slot = _slot_of.get(self.handle)
        made = _slots[slot] if slot is not None else None
        if made is not None:
            return made(x, y, None)
        raise ValueError(f"{self!r} does not work on Python objects; pass a function")

    @classmethod
    def Create(cls, function: Function, commute: bool = False) -> Self:
        """An operation from ``function(inbuf, inoutbuf, datatype)``.

        It gets two memoryviews of bytes and leaves ``inbuf op inoutbuf``, element
        by element, in the second. An exception in it ends the job.
        RuntimeError if too many operations exist.
        """
        with _slots_lock:
            if None not in _slots:
                raise RuntimeError(
                    f"{len(_slots)} operations in Python exist, no more fit; Free one"
                )
            slot = _slots.index(None)
            _slots[slot] = function
        out = ffi.new("MPI_Op *")
        try:
            check(lib.MPI_Op_create_c(_module.tb_op_slot(slot), bool(commute), out))
        except BaseException:
            _slots[slot] = None
            raise
        op = cls._of(out[0])
        _slot_of[op.handle] = slot
        return op

    def Free(self) -> None:
        """Frees an operation made by Create."""
        handle = self.handle
        self._free_with(lib.MPI_Op_free)
        slot = _slot_of.pop(handle, None)
        if slot is not None:
            _slots[slot] = None

    def Is_commutative(self) -> bool:
        """Whether the order of the operands does not matter."""
        out = ffi.new("int *")
        check(lib.MPI_Op_commutative(self._h, out))
        return bool(out[0])

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """``inoutbuf = inbuf op inoutbuf``, element by element, without messages."""
        source, count, datatype = buffers.block(inbuf, writable=False)
        target, room, kind = buffers.block(inoutbuf, writable=True)
        if (count, datatype) != (room, kind):
            raise ValueError(
                f"the buffers differ: {count} and {room} elements, or their types"
            )
        check(lib.MPI_Reduce_local_c(source, target, count, datatype, self._h))

    @property
    def is_commutative(self) -> bool:
        """Whether the order of the operands does not matter."""
        return self.Is_commutative()

    @property
    def is_predefined(self) -> bool:
        """Whether the operation must not be freed: predefined, or null."""
        return not self or bool(name_of(self))


Op._family = Op


@ffi.def_extern()
def tb_op_call(slot: int, inbuf: Any, inoutbuf: Any, count: Any, datatype: Any) -> None:
    """What the C function of a slot calls."""
    try:
        function = _slots[slot]
        if function is None:
            raise RuntimeError("an operation is used that was freed")
        kind = Datatype._of(datatype[0])
        low, extent = kind.Get_extent()
        size = count[0] * extent
        views = (
            memoryview(ffi.buffer(ffi.cast("char *", where) + low, size))
            for where in (inbuf, inoutbuf)
        )
        function(*views, kind)
    except BaseException:
        from tbmpi import _life

        sys.stderr.write("an operation in Python failed, and with it the reduction:\n")
        traceback.print_exc()
        _life.abort(_life.ABORTED_BY_EXCEPTION)


def _larger(x: Any, y: Any) -> Any:
    return y if y > x else x


def _smaller(x: Any, y: Any) -> Any:
    return y if y < x else x


def _located(better: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """MAXLOC or MINLOC on (value, place): of equal values, the smaller place."""

    def choose(x: Any, y: Any) -> Any:
        if better(x[0], y[0]):
            return x
        if better(y[0], x[0]):
            return y
        return (x[0], _smaller(x[1], y[1]))

    return choose


ON_OBJECTS: dict[str, Callable[[Any, Any], Any]] = {
    "MAX": _larger,
    "MIN": _smaller,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": lambda x, y: bool(x) and bool(y),
    "LOR": lambda x, y: bool(x) or bool(y),
    "LXOR": lambda x, y: bool(x) is not bool(y),
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
    "MAXLOC": _located(operator.gt),
    "MINLOC": _located(operator.lt),
    "REPLACE": lambda x, y: y,
    "NO_OP": lambda x, y: x,
}
