# SPDX-License-Identifier: MIT
"""``tbmpi info``: what this installation is and what it finds on the machine."""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tbmpi import _paths
from tbmpi._gen.settings import SETTINGS
from tbmpi.launch.board import operations


def version() -> str:
    """The version of the installed package."""
    try:
        return importlib.metadata.version("tbmpi")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="tbmpi info", description=__doc__)
    parser.add_argument("--settings", action="store_true", help="every TBMPI_ variable")
    parser.add_argument(
        "--missing", action="store_true", help="operations not there yet"
    )
    parser.add_argument(
        "--pool", nargs="?", const="", metavar="JOB", help="a running job's pools"
    )
    parser.add_argument(
        "--routes", nargs="?", const="", metavar="JOB", help="and who reaches whom how"
    )
    parser.add_argument("--json", action="store_true", help="the same for programs")
    args = parser.parse_args(argv)
    if args.pool is not None or args.routes is not None:
        return _print_job(args)
    if args.settings:
        return _print_settings(args.json)
    if args.missing:
        missing = [name for name, there in operations().items() if not there]
        print(json.dumps(missing, indent=1) if args.json else "\n".join(missing))
        return 0
    facts = collect()
    if args.json:
        print(json.dumps(facts, indent=1))
        return 0
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        print(f"{name.ljust(width)}  {value}")
    return 0


def collect() -> dict[str, str]:
    """What `tbmpi info` prints, by name."""
    library = _paths.library()
    table = operations()
    return {
        "version": version(),
        "library": str(library) if library.exists() else f"{library} (not built)",
        "implemented": f"{sum(table.values())} of {len(table)} operations",
        "compiler wrapper": "tbmpicc, tbmpicxx; headers in "
        + str(_paths.include_folder()),
        "router": _router(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": _processors(),
        "shared memory": _shared_memory(),
        "single copy": single_copy(),
    }


def _print_job(args: argparse.Namespace) -> int:
    from tbmpi.launch import control, pools
    from tbmpi.launch.errors import LaunchError

    try:
        path = control.find(args.pool or args.routes or None)
        facts = control.ask(path, {"do": "show"})
    except LaunchError as problem:
        print(f"tbmpi info: {problem}", file=sys.stderr)
        return problem.code
    if args.json:
        shown = {key: facts[key] for key in ("nodes", "fabric")}
        print(json.dumps(shown, indent=1))
        return 0
    if args.pool is not None:
        print("\n".join(pools.pool_lines(facts)))
    if args.routes is not None:
        print("\n".join(pools.route_lines(facts)))
    return 0


def _router() -> str:
    path = _paths.router()
    return str(path) if path.exists() else "none in this build"


def _processors() -> str:
    total = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = _performance_cores() or total
    return f"{usable} usable of {total}"


def _performance_cores() -> int:
    out = subprocess.run(
        ["/usr/sbin/sysctl", "-n", "hw.perflevel0.logicalcpu"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return int(out) if out.isdigit() else 0


def _shared_memory() -> str:
    if sys.platform == "darwin":
        return "of the system, without a limit of its own"
    try:
        disk = os.statvfs("/dev/shm")
    except OSError:
        return "no /dev/shm"
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    return f"{free >> 20} MiB free of {total >> 20} MiB in /dev/shm"


def single_copy() -> str:
    """Whether a rank may read another's memory, found by trying."""
    if sys.platform != "linux":
        return "not on this system; large messages are copied through shared memory"
    child = subprocess.Popen(["/bin/sleep", "5"], stdin=subprocess.DEVNULL)
    try:
        allowed, why = _read_a_word_of(child.pid)
    finally:
        child.kill()
        child.wait()
    if allowed:
        return "yes (process_vm_readv)"
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    hint = f"; ptrace_scope is {scope.read_text().strip()}" if scope.exists() else ""
    return f"refused by the system ({why}{hint})"


def _read_a_word_of(pid: int) -> tuple[bool, str]:
    """Reads the start of the first mapping of a process."""
    try:
        first = Path(f"/proc/{pid}/maps").read_text().split("-", 1)[0]
    except OSError as why:
        return False, why.strerror or str(why)
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.create_string_buffer(8)
    mine = struct.pack("@PN", ctypes.addressof(word), 8)
    theirs = struct.pack("@PN", int(first, 16), 8)
    got = libc.process_vm_readv(
        ctypes.c_int(pid),
        mine,
        ctypes.c_ulong(1),
        theirs,
        ctypes.c_ulong(1),
        ctypes.c_ulong(0),
    )
    return got == 8, os.strerror(ctypes.get_errno()) if got < 0 else ""


def _print_settings(as_json: bool) -> int:
    if as_json:
        print(json.dumps([row._asdict() for row in SETTINGS], indent=1))
        return 0
    for row in SETTINGS:
        value = os.environ.get(row.variable)
        now = f", now {value}" if value is not None else ""
        unit = f" {row.unit}" if row.unit else ""
        default = row.default or "empty"
        print(f"{row.variable}  {row.kind.lower()}{unit}, default {default}{now}")
        print(f"    {row.help}")
    return 0
