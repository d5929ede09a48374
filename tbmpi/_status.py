# SPDX-License-Identifier: MIT
"""MPI.Status: what a receive, a probe or a wait found out."""

from __future__ import annotations

from typing import Any, Self

from tbmpi import _fast
from tbmpi._datatype import Datatype
from tbmpi._ffi import check, ffi, lib
from tbmpi._typecodes import BYTE

_STATE = ("source", "tag", "error", "count", "cancelled")


class Status(_fast.Found):
    """Source, tag, error and size of a message."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    __hash__ = None  # type: ignore[assignment]

    _s: Any  # the C status
    _source: int
    _tag: int
    _error: int

    def __new__(cls, status: Status | None = None) -> Self:
        """An empty status, or a copy of one."""
        self = object.__new__(cls)
        if isinstance(status, Status):
            self._s = ffi.new("MPI_Status *", status._s[0])
        elif status is not None:
            raise TypeError(f"expected Status or None, got {type(status).__name__}")
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return self.tomemory() == other.tomemory()

    def __repr__(self) -> str:
        return f"<MPI.Status source {self.source}, tag {self.tag}, error {self.error}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), self.__getstate__()

    def __getstate__(self) -> dict[str, int]:
        """Source, tag, error, count in bytes and whether cancelled."""
        return {name: getattr(self, name) for name in _STATE}

    def __setstate__(self, state: dict[str, int]) -> None:
        """Sets what __getstate__ returned."""
        for name in _STATE:
            setattr(self, name, state[name])

    def Get_source(self) -> int:
        """The rank that sent the message."""
        return self._source

    def Set_source(self, source: int) -> None:
        """Changes the source."""
        self._s.MPI_SOURCE = source

    def Get_tag(self) -> int:
        """The message's tag."""
        return self._tag

    def Set_tag(self, tag: int) -> None:
        """Changes the tag."""
        self._s.MPI_TAG = tag

    def Get_error(self) -> int:
        """The error code, set by calls on several requests only."""
        return self._error

    def Set_error(self, error: int) -> None:
        """Changes the error code."""
        self._s.MPI_ERROR = error

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        """Number of whole `datatype` elements received (bytes by default).

        MPI.UNDEFINED if the message is not a whole number of them.
        """
        out = ffi.new("MPI_Count *")
        check(lib.MPI_Get_count_c(self._s, datatype._h, out))
        return out[0]

    def Get_elements(self, datatype: Datatype) -> int:
        """Number of basic elements received, the last `datatype` may be partial."""
        out = ffi.new("MPI_Count *")
        check(lib.MPI_Get_elements_c(self._s, datatype._h, out))
        return out[0]

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        """Sets what Get_elements and Get_count report."""
        check(lib.MPI_Status_set_elements_c(self._s, datatype._h, count))

    def Is_cancelled(self) -> bool:
        """Whether the operation was cancelled."""
        out = ffi.new("int *")
        check(lib.MPI_Test_cancelled(self._s, out))
        return bool(out[0])

    def Set_cancelled(self, flag: bool) -> None:
        """Sets what Is_cancelled reports."""
        check(lib.MPI_Status_set_cancelled(self._s, bool(flag)))

    def tomemory(self) -> memoryview:
        """The C struct as 8 ints, writable."""
        return memoryview(ffi.buffer(self._s)).cast("i")

    def py2f(self) -> list[int]:
        """The status as Fortran's array of MPI.F_STATUS_SIZE ints."""
        return list(self.tomemory())

    @classmethod
    def f2py(cls, arg: list[int]) -> Self:
        """The status of such an array."""
        status = cls()
        values = status.tomemory()
        if len(arg) != len(values):
            raise ValueError(f"a status has {len(values)} ints, not {len(arg)}")
        values[:] = memoryview(ffi.buffer(ffi.new("int[]", arg))).cast("i")
        return status

    source = property(Get_source, Set_source, doc="The rank that sent the message.")
    tag = property(Get_tag, Set_tag, doc="The message's tag.")
    error = property(Get_error, Set_error, doc="The error code.")
    cancelled = property(Is_cancelled, Set_cancelled, doc="Cancelled or not.")

    @property
    def count(self) -> int:
        """Number of bytes received."""
        return self.Get_count()

    @count.setter
    def count(self, value: int) -> None:
        self.Set_elements(BYTE, value)


_fast.tell("status_cell", lambda: ffi.new("MPI_Status *"))


def empty() -> Any:
    """A C status without a message."""
    found = ffi.new("MPI_Status *")
    found.MPI_SOURCE, found.MPI_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG
    return found


def empties(count: int) -> Any:
    """An array of C statuses without messages."""
    found = ffi.new("MPI_Status[]", count or 1)
    for status in found:
        status.MPI_SOURCE, status.MPI_TAG = lib.MPI_ANY_SOURCE, lib.MPI_ANY_TAG
    return found


def pointer(status: Status | None) -> Any:
    """The C argument for an optional status."""
    return lib.MPI_STATUS_IGNORE if status is None else status._s
