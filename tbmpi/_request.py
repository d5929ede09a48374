# SPDX-License-Identifier: MIT
"""MPI.Request and MPI.Prequest: operations under way.

A request holds the memory of its buffers until it is complete. The methods in
capitals wait or test; those in small letters also return the received objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from tbmpi._exception import Exception as MPIException
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import Handle
from tbmpi._status import Status, pointer

NULL = lib.MPI_REQUEST_NULL
Loader = Callable[[Any], Any]


class Request(Handle):
    """An operation under way. Errors raise MPI.Exception."""

    __slots__ = ("_keep", "_load", "_p")
    _ctype = "MPI_Request"
    _null = NULL

    _p: Any  # the C handle, in memory of its own: MPI changes it
    _keep: Any  # what must live as long as the operation
    _load: Loader | None  # from the status to the received object

    def __new__(cls, request: Request | None = None) -> Self:
        """A null request, or another name for `request`."""
        self = object.__new__(cls)
        self._keep = self._load = None
        if request is None:
            self._p = ffi.new("MPI_Request *", cls._null)
        elif isinstance(request, Request):
            self._p = request._p
            self._keep, self._load = request._keep, request._load
        else:
            raise TypeError(f"expected Request or None, got {type(request).__name__}")
        return self

    @property
    def _h(self) -> Any:  # type: ignore[override]
        return self._p[0]

    @_h.setter
    def _h(self, handle: Any) -> None:
        self._p[0] = handle

    @classmethod
    def _started(cls, keep: Any = None, load: Loader | None = None) -> Self:
        """A request whose handle a C call fills in through _p."""
        self = object.__new__(cls)
        self._p = ffi.new("MPI_Request *")
        self._keep = keep
        self._load = load
        return self

    # --------------------------------------------------------------- one

    def Wait(self, status: Status | None = None) -> Literal[True]:
        """Blocks until the operation is complete."""
        self._wait(pointer(status))
        return True

    def Test(self, status: Status | None = None) -> bool:
        """Whether the operation is complete."""
        return self._test(pointer(status))

    def wait(self, status: Status | None = None) -> Any:
        """Blocks until complete; the received object, None for other operations."""
        load, found = self._load, _own(status)
        self._wait(found)
        return load(found) if load else None

    def test(self, status: Status | None = None) -> tuple[bool, Any | None]:
        """Whether complete, and the received object if so."""
        load, found = self._load, _own(status)
        if not self._test(found):
            return False, None
        return True, load(found) if load else None

    def Get_status(self, status: Status | None = None) -> bool:
        """Whether complete, without freeing the request."""
        flag = ffi.new("int *")
        check(lib.MPI_Request_get_status(self._p[0], flag, pointer(status)))
        return bool(flag[0])

    get_status = Get_status

    def Cancel(self) -> None:
        """Asks to cancel; the request must still be waited for."""
        check(lib.MPI_Cancel(self._p))

    cancel = Cancel

    def Free(self) -> None:
        """Lets the operation finish by itself. Its memory must stay unchanged."""
        check(lib.MPI_Request_free(self._p))

    def _wait(self, status: Any) -> None:
        error = lib.MPI_Wait(self._p, status)
        if error:
            check(error)
        self._settle()

    def _test(self, status: Any) -> bool:
        flag = ffi.new("int *")
        check(lib.MPI_Test(self._p, flag, status))
        if flag[0]:
            self._settle()
        return bool(flag[0])

    def _settle(self) -> None:
        """Lets go of what a finished operation held; persistent ones keep it."""
        if self._p[0] == NULL:
            self._keep = self._load = None

    # -------------------------------------------------------------- many

    @classmethod
    def Waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> Literal[True]:
        """Blocks until all are complete; `statuses` is filled if given."""
        batch = _Batch(requests)
        try:
            batch.call(lib.MPI_Waitall, batch.found)
        finally:
            _write_back(statuses, batch.found, len(requests))
        return True

    @classmethod
    def waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[Any]:
        """Blocks until all are complete; their received objects."""
        loads = [request._load for request in requests]
        batch = _Batch(requests)
        try:
            batch.call(lib.MPI_Waitall, batch.found)
        finally:
            _write_back(statuses, batch.found, len(requests))
        return _objects(loads, batch.found)

    @classmethod
    def Testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> bool:
        """Whether all are complete."""
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Whether all are complete, and their received objects if so."""
        flag = ffi.new("int *")
        loads = [request._load for request in requests]
        batch = _Batch(requests)
        try:
            batch.call(lib.MPI_Testall, flag, batch.found)
        finally:
            _write_back(statuses, batch.found, len(requests))
        return (True, _objects(loads, batch.found)) if flag[0] else (False, None)

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Blocks until one is complete; its index, or MPI.UNDEFINED if none is left."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, Any]:
        """Blocks until one is complete; its index and received object."""
        place, found = ffi.new("int *"), _own(status)
        loads = [request._load for request in requests]
        _Batch(requests).call(lib.MPI_Waitany, place, found)
        return place[0], _loaded(loads, place[0], found)

    @classmethod
    def Testany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool]:
        """Index of a complete one or MPI.UNDEFINED, and whether there is one."""
        return cls.testany(requests, status)[:2]

    @classmethod
    def testany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool, Any | None]:
        """As Testany, and the received object."""
        place, flag, found = ffi.new("int *"), ffi.new("int *"), _own(status)
        loads = [request._load for request in requests]
        _Batch(requests).call(lib.MPI_Testany, place, flag, found)
        value = _loaded(loads, place[0], found) if flag[0] else None
        return place[0], bool(flag[0]), value

    @classmethod
    def Waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Blocks until some are complete; their indices, None if none is left."""
        return _some(lib.MPI_Waitsome, requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As Waitsome, and the received objects."""
        return _some(lib.MPI_Waitsome, requests, statuses)

    @classmethod
    def Testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Indices of those that are complete, None if none is left."""
        return _some(lib.MPI_Testsome, requests, statuses)[0]

    @classmethod
    def testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As Testsome, and the received objects."""
        return _some(lib.MPI_Testsome, requests, statuses)


Request._family = Request


class Prequest(Request):
    """A persistent request: start it, wait for it, start it again."""

    __slots__ = ()

    def Start(self) -> None:
        """Starts the operation."""
        check(lib.MPI_Start(self._p))

    @classmethod
    def Startall(cls, requests: Sequence[Prequest]) -> None:
        """Starts several operations."""
        _Batch(requests).call(lib.MPI_Startall)


def _own(status: Status | None) -> Any:
    """A C status: the user's, or one of ours."""
    return ffi.new("MPI_Status *") if status is None else status._s


def _objects(loads: list[Loader | None], found: Any) -> list[Any]:
    return [load(found + i) if load else None for i, load in enumerate(loads)]


def _loaded(loads: list[Loader | None], place: int, status: Any) -> Any:
    load = loads[place] if place != lib.MPI_UNDEFINED else None
    return load(status) if load else None


class _Batch:
    """Handles of several requests, and their statuses, as C arrays."""

    __slots__ = ("_requests", "found", "many")

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self.many = ffi.new("MPI_Request[]", [request._p[0] for request in requests])
        self.found = ffi.new("MPI_Status[]", len(requests) or 1)

    def call(self, function: Any, *more: Any) -> None:
        """Calls with count and handles in front; the requests learn what came."""
        many, count = self.many, len(self._requests)
        try:
            code = function(count, many, *more)
        finally:
            for request, handle in zip(self._requests, many, strict=True):
                request._p[0] = handle
                if handle == NULL:
                    request._keep = request._load = None
        if code:
            _check_all(code, self.found)


def _check_all(code: int, statuses: Any) -> None:
    """As check(); of several requests, names those that failed."""
    try:
        check(code)
    except MPIException as error:
        if error.error_class == lib.MPI_ERR_IN_STATUS:
            for i, status in enumerate(statuses):
                if status.MPI_ERROR not in (lib.MPI_SUCCESS, lib.MPI_ERR_PENDING):
                    error.add_note(f"request {i}: {MPIException(status.MPI_ERROR)}")
        raise


def _write_back(statuses: list[Status] | None, found: Any, count: int) -> None:
    if statuses is None:
        return
    statuses.extend(Status() for _ in range(count - len(statuses)))
    for i in range(count):
        statuses[i]._s[0] = found[i]


def _some(
    function: Any, requests: Sequence[Request], statuses: list[Status] | None
) -> tuple[list[int] | None, list[Any] | None]:
    count = len(requests)
    done, places = ffi.new("int *"), ffi.new("int[]", max(count, 1))
    loads = [request._load for request in requests]
    batch = _Batch(requests)
    batch.call(function, done, places, batch.found)
    if done[0] == lib.MPI_UNDEFINED:
        return None, None
    indices = list(places[0 : done[0]])
    _write_back(statuses, batch.found, done[0])
    objects = [_loaded(loads, i, batch.found + k) for k, i in enumerate(indices)]
    return indices, objects
