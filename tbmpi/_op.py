# SPDX-License-Identifier: MIT
"""MPI.Op: the operations of reductions, predefined or in Python.

A Python operation is called by one of a fixed number of C functions (MPI gives
its callback no room for a reference), so that many can exist at a time.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable
from typing import Any, Self

from tbmpi import _fast, buffers
from tbmpi._abi import lib as _module
from tbmpi._datatype import Datatype
from tbmpi._exception import reported
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle, name_of, predefined
from tbmpi._memory import at, buffer, numeric

Function = Callable[[Any, Any, Datatype | None], Any]

_slots: list[Function | None] = [None] * _module.TB_OP_SLOTS
_slot_of: dict[int, int] = {}  # op handle -> slot
_slots_lock = threading.Lock()


class Op(Handle):
    """An operation; call it with two Python objects to combine them."""

    __slots__ = ("_function",)
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Op"
    _null = lib.MPI_OP_NULL

    _function: Function | None  # what Create got

    def __new__(cls, op: Op | None = None) -> Self:
        """A null operation, or another name for `op`."""
        self = super().__new__(cls, op)
        self._function = None if op is None else op._function
        return self

    def __call__(self, x: Any, y: Any, /) -> Any:
        """Combines two objects as the lowercase reductions do."""
        if self._function is not None:
            return self._function(x, y, None)
        function = ON_OBJECTS.get(name_of(self))
        if function is None:
            raise ValueError(
                f"{self!r} does not work on Python objects; pass a function"
            )
        return function(x, y)

    def __reduce__(self) -> Any:
        if self._function is None:
            return super().__reduce__()
        return type(self).Create, (self._function, self.Is_commutative())

    @classmethod
    def Create(cls, function: Function, commute: bool = False) -> Self:
        """An operation from ``function(inbuf, inoutbuf, datatype)``.

        It gets two MPI.buffer of bytes and leaves ``inbuf op inoutbuf``, element
        by element, in the second. In the lowercase reductions it gets two objects
        and None, and returns the result. An exception in it ends the job.
        RuntimeError if too many operations exist.
        """
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"an operation is made from a function, not {kind}")
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
        op._function = function
        _slot_of[op.handle] = slot
        return op

    def Free(self) -> None:
        """Frees an operation made by Create; no reduction may be under way."""
        handle = self.handle
        self._free_with(lib.MPI_Op_free)
        self._function = None
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


Op._family = (Op,)
_fast.tell("Op", Op)


@ffi.def_extern()
def tb_op_call(slot: int, inbuf: Any, inoutbuf: Any, count: Any, datatype: Any) -> None:
    """What the C function of a slot calls."""
    try:
        function = _slots[slot]
        if function is None:
            raise RuntimeError("an operation is used that was freed")
        kind = predefined(Datatype, datatype[0]) or Datatype._of(datatype[0])
        low, extent = kind.Get_extent()
        size = count[0] * extent
        views = (
            buffer._over(at(numeric(where) + low, size)) for where in (inbuf, inoutbuf)
        )
        function(*views, kind)
    except BaseException as error:
        from tbmpi import _life

        sys.stderr.write("an operation in Python failed, and with it the reduction:\n")
        reported(error)
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
        return y if y[1] < x[1] else x

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
