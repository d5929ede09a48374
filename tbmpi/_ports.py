# SPDX-License-Identifier: MIT
"""Ports and names: how programs that were started apart find each other."""

from __future__ import annotations

from tbmpi._ffi import check, ffi, lib, text
from tbmpi._handle import hints
from tbmpi._info import Info


def Open_port(info: Info | None = None) -> str:
    """A place where Intracomm.Accept can be met; its name for Connect."""
    out = ffi.new("char[]", lib.MPI_MAX_PORT_NAME + 1)
    check(lib.MPI_Open_port(hints(info), out))
    return text(out)


def Close_port(port_name: str) -> None:
    """Gives up a port."""
    check(lib.MPI_Close_port(port_name.encode()))


def Publish_name(service_name: str, port_name: str, info: Info | None = None) -> None:
    """Lets other programs look a port up by the name of a service."""
    service, port = service_name.encode(), port_name.encode()
    check(lib.MPI_Publish_name(service, hints(info), port))


def Unpublish_name(service_name: str, port_name: str, info: Info | None = None) -> None:
    """Takes back what Publish_name said."""
    service, port = service_name.encode(), port_name.encode()
    check(lib.MPI_Unpublish_name(service, hints(info), port))


def Lookup_name(service_name: str, info: Info | None = None) -> str:
    """The port of a service. MPI.Exception with ERR_NAME if there is none."""
    out = ffi.new("char[]", lib.MPI_MAX_PORT_NAME + 1)
    check(lib.MPI_Lookup_name(service_name.encode(), hints(info), out))
    return text(out)
