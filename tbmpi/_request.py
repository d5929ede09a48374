# SPDX-License-Identifier: MIT
"""MPI.Request and MPI.Prequest: operations under way.

A request holds the memory of its buffers until it is complete, also when nobody
holds the request any more. The methods in capitals wait or test; those in small
letters also return the received objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, Self

from tbmpi import _fast
from tbmpi._exception import Exception as MPIException
from tbmpi._ffi import check, ffi, lib, quick
from tbmpi._handle import Handle
from tbmpi._status import Status, empties, empty, pointer

NULL = lib.MPI_REQUEST_NULL
IGNORED = lib.MPI_STATUS_IGNORE
Loader = Callable[[Any], Any]

# Requests that were dropped before they were complete.
_dropped: list[Request] = []


class Request(_fast.Pending, Handle):
    """An operation under way. Errors raise MPI.Exception."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Request"
    _null = NULL

    _p: Any  # the C handle, in memory of its own: MPI changes it
    _keep: Any  # what must live as long as the operation
    _load: Loader | None  # from the status to the received object

    def __new__(cls, request: Request | None = None) -> Self:
        """A null request, or another name for `request`."""
        self = object.__new__(cls)
        if isinstance(request, Request):
            self._p = request._p
            self._keep, self._load = request._keep, request._load
        elif request is not None:
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
        if _dropped:
            _tidy()
        self = object.__new__(cls)
        self._keep = keep
        self._load = load
        return self

    # --------------------------------------------------------------- one

    @quick
    def Wait(self, status: Status | None = None) -> Literal[True]:
        """Blocks until the operation is complete."""
        self._wait(pointer(status))
        return True

    @quick
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
        """Lets the operation finish by itself. Its memory must stay unchanged.

        Nothing tells when it has finished, so hold the request until then.
        """
        check(lib.MPI_Request_free(self._p))
        self._load = None

    def _wait(self, status: Any) -> None:
        error = lib.MPI_Wait(self._p, status)
        if error:
            self._fail(error)
        self._settle()

    def _test(self, status: Any) -> bool:
        flag = ffi.new("int *")
        error = lib.MPI_Test(self._p, flag, status)
        if error:
            self._fail(error)
        if flag[0]:
            self._settle()
        return bool(flag[0])

    def _settle(self) -> None:
        """Lets go of what a finished operation held; persistent ones keep it."""
        if self._p[0] == NULL:
            self._let_go()

    def _fail(self, code: int) -> NoReturn:
        error = MPIException(code)
        advice = getattr(self._load, "advice", None)
        if advice and error.Get_error_class() == lib.MPI_ERR_TRUNCATE:
            error.add_note(advice)
        raise error

    # -------------------------------------------------------------- many

    @classmethod
    def Waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> Literal[True]:
        """Blocks until all are complete; `statuses` is filled if given."""
        _Batch(requests).all(lib.MPI_Waitall, statuses)
        return True

    @classmethod
    def waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[Any]:
        """Blocks until all are complete; their received objects."""
        batch = _Batch(requests)
        batch.all(lib.MPI_Waitall, statuses)
        return batch.objects()

    @classmethod
    def Testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> bool:
        """Whether all are complete; `statuses` is filled if they are."""
        flag = ffi.new("int *")
        _Batch(requests).all(lib.MPI_Testall, statuses, flag)
        return bool(flag[0])

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Whether all are complete, and their received objects if so."""
        flag, batch = ffi.new("int *"), _Batch(requests)
        batch.all(lib.MPI_Testall, statuses, flag)
        return (True, batch.objects()) if flag[0] else (False, None)

    @classmethod
    def Get_status_all(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> bool:
        """As Testall, without freeing the requests."""
        flag = ffi.new("int *")
        _Batch(requests).all(lib.MPI_Request_get_status_all, statuses, flag)
        return bool(flag[0])

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Blocks until one is complete; its index, or MPI.UNDEFINED if none is left."""
        place = ffi.new("int *")
        _Batch(requests).call(lib.MPI_Waitany, place, pointer(status))
        return place[0]

    @classmethod
    def waitany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, Any]:
        """Blocks until one is complete; its index and received object."""
        place, found, batch = ffi.new("int *"), _own(status), _Batch(requests)
        batch.call(lib.MPI_Waitany, place, found)
        return place[0], batch.object(place[0], found)

    @classmethod
    def Testany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool]:
        """Index of a complete one or MPI.UNDEFINED, and whether there is one.

        It is also true if none is left.
        """
        return _any(lib.MPI_Testany, requests, pointer(status))[:2]

    @classmethod
    def testany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool, Any | None]:
        """As Testany, and the received object."""
        found = _own(status)
        place, flag, batch = _any(lib.MPI_Testany, requests, found)
        return place, flag, batch.object(place, found) if flag else None

    @classmethod
    def Get_status_any(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool]:
        """As Testany, without freeing the request."""
        return _any(lib.MPI_Request_get_status_any, requests, pointer(status))[:2]

    @classmethod
    def Waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Blocks until some are complete; their indices, None if none is left."""
        return _Batch(requests).some(lib.MPI_Waitsome, statuses)

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As Waitsome, and the received objects."""
        batch = _Batch(requests)
        return batch.some(lib.MPI_Waitsome, statuses), batch.objects_of_some()

    @classmethod
    def Testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Indices of those that are complete, None if none is left."""
        return _Batch(requests).some(lib.MPI_Testsome, statuses)

    @classmethod
    def testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As Testsome, and the received objects."""
        batch = _Batch(requests)
        return batch.some(lib.MPI_Testsome, statuses), batch.objects_of_some()

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """As Testsome, without freeing the requests."""
        return _Batch(requests).some(lib.MPI_Request_get_status_some, statuses)

    get_status_all = Get_status_all
    get_status_any = Get_status_any
    get_status_some = Get_status_some


Request._family = (Request,)


class Prequest(Request):
    """A persistent request: start it, wait for it, start it again."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"

    def __new__(cls, request: Request | None = None) -> Self:
        """A null request, or another name for a persistent one."""
        self = super().__new__(cls, request)
        _require_kind(Prequest, self, request)
        return self

    def Start(self) -> None:
        """Starts the operation."""
        check(lib.MPI_Start(self._p))

    @classmethod
    def Startall(cls, requests: Sequence[Prequest]) -> None:
        """Starts several operations."""
        _Batch(requests).call(lib.MPI_Startall)

    def Pready(self, partition: int) -> None:
        """Says that a partition of the buffer, 0 and up, can be sent."""
        check(lib.MPI_Pready(partition, self._p[0]))

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Says that partitions can be sent, the last one included."""
        check(lib.MPI_Pready_range(partition_low, partition_high, self._p[0]))

    def Pready_list(self, partitions: Sequence[int]) -> None:
        """Says that these partitions can be sent."""
        numbers = ffi.new("int[]", list(partitions) or 1)
        check(lib.MPI_Pready_list(len(partitions), numbers, self._p[0]))

    def Parrived(self, partition: int) -> bool:
        """Whether a partition of the buffer, 0 and up, has been received."""
        flag = ffi.new("int *")
        check(lib.MPI_Parrived(self._p[0], partition, flag))
        return bool(flag[0])


def _require_kind(kind: type[Request], made: Request, request: Request | None) -> None:
    if made._p[0] != NULL and not isinstance(request, kind):
        raise TypeError(
            f"expected {kind.__name__} or None, got {type(request).__name__}"
        )


def _own(status: Status | None) -> Any:
    """A C status: the user's, or one of ours."""
    return empty() if status is None else status._s


def _any(
    function: Any, requests: Sequence[Request], found: Any
) -> tuple[int, bool, _Batch]:
    place, flag, batch = ffi.new("int *"), ffi.new("int *"), _Batch(requests)
    batch.call(function, place, flag, found)
    return place[0], bool(flag[0]), batch


class _Batch:
    """Handles of several requests, and their statuses, as C arrays."""

    __slots__ = ("_indices", "_loads", "_many", "_requests", "_statuses")

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        try:
            handles = [request._p[0] for request in requests]
        except AttributeError:
            raise TypeError("expected a sequence of requests") from None
        self._loads = [request._load for request in requests]
        self._many = ffi.new("MPI_Request[]", handles)
        self._statuses = None
        self._indices: list[int] | None = None

    def call(self, function: Any, *more: Any) -> None:
        """Calls with count and handles in front; the requests learn what came."""
        many, count = self._many, len(self._requests)
        try:
            code = function(count, many, *more)
        finally:
            for request, handle in zip(self._requests, many, strict=True):
                request._p[0] = handle
                if handle == NULL:
                    request._let_go()
        if code:
            self._check(code)

    def all(
        self, function: Any, statuses: list[Status] | None, flag: Any = None
    ) -> None:
        """A call about all of them; with `flag`, one that tests."""
        found = self._statuses = empties(len(self._requests))
        flags = () if flag is None else (flag,)
        try:
            self.call(function, *flags, found)
        finally:
            if flag is None or flag[0]:
                self._write_back(statuses, len(self._requests))

    def some(self, function: Any, statuses: list[Status] | None) -> list[int] | None:
        """A call about some of them; the indices of those, None if none is left."""
        count = len(self._requests)
        found = self._statuses = empties(count)
        done, places = ffi.new("int *"), ffi.new("int[]", count or 1)
        self.call(function, done, places, found)
        if done[0] == lib.MPI_UNDEFINED:
            return None
        self._write_back(statuses, done[0])
        self._indices = list(places[0 : done[0]])
        return self._indices

    def object(self, place: int, status: Any) -> Any:
        """What request number `place` has received."""
        load = self._loads[place] if place != lib.MPI_UNDEFINED else None
        return load(status) if load else None

    def objects(self) -> list[Any]:
        """What all of them have received."""
        found = self._statuses
        return [load(found + i) if load else None for i, load in enumerate(self._loads)]

    def objects_of_some(self) -> list[Any] | None:
        """What those that some() found have received."""
        if self._indices is None:
            return None
        found = self._statuses
        return [self.object(i, found + k) for k, i in enumerate(self._indices)]

    def _check(self, code: int) -> None:
        """As check(); of several requests, names those that failed."""
        error = MPIException(code)
        if self._statuses and error.Get_error_class() == lib.MPI_ERR_IN_STATUS:
            for i, status in enumerate(self._statuses):
                if status.MPI_ERROR not in (lib.MPI_SUCCESS, lib.MPI_ERR_PENDING):
                    error.add_note(f"request {i}: {MPIException(status.MPI_ERROR)}")
        raise error

    def _write_back(self, statuses: list[Status] | None, count: int) -> None:
        if statuses is None:
            return
        if isinstance(statuses, list):
            statuses.extend(Status() for _ in range(count - len(statuses)))
        for status, found in zip(statuses, self._statuses[0:count], strict=False):
            status._s[0] = found


# -------------------------------------------------- requests that nobody holds

_FEW = 16
_countdown = [_FEW]  # of requests to be started before the next look


def unfinished() -> list[Any]:
    """A list, always the same, of the requests that nobody holds."""
    return _dropped


def _tidy() -> None:
    """Lets go of dropped requests that are complete by now, but not every time.

    Amortized: the next look is after twice as many starts as requests are left.
    """
    _countdown[0] -= 1
    if _countdown[0] > 0:
        return
    waiting: list[Request] = []
    while _dropped:
        request = _dropped.pop()
        handle, flag = request._h, ffi.new("int *")
        if handle == NULL or lib.MPI_Request_get_status(handle, flag, IGNORED):
            continue
        if not flag[0]:
            waiting.append(request)
    _dropped.extend(waiting)
    _countdown[0] = max(_FEW, 2 * len(waiting))


def _cell(handle: int) -> Any:
    """Memory for a request's handle, for C code."""
    return ffi.new("MPI_Request *", ffi.cast("MPI_Request", handle))


_fast.tell("Request", Request)
_fast.tell("dropped", _dropped)
_fast.tell("tidy", _tidy)
_fast.tell("request_cell", _cell)
