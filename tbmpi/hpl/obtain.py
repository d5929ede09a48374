# SPDX-License-Identifier: MIT
"""Get the HPL sources: a folder, a tarball, netlib's HPL 2.3, Debian's hpcc.

HPL comes in two shapes. A tree of its own (HPL 2.x) has a main program that
reads HPL.dat. Inside hpcc it is a function of a larger benchmark; `as_program`
makes a program of it again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tbmpi.hpl.debian import fetch_source
from tbmpi.hpl.errors import HplError

NETLIB_URL = "https://www.netlib.org/benchmark/hpl/hpl-2.3.tar.gz"
NETLIB_SHA256 = "32c5c17d22330e6f2337b681aded51637fb6008d3f0eb7c277b163fadd612830"
NETLIB_SECONDS = 60
PDINFO = "testing/ptest/HPL_pdinfo.c"
PDTEST = "testing/ptest/HPL_pdtest.c"


@dataclass(frozen=True)
class Source:
    """An HPL tree: `digest` names its origin, `inside_hpcc` its shape."""

    tree: Path
    digest: str
    inside_hpcc: bool


def cache_dir() -> Path:
    """Return the user's cache folder for tbmpi; it may not exist yet."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "tbmpi"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tbmpi"
    return Path.home() / ".cache" / "tbmpi"


def find_origin(wanted: str, cache: Path) -> Path:
    """Return a folder or tarball for `wanted`, fetching it if need be.

    `wanted` is "netlib", "debian", a path, or "auto": what is in the cache,
    then netlib, then Debian. Raises HplError.
    """
    if wanted == "netlib":
        return _netlib(cache)
    if wanted == "debian":
        return fetch_source("hpcc", cache)
    if wanted != "auto":
        path = Path(wanted).expanduser()
        if not path.exists():
            raise HplError(f"--source {wanted}: no such file or folder")
        return path
    for kept in (
        cache / Path(NETLIB_URL).name,
        *sorted(cache.glob("hpcc_*.orig.tar.gz")),
    ):
        if kept.exists():
            return kept
    reasons = []
    for get in (_netlib, lambda folder: fetch_source("hpcc", folder)):
        try:
            return get(cache)
        except HplError as reason:
            reasons.append(str(reason))
    raise HplError(
        "HPL could not be fetched; give the path of a folder or tarball with "
        f"--source. Tried: {'; '.join(reasons)}"
    )


def unpack(origin: Path, folder: Path) -> Source:
    """Copy or unpack `origin` below `folder` and find the HPL tree in it.

    The copy is ours to build in; `origin` stays as it is.
    """
    digest = _digest(origin)
    target = folder / f"source-{digest}"
    if not target.exists():
        draft = folder / f"source-{digest}.part"
        shutil.rmtree(draft, ignore_errors=True)
        if origin.is_dir():
            shutil.copytree(origin, draft / origin.resolve().name, symlinks=True)
        else:
            _extract(origin, draft)
        draft.rename(target)
    for header in sorted(target.rglob("include/hpl.h")):
        tree = header.parent.parent
        if (tree / PDINFO).exists():
            text = (tree / PDINFO).read_text(errors="replace")
            return Source(tree, digest, inside_hpcc="hpccinf.txt" in text)
    raise HplError(f"{origin} holds no HPL: no include/hpl.h with {PDINFO} beside it")


def as_program(tree: Path) -> None:
    """Make the HPL tree inside hpcc read HPL.dat and print like HPL itself.

    hpcc fixes the names of its input and output files and prints seven
    decimals of the residual. All its digits are what two MPI libraries can be
    compared by, so they are printed here.
    """
    _substitute(
        tree / PDINFO,
        ('#define INFILE "hpccinf.txt"', '#define INFILE "HPL.dat"'),
        ("fid = 8; /* always write to a file */", ""),
        ('strcpy( file, "hpccoutf.txt" );', ""),
    )
    _substitute(tree / PDTEST, ('"%s%16.7f%s%s\\n"', '"%s%24.16e%s%s\\n"'))


def _substitute(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise HplError(f"{path} is not as in hpcc 1.5: {old!r} not found once")
        text = text.replace(old, new)
    path.write_text(text)


def _netlib(cache: Path) -> Path:
    path = cache / Path(NETLIB_URL).name
    if path.exists():
        return path
    try:
        with urllib.request.urlopen(NETLIB_URL, timeout=NETLIB_SECONDS) as answer:
            data = answer.read()
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise HplError(f"{NETLIB_URL} cannot be fetched ({reason})") from None
    found = hashlib.sha256(data).hexdigest()
    if found != NETLIB_SHA256:
        raise HplError(
            f"{NETLIB_URL}: SHA-256 is {found}, expected {NETLIB_SHA256}; "
            "the file was not kept"
        )
    cache.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_bytes(data)
    return draft.rename(path)


def _extract(tarball: Path, folder: Path) -> None:
    try:
        with tarfile.open(tarball) as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise HplError(f"{tarball} cannot be unpacked: {error}") from None


def _digest(origin: Path) -> str:
    """Name the contents of a file, or the files and times of a folder."""
    digest = hashlib.sha256()
    if origin.is_dir():
        for path in sorted(origin.rglob("*.[ch]")):
            digest.update(f"{path}{path.stat().st_mtime_ns}".encode())
    else:
        digest.update(origin.read_bytes())
    return digest.hexdigest()[:12]
