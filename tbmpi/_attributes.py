# SPDX-License-Identifier: MIT
"""Attributes of communicators, datatypes and windows: values of any kind by key.

MPI keeps a pointer for each: here the handle that cffi gives for a Python object,
which _values keeps alive, or with ``nopython`` the integer itself. A keyval's state
is MPI's "extra state", kept until it is freed and its last attribute is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from tbmpi._abi import lib as _module
from tbmpi._exception import reported
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle, predefined

Copy = Callable[[Any, int, Any], Any] | bool | None
Delete = Callable[[Any, int, Any], None] | None


class _Keyval:
    """The functions of a keyval, and how many attributes use it."""

    __slots__ = ("attributes", "copy", "delete", "freed", "handle", "nopython")

    def __init__(self, copy: Copy, delete: Delete, nopython: bool) -> None:
        self.copy, self.delete, self.nopython = copy, delete, nopython
        self.attributes, self.freed = 0, False
        self.handle = ffi.new_handle(self)

    def stored(self, value: Any) -> Any:
        """The pointer that stands for a value."""
        self.attributes += 1
        if self.nopython:
            return ffi.cast("void *", value)
        handle = ffi.new_handle(value)
        _values[handle] = handle
        return handle

    def value(self, pointer: Any) -> Any:
        """The value that a pointer stands for."""
        if self.nopython:
            return int(ffi.cast("intptr_t", pointer))
        return ffi.from_handle(pointer)

    def dropped(self, pointer: Any) -> None:
        """Nothing in MPI holds the pointer any more."""
        self.attributes -= 1
        if not self.nopython:
            _values.pop(pointer, None)
        if self.freed and not self.attributes:
            _states.discard(self)


class _Deleted(threading.local):
    """What a delete function that failed in this thread has to tell."""

    code = lib.MPI_SUCCESS


_deleted = _Deleted()
_values: dict[Any, Any] = {}
_states: set[_Keyval] = set()
_keyvals: dict[tuple[str, int], _Keyval] = {}  # by C type and keyval


class Attributes:
    """The part of Comm, Datatype and Win that is about their attributes."""

    __slots__ = ()
    _h: Any
    _ctype: ClassVar[str]
    # Attributes of MPI's own, by how their value is to be read.
    _own: ClassVar[dict[int, str]] = {}

    def Get_attr(self, keyval: int) -> int | Any | None:
        """The value of an attribute; None if it is not set.

        An int for those of MPI itself, such as MPI.TAG_UB or MPI.WIN_SIZE.
        """
        value, flag = ffi.new("void **"), ffi.new("int *")
        check(self._about("get_attr")(self._h, keyval, value, flag))
        if not flag[0]:
            return None
        kind = self._own.get(keyval)
        if kind is not None:
            pointer = kind.endswith("*")
            found = ffi.cast(kind, value[0])
            return found[0] if pointer else int(found)
        state = _keyvals.get((self._ctype, keyval))
        if state is None:
            return int(ffi.cast("intptr_t", value[0]))
        return state.value(value[0])

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Sets an attribute; one that was set before is deleted first.

        The value is any object, or an int if the keyval is ``nopython``.
        """
        state = _keyvals.get((self._ctype, keyval))
        if state is None:
            pointer = ffi.cast("void *", attrval)
            check(self._about("set_attr")(self._h, keyval, pointer))
            return
        pointer = state.stored(attrval)
        try:
            check(self._about("set_attr")(self._h, keyval, pointer))
        except BaseException:
            state.dropped(pointer)
            raise

    def Delete_attr(self, keyval: int) -> None:
        """Deletes an attribute; the keyval's delete function is called.

        It is gone also if that function raises; this call then fails.
        """
        _deleted.code = lib.MPI_SUCCESS
        check(self._about("delete_attr")(self._h, keyval))
        check(_deleted.code)

    @classmethod
    def Create_keyval(
        cls, copy_fn: Copy = None, delete_fn: Delete = None, nopython: bool = False
    ) -> int:
        """A key for attributes.

        ``copy_fn(object, keyval, value)`` returns the value that a duplicate gets,
        or NotImplemented for none; True copies the reference, None and False
        nothing; an exception in it makes the duplication fail. ``delete_fn(object,
        keyval, value)`` is called when an attribute goes away; an exception in it
        is printed. With ``nopython`` the values are ints that MPI keeps by itself.
        """
        state = _Keyval(copy_fn, delete_fn, bool(nopython))
        name, out = cls._attribute_name(), ffi.new("int *")
        copy = getattr(_module, f"tb_{name}_copy_function")()
        delete = getattr(_module, f"tb_{name}_delete_function")()
        create = getattr(lib, f"MPI_{name.title()}_create_keyval")
        check(create(copy, delete, out, state.handle))
        _states.add(state)
        _keyvals[cls._ctype, out[0]] = state
        return out[0]

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Frees a key; attributes that use it stay. Returns MPI.KEYVAL_INVALID."""
        place = ffi.new("int *", keyval)
        check(getattr(lib, f"MPI_{cls._attribute_name().title()}_free_keyval")(place))
        state = _keyvals.pop((cls._ctype, keyval), None)
        if state is not None:
            state.freed = True
            if not state.attributes:
                _states.discard(state)
        return place[0]

    @classmethod
    def _attribute_name(cls) -> str:
        return "type" if cls._ctype == "MPI_Datatype" else cls._ctype[4:].lower()

    def _about(self, name: str) -> Any:
        return getattr(lib, f"MPI_{self._attribute_name().title()}_{name}")


def delete_of_self() -> None:
    """Deletes the attributes in Python of MPI.COMM_SELF, as MPI_Finalize would.

    A program sets them to learn that MPI comes to its end.
    """
    value, flag = ffi.new("void **"), ffi.new("int *")
    for (kind, keyval), state in reversed(_keyvals.copy().items()):
        if kind != "MPI_Comm" or not state.attributes:
            continue
        check(lib.MPI_Comm_get_attr(lib.MPI_COMM_SELF, keyval, value, flag))
        if flag[0]:
            check(lib.MPI_Comm_delete_attr(lib.MPI_COMM_SELF, keyval))


# ------------------------------------------------------------- what MPI calls


def _object(name: str, handle: Any) -> Any:
    from tbmpi import MPI

    kind: type[Handle] = {"comm": MPI.Comm, "type": MPI.Datatype, "win": MPI.Win}[name]
    number = int(ffi.cast("intptr_t", handle))
    return predefined(kind, handle) or kind.fromhandle(number)


def _copy(
    name: str, old: Any, keyval: int, extra: Any, value: Any, out: Any, flag: Any
) -> int:
    flag[0] = 0
    try:
        state = ffi.from_handle(extra)
        if not state.copy:
            return lib.MPI_SUCCESS
        copied = state.value(value)
        if state.copy is not True:
            copied = state.copy(_object(name, old), keyval, copied)
        if copied is not NotImplemented:
            ffi.cast("void **", out)[0] = state.stored(copied)
            flag[0] = 1
    except BaseException as error:
        return reported(error)
    return lib.MPI_SUCCESS


def _delete(name: str, owner: Any, keyval: int, value: Any, extra: Any) -> int:
    state = ffi.from_handle(extra)
    try:
        if state.delete is not None:
            state.delete(_object(name, owner), keyval, state.value(value))
    except BaseException as error:
        # To MPI it is a success: with an error the attribute would stay, and
        # its object could never be freed.
        _deleted.code = reported(error)
    finally:
        state.dropped(value)
    return lib.MPI_SUCCESS


def _define(name: str) -> None:
    """The two C functions for the attributes of one kind of object."""

    def copy(*arguments: Any) -> int:
        return _copy(name, *arguments)

    def delete(*arguments: Any) -> int:
        return _delete(name, *arguments)

    failure = lib.MPI_ERR_INTERN
    ffi.def_extern(name=f"tb_{name}_attr_copy", error=failure)(copy)
    ffi.def_extern(name=f"tb_{name}_attr_delete", error=failure)(delete)


for _name in ("comm", "type", "win"):
    _define(_name)
