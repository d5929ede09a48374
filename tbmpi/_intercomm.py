# SPDX-License-Identifier: MIT
"""MPI.Intercomm: a communicator of two groups."""

from __future__ import annotations

from tbmpi._comm import Comm
from tbmpi._ffi import check, ffi, lib
from tbmpi._group import Group
from tbmpi._intracomm import Intracomm


class Intercomm(Comm):
    """A communicator of two groups: messages go to the other, the remote one."""

    __slots__ = ()

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
