# SPDX-License-Identifier: MIT
"""Debian packages, unpacked into a private folder and not installed.

    packages.py NAME PROBE PACKAGE ...    prints the root of what it unpacked

apt-get chooses and fetches what this machine lacks. Its lists and its cache are
in a private folder too, so that no privilege is needed and the system stays as
it is.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tbmpi.hpl.obtain import cache_dir

LIMIT_SECONDS = 600
MERGED = ("bin", "sbin", "lib", "lib64")
SKIP = 77


class Unavailable(Exception):
    """This machine cannot have what is asked for; the text says why."""


class Trouble(Exception):
    """What is there does not work; the text says what and why."""


def unpacked(
    name: str,
    packages: Sequence[str],
    probe: str,
    trim: Callable[[Path], None] = lambda root: None,
    recipe: str = "",
) -> Path:
    """A folder that holds those of `packages` that this machine lacks.

    `probe` is a path which is there, or in this machine's root, if all went
    well; `trim` removes what nobody needs. The folder is kept, and made anew when
    the packages, the `recipe` of the rest, or the machine's release change.
    Raises Unavailable.
    """
    wanted = " ".join([_release(), platform.machine(), *packages, probe, recipe])
    folder = cache_dir() / name
    stamp = folder / "complete"
    with contextlib.suppress(OSError):
        if stamp.read_text() == wanted and find(folder, probe):
            return folder / "root"
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Unavailable(
            f"{' and '.join(packages)}: there is no apt-get here to fetch them with"
        )
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "root"
    _make_merged(root)
    for package in _fetch(packages, folder / "apt"):
        _unpack(package, root)
    shutil.rmtree(folder / "apt")
    if not find(folder, probe):
        raise Unavailable(f"{' and '.join(packages)}: they brought no {probe}")
    trim(root)
    stamp.write_text(wanted)
    return root


def find(folder: Path, pattern: str) -> Path | None:
    """The last match of `pattern` among what was unpacked, or what is installed."""
    for root in (folder / "root", Path("/")):
        found = sorted(root.glob(pattern))
        if found:
            return found[-1]
    return None


def environment(root: Path) -> dict[str, str]:
    """What a program below `root` needs to find the libraries beside it."""
    triplet = f"{platform.machine()}-linux-gnu"
    folders = [root / "usr/lib" / triplet, root / "usr/lib"]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}


def _release() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    return ""


def _make_merged(root: Path) -> None:
    """The links of a merged /usr, which packages take for granted."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")


def _fetch(packages: Sequence[str], folder: Path) -> Iterator[Path]:
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    values = {
        "Dir::State::Lists": f"{folder}/lists/",
        "Dir::Cache": f"{folder}/cache/",
        # The system's lock need not be held: nothing is installed.
        "Debug::NoLocking": "1",
        # The user _apt cannot write to a private folder.
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "0",
        "Acquire::http::Timeout": "30",
        "Acquire::Retries": "1",
    }
    options = [arg for key in values for arg in ("-o", f"{key}={values[key]}")]
    update = _apt([*options, "update"])
    got = _apt([*options, "--yes", "--download-only", "install", *packages])
    if got.returncode:
        raise Unavailable(
            f"apt-get could not fetch {' and '.join(packages)}: "
            f"{_complaint(got, update)}"
        )
    yield from sorted((folder / "cache/archives").glob("*.deb"))


def _apt(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["apt-get", "-q", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"apt-get did not end within {LIMIT_SECONDS} s: is the mirror down?"
        ) from None


def _complaint(*runs: subprocess.CompletedProcess[str]) -> str:
    for run in runs:
        lines = [line for line in run.stderr.splitlines() if line.startswith("E:")]
        if lines:
            return lines[-1][2:].strip()
    return f"exit code {runs[0].returncode}"


def _unpack(package: Path, root: Path) -> None:
    # Not dpkg-deb -x: it replaces the links of a merged /usr by folders.
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
    ) as reader:
        done = subprocess.run(
            ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root],
            stdin=reader.stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
    if done.returncode or reader.returncode:
        raise Trouble(f"cannot unpack {package.name}: {done.stderr.strip()[-200:]}")


def main(argv: Sequence[str]) -> int:
    """Command line."""
    if len(argv) < 3:
        print(__doc__)
        return 2
    name, probe, *packages = argv
    try:
        print(unpacked(name, packages, probe))
    except (Trouble, Unavailable) as reason:
        print(f"packages: {reason}", file=sys.stderr)
        return SKIP if isinstance(reason, Unavailable) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
