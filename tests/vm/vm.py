#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run a command in a virtual machine with Linux's software RDMA.

    python tests/vm/vm.py [--limit SECONDS] COMMAND [ARGUMENT ...]

The guest sees this machine's files, read only; its changes are in memory and
are lost. Exit code: the command's own; 125: the guest did not get that far, or
the time was up; 77: this machine cannot run it, and why.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import initramfs
from packages import SKIP, Trouble, Unavailable, environment, find, unpacked

HERE = Path(__file__).resolve().parent
PACKAGES = (
    "qemu-system-x86",
    "linux-image-amd64",
    "busybox-static",
    "ibverbs-utils",
    "ibverbs-providers",
    "iproute2",
)
QEMU = "usr/bin/qemu-system-x86_64"
KERNEL = "boot/vmlinuz-*-amd64"
# In rdma_rxe a checksum is asked for by name only, as dependencies do not tell.
MODULES = (
    *("virtio_pci", "9p", "9pnet_virtio", "overlay"),
    *("crc32_generic", "sch_netem", "veth", "ib_uverbs", "rdma_rxe"),
)
MEMORY_MIB = 1500
CPUS = 2
# The guest ends by itself; this is for one that does not.
GRACE_SECONDS = 20.0
NO_RESULT = 125


@dataclass(frozen=True)
class Machine:
    """What is needed to boot: all files, and QEMU's environment."""

    qemu: Path
    kernel: Path
    initramfs: Path
    packages: Path
    environment: dict[str, str]


@dataclass(frozen=True)
class Ended:
    """A command that ran in the guest. `status` is None if it did not end."""

    status: int | None
    output: str
    console: str
    seconds: float

    def why(self) -> str:
        """What to say of a guest without a result."""
        lines = [line for line in self.console.splitlines() if line.strip()]
        said = " | ".join(lines[-3:])
        return f"no result after {self.seconds:.0f} s; console: {said}"


def prepare() -> Machine:
    """Fetches and builds what is missing. Raises Unavailable."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Unavailable("the virtual machine needs Linux on x86-64")
    root = unpacked("vm", PACKAGES, QEMU, _trim, " ".join(MODULES))
    folder = root.parent
    kernel = find(folder, KERNEL)
    busybox = find(folder, "usr/bin/busybox") or find(folder, "bin/busybox")
    qemu = find(folder, QEMU)
    if not (kernel and busybox and qemu):
        raise Unavailable(f"kernel {kernel}, busybox {busybox}, QEMU {qemu}")
    version = kernel.name.removeprefix("vmlinuz-")
    image = folder / f"initramfs-{version}.gz"
    newest = max(path.stat().st_mtime for path in HERE.iterdir() if path.is_file())
    if not image.exists() or image.stat().st_mtime < newest:
        tree = find(folder, f"usr/lib/modules/{version}")
        if not tree:
            raise Unavailable(f"there are no modules for the kernel {version}")
        modules = initramfs.in_order(tree, MODULES)
        initramfs.build(image, busybox, HERE / "init", modules)
    return Machine(qemu, kernel, image, root, environment(root))


def _trim(root: Path) -> None:
    """A kernel has thousands of modules; the guest loads a few."""
    tree = root / "usr/lib/modules"
    wanted = set(initramfs.in_order(tree, MODULES))
    for path in tree.rglob("*.ko*"):
        if path not in wanted:
            path.unlink()


def run(machine: Machine, command: Sequence[str], limit: float) -> Ended:
    """Boots, runs `command` in the current folder, and powers off.

    `limit` is in seconds, booting included. Output and errors are one text.
    """
    began = time.monotonic()
    share = Path(tempfile.mkdtemp(prefix="tbmpi-vm-"))
    try:
        _write_command(share, command, limit)
        with (share / "console").open("wb") as console:
            guest = subprocess.Popen(
                _qemu(machine, share),
                env=machine.environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
            try:
                guest.wait(limit + GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            finally:
                guest.kill()
                guest.wait()
        status = _read(share / "status").strip()
        return Ended(
            int(status) if status.isdigit() else None,
            _read(share / "output"),
            _read(share / "console"),
            time.monotonic() - began,
        )
    finally:
        shutil.rmtree(share, ignore_errors=True)


def _write_command(share: Path, command: Sequence[str], limit: float) -> None:
    """The script that the guest runs, with a limit of its own."""
    words = ["timeout", "--kill-after=5", f"{limit:.0f}", *command]
    script = (
        f"export HOME=/root PATH={shlex.quote(os.environ['PATH'])}\n"
        f"cd {shlex.quote(os.getcwd())}\n"
        f"exec {shlex.join(words)}\n"
    )
    (share / "command").write_text(script)


def _qemu(machine: Machine, share: Path) -> list[str]:
    kernel_line = "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off"
    files = machine.packages / "usr/share"
    folders = [
        arg
        for name in ("qemu", "seabios")
        if (files / name).is_dir()
        for arg in ("-L", str(files / name))
    ]
    shares = {
        "host": "path=/,readonly=on",
        "packages": f"path={machine.packages},readonly=on",
        "vm": f"path={share}",
    }
    nine = "security_model=none,multidevs=remap"
    virtfs = [
        arg
        for tag, path in shares.items()
        for arg in ("-virtfs", f"local,mount_tag={tag},{path},{nine}")
    ]
    return [
        # QEMU does not outlive who started it, however that ends.
        *("setpriv", "--pdeathsig", "KILL", str(machine.qemu), *folders),
        # Not KVM: where it is there but does not work, QEMU hangs.
        *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CPUS)),
        *("-m", str(MEMORY_MIB), "-display", "none", "-no-reboot", "-nodefaults"),
        *("-serial", "stdio", "-net", "none"),
        *("-kernel", str(machine.kernel), "-initrd", str(machine.initramfs)),
        *("-append", kernel_line),
        *virtfs,
    ]


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--limit", type=float, default=120.0, metavar="SECONDS", help="(120)")
    add("command", nargs=argparse.REMAINDER, help="what to run in the guest")
    options = parser.parse_args(argv)
    if not options.command:
        parser.error("no command")
    try:
        ended = run(prepare(), options.command, options.limit)
    except Unavailable as reason:
        print(f"vm: skipped: {reason}", file=sys.stderr)
        return SKIP
    except Trouble as trouble:
        print(f"vm: {trouble}", file=sys.stderr)
        return NO_RESULT
    print(ended.output, end="", flush=True)
    if ended.status is None:
        print(f"vm: {ended.why()}", file=sys.stderr)
        return NO_RESULT
    return ended.status


if __name__ == "__main__":
    sys.exit(main())
