# SPDX-License-Identifier: MIT
"""The one door to C: the MPI library, its functions and constants.

The library is opened by its absolute path when this module is imported: the
package's own, or the file that TBMPI_LIBMPI names (any library of the MPI 5.0
standard ABI). It is not initialized here; see _life.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

from tbmpi import _fast, _paths
from tbmpi._abi import ffi
from tbmpi._abi import lib as _bound

__all__ = ["check", "fail", "ffi", "lib", "library_path", "quick", "text"]

VARIABLE = "TBMPI_LIBMPI"

F = TypeVar("F", bound=Callable[..., Any])


def library_path() -> str:
    """The MPI library to open. ImportError if there is none at that place."""
    named = os.environ.get(VARIABLE)
    if named:
        path = os.path.abspath(os.path.expanduser(named))
        remedy = f"{VARIABLE} names it; unset it to use tbmpi's own library"
    else:
        path = _paths.find("lib", _paths.LIBRARY)
        remedy = "install tbmpi (pip install .), which builds it"
    if not os.path.isfile(path):
        raise ImportError(f"no MPI library at {path}; {remedy}")
    return path


def _load() -> Any:
    """Binds all functions; what the library lacks raises when it is called."""
    path = library_path()
    missing = ffi.new("int *")
    error = _bound.tb_load(os.fsencode(path), missing)
    if error != ffi.NULL:
        raise ImportError(f"cannot open the MPI library: {text(error)}")
    _fast.open(path)
    lacking = {text(_bound.tb_lacking(i)) for i in range(missing[0])}
    if not lacking:
        return _bound
    if "MPI_Send_c" in lacking:
        raise ImportError(
            f"{path} is not a library of the MPI 5.0 standard ABI: it has no MPI_Send_c"
        )
    names = [name for name in dir(_bound) if name.startswith("MPI_")]
    whole = SimpleNamespace(**{name: getattr(_bound, name) for name in names})
    for name in lacking:
        setattr(whole, name, _refusal(name, path))
    return whole


def _refusal(name: str, path: str) -> Any:
    def refuse(*_: Any) -> NoReturn:
        raise NotImplementedError(f"{name} is not in {path}")

    return refuse


def text(chars: Any, length: int | None = None) -> str:
    """A C string as str; bytes that are not UTF-8 are kept as escapes."""
    raw = ffi.string(chars) if length is None else ffi.buffer(chars, length)[:]
    return raw.decode("utf-8", "surrogateescape")


def fail(code: int) -> NoReturn:
    """Raises MPI.Exception for an error code.

    It is a NotImplementedError, too, if the library has not got the operation.
    """
    from tbmpi._exception import of_code

    raise of_code(code)


def check(code: int) -> None:
    """Raises MPI.Exception unless `code` is MPI_SUCCESS."""
    if code:
        fail(code)


def quick(function: F) -> F:
    """A method with a quick way in C, for the calls that programs make most.

    It is taken if the arguments are of the common kinds: buffers whose format has
    a datatype, [buffer, count, datatype] and the like, plain ints. The Python
    function is for everything else, errors included, and says what the method
    means: the quick way gives the same result or is not taken. Which methods have
    one is in csrc/python/fast_mpi.c; KeyError for others.
    """
    return _fast.Method(function)


lib = _load()
_fast.tell("number", lambda pointer: int(ffi.cast("intptr_t", pointer)))
_fast.tell("fail", fail)
