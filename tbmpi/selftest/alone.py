# SPDX-License-Identifier: MIT
"""Probes that need more than one process at one end of a cable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tbmpi.launch.errors import LaunchError
from tbmpi.selftest.ends import Holder, ask


def sharing(address: str, peer: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Two processes on one device: do they share what it gives?"""
    alone = _free(address, peer, env)
    holder = Holder(address, env)
    try:
        beside = _free(address, peer, env)
    except LaunchError as problem:
        return _row("sharing", "exclusive", str(problem), {"alone": alone[0]})
    finally:
        holder.end(at_once=False)
    if not holder.held:
        return _row("sharing", "nothing", "", {"alone": alone[0]})
    seen = "machine" if beside[0] < alone[0] else "process"
    return _row("sharing", seen, "", {"alone": alone[0], "beside": beside[0]})


def leak(address: str, peer: str, env: Mapping[str, str]) -> dict[str, Any]:
    """A process that holds a queue pair is killed: is it given back?

    Where it is not, only a restart returns it.
    """
    before = _free(address, peer, env)
    Holder(address, env).end(at_once=True)
    after = _free(address, peer, env)
    seen = "on" if after[0] < before[0] or after[1] != before[1] else "off"
    values = {"before": before[0], "after": after[0], "errno": after[1]}
    return _row("leak", seen, "", values)


def _free(address: str, peer: str, env: Mapping[str, str]) -> tuple[int, int]:
    """Queue pairs that the device has left, and what RTR answers."""
    answer = ask(["try", address, peer], env)[0]
    return answer["queue_pairs"], answer["rtr"]


def _row(probe: str, seen: str, note: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"probe": probe, "seen": seen, "note": note, "values": values}
