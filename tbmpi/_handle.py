# SPDX-License-Identifier: MIT
"""What all MPI objects have in common: a handle, and how it behaves.

A handle of the standard ABI is a value of pointer size. Objects are compared by
it; a predefined one pickles by its name; an object that was freed holds the
null handle and is false. Python's garbage collection frees no MPI object.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from tbmpi._ffi import check, ffi, lib

# Names of predefined objects by C type and handle value, as in MPI.<name>.
_NAMES: dict[tuple[str, int], str] = {}


def name_of(thing: Handle) -> str:
    """The name in module MPI, empty unless the object is predefined."""
    return _NAMES.get((thing._ctype, thing.handle), "")


def remember_name(thing: Handle, name: str) -> None:
    """Makes a predefined object known by the name that it has in module MPI."""
    _NAMES.setdefault((thing._ctype, thing.handle), name)


def by_name(name: str) -> Any:
    """The predefined object of that name: the other half of pickling."""
    from tbmpi import MPI

    return getattr(MPI, name)


class Handle:
    """Base of Comm, Datatype, Request and so on."""

    __slots__ = ("__weakref__", "_h")
    __hash__ = None  # type: ignore[assignment]

    # Set by each class: the C type, its null handle, the two conversions.
    _ctype: ClassVar[str]
    _null: ClassVar[Any]
    _family: ClassVar[type]

    _h: Any

    def __new__(cls, other: Self | None = None, *_: Any) -> Self:
        self = object.__new__(cls)
        if other is None:
            self._h = cls._null
        elif isinstance(other, cls._family):
            self._h = other._h
        else:
            kind = cls._family.__name__
            raise TypeError(f"expected {kind} or None, got {type(other).__name__}")
        return self

    @classmethod
    def _of(cls, handle: Any) -> Self:
        """An object for a C handle."""
        self = cls.__new__(cls)
        self._h = handle
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handle) or self._ctype != other._ctype:
            return NotImplemented
        return self._h == other._h

    def __bool__(self) -> bool:
        return self._h != self._null

    def __repr__(self) -> str:
        name = name_of(self) or f"handle {self.handle:#x}"
        return f"<MPI.{type(self).__name__} {name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        name = name_of(self)
        if not name:
            kind = type(self).__name__
            raise TypeError(f"{kind} {self!r} means nothing in another process")
        plain = (by_name, (name,))
        if type(self) is type(by_name(name)):
            return plain
        return type(self), (by_name(name),)

    @property
    def handle(self) -> int:
        """The C handle as an int."""
        return int(ffi.cast("intptr_t", self._h))

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        """The object of a C handle that is given as an int, unchecked."""
        return cls._of(ffi.cast(cls._ctype, handle))

    def toint(self) -> int:
        """The handle as MPI's portable int (MPI_X_toint)."""
        return getattr(lib, self._stem() + "_toint")(self._h)

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        """The object of such an int (MPI_X_fromint)."""
        return cls._of(getattr(lib, cls._stem() + "_fromint")(arg))

    def free(self) -> None:
        """Frees the object unless it is null or predefined."""
        if self and not name_of(self):
            self.Free()  # type: ignore[attr-defined]

    @classmethod
    def _stem(cls) -> str:
        return "MPI_Type" if cls._ctype == "MPI_Datatype" else cls._ctype

    def _free_with(self, function: Any) -> None:
        place = ffi.new(self._ctype + " *", self._h)
        check(function(place))
        self._h = place[0]
