# SPDX-License-Identifier: MIT
"""MPI.Grequest: a request for an operation that the user carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from tbmpi._abi import lib as _module
from tbmpi._exception import reported
from tbmpi._ffi import check, ffi, lib
from tbmpi._request import NULL, Request, _require_kind
from tbmpi._status import Status

Callback = Callable[..., None] | None


class Grequest(Request):
    """A generalized request: it is waited for like any other one.

    Whoever carries out the operation calls Complete(), from any thread.
    """

    __slots__ = ("_general",)
    __module__ = "tbmpi.MPI"

    _general: Any  # the C handle; Complete needs it when the request is freed, too

    def __new__(cls, request: Request | None = None) -> Self:
        """A null request, or another name for a generalized one."""
        self = super().__new__(cls, request)
        _require_kind(Grequest, self, request)
        self._general = self._p[0]
        return self

    @classmethod
    def _of(cls, handle: Any) -> Self:
        self = super()._of(handle)
        self._general = handle
        return self

    @classmethod
    def Start(
        cls,
        query_fn: Callback = None,
        free_fn: Callback = None,
        cancel_fn: Callback = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Grequest:
        """A request whose operation is under way.

        When it is complete and waited for, ``query_fn(status, *args, **kwargs)``
        fills in the status; ``free_fn(*args, **kwargs)`` comes last;
        ``cancel_fn(completed, *args, **kwargs)`` is what Cancel calls. An
        exception in one of them makes the call fail that led to it.
        """
        state = _State(query_fn, free_fn, cancel_fn, args, kwargs)
        handle = ffi.new_handle(state)
        request = cls._started(load=_Result())
        _states[handle] = state
        callbacks = (_module.tb_greq_query, _module.tb_greq_free)
        start = lib.MPI_Grequest_start
        error = start(*callbacks, _module.tb_greq_cancel, handle, request._p)
        if error:
            del _states[handle]
            check(error)
        request._general = request._p[0]
        return request

    def Complete(self) -> None:
        """Says that the operation is complete."""
        if self._p[0] not in (NULL, self._general):
            check(lib.MPI_ERR_REQUEST)
        check(lib.MPI_Grequest_complete(self._general))

    def complete(self, obj: Any = None) -> None:
        """As Complete; wait() and test() of the request return `obj`."""
        if isinstance(self._load, _Result):
            self._load.obj = obj
        self.Complete()


class _Result:
    """The object of a generalized request; a waiting thread has it before it is set."""

    __slots__ = ("obj",)

    def __init__(self) -> None:
        self.obj: Any = None

    def __call__(self, _: Any) -> Any:
        return self.obj


class _State:
    """The functions of a generalized request."""

    __slots__ = ("args", "cancel", "free", "kwargs", "query")

    def __init__(
        self,
        query: Callback,
        free: Callback,
        cancel: Callback,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
    ) -> None:
        self.query, self.free, self.cancel = query, free, cancel
        self.args = () if args is None else tuple(args)
        self.kwargs = {} if kwargs is None else dict(kwargs)

    def call(self, function: Callback, *first: Any) -> None:
        if function is not None:
            function(*first, *self.args, **self.kwargs)


# The states that C holds a handle of, by that handle.
_states: dict[Any, _State] = {}


@ffi.def_extern(error=lib.MPI_ERR_INTERN)
def tb_greq_query(extra: Any, found: Any) -> int:
    """What MPI calls to learn the status of a complete request."""
    try:
        state, status = ffi.from_handle(extra), Status()
        state.call(state.query, status)
        if state.cancel is None:
            status.Set_cancelled(False)
        found[0] = status._s[0]
    except BaseException as error:
        return reported(error)
    return lib.MPI_SUCCESS


@ffi.def_extern(error=lib.MPI_ERR_INTERN)
def tb_greq_free(extra: Any) -> int:
    """What MPI calls when it frees the request."""
    try:
        state = ffi.from_handle(extra)
        _states.pop(extra, None)
        state.call(state.free)
    except BaseException as error:
        return reported(error)
    return lib.MPI_SUCCESS


@ffi.def_extern(error=lib.MPI_ERR_INTERN)
def tb_greq_cancel(extra: Any, completed: int) -> int:
    """What MPI calls to cancel the operation."""
    try:
        state = ffi.from_handle(extra)
        state.call(state.cancel, bool(completed))
    except BaseException as error:
        return reported(error)
    return lib.MPI_SUCCESS
