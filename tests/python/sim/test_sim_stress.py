# SPDX-License-Identifier: MIT
"""Everybody to everybody at once through real routers, with little room.

TBMPI_FLOOD_ROUNDS says for how long (8), TBMPI_FAULT_SEED repeats a run.
"""

from __future__ import annotations

import os
import random

import pytest

ROUNDS = int(os.environ.get("TBMPI_FLOOD_ROUNDS", "8"))
SEED = int(os.environ.get("TBMPI_FAULT_SEED", str(random.randrange(1 << 30))))

# One packet of each size between two Macs at a time, in about the smallest pools
# that there can be for so many Macs and cables.
POOLS = {
    "ring:4": "14m",
    "line:4": "14m",
    "star:4": "16m",
    "mesh:4": "16m",
    "mesh:3x2": "16m",
    "ring:5": "20m",
}


def tight(topology: str) -> dict[str, str]:
    return {"TBMPI_WINDOWS": "1", "TBMPI_POOL": POOLS[topology]}


def run(macs, topology, each, settings, *words):
    for name, value in settings.items():
        macs.env[name] = value
    options = ("--sim", topology, "--ranks-per-node", str(each), "--timeout", "100")
    done = macs.run(*options, *words)
    note = f"{topology}, seed {SEED}: {done.stdout.decode()}{done.stderr.decode()}"
    assert done.returncode == 0, note
    assert b", 0 bytes wrong" in done.stdout, note
    return done


@pytest.mark.parametrize(
    ("topology", "each"), [("ring:4", 2), ("line:4", 2), ("ring:5", 1), ("star:4", 2)]
)
def test_all_to_all_with_the_smallest_windows_and_pool(macs, flood, topology, each):
    words = (flood, str(ROUNDS), str(SEED))
    done = run(macs, topology, each, tight(topology), *words)
    assert done.stderr == b""


@pytest.mark.parametrize("topology", ["ring:4", "mesh:4"])
def test_all_to_all_with_windows_as_they_are(macs, flood, topology):
    done = run(macs, topology, 2, {}, flood, str(ROUNDS), str(SEED))
    assert done.stderr == b""


@pytest.mark.parametrize("topology", ["ring:4", "mesh:4", "mesh:3x2"])
@pytest.mark.parametrize("little", [True, False])
def test_a_cable_dies_in_the_flood(macs, flood, topology, little):
    dice = random.Random(f"{SEED} {topology} {little}")
    settings = tight(topology) if little else {}
    cable = dice.randrange(3)
    when = round(dice.uniform(0.2, 0.8), 3)
    fault = ("--fault", f"at {when}s pull {cable}")
    rounds = str(4 * ROUNDS)
    done = run(macs, topology, 2, settings, *fault, flood, rounds, str(SEED))
    assert done.stderr.count(b"\n") <= 1, done.stderr.decode()


def test_a_pool_that_is_too_small_is_said(macs, flood):
    macs.env["TBMPI_POOL"] = "8m"
    done = macs.run("--sim", "ring:4", "-N", "2", "--timeout", "60", flood, "1")
    assert done.returncode not in (0, 124)
    assert b"set TBMPI_POOL to more" in done.stderr
