# SPDX-License-Identifier: MIT
"""The other Mac is reached by ssh: one program at each end, talking over it.

All that the two have to say to each other goes through ssh's pipes, so no port
is opened and no secret is needed; who may do this, ssh decides.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from ipaddress import ip_interface
from typing import Any

from tbmpi import info
from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.hosts import local_name
from tbmpi.selftest import pairs
from tbmpi.selftest.ends import LIMIT, End, Said, Task, Wire, ask, wait_for
from tbmpi.selftest.pairs import Result
from tbmpi.selftest.tunnel import Tunnel, TunnelEnded

HELLO = "tbmpi selftest"
LINK_PREFIX = 30  # how tools that give addresses to cables cut their nets
SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15")

Device = Mapping[str, Any]


def lead(
    host: str, cables: Sequence[str], python: str, daring: bool, patience: float
) -> Result:
    """Runs all probes between this Mac and `host`."""
    command = f"exec {shlex.quote(python)} -m tbmpi.selftest.cli --answer"
    try:
        there = subprocess.Popen(
            [*SSH, host, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as why:
        raise LaunchError(f"cannot run ssh: {why}", FAILED) from why
    assert there.stdin is not None and there.stdout is not None
    tunnel = Tunnel(there.stdout.fileno(), there.stdin.fileno())
    timer = threading.Timer(LIMIT + 60, there.kill)
    timer.start()
    try:
        return _lead(tunnel, host, cables, daring, patience)
    except (TunnelEnded, BrokenPipeError, ValueError) as why:
        raise LaunchError(
            f"{host} does not answer: {why}; is tbmpi installed there, as "
            f"{python}? (--python PATH)",
            FAILED,
        ) from why
    finally:
        timer.cancel()
        tunnel.close()
        there.stdin.close()
        there.kill()
        there.wait()


def _lead(
    tunnel: Tunnel, host: str, cables: Sequence[str], daring: bool, patience: float
) -> Result:
    hello = tunnel.hear()
    if not isinstance(hello, dict) or hello.get("what") != HELLO:
        raise TunnelEnded("something else answered")
    if hello["version"] != info.version():
        raise LaunchError(
            f"{host} has tbmpi {hello['version']}, this Mac {info.version()}: "
            "install the same one on both",
            FAILED,
        )
    wires = find_wires(ask(["devices"], os.environ), hello["devices"], cables, host)
    names = (_word(local_name()), _word(host))
    if names[0] == names[1]:
        names = names[0], f"{names[1]}-2"
    task = pairs.new_task(names, wires, daring, patience)
    first = pairs.before(task, os.environ)
    sockets = tunnel.open(task.channels)
    tunnel.tell(asdict(task))
    end = End(task, 0, sockets, os.environ)
    try:
        answer = tunnel.hear()
        wait_for([end], 10)
    finally:
        end.stop()
    said = [end.said(), Said(answer["lines"], answer["trouble"])]
    return pairs.gather(task, said, [*first, *pairs.after(task, os.environ)])


def answer() -> None:
    """The other end: standard input and output lead to the one that asks."""
    target = os.dup(1)
    os.dup2(2, 1)  # nothing else may write there
    tunnel = Tunnel(0, target)
    devices = ask(["devices"], os.environ)
    tunnel.tell({"what": HELLO, "version": info.version(), "devices": devices})
    told = tunnel.hear()
    wires = tuple(
        Wire(tuple(each["devices"]), tuple(each["addresses"])) for each in told["wires"]
    )
    task = Task(
        told["job"], tuple(told["names"]), wires, told["daring"], told["patience"]
    )
    end = End(task, 1, tunnel.open(task.channels), os.environ)
    threading.Thread(target=_listen, args=(tunnel,), daemon=True).start()
    wait_for([end])
    said = end.said()
    tunnel.tell({"lines": said.lines, "trouble": said.trouble})


def _listen(tunnel: Tunnel) -> None:
    """Passes on what comes, until nobody asks any more: then nothing is left."""
    try:
        tunnel.hear()
    except (TunnelEnded, OSError):
        os._exit(1)


def _word(name: str) -> str:
    """A name as a plan can have it."""
    bare = name.rpartition("@")[2].split(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]", "-", bare)[:60] or "mac"


# ------------------------------------------------------- which cables there are


def find_wires(
    here: Sequence[Device], there: Sequence[Device], wanted: Sequence[str], host: str
) -> list[Wire]:
    """The cables between two lists of devices; LaunchError if nobody can tell.

    `wanted` names them as LOCAL:REMOTE. Without it devices whose addresses lie
    in one net of a cable belong together, or the only ones that are up.
    """
    up = ([d for d in here if _usable(d)], [d for d in there if _usable(d)])
    if wanted:
        return [_named(text, up, host) for text in wanted]
    found = [(a, b) for a in up[0] for b in up[1] if _same_net(a, b)]
    if not found and len(up[0]) == len(up[1]) == 1:
        found = [(up[0][0], up[1][0])]
    if not found or len({a["device"] for a, _ in found}) < len(found):
        raise LaunchError(
            f"which cables join this Mac and {host}? Here are up: "
            f"{_list(up[0])}; there: {_list(up[1])}. Say --cable HERE:THERE",
            FAILED,
        )
    return [_wire(a, b) for a, b in found]


def _usable(device: Device) -> bool:
    return bool(device["up"] and device["addresses"])


def _same_net(a: Device, b: Device) -> bool:
    nets = [
        ip_interface(f"{each['addresses'][0]}/{LINK_PREFIX}").network for each in (a, b)
    ]
    return nets[0] == nets[1] and a["addresses"] != b["addresses"]


def _named(text: str, up: tuple[list[Device], list[Device]], host: str) -> Wire:
    names = text.split(":")
    if len(names) != 2:
        raise LaunchError(f"--cable {text}: it takes HERE:THERE, two devices")
    ends = []
    for name, devices, place in zip(names, up, ("here", f"on {host}"), strict=True):
        match = [each for each in devices if each["device"] == name]
        if not match:
            raise LaunchError(
                f"--cable {text}: no device {name} {place} is up and has an IPv4 "
                f"address; there are {_list(devices)}",
                FAILED,
            )
        ends.append(match[0])
    return _wire(ends[0], ends[1])


def _wire(a: Device, b: Device) -> Wire:
    return Wire((a["device"], b["device"]), (a["addresses"][0], b["addresses"][0]))


def _list(devices: Sequence[Device]) -> str:
    words = [f"{each['device']} ({each['addresses'][0]})" for each in devices]
    return ", ".join(words) or "none"


def default_python() -> str:
    """The interpreter to run over there, unless one is named."""
    return sys.executable
