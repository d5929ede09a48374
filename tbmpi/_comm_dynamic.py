# SPDX-License-Identifier: MIT
"""Communicators to processes that were not there: spawned, or met at a port."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from tbmpi import _life
from tbmpi._ffi import check, ffi, lib
from tbmpi._handle import hints
from tbmpi._info import Info

if TYPE_CHECKING:
    from tbmpi._intercomm import Intercomm

Command = os.PathLike[Any] | str | bytes


class Dynamic:
    """The part of Intracomm that this file is about.

    All ranks make these calls; what is said of the program or of the port counts
    on rank `root` only.
    """

    __slots__ = ()
    _h: Any
    Get_rank: Callable[[], int]

    def Spawn(
        self,
        command: Command,
        args: Sequence[str] | None = None,
        maxprocs: int = 1,
        info: Info | None = None,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Intercomm:
        """Starts `maxprocs` processes of a program; the communicator to them.

        `errcodes` gets an error code for each. The processes find this
        communicator by MPI.Comm.Get_parent().
        """
        words = _Words()
        program, argv = ffi.NULL, lib.MPI_ARGV_NULL
        if root == self.Get_rank():
            program, argv = words.chars(command), words.vector(args)
        codes = _codes(maxprocs, errcodes)
        what = (program, argv, maxprocs, hints(info), root, self._h)
        comm = _made(lib.MPI_Comm_spawn, *what, last=(codes,))
        if errcodes is not None:
            errcodes[:] = codes[0:maxprocs]
        return comm

    def Spawn_multiple(
        self,
        command: Sequence[Command] | None,
        args: Sequence[Sequence[str] | None] | None = None,
        maxprocs: Sequence[int] | int | None = None,
        info: Sequence[Info] | Info | None = None,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Intercomm:
        """Starts processes of several programs; the communicator to all of them.

        One entry a program in each sequence, 1 process unless `maxprocs` says
        more. `errcodes` gets a list of error codes for each.
        """
        words, is_root = _Words(), root == self.Get_rank()
        commands, vectors, counts, infos = (ffi.NULL,) * 4
        if is_root:
            if isinstance(command, os.PathLike | str | bytes) or command is None:
                raise ValueError(f"expected a sequence of programs, got {command!r}")
            programs = list(command)
            count = len(programs)
            numbers = _each(1 if maxprocs is None else maxprocs, count, "maxprocs")
            commands = words.vector(programs)
            vectors = words.vectors(args, count)
            counts = ffi.new("int[]", [index(number) for number in numbers])
            handles = [hints(one) for one in _each(info, count, "info")]
            infos = ffi.new("MPI_Info[]", handles)
        else:
            # Elsewhere they only tell how many error codes there will be.
            numbers = list(maxprocs) if isinstance(maxprocs, list | tuple) else []
            count = len(numbers)
        total = sum(numbers)
        codes = _codes(total, errcodes)
        what = (count, commands, vectors, counts, infos, root, self._h)
        comm = _made(lib.MPI_Comm_spawn_multiple, *what, last=(codes,))
        if errcodes is not None:
            left = iter(codes[0:total])
            errcodes[:] = [[next(left) for _ in range(number)] for number in numbers]
        return comm

    def Accept(
        self, port_name: str, info: Info | None = None, root: int = 0
    ) -> Intercomm:
        """Blocks until another program connects to the port of MPI.Open_port()."""
        return self._meet(lib.MPI_Comm_accept, port_name, info, root)

    def Connect(
        self, port_name: str, info: Info | None = None, root: int = 0
    ) -> Intercomm:
        """Connects to a program that accepts at the port."""
        return self._meet(lib.MPI_Comm_connect, port_name, info, root)

    def _meet(
        self, function: Any, port_name: str, info: Info | None, root: int
    ) -> Intercomm:
        is_root = root == self.Get_rank()
        port = port_name.encode() if is_root else ffi.NULL
        return _made(function, port, hints(info), root, self._h)


def _made(function: Any, *what: Any, last: tuple[Any, ...] = ()) -> Intercomm:
    from tbmpi._intercomm import Intercomm

    out = ffi.new("MPI_Comm *")
    check(function(*what, out, *last))
    _life.set_errhandler(lib.MPI_Comm_set_errhandler, out[0])
    return Intercomm._of(out[0])


def _codes(count: int, wanted: Any) -> Any:
    if wanted is None:
        return lib.MPI_ERRCODES_IGNORE
    return ffi.new("int[]", max(count, 1))


def _each(given: Any, count: int, what: str) -> list[Any]:
    """One entry for each of `count` programs."""
    if given is None or not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"{count} programs, but {len(given)} entries in {what}")
    return list(given)


class _Words:
    """C strings, and what keeps them."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def _keep(self, thing: Any) -> Any:
        self._kept.append(thing)
        return thing

    def chars(self, word: Command) -> Any:
        """A string."""
        return self._keep(ffi.new("char[]", os.fsencode(word)))

    def vector(self, words: Any) -> Any:
        """Strings with NULL behind them; NULL for None. One alone is a list."""
        if words is None:
            return lib.MPI_ARGV_NULL
        if isinstance(words, str | bytes):
            words = [words]
        places = [self.chars(word) for word in words]
        return self._keep(ffi.new("char *[]", [*places, ffi.NULL]))

    def vectors(self, lists: Any, count: int) -> Any:
        """A vector for each program; NULL for None."""
        if lists is None:
            return lib.MPI_ARGVS_NULL
        if isinstance(lists, str | bytes):
            lists = [lists] * count
        empty = self.vector([])
        places = [
            empty if words is None else self.vector(words)
            for words in _each(list(lists), count, "args")
        ]
        return self._keep(ffi.new("char **[]", places))
