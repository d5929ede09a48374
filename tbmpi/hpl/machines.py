# SPDX-License-Identifier: MIT
"""The machines of a run: memory and cores, here or asked for by ssh."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from tbmpi.hpl.errors import HplError

PROBE_SECONDS = 15
# Prints: system, bytes of memory that programs may use, cores. On Macs only
# performance cores count, and all memory does: there is no figure for what is
# available. A control group may allow less than the machine has.
PROBE = r"""
case $(uname -s) in
Darwin)
    memory=$(sysctl -n hw.memsize)
    cores=$(sysctl -n hw.perflevel0.physicalcpu 2>/dev/null ||
            sysctl -n hw.physicalcpu) ;;
*)
    memory=$(awk '/^MemAvailable/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
    most=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)
    case $most in
    '' | max) ;;
    *) [ "$most" -lt "$memory" ] && memory=$most ;;
    esac
    cores=$(nproc) ;;
esac
echo "$(uname -s) $memory $cores"
"""
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Machine:
    """A host of the run. `slots` is how many ranks it may take at most."""

    name: str
    memory: int
    cores: int
    system: str = "Linux"
    slots: int | None = None

    @property
    def most_ranks(self) -> int:
        """Ranks that make sense here.

        One a core, but on a Mac, where the BLAS shares a matrix unit between
        the cores of a cluster, a few with threads.
        """
        sensible = self.cores
        if self.system == "Darwin":
            sensible = 4 if self.cores >= 16 else 2 if self.cores >= 8 else 1
        return min(sensible, self.slots or sensible)


def this_machine() -> Machine:
    """Return what this machine has to offer."""
    return _probe("localhost", ["sh", "-c", PROBE])


def machine_from(text: str) -> Machine:
    """Parse NAME[,memory=SIZE][,cores=COUNT][,slots=COUNT].

    What is not given is asked of the machine itself. Raises HplError.
    """
    name, *settings = text.split(",")
    values: dict[str, int] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in ("memory", "cores", "slots") or not equals:
            raise HplError(
                f"--host {text}: {setting!r} is none of memory=SIZE, "
                "cores=COUNT, slots=COUNT"
            )
        values[key] = parse_size(value, f"--host {text}")
    if "memory" in values and "cores" in values:
        return Machine(name, **values)
    found = this_machine() if name == "localhost" else _remote(name)
    return Machine(
        name,
        values.get("memory", found.memory),
        values.get("cores", found.cores),
        found.system,
        values.get("slots"),
    )


def parse_size(text: str, where: str) -> int:
    """Parse a positive number with an optional K, M, G or T (times 1024)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    size = int(float(match[1]) * UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise HplError(f"{where}: {text!r} is not a size such as 64G")
    return size


def _remote(name: str) -> Machine:
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={PROBE_SECONDS - 5}"]
    return _probe(name, ["ssh", *options, "--", name, PROBE])


def _probe(name: str, command: list[str]) -> Machine:
    try:
        asked = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HplError(f"{name} could not be asked for its memory: {error}") from None
    words = asked.stdout.split()
    if asked.returncode or len(words) != 3 or not all(map(str.isdigit, words[1:])):
        said = (asked.stderr.strip().splitlines() or ["no answer"])[-1]
        raise HplError(
            f"{name} did not tell its memory and cores ({said}); "
            f"give them: --host {name},memory=64G,cores=8"
        )
    return Machine(name, int(words[1]), int(words[2]), system=words[0])
