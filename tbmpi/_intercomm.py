# SPDX-License-Identifier: MIT
"""MPI.Intercomm: a communicator of two groups."""

from __future__ import annotations

from tbmpi._comm import Comm
from tbmpi._errhandler import Errhandler
from tbmpi._ffi import check, ffi, lib
from tbmpi._group import Group
from tbmpi._handle import hints
from tbmpi._info import Info
from tbmpi._intracomm import Intracomm


class Intercomm(Comm):
    """A communicator of two groups: messages go to the other, the remote one."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"

    def _is_of_kind(self) -> bool:
        return self.Is_inter()

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.tbmpi",
        info: Info | None = None,
        errhandler: Errhandler | None = None,
    ) -> Intercomm:
        """Joins two groups that sessions know, by one leader of each.

        `stringtag` tells apart what is made at the same time.
        """
        handler = lib.MPI_ERRORS_RETURN if errhandler is None else errhandler._h
        out = ffi.new("MPI_Comm *")
        sides = (local_group._h, local_leader, remote_group._h, remote_leader)
        make = lib.MPI_Intercomm_create_from_groups
        check(make(*sides, stringtag.encode(), hints(info), handler, out))
        return cls._of(out[0])

    def Get_remote_size(self) -> int:
        """Number of ranks in the remote group."""
        return self._sizes()[1]

    def Get_remote_group(self) -> Group:
        """The remote group; free it after use."""
        out = ffi.new("MPI_Group *")
        check(lib.MPI_Comm_remote_group(self._h, out))
        return Group._of(out[0])

    def Merge(self, high: bool = False) -> Intracomm:
        """One communicator of both groups; the ranks that say `high` come last."""
        return self._made(Intracomm, lib.MPI_Intercomm_merge, bool(high))

    remote_size = property(Get_remote_size, doc="Number of ranks in the remote group.")
    remote_group = property(
        Get_remote_group, doc="The remote group; free it after use."
    )
