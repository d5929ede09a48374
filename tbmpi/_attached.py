# SPDX-License-Identifier: MIT
"""Memory that is attached for buffered sends: to everything, or to one object.

Without such memory buffered sends fail. MPI.BUFFER_AUTOMATIC, or None, makes MPI
find memory by itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tbmpi._ffi import check, ffi, lib
from tbmpi._memory import BUFFER_AUTOMATIC, BufferAutomaticType, buffer, memory, numeric
from tbmpi._request import Request

# What was attached, with its memory, by C type and handle (None for everything).
_attached: dict[tuple[str, int] | None, tuple[Any, Any]] = {}


def attach(function: Any, owner: tuple[str, int] | None, buf: Any) -> None:
    """Attaches by a C function of address and size, and holds `buf`."""
    if buf is None or isinstance(buf, BufferAutomaticType):
        check(function(lib.MPI_BUFFER_AUTOMATIC, 0))
        return
    address = memory(buf, writable=True)
    check(function(address, len(address)))
    _attached[owner] = buf, address


def detach(function: Any, owner: tuple[str, int] | None) -> Any:
    """Detaches by a C function; what was attached."""
    place, size = ffi.new("void **"), ffi.new("MPI_Count *")
    check(function(place, size))
    buf, address = _attached.pop(owner, (None, None))
    if place[0] == lib.MPI_BUFFER_AUTOMATIC:
        return BUFFER_AUTOMATIC
    if address is not None and place[0] == address:
        return buf
    return buffer.fromaddress(numeric(place[0]), size[0])


class Attaching:
    """The part of Comm and Session that is about their own buffer."""

    __slots__ = ()
    _h: Any

    def Attach_buffer(self, buf: Any) -> None:
        """Gives memory to this object's buffered sends.

        Size it by Pack_size and MPI.BSEND_OVERHEAD; it is used until it is
        detached.
        """
        attach(
            partial(self._about_buffer("attach_buffer_c"), self._h), self._key(), buf
        )

    def Detach_buffer(self) -> Any:
        """Blocks until all buffered sends are complete; what was attached."""
        function = partial(self._about_buffer("detach_buffer_c"), self._h)
        return detach(function, self._key())

    def Flush_buffer(self) -> None:
        """Blocks until all buffered sends are complete."""
        check(self._about_buffer("flush_buffer")(self._h))

    def Iflush_buffer(self) -> Request:
        """Starts Flush_buffer."""
        request = Request._started()
        check(self._about_buffer("iflush_buffer")(self._h, request._p))
        return request

    def _about_buffer(self, name: str) -> Any:
        return getattr(lib, f"{self._ctype}_{name}")  # type: ignore[attr-defined]

    def _key(self) -> tuple[str, int]:
        return self._ctype, self.handle  # type: ignore[attr-defined]


def Attach_buffer(buf: Any) -> None:
    """Gives memory to buffered sends.

    Size it by Pack_size and MPI.BSEND_OVERHEAD; it is used until it is detached.
    """
    attach(lib.MPI_Buffer_attach_c, None, buf)


def Detach_buffer() -> Any:
    """Blocks until all buffered sends are complete; what was attached."""
    return detach(lib.MPI_Buffer_detach_c, None)


def Flush_buffer() -> None:
    """Blocks until all buffered sends are complete."""
    check(lib.MPI_Buffer_flush())


def Iflush_buffer() -> Request:
    """Starts Flush_buffer."""
    request = Request._started()
    check(lib.MPI_Buffer_iflush(request._p))
    return request
