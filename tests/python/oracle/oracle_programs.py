# SPDX-License-Identifier: MIT
"""Random programs that are correct MPI and whose outcome nobody may choose.

A program says what all ranks do, so that every send has its receive. Ranks,
roots and places are taken modulo what a communicator has, so a step stays right
when the steps before it are left out. Wildcards are used where the outcome is
settled all the same, but for the order of the sources.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from oracle_types import BASIC, NUMBERS, shape

MOST_ELEMENTS = 48  # of basic types in one derived type
MOST_BYTES = 256 << 10  # of one block of data
MOST_STEPS = 8
COUNTS = (0, 1, 2, 3, 17, 400, 20_000, 300_000)

HOW = st.sampled_from(["blocking", "started", "persistent"])
WAIT = st.sampled_from(["all", "each", "any", "test"])
INTEGER_OPS = [
    "SUM",
    "PROD",
    "MAX",
    "MIN",
    "BAND",
    "BOR",
    "BXOR",
    "LAND",
    "LOR",
    "LXOR",
]
FLOAT_OPS = ["SUM", "PROD", "MAX", "MIN"]


# ------------------------------------------------------------------ datatypes


@st.composite
def trees(draw: Any, depth: int = 3) -> Any:
    """A datatype whose elements do not overlap."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(sorted(BASIC)))
    inner = draw(trees(depth - 1))
    form = shape(inner)
    room = MOST_ELEMENTS // len(form.signature)
    if room < 2:
        return ["dup", inner]
    maker = draw(st.sampled_from(sorted(MAKERS)))
    return MAKERS[maker](draw, inner, form, room)


def _contiguous(draw: Any, inner: Any, form: Any, room: int) -> Any:
    return ["contiguous", draw(st.integers(1, min(room, 5))), inner]


def _vector(draw: Any, inner: Any, form: Any, room: int) -> Any:
    length = draw(st.integers(1, min(room, 3)))
    count = draw(st.integers(1, min(room // length, 5)))
    sign = draw(st.sampled_from([1, 1, -1]))
    stride = sign * (length + draw(st.integers(0, 2)))
    if draw(st.booleans()):
        return ["vector", count, length, stride, inner]
    ragged = sign * draw(st.integers(0, 5))
    return ["hvector", count, length, stride * form.extent + ragged, inner]


def _indexed(draw: Any, inner: Any, form: Any, room: int) -> Any:
    count = draw(st.integers(1, min(room, 4)))
    lengths = [draw(st.integers(1, max(1, room // count))) for _ in range(count)]
    lengths = [min(length, 4) for length in lengths]
    same = draw(st.booleans())
    if same:
        lengths = [lengths[0]] * count
    at = draw(st.integers(-3, 3))
    places = []
    for length in lengths:
        places.append(at)
        at += length + draw(st.integers(0, 2))
    order = draw(st.permutations(range(count)))
    lengths = [lengths[i] for i in order]
    places = [places[i] for i in order]
    if same:
        return ["indexed_block", lengths[0], places, inner]
    if draw(st.booleans()):
        return ["indexed", lengths, places, inner]
    return ["hindexed", lengths, [place * form.extent for place in places], inner]


def _subarray(draw: Any, inner: Any, form: Any, room: int) -> Any:
    sizes = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3)))]
    parts, left = [], room
    for size in sizes:
        parts.append(draw(st.integers(1, max(1, min(size, left)))))
        left //= parts[-1]
    starts = [
        draw(st.integers(0, size - part))
        for size, part in zip(sizes, parts, strict=True)
    ]
    order = draw(st.sampled_from("CF"))
    return ["subarray", sizes, parts, starts, order, inner]


def _resized(draw: Any, inner: Any, form: Any, room: int) -> Any:
    lb = draw(st.integers(-8, 8))
    return ["resized", lb, form.span + draw(st.integers(0, 9)), inner]


def _struct(draw: Any, inner: Any, form: Any, room: int) -> Any:
    subs = [inner, *draw(st.lists(trees(0), min_size=1, max_size=2))]
    lengths, places, at = [], [], draw(st.integers(-8, 8))
    for sub in subs:
        part = shape(sub)
        lengths.append(draw(st.integers(1, 2)) if part is not form else 1)
        places.append(at - part.true_lb)
        at += part.span + (lengths[-1] - 1) * part.extent + draw(st.integers(0, 5))
    made = ["struct", lengths, places, subs]
    # How far a struct is rounded up is for each implementation to say.
    whole = shape(made)
    return ["resized", whole.true_lb, whole.span, made]


MAKERS = {
    "contiguous": _contiguous,
    "vector": _vector,
    "indexed": _indexed,
    "subarray": _subarray,
    "resized": _resized,
    "struct": _struct,
}


@st.composite
def counted(draw: Any) -> tuple[Any, int]:
    """A datatype and a count that together are not too much."""
    tree = draw(trees())
    form = shape(tree)
    most = MOST_BYTES // max(form.extent, form.span)
    return tree, min(draw(st.sampled_from(COUNTS)), most)


# ---------------------------------------------------------------------- steps


def _seed() -> Any:
    return st.integers(0, 999)


@st.composite
def dup(draw: Any, ranks: int) -> dict[str, Any]:
    return {"do": "dup", "started": draw(st.booleans())}


@st.composite
def split(draw: Any, ranks: int) -> dict[str, Any]:
    colors = st.sampled_from([0, 0, 1, 1, None])
    return {
        "do": "split",
        "colors": [draw(colors) for _ in range(ranks)],
        "keys": [draw(st.integers(0, 2)) for _ in range(ranks)],
    }


@st.composite
def create(draw: Any, ranks: int) -> dict[str, Any]:
    chosen = st.lists(st.integers(0, ranks - 1), min_size=1, unique=True)
    members = st.integers(0, 2)  # 0: called by all, else by members, with this tag
    return {"do": "create", "ranks": draw(chosen), "members": draw(members)}


@st.composite
def exchange(draw: Any, ranks: int) -> dict[str, Any]:
    """Some messages, all under way at the same time."""
    ways = ["exact", "exact", "probe", "tag", "source", "source tag"]
    receive = [draw(st.sampled_from(ways)) for _ in range(ranks)]
    persistent = draw(st.booleans())
    blocking = "probe" not in receive and not persistent and draw(st.booleans())
    alike = draw(counted()) if any("source" in how for how in receive) else None
    messages = [
        _message(draw, ranks, alike) for _ in range(draw(st.integers(1, 6)))
    ]  # fmt: skip
    if alike:
        room = max(message["count"] for message in messages)
        for message in messages:
            message["room"] = room
    return {
        "do": "exchange",
        "receive": receive,
        "persistent": persistent,
        "blocking": blocking,
        "wait": draw(WAIT),
        "messages": messages,
        "seed": draw(_seed()),
    }


def _message(draw: Any, ranks: int, alike: Any) -> dict[str, Any]:
    tree, count = draw(counted()) if alike is None else alike
    if alike is not None and draw(st.booleans()):
        count //= 2
    form, into, room = shape(tree), tree, count
    if alike is None:
        room += draw(st.integers(0, 2))
        if form.base and draw(st.booleans()):
            into, room = form.base, room * len(form.signature)
    return {
        "source": draw(st.integers(0, ranks - 1)),
        "dest": draw(st.integers(0, ranks - 1)),
        "tag": draw(st.integers(0, 2)),
        "call": draw(st.sampled_from(["Send", "Send", "Ssend", "Bsend"])),
        "from": tree,
        "count": count,
        "into": into,
        "room": room,
        "matched": draw(st.booleans()),
    }


@st.composite
def shift(draw: Any, ranks: int) -> dict[str, Any]:
    tree, count = draw(counted())
    return {
        "do": "shift",
        "by": draw(st.integers(0, ranks)),
        "ends": draw(st.booleans()),
        "replace": draw(st.booleans()),
        "type": tree,
        "count": count,
        "seed": draw(_seed()),
    }


@st.composite
def pack(draw: Any, ranks: int) -> dict[str, Any]:
    tree, count = draw(counted())
    return {"do": "pack", "type": tree, "count": min(count, 50), "seed": draw(_seed())}


@st.composite
def collective(draw: Any, ranks: int, **more: Any) -> dict[str, Any]:
    return {
        "how": draw(HOW),
        "defer": draw(st.integers(0, 3)),
        "wait": draw(WAIT),
        "root": draw(st.integers(0, ranks - 1)),
        "in_place": draw(st.booleans()),
        "seed": draw(_seed()),
    }


@st.composite
def barrier(draw: Any, ranks: int) -> dict[str, Any]:
    return {**draw(collective(ranks)), "do": "barrier"}


@st.composite
def moved(draw: Any, ranks: int) -> dict[str, Any]:
    names = ["Bcast", "Gather", "Scatter", "Allgather", "Alltoall"]
    tree, count = draw(counted())
    return {
        **draw(collective(ranks)),
        "do": "moved",
        "name": draw(st.sampled_from(names)),
        "type": tree,
        "count": count,
        "flat": draw(st.booleans()) and shape(tree).base,
    }


@st.composite
def various(draw: Any, ranks: int) -> dict[str, Any]:
    names = ["Gatherv", "Scatterv", "Allgatherv", "Alltoallv", "Alltoallw"]
    tree, count = draw(counted())
    counts = st.sampled_from([0, 1, 2, count])
    return {
        **draw(collective(ranks)),
        "do": "various",
        "name": draw(st.sampled_from(names)),
        "type": tree,
        "matrix": [[draw(counts) for _ in range(ranks)] for _ in range(ranks)],
        "order": draw(st.permutations(range(ranks))),
        "gap": draw(st.integers(0, 2)),
    }


@st.composite
def reduced(draw: Any, ranks: int) -> dict[str, Any]:
    names = ["Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter"]
    base = draw(st.sampled_from(sorted(NUMBERS)))
    ops = FLOAT_OPS if base in ("FLOAT", "DOUBLE") else INTEGER_OPS
    if base == "INT64_T":
        ops = [*ops, "MATMUL", "MATMUL"]
    counts = st.sampled_from([0, 1, 2, 5, 1000, 30_000])
    return {
        **draw(collective(ranks)),
        "do": "reduced",
        "name": draw(st.sampled_from([*names, "Reduce_scatter_block"])),
        "base": base,
        "op": draw(st.sampled_from(ops)),
        "count": draw(counts),
        "counts": [draw(counts) for _ in range(ranks)],
    }


STEPS = (exchange, moved, various, reduced, shift, split, dup, create, pack, barrier)
MAKE_COMMS = ("dup", "split", "create")


@st.composite
def programs(draw: Any, ranks: int) -> dict[str, Any]:
    """A program for so many ranks."""
    steps = draw(
        st.lists(
            st.one_of([step(ranks) for step in STEPS]), min_size=1, max_size=MOST_STEPS
        )
    )
    comms = 1
    for step in steps:
        step["comm"] = draw(st.integers(0, comms - 1))
        comms += step["do"] in MAKE_COMMS
    return {"ranks": ranks, "steps": steps}
