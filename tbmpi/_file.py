# SPDX-License-Identifier: MIT
"""MPI.File: a file that several ranks read and write.

Each way to move data has a method; what the names are made of:

    _at      at an offset that is given; otherwise at this rank's file pointer
    _shared  at the file pointer that all ranks share; _ordered in rank order
    _all     collective over the ranks that opened the file
    I...     starts it and returns a request
    _begin   starts a collective one and _end, with the same buffer, finishes it
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from tbmpi import _life, buffers
from tbmpi._datatype import Datatype
from tbmpi._errhandler import WithErrhandler
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._group import Group
from tbmpi._handle import Handle, hints, predefined
from tbmpi._info import Info
from tbmpi._request import Request
from tbmpi._status import Status, pointer
from tbmpi._typecodes import BYTE

if TYPE_CHECKING:
    from tbmpi._intracomm import Intracomm

Path = str | bytes | os.PathLike[Any]


class File(WithErrhandler, Handle):
    """A file, open on the ranks of a communicator.

    Offsets count elements of the view's etype, which is a byte unless Set_view
    says otherwise. Buffers are as for messages. Errors raise MPI.Exception.
    """

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_File"
    _null = lib.MPI_FILE_NULL

    # ----------------------------------------------------------------- life

    @classmethod
    def Open(
        cls,
        comm: Intracomm,
        filename: Path,
        amode: int = lib.MPI_MODE_RDONLY,
        info: Info | None = None,
    ) -> Self:
        """Opens a file, collectively over `comm`.

        `amode` is a sum of MPI.MODE_ constants, the same on all ranks.
        """
        out = ffi.new("MPI_File *")
        name = os.fsencode(filename)
        check(lib.MPI_File_open(comm._h, name, amode, hints(info), out))
        file = cls._of(out[0])
        _life.set_errhandler(lib.MPI_File_set_errhandler, file._h)
        return file

    def Close(self) -> None:
        """Closes the file, collectively; data written are in the file then."""
        self._free_with(lib.MPI_File_close)

    def free(self) -> None:
        """Closes the file unless it is null."""
        if self:
            self.Close()

    @classmethod
    def Delete(cls, filename: Path, info: Info | None = None) -> None:
        """Deletes a file that is not open."""
        check(lib.MPI_File_delete(os.fsencode(filename), hints(info)))

    # ------------------------------------------------------------ inquiries

    def Set_size(self, size: int) -> None:
        """Makes the file `size` bytes long. Collective."""
        check(lib.MPI_File_set_size(self._h, size))

    def Preallocate(self, size: int) -> None:
        """Makes sure that there is room for `size` bytes. Collective."""
        check(lib.MPI_File_preallocate(self._h, size))

    def Get_size(self) -> int:
        """Size in bytes."""
        return self._ask(lib.MPI_File_get_size, "MPI_Offset")

    def Get_amode(self) -> int:
        """The mode that it was opened with."""
        return self._ask(lib.MPI_File_get_amode, "int")

    def Get_group(self) -> Group:
        """The ranks that opened it; free it after use."""
        return Group._of(self._ask(lib.MPI_File_get_group, "MPI_Group"))

    def Set_info(self, info: Info) -> None:
        """Gives hints. Collective."""
        check(lib.MPI_File_set_info(self._h, info._h))

    def Get_info(self) -> Info:
        """The hints in use; free it after use."""
        return Info._of(self._ask(lib.MPI_File_get_info, "MPI_Info"))

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info | None = None,
    ) -> None:
        """Chooses what this rank sees of the file. Collective.

        From byte `disp` on, the parts that `filetype` (`etype` if None) covers,
        again and again. Offsets count `etype`. File pointers go to 0. `datarep`
        is how data are stored: "native", "internal", "external32" or one of
        MPI.Register_datarep.
        """
        inside = etype if filetype is None else filetype
        view = (disp, etype._h, inside._h, datarep.encode(), hints(info))
        check(lib.MPI_File_set_view(self._h, *view))

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        """Displacement, etype, filetype and datarep of the view.

        The datatypes are to be freed unless they are predefined.
        """
        place, types = ffi.new("MPI_Offset *"), ffi.new("MPI_Datatype[2]")
        name = ffi.new("char[]", lib.MPI_MAX_DATAREP_STRING + 1)
        check(lib.MPI_File_get_view(self._h, place, types, types + 1, name))
        etype, filetype = (
            predefined(Datatype, kind) or Datatype._of(kind) for kind in types
        )
        return place[0], etype, filetype, text(name)

    def Get_type_extent(self, datatype: Datatype) -> int:
        """The extent in bytes of a datatype in the file, under its datarep."""
        out = ffi.new("MPI_Count *")
        check(lib.MPI_File_get_type_extent_c(self._h, datatype._h, out))
        return out[0]

    def Set_atomicity(self, flag: bool) -> None:
        """Whether accesses that overlap happen one after the other. Collective."""
        check(lib.MPI_File_set_atomicity(self._h, bool(flag)))

    def Get_atomicity(self) -> bool:
        """Whether accesses that overlap happen one after the other."""
        return bool(self._ask(lib.MPI_File_get_atomicity, "int"))

    def Sync(self) -> None:
        """Writes to the disk what was written here. Collective."""
        check(lib.MPI_File_sync(self._h))

    def _ask(self, function: Any, kind: str) -> Any:
        out = ffi.new(f"{kind} *")
        check(function(self._h, out))
        return out[0]

    size = property(Get_size, doc="Size in bytes.")
    amode = property(Get_amode, doc="The mode that it was opened with.")
    group = property(Get_group, doc="The ranks that opened it; free it after use.")
    info = property(Get_info, Set_info, doc="The hints in use.")
    atomicity = property(Get_atomicity, Set_atomicity, doc="See Set_atomicity.")

    @property
    def group_size(self) -> int:
        """Number of ranks that opened it."""
        return self._of_group(Group.Get_size)

    @property
    def group_rank(self) -> int:
        """This process's rank among those that opened it."""
        return self._of_group(Group.Get_rank)

    def _of_group(self, ask: Any) -> int:
        group = self.Get_group()
        try:
            return ask(group)
        finally:
            group.Free()

    # ------------------------------------------------- at a given offset

    def Read_at(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Reads at an offset."""
        self._now(lib.MPI_File_read_at_c, True, buf, status, offset)

    def Read_at_all(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Reads at an offset; collective."""
        self._now(lib.MPI_File_read_at_all_c, True, buf, status, offset)

    def Write_at(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Writes at an offset."""
        self._now(lib.MPI_File_write_at_c, False, buf, status, offset)

    def Write_at_all(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Writes at an offset; collective."""
        self._now(lib.MPI_File_write_at_all_c, False, buf, status, offset)

    def Iread_at(self, offset: int, buf: Any) -> Request:
        """Starts Read_at."""
        return self._later(lib.MPI_File_iread_at_c, True, buf, offset)

    def Iread_at_all(self, offset: int, buf: Any) -> Request:
        """Starts Read_at_all."""
        return self._later(lib.MPI_File_iread_at_all_c, True, buf, offset)

    def Iwrite_at(self, offset: int, buf: Any) -> Request:
        """Starts Write_at."""
        return self._later(lib.MPI_File_iwrite_at_c, False, buf, offset)

    def Iwrite_at_all(self, offset: int, buf: Any) -> Request:
        """Starts Write_at_all."""
        return self._later(lib.MPI_File_iwrite_at_all_c, False, buf, offset)

    # --------------------------------------------- at the own file pointer

    def Read(self, buf: Any, status: Status | None = None) -> None:
        """Reads at the file pointer, and moves it on."""
        self._now(lib.MPI_File_read_c, True, buf, status)

    def Read_all(self, buf: Any, status: Status | None = None) -> None:
        """As Read; collective."""
        self._now(lib.MPI_File_read_all_c, True, buf, status)

    def Write(self, buf: Any, status: Status | None = None) -> None:
        """Writes at the file pointer, and moves it on."""
        self._now(lib.MPI_File_write_c, False, buf, status)

    def Write_all(self, buf: Any, status: Status | None = None) -> None:
        """As Write; collective."""
        self._now(lib.MPI_File_write_all_c, False, buf, status)

    def Iread(self, buf: Any) -> Request:
        """Starts Read; the file pointer moves at once."""
        return self._later(lib.MPI_File_iread_c, True, buf)

    def Iread_all(self, buf: Any) -> Request:
        """Starts Read_all."""
        return self._later(lib.MPI_File_iread_all_c, True, buf)

    def Iwrite(self, buf: Any) -> Request:
        """Starts Write; the file pointer moves at once."""
        return self._later(lib.MPI_File_iwrite_c, False, buf)

    def Iwrite_all(self, buf: Any) -> Request:
        """Starts Write_all."""
        return self._later(lib.MPI_File_iwrite_all_c, False, buf)

    def Seek(self, offset: int, whence: int = lib.MPI_SEEK_SET) -> None:
        """Moves the file pointer, from where MPI.SEEK_SET, _CUR or _END says."""
        check(lib.MPI_File_seek(self._h, offset, whence))

    def Get_position(self) -> int:
        """The file pointer, in elements of the etype."""
        return self._ask(lib.MPI_File_get_position, "MPI_Offset")

    def Get_byte_offset(self, offset: int) -> int:
        """The byte of the file that an offset in the view means."""
        out = ffi.new("MPI_Offset *")
        check(lib.MPI_File_get_byte_offset(self._h, offset, out))
        return out[0]

    # ------------------------------------------ at the shared file pointer

    def Read_shared(self, buf: Any, status: Status | None = None) -> None:
        """Reads at the shared file pointer, and moves it on."""
        self._now(lib.MPI_File_read_shared_c, True, buf, status)

    def Write_shared(self, buf: Any, status: Status | None = None) -> None:
        """Writes at the shared file pointer, and moves it on."""
        self._now(lib.MPI_File_write_shared_c, False, buf, status)

    def Iread_shared(self, buf: Any) -> Request:
        """Starts Read_shared."""
        return self._later(lib.MPI_File_iread_shared_c, True, buf)

    def Iwrite_shared(self, buf: Any) -> Request:
        """Starts Write_shared."""
        return self._later(lib.MPI_File_iwrite_shared_c, False, buf)

    def Read_ordered(self, buf: Any, status: Status | None = None) -> None:
        """As Read_shared, one rank after the other; collective."""
        self._now(lib.MPI_File_read_ordered_c, True, buf, status)

    def Write_ordered(self, buf: Any, status: Status | None = None) -> None:
        """As Write_shared, one rank after the other; collective."""
        self._now(lib.MPI_File_write_ordered_c, False, buf, status)

    def Seek_shared(self, offset: int, whence: int = lib.MPI_SEEK_SET) -> None:
        """Moves the shared file pointer. Collective."""
        check(lib.MPI_File_seek_shared(self._h, offset, whence))

    def Get_position_shared(self) -> int:
        """The shared file pointer, in elements of the etype."""
        return self._ask(lib.MPI_File_get_position_shared, "MPI_Offset")

    # ------------------------------------------- collective, in two halves

    def Read_at_all_begin(self, offset: int, buf: Any) -> None:
        """First half of Read_at_all."""
        self._half(lib.MPI_File_read_at_all_begin_c, True, buf, offset)

    def Read_at_all_end(self, buf: Any, status: Status | None = None) -> None:
        """Second half of Read_at_all."""
        self._end(lib.MPI_File_read_at_all_end, True, buf, status)

    def Write_at_all_begin(self, offset: int, buf: Any) -> None:
        """First half of Write_at_all."""
        self._half(lib.MPI_File_write_at_all_begin_c, False, buf, offset)

    def Write_at_all_end(self, buf: Any, status: Status | None = None) -> None:
        """Second half of Write_at_all."""
        self._end(lib.MPI_File_write_at_all_end, False, buf, status)

    def Read_all_begin(self, buf: Any) -> None:
        """First half of Read_all."""
        self._half(lib.MPI_File_read_all_begin_c, True, buf)

    def Read_all_end(self, buf: Any, status: Status | None = None) -> None:
        """Second half of Read_all."""
        self._end(lib.MPI_File_read_all_end, True, buf, status)

    def Write_all_begin(self, buf: Any) -> None:
        """First half of Write_all."""
        self._half(lib.MPI_File_write_all_begin_c, False, buf)

    def Write_all_end(self, buf: Any, status: Status | None = None) -> None:
        """Second half of Write_all."""
        self._end(lib.MPI_File_write_all_end, False, buf, status)

    def Read_ordered_begin(self, buf: Any) -> None:
        """First half of Read_ordered."""
        self._half(lib.MPI_File_read_ordered_begin_c, True, buf)

    def Read_ordered_end(self, buf: Any, status: Status | None = None) -> None:
        """Second half of Read_ordered."""
        self._end(lib.MPI_File_read_ordered_end, True, buf, status)

    def Write_ordered_begin(self, buf: Any) -> None:
        """First half of Write_ordered."""
        self._half(lib.MPI_File_write_ordered_begin_c, False, buf)

    def Write_ordered_end(self, buf: Any, status: Status | None = None) -> None:
        """Second half of Write_ordered."""
        self._end(lib.MPI_File_write_ordered_end, False, buf, status)

    # -------------------------------------------------------------- the calls

    def _now(
        self,
        function: Any,
        reads: bool,
        buf: Any,
        status: Status | None,
        *offset: int,
    ) -> None:
        block = buffers.block(buf, writable=reads)
        check(function(self._h, *offset, *block, pointer(status)))

    def _later(self, function: Any, reads: bool, buf: Any, *offset: int) -> Request:
        block = buffers.block(buf, writable=reads)
        request = Request._started(block[0])
        check(function(self._h, *offset, *block, request._p))
        return request

    def _half(self, function: Any, reads: bool, buf: Any, *offset: int) -> None:
        # The second half is given the buffer again, so its owner keeps it.
        block = buffers.block(buf, writable=reads)
        check(function(self._h, *offset, *block))

    def _end(self, function: Any, reads: bool, buf: Any, status: Status | None) -> None:
        address = buffers.block(buf, writable=reads)[0]
        check(function(self._h, address, pointer(status)))


File._family = (File,)
