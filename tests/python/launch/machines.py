# SPDX-License-Identifier: MIT
"""Other machines for tests: an ssh that stays here, and networks of our own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Runs the command here. A login script has its say, as on many machines.
PLAIN = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
echo "Welcome to $2"
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$3"
"""

# The same in the network namespace that bears the machine's name.
SPACED = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
exec nsenter --net=/run/netns/{prefix}-"$2" sh -c "$3"
"""

FAILING = """\
#!/bin/sh
echo "{error}" >&2
exit {code}
"""


def fake_ssh(folder: Path, text: str = PLAIN) -> str:
    """An ssh of our own; its path."""
    path = folder / "ssh"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def can_make_networks() -> bool:
    """Whether this user may make network namespaces."""
    tools = shutil.which("ip") and shutil.which("nsenter")
    return bool(tools) and os.geteuid() == 0 and _ip("netns", "list") == 0


def _ip(*words: str) -> int:
    return subprocess.run(["ip", *words], capture_output=True, timeout=20).returncode


class Network:
    """Two machines, alpha and beta, whose only connection is one cable."""

    def __init__(self) -> None:
        self.prefix = f"tbmpi{os.getpid()}"
        self.addresses = {"alpha": "10.97.0.1", "beta": "10.97.0.2"}

    def space(self, name: str) -> str:
        """The namespace of a machine."""
        return f"{self.prefix}-{name}"

    def build(self) -> None:
        """Makes all of it."""
        a, b = self.space("alpha"), self.space("beta")
        for space in (a, b):
            assert _ip("netns", "add", space) == 0
        pair = ["link", "add", "cable", "netns", a, "type", "veth"]
        assert _ip(*pair, "peer", "name", "cable", "netns", b) == 0
        for name, address in self.addresses.items():
            space = self.space(name)
            add = ["address", "add", f"{address}/24", "dev", "cable"]
            assert _ip("-n", space, *add) == 0
            for device in ("lo", "cable"):
                assert _ip("-n", space, "link", "set", device, "up") == 0

    def cut(self) -> None:
        """The cable is pulled: nothing says so to who waits for data."""
        assert _ip("-n", self.space("beta"), "link", "set", "cable", "down") == 0

    def remove(self) -> None:
        """Leaves nothing."""
        for name in self.addresses:
            _ip("netns", "del", self.space(name))


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """A network for as long as it is needed."""
    it = Network()
    try:
        it.build()
        yield it
    finally:
        it.remove()
