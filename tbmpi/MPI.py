# SPDX-License-Identifier: MIT
"""The MPI standard in Python, under the names of mpi4py.MPI.

Importing this module initializes MPI unless ``tbmpi.rc.initialize`` says no.
Constants are named as in C, without the MPI_ in front: ``MPI.SUM``. Nothing is
defined here: classes are in modules of their own (tbmpi._comm, tbmpi._datatype,
...), messages and buffers in tbmpi.buffers, start and end in tbmpi._life.
"""

from __future__ import annotations

from tbmpi._attached import (
    Attach_buffer,
    Detach_buffer,
    Flush_buffer,
    Iflush_buffer,
)
from tbmpi._comm import Comm
from tbmpi._constants import integers as _integers
from tbmpi._context import (
    _comm_lock,
    _comm_lock_table,
    _commctx_inter,
    _commctx_intra,
)
from tbmpi._datarep import Register_datarep
from tbmpi._datatype import Datatype
from tbmpi._environment import (
    Aint_add,
    Aint_diff,
    Compute_dims,
    Finalize,
    Get_abi_fortran_info,
    Get_abi_info,
    Get_abi_version,
    Get_hw_resource_info,
    Get_library_version,
    Get_processor_name,
    Get_version,
    Init,
    Init_thread,
    Is_finalized,
    Is_initialized,
    Is_thread_main,
    Pcontrol,
    Query_thread,
    Wtick,
    Wtime,
    _set_abort_status,
    get_vendor,
)
from tbmpi._errhandler import Errhandler
from tbmpi._errorcodes import (
    Add_error_class,
    Add_error_code,
    Add_error_string,
    Get_error_class,
    Get_error_string,
    Remove_error_class,
    Remove_error_code,
    Remove_error_string,
)
from tbmpi._exception import Exception
from tbmpi._ffi import lib as _lib
from tbmpi._file import File
from tbmpi._grequest import Grequest
from tbmpi._group import Group
from tbmpi._handle import Handle as _Handle
from tbmpi._handle import _addressof, _handleof, _sizeof
from tbmpi._handle import remember as _remember
from tbmpi._info import Info
from tbmpi._intercomm import Intercomm
from tbmpi._intracomm import Intracomm
from tbmpi._life import start as _start
from tbmpi._memory import (
    BOTTOM,
    BUFFER_AUTOMATIC,
    IN_PLACE,
    Alloc_mem,
    BottomType,
    BufferAutomaticType,
    Free_mem,
    Get_address,
    InPlaceType,
    buffer,
)
from tbmpi._message import Message
from tbmpi._op import Op
from tbmpi._pickle import Pickle, pickle
from tbmpi._ports import (
    Close_port,
    Lookup_name,
    Open_port,
    Publish_name,
    Unpublish_name,
)
from tbmpi._request import Prequest, Request
from tbmpi._session import Session
from tbmpi._status import Status
from tbmpi._topo import Cartcomm, Distgraphcomm, Graphcomm, Topocomm
from tbmpi._typecodes import C_CODES as _typedict_c
from tbmpi._typecodes import CODES as _typedict
from tbmpi._typecodes import F_CODES as _typedict_f
from tbmpi._typecodes import NAMED as _DATATYPES
from tbmpi._typecodes import _typealign, _typecode
from tbmpi._typedecode import _datatype_create, _datatype_decode
from tbmpi._win import Win

# The predefined objects that are no datatypes, by class.
_OBJECTS: dict[type[_Handle], str] = {
    Intracomm: "COMM_SELF COMM_WORLD",
    Comm: "COMM_NULL",
    Group: "GROUP_NULL GROUP_EMPTY",
    Errhandler: "ERRHANDLER_NULL ERRORS_RETURN ERRORS_ABORT ERRORS_ARE_FATAL",
    Info: "INFO_NULL INFO_ENV",
    Message: "MESSAGE_NULL MESSAGE_NO_PROC",
    Request: "REQUEST_NULL",
    Session: "SESSION_NULL",
    Win: "WIN_NULL",
    File: "FILE_NULL",
    Op: "OP_NULL MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MAXLOC MINLOC"
    " REPLACE NO_OP",
}


def _predefined() -> dict[str, _Handle]:
    return {
        name: _remember(kind._of(getattr(_lib, f"MPI_{name}")), name)
        for kind, names in _OBJECTS.items()
        for name in names.split()
    }


globals().update(_integers(), **_DATATYPES, **_predefined())
memory = buffer

__all__ = [
    "BOTTOM", "BUFFER_AUTOMATIC", "IN_PLACE", "Add_error_class", "Add_error_code",
    "Add_error_string", "Aint_add", "Aint_diff", "Alloc_mem", "Attach_buffer",
    "BottomType", "BufferAutomaticType", "Cartcomm", "Close_port", "Comm",
    "Compute_dims", "Datatype", "Detach_buffer", "Distgraphcomm", "Errhandler",
    "Exception", "File", "Finalize", "Flush_buffer", "Free_mem",
    "Get_abi_fortran_info", "Get_abi_info", "Get_abi_version", "Get_address",
    "Get_error_class", "Get_error_string", "Get_hw_resource_info",
    "Get_library_version", "Get_processor_name", "Get_version", "Graphcomm",
    "Grequest", "Group", "Iflush_buffer", "InPlaceType", "Info", "Init",
    "Init_thread", "Intercomm", "Intracomm", "Is_finalized", "Is_initialized",
    "Is_thread_main", "Lookup_name", "Message", "Op", "Open_port", "Pcontrol",
    "Pickle", "Prequest", "Publish_name", "Query_thread", "Register_datarep",
    "Remove_error_class", "Remove_error_code", "Remove_error_string", "Request",
    "Session", "Status", "Topocomm", "Unpublish_name", "Win", "Wtick", "Wtime",
    "_addressof", "_comm_lock", "_comm_lock_table", "_commctx_inter",
    "_commctx_intra", "_datatype_create", "_datatype_decode", "_handleof",
    "_set_abort_status", "_sizeof", "_typealign", "_typecode", "_typedict",
    "_typedict_c", "_typedict_f", "buffer",
    "get_vendor", "memory", "pickle",
    *_integers(), *_DATATYPES,
    *(name for names in _OBJECTS.values() for name in names.split()),
]  # fmt: skip

_start()
