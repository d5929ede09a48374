# SPDX-License-Identifier: MIT
"""How an agent is started on another machine, and why it could not be.

The system's own ssh does it, which knows the user's keys, aliases and jump
hosts. Nothing secret is on its command line. The agent's interpreter is this
one's path, in the home folder of the other machine if it is in the home folder
here: the remote PATH is not asked, on macOS it is that of the bare system.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

AGENT = "tbmpi.launch.agent"
OPTIONS = (
    "-x",
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=3",
    "-oServerAliveCountMax=3",
)


def interpreter(given: str) -> str:
    """The Python of an agent, for a shell: `given`, or where this one is."""
    path = given or sys.executable
    home = os.path.expanduser("~")
    if given.startswith("~/"):
        path = home + given[1:]
    if home != "/" and path.startswith(home + "/"):
        return '"$HOME"/' + shlex.quote(path[len(home) + 1 :])
    return shlex.quote(path)


def command(ssh: str, host: str, python: str) -> list[str]:
    """The command that starts an agent on `host`; LaunchError never."""
    return [
        *shlex.split(ssh or "ssh"),
        *OPTIONS,
        "--",
        host,
        f"exec {interpreter(python)} -u -m {AGENT}",
    ]


def local_command(python: str) -> list[str]:
    """The same on this machine."""
    return [os.path.expanduser(python) or sys.executable, "-u", "-m", AGENT]


def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts an agent out of the terminal's reach: we pass signals on."""
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


_CAUSES = (
    (
        "Host key verification failed",
        "its key is not known here: run 'ssh {host} true' once and check the key",
    ),
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its key has changed: see ssh's message with 'ssh {host} true'",
    ),
    (
        "Permission denied",
        "it does not let us in without a password: run 'ssh-copy-id {host}'",
    ),
    ("Could not resolve hostname", "its name cannot be resolved: give an address"),
    ("Name or service not known", "its name cannot be resolved: give an address"),
    (
        "Connection refused",
        "it has no ssh server: on a Mac switch on Remote Login in System Settings, "
        "General, Sharing",
    ),
    ("timed out", "it does not answer: is it up, and on this network?"),
    ("No route to host", "it cannot be reached: is it up, and on this network?"),
    (
        "No module named",
        "its Python has no tbmpi: install it there, in the same place as here, or "
        "name another interpreter with --python",
    ),
)


def explain(host: str, python: str, code: int | None, errors: str) -> str:
    """One sentence about an agent that did not start."""
    for sign, cause in _CAUSES:
        if sign in errors:
            return f"cannot start on {host}: {cause.format(host=host)}"
    if code in (126, 127):
        path = python or sys.executable
        return (
            f"cannot start on {host}: there is no Python at {path}; install tbmpi in "
            "the same place as here or name the interpreter with --python"
        )
    lines = errors.strip().splitlines()
    last = lines[-1] if lines else f"ssh ended with exit code {code}"
    return f"cannot start on {host}: {last}"
