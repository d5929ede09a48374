# SPDX-License-Identifier: MIT
"""MPI.Exception: an MPI error code as a Python exception."""

from __future__ import annotations

import sys
from operator import index
from typing import Any

from tbmpi._ffi import check, ffi, lib, text


class Exception(RuntimeError):
    """An MPI call failed.

    It carries the error code, its class (MPI.ERR_RANK, ...) and the library's
    message, which names the call and what is wrong. It behaves as the code where
    an int is expected; to ask for a kind of error, compare Get_error_class().
    """

    __module__ = "tbmpi.MPI"

    def __init__(self, ierr: int = lib.MPI_SUCCESS, /) -> None:
        """The exception of an error code."""
        code = index(ierr)
        super().__init__(code if code >= lib.MPI_SUCCESS else lib.MPI_ERR_UNKNOWN)

    def __str__(self) -> str:
        return self.Get_error_string()

    def __repr__(self) -> str:
        return f"MPI.Exception({int(self)})"

    def __int__(self) -> int:
        return self.args[0]

    def __bool__(self) -> bool:
        return int(self) != lib.MPI_SUCCESS

    def __hash__(self) -> int:
        return hash(int(self))

    def __eq__(self, other: object, /) -> bool:
        return int(self) == _code(other)

    def __lt__(self, other: Any, /) -> bool:
        return int(self) < _code(other)

    def __le__(self, other: Any, /) -> bool:
        return int(self) <= _code(other)

    def __gt__(self, other: Any, /) -> bool:
        return int(self) > _code(other)

    def __ge__(self, other: Any, /) -> bool:
        return int(self) >= _code(other)

    def Get_error_code(self) -> int:
        """The error code."""
        return int(self)

    def Get_error_class(self) -> int:
        """The code's class, one of the MPI.ERR_ constants."""
        out = ffi.new("int *")
        check(lib.MPI_Error_class(int(self), out))
        return out[0]

    def Get_error_string(self) -> str:
        """The library's message: the call, the value that is wrong, a remedy."""
        out = ffi.new("char[]", lib.MPI_MAX_ERROR_STRING + 1)
        length = ffi.new("int *")
        if lib.MPI_Error_string(int(self), out, length):
            return f"MPI error code {int(self)}"
        return text(out, length[0])

    error_code = property(Get_error_code, doc="The error code.")
    error_class = property(Get_error_class, doc="The code's class.")
    error_string = property(Get_error_string, doc="The library's message.")


class Unsupported(Exception, NotImplementedError):
    """The library lacks an operation; the message names it."""

    __module__ = __name__


def of_code(code: int) -> Exception:
    """The exception of an error code."""
    error = Exception(code)
    if error.Get_error_class() == lib.MPI_ERR_UNSUPPORTED_OPERATION:
        return Unsupported(code)
    return error


def _code(other: Any) -> Any:
    return int(other) if isinstance(other, Exception) else other


def reported(error: BaseException) -> int:
    """Prints an exception that came out of a user's callback; MPI's code for it.

    C code called the function, so the exception ends there; the call that led
    to it fails with this code.
    """
    import traceback

    traceback.print_exception(error, file=sys.stderr)
    return int(error) if isinstance(error, Exception) else lib.MPI_ERR_OTHER
