# SPDX-License-Identifier: MIT
"""The MPI libraries under test: where they come from, how they are started.

Placement is the same for all: no rank is bound to a core, so Open MPI's
default binding is switched off.

Settings. With a core for every rank each library runs as it is delivered.
With more ranks than cores a library that spins needs its documented help:

Open MPI  notices by itself and yields (mpi_yield_when_idle becomes true), it
          only has to be allowed to start (the mapping policy OVERSUBSCRIBE).
MPICH     spins. Its documentation offers POLLS_BEFORE_YIELD with
          CH4_PROGRESS_THROTTLE (its own CI and mpi4py's set these), UCX
          without its busy transports (UCX_TLS=tcp,sm,self, also there), and
          NOLOCAL, which leaves the shared-memory layer out. Which is best
          differs by machine, so each is tried briefly before the comparison
          and the best one takes part.
tbmpi     has nothing to set.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tbmpi.bench.errors import BenchError
from tbmpi.bench.processes import run_limited

INSTALL_SECONDS = 900
TRACKED = ("TBMPI_", "MPIR_CVAR_", "OMPI_", "PRTE_", "UCX_", "FI_")


@dataclass(frozen=True)
class Settings:
    """One documented way to run a library, as environment variables."""

    name: str
    env: Mapping[str, str] = field(default_factory=dict)


AS_DELIVERED = (Settings("as delivered"),)
_MPICH_YIELD = {
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "true",
}


@dataclass(frozen=True)
class Library:
    """What is known beforehand about one MPI library."""

    name: str
    compiler: str
    launcher: str
    requirement: str = ""
    options: tuple[str, ...] = ()
    crowded_options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    crowded_settings: tuple[Settings, ...] = AS_DELIVERED


OURS = Library("tbmpi", "tbmpicc", "tbmpirun")
PEERS = {
    "mpich": Library(
        "mpich",
        "mpicc",
        "mpiexec",
        requirement="mpich>=5",
        options=("-bind-to", "none"),
        crowded_settings=(
            *AS_DELIVERED,
            Settings("yield", _MPICH_YIELD),
            Settings(
                "yield, UCX over tcp and sm",
                {**_MPICH_YIELD, "UCX_TLS": "tcp,sm,self"},
            ),
            Settings("no local layer", {"MPIR_CVAR_NOLOCAL": "1"}),
        ),
    ),
    "openmpi": Library(
        "openmpi",
        "mpicc",
        "mpiexec",
        requirement="openmpi>=5",
        options=("--bind-to", "none"),
        crowded_options=("--map-by", ":OVERSUBSCRIBE"),
        env={
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        },
    ),
}


@dataclass(frozen=True)
class Engine:
    """One library in one place, run with one choice of settings."""

    library: Library
    folder: Path
    settings: Settings = AS_DELIVERED[0]

    @property
    def name(self) -> str:
        return self.library.name

    @property
    def compiler(self) -> Path:
        return self.folder / self.library.compiler

    def with_options(self, words: tuple[str, ...]) -> Engine:
        """The same with more options for its launcher."""
        library = replace(self.library, options=(*self.library.options, *words))
        return replace(self, library=library)

    def command(self, ranks: int, program: Sequence[str | Path]) -> list[str]:
        """Return the words that start `program` on `ranks` ranks."""
        words = [str(self.folder / self.library.launcher), "-n", str(ranks)]
        words += self.library.options
        if is_crowded(ranks):
            words += self.library.crowded_options
        return words + [str(word) for word in program]

    def environment(self, scratch: Path) -> dict[str, str]:
        """Return the whole environment; temporary files go to `scratch`."""
        env = dict(os.environ)
        env.update(self.library.env)
        env.update(self.settings.env)
        env["TMPDIR"] = str(scratch)
        return env

    def candidates(self, ranks: int) -> tuple[Settings, ...]:
        """Return the settings worth trying for that many ranks."""
        crowded = is_crowded(ranks)
        return self.library.crowded_settings if crowded else AS_DELIVERED


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_crowded(ranks: int) -> bool:
    """Return whether there are more ranks than cores to run them on."""
    return ranks > usable_cores()


def inherited_settings() -> dict[str, str]:
    """Return the caller's own settings of MPI libraries, for the record."""
    return {k: v for k, v in os.environ.items() if k.startswith(TRACKED)}


def find_ours(where: str) -> Engine | None:
    """Find tbmpi: `where` is "auto", "none" or the folder of its commands."""
    if where == "none":
        return None
    if where != "auto":
        return Engine(OURS, _command_folder(OURS, Path(where)))
    beside = Path(sys.executable).parent
    found = shutil.which(OURS.launcher)
    for folder in (beside, Path(found).parent if found else None):
        if folder and _has_commands(OURS, folder):
            return Engine(OURS, folder)
    raise BenchError(
        f"no {OURS.launcher} and {OURS.compiler} in {beside} or on PATH: "
        "install tbmpi into this environment, or name their folder with "
        "--ours FOLDER (--ours none leaves tbmpi out)"
    )


def find_peer(word: str, cache: Path) -> Engine:
    """Find a peer: "mpich" or "openmpi", installed into a venv in `cache`.

    "openmpi=/usr" takes an installation that is there, by its prefix.
    """
    name, equals, prefix = word.partition("=")
    if name not in PEERS:
        known = ", ".join(PEERS)
        raise BenchError(f"no such peer: {name!r}; known peers: {known}")
    library = PEERS[name]
    if equals:
        return Engine(library, _command_folder(library, Path(prefix)))
    return Engine(library, _peer_venv(library, cache) / "bin")


def _has_commands(library: Library, folder: Path) -> bool:
    names = (library.compiler, library.launcher)
    return all(os.access(folder / name, os.X_OK) for name in names)


def _command_folder(library: Library, folder: Path) -> Path:
    for place in (folder, folder / "bin"):
        if _has_commands(library, place):
            return place.absolute()
    raise BenchError(
        f"no {library.compiler} and {library.launcher} in {folder} or {folder / 'bin'}"
    )


def _peer_venv(library: Library, cache: Path) -> Path:
    """Return the peer's venv; make it first if it is not whole."""
    venv = cache / library.name
    mark = venv / "complete"
    with locked(cache, library.name):
        if mark.exists() and _has_commands(library, venv / "bin"):
            return venv
        shutil.rmtree(venv, ignore_errors=True)
        try:
            _install(library, venv)
        except BaseException:
            shutil.rmtree(venv, ignore_errors=True)
            raise
        mark.touch()
    return venv


@contextlib.contextmanager
def locked(cache: Path, name: str) -> Generator[None]:
    """Keep a second benchmark from making the same venv meanwhile."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle = (cache / f"{name}.lock").open("w")
    except OSError as error:
        raise BenchError(
            f"cannot write to the cache folder {cache} ({error.strerror}): "
            "choose another with --cache"
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install(library: Library, venv: Path) -> None:
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", library.requirement]
    for command in ([sys.executable, "-m", "venv", venv], pip):
        done = run_limited(command, INSTALL_SECONDS)
        if done.late:
            raise BenchError(
                f"installing {library.requirement} took more than "
                f"{INSTALL_SECONDS} s: check the network, or name an "
                f"installation with --vs {library.name}=PREFIX"
            )
        if done.code:
            raise BenchError(
                f"cannot install {library.requirement} into {venv}:\n{done.complaint()}"
            )
    if not _has_commands(library, venv / "bin"):
        raise BenchError(
            f"{library.requirement} from PyPI has no {library.compiler} or "
            f"{library.launcher}"
        )
