# SPDX-License-Identifier: MIT
"""On the path of a Python on Linux, takes away what Python on a Mac lacks.

By the availability notes of Python 3.11's library reference. Imported by every
interpreter before anything else, so that the standard library, too, falls back to
what there is.
"""

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket

MISSING = {
    os: (
        *("sched_getaffinity", "sched_setaffinity", "sched_setscheduler"),
        *("memfd_create", "eventfd", "pidfd_open", "pipe2", "waitid"),
        *("posix_fallocate", "posix_fadvise", "fdatasync", "splice"),
        *("copy_file_range", "getrandom", "getresuid", "O_TMPFILE", "O_PATH"),
    ),
    fcntl: ("F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_ADD_SEALS", "F_OFD_SETLK"),
    resource: ("prlimit",),
    select: ("epoll",),
    signal: (
        *("sigwaitinfo", "sigtimedwait", "pidfd_send_signal"),
        *("SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGSTKFLT"),
    ),
    socket: (
        *("SOCK_CLOEXEC", "SOCK_NONBLOCK", "MSG_NOSIGNAL", "SO_PEERCRED"),
        *("SO_BINDTODEVICE", "SO_DOMAIN", "SO_PROTOCOL", "TCP_KEEPIDLE"),
        *("TCP_USER_TIMEOUT", "AF_NETLINK", "AF_VSOCK"),
    ),
}
for module, names in MISSING.items():
    for name in names:
        with contextlib.suppress(AttributeError):
            delattr(module, name)
