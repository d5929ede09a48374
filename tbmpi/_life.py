# SPDX-License-Identifier: MIT
"""The start and the end of MPI in this process.

A rank that ends by an uncaught exception, or with an exit code other than 0,
ends the whole job: the others would wait for it forever. MPI_Abort does that
for an exception. For an exit code it is enough not to call MPI_Finalize: the
launcher then sees a rank that left early, and keeps its code.

A rank that ends well calls MPI_Finalize after all that is Python: functions of the
program's at exit and what its objects do when they go may still communicate.

All of this is for the process that initialized MPI. A forked child inherits the
hooks but is no rank, so they do nothing there.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from types import CodeType, FrameType, TracebackType
from typing import Any

from tbmpi._abi import lib as _module
from tbmpi._ffi import check, ffi, lib
from tbmpi._rc import rc

THREAD_LEVELS = {
    "single": lib.MPI_THREAD_SINGLE,
    "funneled": lib.MPI_THREAD_FUNNELED,
    "serialized": lib.MPI_THREAD_SERIALIZED,
    "multiple": lib.MPI_THREAD_MULTIPLE,
}
ABORTED_BY_EXCEPTION = 1


class _State:
    """This process as a rank."""

    pid = 0  # of the process that initialized MPI, 0 before
    initialized_here = False
    left_early = False  # the interpreter ends because something went wrong
    abort_status = 0  # to end the job with, at exit


_state = _State()


def is_initialized() -> bool:
    """Whether MPI_Init was called, by whomever."""
    flag = ffi.new("int *")
    check(lib.MPI_Initialized(flag))
    return bool(flag[0])


def is_finalized() -> bool:
    """Whether MPI_Finalize was called."""
    flag = ffi.new("int *")
    check(lib.MPI_Finalized(flag))
    return bool(flag[0])


def start() -> None:
    """What the first use of MPI does: initialize as ``tbmpi.rc`` says."""
    rc.read_environment(os.environ)
    if is_finalized():
        return
    if is_initialized():
        _started()
    elif rc.initialize:
        level = THREAD_LEVELS.get(rc.thread_level)
        if level is None:
            known = ", ".join(THREAD_LEVELS)
            raise ValueError(
                f"tbmpi.rc.thread_level is {rc.thread_level!r}, not one of {known}"
            )
        init_thread(level if rc.threads else lib.MPI_THREAD_SINGLE)


def init_thread(required: int) -> int:
    """Initializes MPI; the thread level that the library provides."""
    provided = ffi.new("int *")
    check(lib.MPI_Init_thread(ffi.NULL, ffi.NULL, required, provided))
    _state.initialized_here = True
    _started()
    return provided[0]


def finalize() -> None:
    """Finalizes MPI. Blocks until the other ranks have come as far."""
    check(lib.MPI_Finalize())


def abort(code: int) -> None:
    """Ends the job with `code`; does not return."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue  # closed or replaced; the job must end all the same
    lib.MPI_Abort(lib.MPI_COMM_WORLD, code)


def set_abort_status(status: int) -> None:
    """Makes this process end the job with `status` when the interpreter exits."""
    _state.abort_status = status


def _started() -> None:
    if _state.pid:
        return
    _state.pid = os.getpid()
    for comm in (lib.MPI_COMM_WORLD, lib.MPI_COMM_SELF):
        set_errhandler(lib.MPI_Comm_set_errhandler, comm)
    atexit.register(_at_exit)
    if rc.abort and _world()[1] > 1:
        _watch_for_failure()


def set_errhandler(function: Any, handle: Any) -> None:
    """Gives a new object the error handler that ``tbmpi.rc.errors`` asks for.

    `function` is MPI_X_set_errhandler for its kind.
    """
    handlers = {
        "exception": lib.MPI_ERRORS_RETURN,
        "abort": lib.MPI_ERRORS_ABORT,
        "fatal": lib.MPI_ERRORS_ARE_FATAL,
        "default": None,
    }
    if rc.errors not in handlers:
        raise ValueError(
            f"tbmpi.rc.errors is {rc.errors!r}, not one of {', '.join(handlers)}"
        )
    handler = handlers[rc.errors]
    if handler is not None:
        check(function(handle, handler))


def _world() -> tuple[int, int]:
    """Rank and size of COMM_WORLD."""
    rank, size = ffi.new("int *"), ffi.new("int *")
    check(lib.MPI_Comm_rank(lib.MPI_COMM_WORLD, rank))
    check(lib.MPI_Comm_size(lib.MPI_COMM_WORLD, size))
    return rank[0], size[0]


def _is_rank() -> bool:
    return os.getpid() == _state.pid


def _at_exit() -> None:
    if not _is_rank() or is_finalized():
        return
    if _state.abort_status:
        abort(_state.abort_status)
    if _state.left_early:
        return
    wanted = _state.initialized_here if rc.finalize is None else rc.finalize
    if wanted and _finalize_last():
        finalize()


def _finalize_last() -> int:
    """Has MPI finalized behind Python's end; not 0 if that cannot be."""
    from tbmpi import _attributes, _request

    # What is called back by MPI_Finalize has to be called while there is Python.
    _attributes.delete_of_self()
    # Nobody has waited for these, but the data may still be on their way.
    _module.tb_hold(id(_request.unfinished()))
    return _module.tb_finalize_last()


# ------------------------------------------------------------ leaving early


def _watch_for_failure() -> None:
    previous = sys.excepthook
    previous_thread = threading.excepthook

    def on_exception(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        if not _is_rank() or is_finalized():
            previous(kind, value, trace)
            return
        _state.left_early = True
        if kind is KeyboardInterrupt:
            # Sent to every rank, or to this one alone; the interpreter ends
            # with the signal's exit code, which says more than ours would.
            previous(kind, value, trace)
            return
        _tell(previous, kind, value, trace)
        abort(ABORTED_BY_EXCEPTION)

    def on_thread_exception(args: Any) -> None:
        if args.exc_type is SystemExit or not _is_rank() or is_finalized():
            previous_thread(args)
            return
        name = args.thread.name if args.thread else "?"
        _tell(sys.__excepthook__, *args[:3], where=f" in thread {name}")
        abort(ABORTED_BY_EXCEPTION)

    sys.excepthook = on_exception
    threading.excepthook = on_thread_exception
    _watch_exit_code()


def _tell(
    hook: Any,
    kind: type[BaseException],
    value: BaseException | None,
    trace: TracebackType | None,
    where: str = "",
) -> None:
    """Prints the traceback under a line that says whose it is."""
    rank, size = _world()
    name = os.uname().nodename
    head = f"rank {rank} of {size} on {name}: uncaught exception{where}\n"
    if hook is sys.__excepthook__:
        # One write, so that the lines of several ranks do not mix.
        import traceback

        lines = traceback.format_exception(kind, value, trace)
        sys.stderr.write(head + "".join(lines))
    else:
        sys.stderr.write(head)
        hook(kind, value, trace)


def _note_exit(code: object) -> None:
    """A SystemExit leaves the program; code as in SystemExit.code."""
    if _is_rank() and code is not None and code != 0:
        _state.left_early = True


def _watch_exit_code() -> None:
    """Learns the exit code before atexit handlers run, which are not told.

    From Python 3.12 on, sys.monitoring reports what unwinds the outermost
    frame. Before, it is SystemExit's attribute ``code`` that knows: without a
    Python frame on the stack only the interpreter reads it, which is about to
    exit. It does not read it if sys.exit has raised a SystemExit that is no
    object yet, so sys.exit is replaced as well.
    """
    if sys.version_info >= (3, 12):
        _watch_outermost_frame()
    else:
        _watch_code()


def _outermost_code() -> CodeType | None:
    main = threading.main_thread().ident
    frame: FrameType | None = sys._current_frames().get(main or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code if frame else None


def _watch_outermost_frame() -> None:
    outermost = _outermost_code()
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    free = [tool for tool in (4, 3) if monitoring.get_tool(tool) is None]
    if outermost is None or not free:
        return

    def on_unwind(code: CodeType, _: int, exception: BaseException) -> None:
        if code is outermost and isinstance(exception, SystemExit):
            _note_exit(exception.code)

    event = monitoring.events.PY_UNWIND
    monitoring.use_tool_id(free[0], "tbmpi")
    monitoring.register_callback(free[0], event, on_unwind)
    monitoring.set_events(free[0], event)


class _Code:
    """SystemExit.code, which notices when the interpreter asks for it."""

    def __init__(self, member: Any) -> None:
        self._get, self._set = member.__get__, member.__set__
        self._delete = member.__delete__
        self.__doc__ = member.__doc__

    def __get__(self, thing: SystemExit | None, kind: type | None = None) -> Any:
        if thing is None:
            return self
        value = self._get(thing, kind)
        if sys._getframe().f_back is None:
            _note_exit(value)
        return value

    def __set__(self, thing: SystemExit, value: object) -> None:
        self._set(thing, value)

    def __delete__(self, thing: SystemExit) -> None:
        self._delete(thing)


def _watch_code() -> None:
    # A type in C cannot be assigned to; the dict behind its mapping can.
    (names,) = gc.get_referents(SystemExit.__dict__)
    if not isinstance(names["code"], _Code):
        names["code"] = _Code(names["code"])
        _module.tb_modified(id(SystemExit))
        sys.exit = _exit


def _exit(status: object = None, /) -> None:
    """Ends the interpreter; see the standard library's sys.exit."""
    raise SystemExit(status)
