# SPDX-License-Identifier: MIT
"""The guard: parent of the ranks, and their end when the launcher dies.

A small process in a session of its own that starts processes when it is told
to, each in a process group of its own, and tells when they have ended. All of
a job is one session, for two reasons. Whatever a rank starts stays in it, so
nothing is lost sight of. And Linux's autogroup scheduling shares processors
between sessions first: ranks in different ones cannot yield to each other,
which makes a barrier of four on two processors five times slower.

The launcher holds the other end of the guard's only connection. When that
ends, however the launcher died, the guard ends the session. It works for any
program, also one that is no MPI program, on any Unix, and needs no code
between fork and exec of a rank.

On the connection: orders as a length, a pickle and descriptors, each with one
answer; in return lines of text, `+PID`, `!ERRNO`, `-PID STATUS` and `=`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tbmpi.launch.segment import out_of_the_way
from tbmpi.launch.sessions import Doom, Session

GRACE = 0.5
GIVE_UP = 5.0
STEP = 0.02
LENGTH = struct.Struct("=I")
MOST_DESCRIPTORS = 250  # Linux passes up to 253 at a time (SCM_MAX_FD)
SYNC = 0  # the length of an order that only wants an answer
CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Order:
    """A process to start.

    `standard` are our descriptors of its 0, 1 and 2; `handed` maps variables
    of its environment to descriptors of ours that it inherits, each under a
    number that the variable tells it. `plan` is a text that it can read from
    descriptor TBMPI_PLAN_FD; it tells the numbers of the descriptors `marked`
    where it has their {name}.
    """

    argv: tuple[str, ...]
    program: str
    cwd: str
    env: Mapping[str, str]
    standard: tuple[int, int, int]
    handed: Mapping[str, int]
    plan: str = ""
    marked: Mapping[str, int] = field(default_factory=dict)


class GuardLost(Exception):
    """Somebody has killed the guard; nobody waits for the ranks any more."""


class Guard:
    """The launcher's side. Ended processes are told once, by take_ended()."""

    def __init__(self) -> None:
        """Forks the guard. Call it before threads and the event loop exist."""
        self._wire, theirs = socket.socketpair()
        self._rest = b""
        self._ended: list[tuple[int, int]] = []
        self._answers: list[str] = []
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _Keeper(out_of_the_way(theirs.detach())).serve()
            finally:
                os._exit(0)
        theirs.close()

    def fileno(self) -> int:
        """Readable when there is something for take_ended()."""
        return self._wire.fileno()

    def start(self, order: Order) -> int:
        """Starts a process; its number, which is its process group's too.

        Raises OSError when it cannot be run, GuardLost.
        """
        names = tuple(order.handed), tuple(order.marked)
        words = (order.argv, order.program, order.cwd, dict(order.env), order.plan)
        body = pickle.dumps((words, names))
        inherited = [*order.handed.values(), *order.marked.values()]
        descriptors = [*order.standard, *inherited]
        answer = self._ask(LENGTH.pack(len(body)), descriptors, body)
        if answer[0] == "!":
            number = int(answer[1:])
            raise OSError(number, os.strerror(number))
        return int(answer[1:])

    def remove_at_end(self, folder: str) -> None:
        """The folder is to go with the launcher. Raises GuardLost."""
        body = pickle.dumps(folder)
        self._ask(LENGTH.pack(len(body)), [], body)

    def look(self) -> None:
        """Makes sure that who has ended by now is known to take_ended()."""
        self._ask(LENGTH.pack(SYNC), [], b"")

    def take_ended(self) -> list[tuple[int, int]]:
        """Processes that have ended: (number, exit code or minus the signal).

        Does not wait. Raises GuardLost.
        """
        if not self._ended:
            self._receive(wait=False)
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Dismisses the guard and waits for it; what is left of the job ends."""
        self._wire.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _ask(self, head: bytes, descriptors: list[int], body: bytes) -> str:
        try:
            self._wire.setblocking(True)
            if descriptors:
                socket.send_fds(self._wire, [head], descriptors)
                head = b""
            self._wire.sendall(head + body)
        except OSError as why:
            raise GuardLost from why
        while not self._answers:
            self._receive(wait=True)
        return self._answers.pop(0)

    def _receive(self, *, wait: bool) -> None:
        self._wire.setblocking(wait)
        try:
            data = self._wire.recv(65536)
        except BlockingIOError:
            return
        except OSError as why:
            raise GuardLost from why
        if not data:
            raise GuardLost
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in map(bytes.decode, lines):
            if line.startswith("-"):
                pid, status = line[1:].split()
                self._ended.append((int(pid), int(status)))
            else:
                self._answers.append(line)


class _Keeper:
    """The guard's own side of the connection."""

    def __init__(self, wire: int) -> None:
        os.setsid()
        _close_all_but(wire)
        self._wire = socket.socket(fileno=wire)
        self._folders: list[str] = []
        self._woken, waker = os.pipe()
        for fd in (self._woken, waker):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        for signum in CAUGHT:
            # A handler, so that ranks start with the default; what the
            # launcher's own parent ignored stays ignored.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                signal.signal(signum, _do_nothing)

    def serve(self) -> None:
        """Obeys until the launcher has gone, then ends the session."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                ready, _, _ = select.select([self._wire, self._woken], [], [])
                if self._woken in ready:
                    os.read(self._woken, 4096)
                    self._tell_ended()
                if self._wire in ready:
                    self._obey()
        _end_session()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _obey(self) -> None:
        head, descriptors, _, _ = socket.recv_fds(
            self._wire, LENGTH.size, MOST_DESCRIPTORS
        )
        (length,) = LENGTH.unpack(head + self._read(LENGTH.size - len(head)))
        if length == SYNC:
            self._tell_ended()
            self._wire.sendall(b"=\n")
            return
        order = pickle.loads(self._read(length))
        if isinstance(order, str):
            self._folders.append(order)
            self._wire.sendall(b"=\n")
            return
        words, names = order
        try:
            pid = _start(words, names, descriptors)
        except OSError as why:
            self._wire.sendall(b"!%d\n" % (why.errno or 0))
        else:
            self._wire.sendall(b"+%d\n" % pid)
        finally:
            for fd in descriptors:
                os.close(fd)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._wire.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def _tell_ended(self) -> None:
        lines = []
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                lines.append(b"-%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))
        self._wire.sendall(b"".join(lines))


def _start(words: tuple, names: tuple, descriptors: list[int]) -> int:
    argv, program, cwd, env, plan = words
    handed, marked = names
    inherited = [out_of_the_way(os.dup(fd)) for fd in descriptors[3:]]
    stdin, stdout, stderr = descriptors[:3]
    try:
        env |= {name: str(fd) for name, fd in zip(handed, inherited, strict=False)}
        if plan:
            own = zip(marked, inherited[len(handed) :], strict=True)
            inherited.append(_file_of(plan.format_map(dict(own))))
            env["TBMPI_PLAN_FD"] = str(inherited[-1])
        process = subprocess.Popen(
            argv,
            executable=program,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=inherited,
            process_group=0,
        )
    finally:
        for fd in inherited:
            os.close(fd)
    process.returncode = 0  # it is waited for by its number
    return process.pid


def _file_of(text: str) -> int:
    """A file without a name, at its start: a pipe may be too short."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        return out_of_the_way(os.dup(file.fileno()))


def _do_nothing(_signum: int, _frame: object) -> None:
    """A signal that only has to wake the guard, or not to end it."""


def _close_all_but(wire: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    last = 65536 if limit == resource.RLIM_INFINITY else limit
    os.closerange(3, wire)
    os.closerange(wire + 1, last)


def _end_session() -> None:
    doom = Doom()
    now = time.monotonic()
    limit = now + GIVE_UP
    doom.add(Session(os.getpid()), now, now + GRACE)
    while doom.condemned and now < limit:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        doom.step(now)
        time.sleep(STEP)
        now = time.monotonic()
