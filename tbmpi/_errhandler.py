# SPDX-License-Identifier: MIT
"""MPI.Errhandler: what happens when a call fails, and what has one.

A handler in Python is called by one of a fixed number of C functions for each kind
of object, since MPI gives its callback no room for a reference.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from tbmpi._abi import lib as _module
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle

Function = Callable[[Any, int], None]


class Errhandler(Handle):
    """MPI.ERRORS_RETURN raises MPI.Exception; the others end the program."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Errhandler"
    _null = lib.MPI_ERRHANDLER_NULL

    def Free(self) -> None:
        """Frees the handler; what uses it keeps it, if it is predefined.

        One in Python must not be in use any more: its place is given to a later one.
        """
        handle = self.handle
        self._free_with(lib.MPI_Errhandler_free)
        _Slots.release(handle)

    def free(self) -> None:
        """Frees the handler unless it is null or one of the predefined objects."""
        if self and not self._is_constant():
            self.Free()


Errhandler._family = (Errhandler,)


class _Slots:
    """The places for handlers of one kind of object."""

    kinds: ClassVar[list[_Slots]] = []
    _lock = threading.Lock()
    _taken: ClassVar[dict[int, tuple[_Slots, int]]] = {}  # by errhandler's handle

    def __init__(self, kind: str) -> None:
        self.name = kind
        self.function_of = getattr(_module, f"tb_{kind.lower()}_errhandler_slot")
        size = _module.TB_ERRHANDLER_SLOTS
        self.functions: list[Function | None] = [None] * size
        self.classes: list[Any] = [None] * size
        # The one that was freed last is used again last.
        self._free = list(range(size))
        _Slots.kinds.append(self)

    def take(self, function: Function, owner: Any) -> int:
        """A place for a function. RuntimeError if there is none."""
        with self._lock:
            if not self._free:
                raise RuntimeError(
                    f"{len(self.functions)} error handlers in Python exist for "
                    f"MPI.{self.name}, no more fit; Free one"
                )
            slot = self._free.pop(0)
            self.functions[slot], self.classes[slot] = function, owner
            return slot

    def give_back(self, slot: int) -> None:
        """Makes a place free."""
        with self._lock:
            self.functions[slot] = self.classes[slot] = None
            self._free.append(slot)

    def remember(self, handle: int, slot: int) -> None:
        """Says which handler uses the place."""
        self._taken[handle] = (self, slot)

    @classmethod
    def release(cls, handle: int) -> None:
        """Makes the place free that a handler uses, if it is one in Python."""
        kind, slot = cls._taken.pop(handle, (None, 0))
        if kind is not None:
            kind.give_back(slot)


# In the order of ERRHANDLER_KINDS in tools/cffigen.py.
_KINDS = {kind: _Slots(kind) for kind in ("Comm", "Win", "File", "Session")}


class WithErrhandler:
    """The part of Comm, Win, File and Session that is about their error handler."""

    __slots__ = ()
    _h: Any
    _family: ClassVar[tuple[Any, ...]]

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Function) -> Errhandler:
        """A handler that calls ``errhandler_fn(object, error code)``.

        The call that failed still raises MPI.Exception afterwards. An exception
        in the handler itself ends the job. RuntimeError if too many exist.
        """
        if not callable(errhandler_fn):
            kind = type(errhandler_fn).__name__
            raise TypeError(f"an error handler is a function, not {kind}")
        name = cls._family[0].__name__
        slots, out = _KINDS[name], ffi.new("MPI_Errhandler *")
        slot = slots.take(errhandler_fn, cls._family[0])
        create = getattr(lib, f"MPI_{name}_create_errhandler")
        try:
            check(create(slots.function_of(slot), out))
        except BaseException:
            slots.give_back(slot)
            raise
        handler = Errhandler._of(out[0])
        slots.remember(handler.handle, slot)
        return handler

    def Get_errhandler(self) -> Errhandler:
        """The error handler; free it after use."""
        out = ffi.new("MPI_Errhandler *")
        check(self._about_errors("get_errhandler")(self._h, out))
        return Errhandler._of(out[0])

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Changes what errors do: MPI.ERRORS_RETURN makes them exceptions."""
        check(self._about_errors("set_errhandler")(self._h, errhandler._h))

    def Call_errhandler(self, errorcode: int) -> None:
        """Does what an error with that code would do."""
        check(self._about_errors("call_errhandler")(self._h, errorcode))

    def _about_errors(self, name: str) -> Any:
        return getattr(lib, f"MPI_{self._family[0].__name__}_{name}")


@ffi.def_extern()
def tb_errhandler_call(kind: int, slot: int, handle: Any, code: int) -> None:
    """What the C function of a place calls."""
    slots = _Slots.kinds[kind]
    try:
        function = slots.functions[slot]
        if function is None:
            raise RuntimeError("an error handler is used that was freed")
        number = int(ffi.cast("intptr_t", handle))
        function(slots.classes[slot].fromhandle(number), code)
    except BaseException as error:
        from tbmpi import _life
        from tbmpi._exception import reported

        reported(error)
        _life.abort(_life.ABORTED_BY_EXCEPTION)
