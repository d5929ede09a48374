# SPDX-License-Identifier: MIT
"""MPI.Errhandler: what happens when a call fails."""

from __future__ import annotations

from tbmpi._ffi import lib
from tbmpi._handle import Handle


class Errhandler(Handle):
    """MPI.ERRORS_RETURN raises MPI.Exception; the others end the program."""

    __slots__ = ()
    _ctype = "MPI_Errhandler"
    _null = lib.MPI_ERRHANDLER_NULL

    def Free(self) -> None:
        """Frees the handler; communicators that use it keep it."""
        self._free_with(lib.MPI_Errhandler_free)


Errhandler._family = Errhandler
