# SPDX-License-Identifier: MIT
"""``tbmpi aliases``: the names other MPIs use, as links to our commands.

pip never makes them, because another MPI in the same environment owns them.
A name that is not ours is never replaced and never removed.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

ALIASES = {
    "mpirun": "tbmpirun",
    "mpiexec": "tbmpirun",
    "mpicc": "tbmpicc",
    "mpicxx": "tbmpicxx",
    "mpic++": "tbmpicxx",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="tbmpi aliases", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "action", choices=("install", "remove", "list"), nargs="?", default="list"
    )
    parser.add_argument("--dir", type=Path, help="where (default: beside tbmpirun)")
    args = parser.parse_args(argv)
    commands = Path(sysconfig.get_path("scripts"))
    folder: Path = args.dir or commands
    if not folder.is_dir():
        print(f"tbmpi aliases: {folder} is not a directory", file=sys.stderr)
        return 2
    if args.action == "install":
        return install(folder, commands)
    if args.action == "remove":
        return remove(folder)
    for alias, target in ALIASES.items():
        print(f"{alias:8} {_state(folder / alias, target)}")
    return 0


def install(folder: Path, commands: Path) -> int:
    """Makes all links, or, when one name is taken by others, none."""
    missing = [
        name for name in sorted(set(ALIASES.values())) if not (commands / name).exists()
    ]
    if missing:
        print(
            f"tbmpi aliases: {commands} has no {', '.join(missing)}; install "
            "the package first: pip install .",
            file=sys.stderr,
        )
        return 1
    taken = [
        alias
        for alias, target in ALIASES.items()
        if os.path.lexists(folder / alias) and not _is_ours(folder / alias, target)
    ]
    if taken:
        print(
            f"tbmpi aliases: {folder} has {', '.join(taken)} of another MPI; "
            "nothing was changed. Choose another directory with --dir",
            file=sys.stderr,
        )
        return 1
    for alias, target in ALIASES.items():
        link = folder / alias
        if not link.is_symlink():
            same = folder.resolve() == commands.resolve()
            link.symlink_to(target if same else commands / target)
        print(f"{link} -> {target}")
    return 0


def remove(folder: Path) -> int:
    """Removes our links and nothing else."""
    for alias, target in ALIASES.items():
        link = folder / alias
        if _is_ours(link, target):
            link.unlink()
            print(f"removed {link}")
    return 0


def _is_ours(path: Path, target: str) -> bool:
    return path.is_symlink() and Path(os.readlink(path)).name == target


def _state(path: Path, target: str) -> str:
    if not os.path.lexists(path):
        return "not there"
    return f"-> {target}" if _is_ours(path, target) else f"not ours: {path}"
