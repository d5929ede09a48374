# SPDX-License-Identifier: MIT
"""MPI.Session: MPI for one part of a program, without COMM_WORLD."""

from __future__ import annotations

from typing import Self

from tbmpi import _life
from tbmpi._attached import Attaching
from tbmpi._errhandler import Errhandler, WithErrhandler
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._group import Group
from tbmpi._handle import Handle, hints
from tbmpi._info import Info


class Session(WithErrhandler, Attaching, Handle):
    """A session: it knows sets of processes, from which groups are made.

    Intracomm.Create_from_group makes a communicator of one. MPI need not be
    initialized. Errors raise MPI.Exception.
    """

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Session"
    _null = lib.MPI_SESSION_NULL

    @classmethod
    def Init(
        cls, info: Info | None = None, errhandler: Errhandler | None = None
    ) -> Self:
        """A new session; Finalize it when it is not needed any more."""
        out = ffi.new("MPI_Session *")
        handler = lib.MPI_ERRORS_RETURN if errhandler is None else errhandler._h
        check(lib.MPI_Session_init(hints(info), handler, out))
        session = cls._of(out[0])
        if errhandler is None:
            _life.set_errhandler(lib.MPI_Session_set_errhandler, session._h)
        return session

    def Finalize(self) -> None:
        """Ends the session; all that was made from it must be freed."""
        self._free_with(lib.MPI_Session_finalize)

    def free(self) -> None:
        """Ends the session unless it is null."""
        if self:
            self.Finalize()

    def Get_num_psets(self, info: Info | None = None) -> int:
        """Number of sets of processes."""
        out = ffi.new("int *")
        check(lib.MPI_Session_get_num_psets(self._h, hints(info), out))
        return out[0]

    def Get_nth_pset(self, n: int, info: Info | None = None) -> str:
        """The name of the set number `n`, from 0, such as "mpi://WORLD"."""
        size = ffi.new("int *", lib.MPI_MAX_PSET_NAME_LEN)
        out = ffi.new("char[]", lib.MPI_MAX_PSET_NAME_LEN + 1)
        check(lib.MPI_Session_get_nth_pset(self._h, hints(info), n, size, out))
        return text(out)

    def Get_info(self) -> Info:
        """The hints in use; free it after use."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Session_get_info(self._h, out))
        return Info._of(out[0])

    def Get_pset_info(self, pset_name: str) -> Info:
        """What is known of a set: "mpi_size" is its number of processes."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Session_get_pset_info(self._h, pset_name.encode(), out))
        return Info._of(out[0])

    def Create_group(self, pset_name: str) -> Group:
        """The group of a set; free it after use."""
        return Group.Create_from_session_pset(self, pset_name)


Session._family = (Session,)
