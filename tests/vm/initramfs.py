# SPDX-License-Identifier: MIT
"""The guest's first file system: busybox, kernel modules, an init script."""

from __future__ import annotations

import gzip
import lzma
import re
import stat
from collections.abc import Sequence
from pathlib import Path

FOLDERS = (
    *("bin", "dev", "modules", "proc", "sys"),
    *("host", "packages", "rw", "new", "vm"),
)


def build(target: Path, busybox: Path, init: Path, modules: Sequence[Path]) -> None:
    """Writes the archive; `modules` are loaded in this order."""
    archive = Archive()
    for folder in FOLDERS:
        archive.folder(folder)
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    archive.file("init", init.read_bytes(), executable=True)
    names = []
    for path in modules:
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        names.append(path.name.split(".")[0])
        archive.file(f"modules/{names[-1]}.ko", data)
    archive.file("modules/order", "\n".join([*names, ""]).encode())
    target.write_bytes(gzip.compress(archive.data(), compresslevel=1))


def in_order(tree: Path, wanted: Sequence[str]) -> list[Path]:
    """The modules `wanted` and all that they depend on, those first.

    A module that is not in `tree` is left out: it may be part of the kernel.
    """
    known = {
        _name(path.name.split(".")[0]): path
        for path in tree.rglob("*.ko*")
        if path.is_file()
    }
    order: list[Path] = []

    def add(name: str) -> None:
        path = known.get(_name(name))
        if path is None or path in order:
            return
        for needed in _dependencies(path):
            add(needed)
        order.append(path)

    for name in wanted:
        add(name)
    return order


def _name(text: str) -> str:
    """Dash and underscore are the same in a module's name."""
    return text.replace("-", "_")


def _dependencies(path: Path) -> list[str]:
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = lzma.decompress(data)
    found = re.search(rb"\0depends=([\w,-]*)\0", data)
    return [name for name in found[1].decode().split(",") if name] if found else []


class Archive:
    """A cpio archive in the format newc (the kernel's early-userspace.rst)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._entries = 0

    def folder(self, name: str) -> None:
        """Adds an empty folder."""
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, data: bytes, executable: bool = False) -> None:
        """Adds a file."""
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), data)

    def data(self) -> bytes:
        """The whole archive; nothing can be added afterwards."""
        self._add("TRAILER!!!", 0, b"")
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, data: bytes) -> None:
        self._entries += 1
        encoded = name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, four device numbers, name
        fields = (self._entries, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded))
        head = b"070701" + b"".join(b"%08X" % field for field in (*fields, 0))
        for part in (head + encoded, data):
            self._parts.append(part + bytes(-len(part) % 4))
