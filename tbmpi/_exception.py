# SPDX-License-Identifier: MIT
"""MPI.Exception: an MPI error code as a Python exception."""

from __future__ import annotations

from typing import Any

from tbmpi._ffi import ffi, lib, text


class Exception(RuntimeError):
    """An MPI call failed.

    It carries the error code, its class (``MPI.ERR_RANK``, ...) and the
    library's message. It compares with ints by its code, as in mpi4py:
    ``error == MPI.ERR_TRUNCATE`` is true for that class.
    """

    def __init__(self, ierr: int = lib.MPI_SUCCESS, /) -> None:
        """Makes the exception of an error code (an int)."""
        self.ierr = int(ierr)
        super().__init__(self.ierr)

    def __str__(self) -> str:
        return self.Get_error_string()

    def __repr__(self) -> str:
        return f"MPI.Exception({self.ierr}: {self})"

    def __int__(self) -> int:
        return self.ierr

    def __bool__(self) -> bool:
        return self.ierr != lib.MPI_SUCCESS

    def __hash__(self) -> int:
        return hash(self.ierr)

    def __eq__(self, other: object, /) -> bool:
        if isinstance(other, Exception):
            return self.ierr == other.ierr
        if isinstance(other, int):
            return other in (self.ierr, self.Get_error_class())
        return NotImplemented

    def __lt__(self, other: Any, /) -> bool:
        return self.ierr < int(other)

    def __le__(self, other: Any, /) -> bool:
        return self.ierr <= int(other)

    def __gt__(self, other: Any, /) -> bool:
        return self.ierr > int(other)

    def __ge__(self, other: Any, /) -> bool:
        return self.ierr >= int(other)

    def Get_error_code(self) -> int:
        """The error code."""
        return self.ierr

    def Get_error_class(self) -> int:
        """The code's class, one of the ``MPI.ERR_`` constants."""
        out = ffi.new("int *")
        if lib.MPI_Error_class(self.ierr, out):
            return lib.MPI_ERR_UNKNOWN
        return out[0]

    def Get_error_string(self) -> str:
        """The library's message: the call, the value that is wrong, a remedy."""
        out = ffi.new("char[]", lib.MPI_MAX_ERROR_STRING + 1)
        length = ffi.new("int *")
        if lib.MPI_Error_string(self.ierr, out, length):
            return f"MPI error code {self.ierr}"
        return text(out, length[0])

    @property
    def error_code(self) -> int:
        """The error code."""
        return self.ierr

    @property
    def error_class(self) -> int:
        """The code's class."""
        return self.Get_error_class()

    @property
    def error_string(self) -> str:
        """The library's message."""
        return self.Get_error_string()
