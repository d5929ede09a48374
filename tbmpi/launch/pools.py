# SPDX-License-Identifier: MIT
"""What a router notes in its Mac's pool: its state, and the ways to others.

The layout is csrc/net/pool.h's and relay.h's. It is read while the router
writes: a torn note garbles one figure and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tbmpi._gen import pool as layout
from tbmpi.launch.segment import Memory

STATES = ("starting", "up", "failed")
SLOTS = ("4 KiB", "32 KiB", "128 KiB")


def show(pool: Memory | None, machines: int) -> dict[str, Any]:
    """The pool of one of so many machines, for programs; None: it has none."""
    if pool is None:
        return {"pool": None, "routes": []}
    (state,) = _at(pool, "I", layout.POOL_AT_STATE)
    (polls,) = _at(pool, "I", layout.POOL_AT_POLLS)
    return {
        "pool": {
            "bytes": pool.size,
            "state": STATES[state] if state < len(STATES) else f"state {state}",
            "reason": _text(pool, layout.POOL_AT_REASON, layout.POOL_REASON),
            "polls": polls,
            "free": _at(pool, "3I", layout.POOL_AT_FREE),
            "slots": _at(pool, "3I", layout.POOL_AT_SLOTS),
        },
        "routes": [_route(pool, machine) for machine in range(machines)],
    }


def _route(pool: Memory, machine: int) -> dict[str, Any]:
    base = layout.BOARD_AT + machine * layout.BOARD_NODE_BYTES
    (following,) = _at(pool, "i", base + layout.BOARD_NODE_NEXT)
    (hops,) = _at(pool, "I", base + layout.BOARD_NODE_HOPS)
    (sent,) = _at(pool, "Q", base + layout.BOARD_NODE_SENT)
    (got,) = _at(pool, "Q", base + layout.BOARD_NODE_GOT)
    why = _text(pool, base + layout.BOARD_NODE_WHY, layout.BOARD_NODE_WHY_BYTES)
    return {"next": following, "hops": hops, "sent": sent, "got": got, "why": why}


def _at(pool: Memory, kind: str, offset: int) -> tuple[int, ...]:
    return struct.unpack_from("=" + kind, pool.view, offset)


def _text(pool: Memory, offset: int, room: int) -> str:
    raw = bytes(pool.view[offset : offset + room]).split(b"\0")[0]
    return " ".join(raw.decode("utf-8", "replace").split())


def pool_lines(facts: dict[str, Any]) -> Iterator[str]:
    """What ``tbmpi info --pool`` says of a job's answer to "show"."""
    devices = facts["fabric"].get("devices", [])
    for number, node in enumerate(facts["nodes"]):
        pool = node["pool"]
        if pool is None:
            yield f"{node['name']}: no pool, its rank owns the verbs"
        else:
            why = f": {pool['reason']}" if pool["reason"] else ""
            yield (
                f"{node['name']}: pool of {pool['bytes'] >> 20} MiB, router "
                f"{node['router'] or 'gone'} is {pool['state']}{why}, "
                f"{pool['polls']} polls"
            )
            yield "  free slots: " + ", ".join(
                f"{free} of {slots} of {size}"
                for free, slots, size in zip(
                    pool["free"], pool["slots"], SLOTS, strict=True
                )
            )
        for device in devices:
            if device["host"] == number:
                yield "  " + _device(device)


def _device(device: dict[str, Any]) -> str:
    held = [
        f"{sum(holder.get(kind, 0) for holder in device['holders'])} {words}"
        for kind, words in (("qps", "queue pairs"), ("mrs", "memory regions"))
    ]
    sent = device["sent"]
    return (
        f"{device['name']}, cable {device['cable']}: {', '.join(held)}, "
        f"{sent['sends']} messages of {sent['bytes'] / 1e6:.1f} MB sent"
    )


def route_lines(facts: dict[str, Any]) -> Iterator[str]:
    """What ``tbmpi info --routes`` says of the same."""
    names = [node["name"] for node in facts["nodes"]]
    for number, node in enumerate(facts["nodes"]):
        for other, route in enumerate(node["routes"]):
            if other != number:
                yield f"{node['name']} to {names[other]}: {_way(route, names)}"


def _way(route: dict[str, Any], names: list[str]) -> str:
    if route["why"]:
        return f"lost: {route['why']}"
    if not route["hops"]:
        return "not known yet"
    way = "direct"
    if route["hops"] > 1 and 0 <= route["next"] < len(names):
        way = f"over {names[route['next']]}, {route['hops']} hops"
    return f"{way}, {route['sent']} packets sent, {route['got']} received"
