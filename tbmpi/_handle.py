# SPDX-License-Identifier: MIT
"""What all MPI objects have in common: a handle, and how it behaves.

A handle of the standard ABI is a value of pointer size. Objects are compared by
it, and have no hash. An object that was freed holds the null handle and is false.
The predefined objects, such as MPI.INT, stay what they are whatever is done to
them, and pickle by their name. Python's garbage collection frees no MPI object.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from tbmpi import _fast
from tbmpi._ffi import check, ffi, lib

# The predefined objects and their names in module MPI, by C type and handle.
_PREDEFINED: dict[tuple[str, int], tuple[Handle, str]] = {}


def name_of(thing: Handle) -> str:
    """The name in module MPI, empty unless the handle is a predefined one."""
    found = _PREDEFINED.get((thing._ctype, thing.handle))
    return found[1] if found else ""


def predefined(kind: type[Handle], handle: Any) -> Any:
    """The predefined object of a C handle, None if it is not of such."""
    number = int(ffi.cast("intptr_t", handle))
    found = _PREDEFINED.get((kind._ctype, number))
    return found[0] if found else None


def remember(thing: Any, name: str) -> Any:
    """The predefined object of that handle: `thing` if it is the first one."""
    first, _ = _PREDEFINED.setdefault((thing._ctype, thing.handle), (thing, name))
    return first


def by_name(name: str) -> Any:
    """The predefined object of that name: the other half of pickling."""
    from tbmpi import MPI

    return getattr(MPI, name)


class Handle(_fast.Handle):
    """Base of Comm, Datatype, Request and so on."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    # Set by each class: the C type, its null handle, and the class of all its kind in a
    # tuple, where what walks through the classes does not follow it.
    _ctype: ClassVar[str]
    _null: ClassVar[Any]
    _family: ClassVar[tuple[type, ...]]

    _h: Any
    _cell: Any  # the handle's memory, once its address was asked for
    _value: Any  # what _h was set to; None if the handle is in _cell

    def __new__(cls, other: Self | None = None, *_: Any) -> Self:
        self = object.__new__(cls)
        if other is None:
            self._h = cls._null
        elif isinstance(other, cls._family):
            self._h = other._h
        else:
            kind = cls._family[0].__name__
            raise TypeError(f"expected {kind} or None, got {type(other).__name__}")
        return self

    @classmethod
    def _of(cls, handle: Any) -> Self:
        """An object for a C handle."""
        self = cls.__new__(cls)
        self._h = handle
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Handle) or self._ctype != other._ctype:
            return NotImplemented
        return self._h == other._h

    def __bool__(self) -> bool:
        return self._h != self._null

    def __repr__(self) -> str:
        name = name_of(self) or f"handle {self.handle:#x}"
        return f"<MPI.{type(self).__name__} {name}>"

    def __reduce__(self) -> Any:
        found = predefined(type(self), self._h)
        if found is None:
            kind = type(self).__name__
            raise ValueError(
                f"cannot serialize a {kind}: {self!r} means nothing in another process"
            )
        if found is self:
            return by_name, (name_of(self),)
        return type(self), (found,)

    @property
    def handle(self) -> int:
        """The C handle as an int."""
        return int(ffi.cast("intptr_t", self._h))

    @classmethod
    def fromhandle(cls, handle: int) -> Any:
        """The object of a C handle that is given as an int, unchecked."""
        return cls._of(ffi.cast(cls._ctype, handle))

    def toint(self) -> int:
        """The handle as MPI's portable int (MPI_X_toint)."""
        return getattr(lib, self._stem() + "_toint")(self._h)

    @classmethod
    def fromint(cls, arg: int, /) -> Any:
        """The object of such an int (MPI_X_fromint)."""
        handle = getattr(lib, cls._stem() + "_fromint")(arg)
        return cls.fromhandle(int(ffi.cast("intptr_t", handle)))

    def py2f(self) -> int:
        """The handle for Fortran, which is MPI's portable int."""
        return self.toint()

    @classmethod
    def f2py(cls, arg: int) -> Any:
        """The object of a handle of Fortran's."""
        return cls.fromint(arg)

    def free(self) -> None:
        """Frees the object unless it is null or predefined; it is null then."""
        if predefined(type(self), self._h) is None:
            self.Free()  # type: ignore[attr-defined]
        elif not self._is_constant():
            self._h = self._null

    def _is_constant(self) -> bool:
        """Whether this is the predefined object itself, not a copy of it."""
        return predefined(type(self), self._h) is self

    @classmethod
    def _stem(cls) -> str:
        return "MPI_Type" if cls._ctype == "MPI_Datatype" else cls._ctype

    def _free_with(self, function: Any) -> None:
        place = ffi.new(self._ctype + " *", self._h)
        constant = self._is_constant()
        check(function(place))
        if not constant:
            self._h = place[0]


def hints(info: Any) -> Any:
    """The C handle of an Info argument, MPI.INFO_NULL for None."""
    return lib.MPI_INFO_NULL if info is None else info._h


# ----------------------------------------------------- for other C interfaces


def _checked(thing: Any) -> Any:
    from tbmpi._status import Status

    kind = thing if isinstance(thing, type) else type(thing)
    if not issubclass(kind, Handle | Status):
        raise TypeError(f"expected an MPI object or class, got {thing!r}")
    return kind


def _sizeof(arg: Any) -> int:
    """Size in bytes of the C handle of an object or of a class; of the C status."""
    kind = _checked(arg)
    return ffi.sizeof(getattr(kind, "_ctype", "MPI_Status"))


def _addressof(arg: Any) -> int:
    """The address of an object's C handle, or of the C status.

    The memory lives as long as the object. What is written there is its handle.
    """
    kind = _checked(arg)
    if isinstance(arg, type):
        raise TypeError("expected an MPI object, got a class")
    own = getattr(arg, "_p", None) or getattr(arg, "_s", None)
    if own is None:
        own = arg._cell
        if own is None or arg._value is not None:
            own = arg._cell = ffi.new(kind._ctype + " *", arg._h)
            del arg._h
    return int(ffi.cast("intptr_t", own))


def _handleof(arg: Any) -> int:
    """The C handle of an object as an int; the address of a status."""
    _checked(arg)
    return arg.handle if isinstance(arg, Handle) else _addressof(arg)
