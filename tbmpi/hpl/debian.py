# SPDX-License-Identifier: MIT
"""Source packages of the machine's own Debian or Ubuntu release.

apt-get does the work (mirror, proxy, signatures), with lists and cache in a
private folder: neither /etc nor the system's package lists are touched, no
privilege is needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tbmpi.hpl.errors import HplError

APT_SOURCES = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
LIMIT_SECONDS = 300


def fetch_source(package: str, folder: Path) -> Path:
    """Return the upstream tarball of a Debian source package.

    The tarball is kept in `folder` and fetched once. Only the upstream part is
    asked for: nothing here needs Debian's patches. Raises HplError.
    """
    kept = find_tarball(package, folder)
    if kept:
        return kept
    if not shutil.which("apt-get"):
        raise HplError(
            f"cannot fetch the Debian source package {package}: there is no "
            f"apt-get here; download {package}_*.orig.tar.* from a Debian "
            "mirror and give its path"
        )
    # apt writes under the final name at once: only a finished file moves up.
    arrivals = folder / "apt" / "arrivals"
    arrivals.mkdir(parents=True, exist_ok=True)
    options = _private_apt(folder / "apt")
    update = _apt([*options, "update"], arrivals)
    source = _apt([*options, "source", "--tar-only", package], arrivals)
    tarball = find_tarball(package, arrivals)
    if source.returncode or not tarball:
        raise HplError(
            f"apt-get could not fetch the source package {package}: "
            f"{_last_complaint(source, update)}"
        )
    return tarball.rename(folder / tarball.name)


def find_tarball(package: str, folder: Path) -> Path | None:
    """Return the newest complete tarball of `package` in `folder`, if any."""
    found = [
        path
        for path in folder.glob(f"{package}_*.orig.tar.*")
        if path.suffix in (".gz", ".xz", ".bz2")
    ]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def source_entries(text: str, codename: str, deb822: bool) -> str:
    """Turn the binary entries of one apt sources file into source entries.

    Only entries of the release `codename`, component main, are kept: other
    vendors' repositories often have no sources. Options such as Signed-By
    stay. Empty if nothing fits.
    """
    if deb822:
        stanzas = re.split(r"\n\s*\n", text)
        kept = [_deb822_source(stanza, codename) for stanza in stanzas]
        return "\n\n".join(filter(None, kept))
    entry = re.compile(r"^deb\s+((?:\[[^]]*\]\s+)?\S+\s+(\S+)\s+(.*))$")
    lines = []
    for line in text.splitlines():
        match = entry.match(line.split("#")[0].strip())
        if match and match[2] == codename and "main" in match[3].split():
            lines.append("deb-src " + match[1])
    return "\n".join(lines)


def _deb822_source(stanza: str, codename: str) -> str:
    lines = [ln for ln in stanza.splitlines() if not ln.startswith("#")]
    fields = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields[name.lower()] = value.split()
    if (
        codename not in fields.get("suites", [])
        or "main" not in fields.get("components", [])
        or fields.get("enabled", ["yes"])[0] == "no"
    ):
        return ""
    return "\n".join(
        "Types: deb-src" if line.lower().startswith("types:") else line
        for line in lines
    )


def _private_apt(folder: Path) -> list[str]:
    """Prepare private sources, lists and cache; return apt-get's options."""
    codename = _codename()
    parts = folder / "sources.list.d"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    candidates = [APT_SOURCES / "sources.list"]
    candidates += sorted((APT_SOURCES / "sources.list.d").glob("*"))
    for path in candidates:
        if path.suffix in (".list", ".sources") and path.is_file():
            entries = source_entries(
                path.read_text(errors="replace"),
                codename,
                deb822=path.suffix == ".sources",
            )
            if entries:
                (parts / path.name).write_text(entries + "\n")
    if not any(parts.iterdir()):
        raise HplError(
            f"no entry for {codename} main in {APT_SOURCES}/sources.list "
            "or sources.list.d: apt knows no place to fetch sources from"
        )
    values = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": f"{parts}/",
        "Dir::State::Lists": f"{folder}/lists/",
        "Dir::Cache": f"{folder}/cache/",
        # The user _apt, which root's apt-get downloads as, cannot write to
        # a private folder.
        "APT::Sandbox::User": "root",
    }
    return [arg for key in values for arg in ("-o", f"{key}={values[key]}")]


def _codename() -> str:
    try:
        text = OS_RELEASE.read_text()
    except OSError:
        text = ""
    match = re.search(r'^VERSION_CODENAME="?([\w.-]+)', text, re.MULTILINE)
    if not match:
        raise HplError(
            f"{OS_RELEASE} names no VERSION_CODENAME: is this a Debian "
            "or Ubuntu release?"
        )
    return match[1]


def _apt(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            ["apt-get", "-q", *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise HplError(
            f"apt-get {arguments[-1]} did not end within {LIMIT_SECONDS} s: "
            "is the network or the mirror down?"
        ) from None


def _last_complaint(*runs: subprocess.CompletedProcess) -> str:
    for run in runs:
        lines = [ln for ln in run.stderr.splitlines() if ln.startswith("E:")]
        if lines:
            return lines[-1][2:].strip()
    return f"exit code {runs[0].returncode}"
