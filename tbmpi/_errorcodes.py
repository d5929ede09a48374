# SPDX-License-Identifier: MIT
"""Error codes and classes: what they say, and those of the user's own."""

from __future__ import annotations

from tbmpi._exception import Exception as MPIException
from tbmpi._ffi import check, ffi, lib


def Get_error_class(errorcode: int) -> int:
    """The class of an error code, one of the MPI.ERR_ constants."""
    out = ffi.new("int *")
    check(lib.MPI_Error_class(errorcode, out))
    return out[0]


def Get_error_string(errorcode: int) -> str:
    """The text of an error code."""
    return MPIException(errorcode).Get_error_string()


def Add_error_class() -> int:
    """A new error class."""
    out = ffi.new("int *")
    check(lib.MPI_Add_error_class(out))
    return out[0]


def Remove_error_class(errorclass: int) -> None:
    """Removes a class of Add_error_class that has no codes and no text."""
    check(lib.MPI_Remove_error_class(errorclass))


def Add_error_code(errorclass: int) -> int:
    """A new error code of a class."""
    out = ffi.new("int *")
    check(lib.MPI_Add_error_code(errorclass, out))
    return out[0]


def Remove_error_code(errorcode: int) -> None:
    """Removes a code of Add_error_code that has no text."""
    check(lib.MPI_Remove_error_code(errorcode))


def Add_error_string(errorcode: int, string: str) -> None:
    """Gives a new code or class its text."""
    check(lib.MPI_Add_error_string(errorcode, string.encode()))


def Remove_error_string(errorcode: int) -> None:
    """Removes the text of a code or class of one's own."""
    check(lib.MPI_Remove_error_string(errorcode))
