# SPDX-License-Identifier: MIT
"""What each thing that a probe can see means for tbmpi.

A finding is good, or worth a word, or bad: tbmpi cannot work so. Where reports
about Apple's verbs differ, each side of the difference has a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GOOD, WORD, BAD = "good", "note", "bad"

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Meaning:
    """How good it is, and what tbmpi does about it."""

    grade: str
    text: str


@dataclass(frozen=True)
class Row:
    """A line of the table: what was looked at, where, and what was seen."""

    probe: str
    place: str  # the Mac, or the cable
    seen: str
    figures: str
    meaning: Meaning
    note: str = ""
    values: Mapping[str, Any] | None = None


# The probes in the order of the table, and what they are called.
TITLES = {
    "open": "device",
    "port": "provider",
    "gid": "place of the IPv4 address",
    "advertised": "limits as advertised",
    "sharing": "two processes on a device",
    "queue_pairs": "queue pairs",
    "domains": "protection domains",
    "queues": "completion queues",
    "regions": "memory regions",
    "region_scope": "regions are counted by",
    "access": "access flags of a region",
    "alignment": "start of a region",
    "line": "region across a 4 GiB line",
    "depth": "granted queue depth",
    "types": "queue pair types",
    "errno": "error numbers",
    "channel": "completion channel",
    "inline": "inline data",
    "connect": "connection",
    "early_receive": "receives before RTS",
    "mtu": "path MTU",
    "credit": "SEND without a RECV",
    "mismatch": "unequal frame counts",
    "longest": "longest message",
    "send_read": "a SEND's buffer is read",
    "scribble": "a posted RECV's buffer",
    "sge": "two pieces in a SEND",
    "unsignaled": "SEND without completion",
    "empty": "SEND of no bytes",
    "immediate": "immediate data",
    "rdma_write": "RDMA write",
    "overpost": "more posted than granted",
    "order": "short behind long, other queue",
    "latency": "latency",
    "late": "late messages",
    "rate": "bandwidth",
    "loss": "loss",
    "lost": "the RECV of a lost SEND",
    "damage": "damage",
    "sequence": "order in a queue pair",
    "leak": "queue pair of a killed process",
    "link": "tbmpi's own link",
}

_CREDITS = "tbmpi sends only what the other end has posted for"
_WHOLE = "tbmpi sends as many frames as the RECV has"

MEANINGS: dict[str, dict[str, Meaning]] = {
    "open": {"refused": Meaning(BAD, "no packet can pass")},
    "port": {
        "thunderbolt": Meaning(GOOD, ""),
        "other": Meaning(WORD, "not Apple's provider, or shown as another"),
    },
    "gid": {
        "first": Meaning(GOOD, "index 1, as Apple's example has it"),
        "elsewhere": Meaning(GOOD, "tbmpi looks for it"),
    },
    "advertised": {
        "limits": Meaning(GOOD, "tbmpi trusts none of them"),
        "nothing": Meaning(WORD, "the library does not tell"),
    },
    "sharing": {
        "machine": Meaning(GOOD, "limits are the machine's: a router owns them all"),
        "process": Meaning(WORD, "each process has its own limits"),
        "exclusive": Meaning(WORD, "one job at a time on this Mac"),
        "nothing": Meaning(WORD, "the second process got nothing"),
    },
    "region_scope": {
        "device": Meaning(GOOD, "tbmpi registers at most 16"),
        "domain": Meaning(GOOD, "tbmpi registers at most 16"),
    },
    "access": {
        "any": Meaning(GOOD, "tbmpi tries the wide flags first"),
        "wide": Meaning(GOOD, "tbmpi tries the wide flags first"),
        "local": Meaning(GOOD, "tbmpi tries the narrow flags second"),
        "refused": Meaning(BAD, "no memory can be registered"),
    },
    "alignment": {
        "page": Meaning(GOOD, "tbmpi's regions begin at pages of 16 KiB"),
        "any": Meaning(GOOD, "tbmpi's regions begin at pages of 16 KiB"),
    },
    "line": {
        "alias": Meaning(
            GOOD, "what lies beyond is misplaced; no region of tbmpi does"
        ),
        "refuse": Meaning(GOOD, "refused; no region of tbmpi does"),
        "ignore": Meaning(GOOD, "it works; no region of tbmpi does"),
        "nothing": Meaning(WORD, "nothing came; no region of tbmpi does"),
        "not_seen": Meaning(WORD, "there was no free memory at such a line"),
    },
    "depth": {
        "exact": Meaning(GOOD, "as asked; tbmpi reads it back"),
        "more": Meaning(GOOD, "rounded up; tbmpi reads it back"),
        "less": Meaning(GOOD, "less than asked; tbmpi reads it back"),
        "refused": Meaning(BAD, "no queue pair can be made"),
    },
    "types": {
        "only_uc": Meaning(GOOD, "UC alone; tbmpi needs no other"),
        "others": Meaning(WORD, "others too: not Apple's; tbmpi uses UC"),
    },
    "errno": {
        "darwin": Meaning(GOOD, "as macOS has them"),
        "native": Meaning(WORD, "as this system has them; tbmpi knows both"),
        "neither": Meaning(WORD, "unknown: causes of failures may be named wrongly"),
        "not_seen": Meaning(GOOD, "nothing was refused"),
    },
    "channel": {
        "none": Meaning(GOOD, "tbmpi polls, and naps when idle"),
        "offered": Meaning(WORD, "tbmpi polls all the same"),
    },
    "inline": {
        "refused": Meaning(GOOD, "tbmpi uses none"),
        "granted": Meaning(WORD, "tbmpi uses none"),
    },
    "connect": {
        "works": Meaning(GOOD, ""),
        "refused": Meaning(BAD, "no packet can pass"),
    },
    "early_receive": {
        "refused": Meaning(GOOD, "tbmpi posts after RTS, and says so"),
        "accepted": Meaning(GOOD, "tbmpi posts after RTS all the same"),
    },
    "mtu": {
        "any": Meaning(GOOD, "tbmpi takes the smaller of both ends'"),
        "4096": Meaning(GOOD, "tbmpi takes the smaller of both ends'"),
        "smaller": Meaning(WORD, "4096 is refused"),
    },
    "credit": {
        "hold": Meaning(GOOD, f"it waits; {_CREDITS}"),
        "drop": Meaning(GOOD, f"it is lost; {_CREDITS}"),
    },
    "mismatch": {
        "receive": Meaning(GOOD, f"that RECV fails; {_WHOLE}"),
        "queue": Meaning(GOOD, f"the queue pair fails; {_WHOLE}"),
        "works": Meaning(GOOD, f"it works; {_WHOLE}"),
        "nothing": Meaning(WORD, f"nothing completes; {_WHOLE}"),
    },
    "longest": {
        "arrives": Meaning(GOOD, "tbmpi's longest is 32 frames"),
        "fails": Meaning(WORD, "tbmpi's longest is 32 frames"),
    },
    "send_read": {
        "late": Meaning(GOOD, "at its completion; tbmpi waits for that"),
        "post": Meaning(GOOD, "when posted; tbmpi waits for its completion"),
        "nothing": Meaning(WORD, "a SEND of 32 frames did not arrive"),
    },
    "scribble": {
        "off": Meaning(GOOD, "untouched until the message comes"),
        "frames": Meaning(GOOD, "written to before; tbmpi does not look"),
        "all": Meaning(GOOD, "written to before; tbmpi does not look"),
        "nothing": Meaning(WORD, "not looked at"),
    },
    "sge": {
        "refuse": Meaning(GOOD, "tbmpi sends one"),
        "split": Meaning(GOOD, "a message each; tbmpi sends one"),
        "joined": Meaning(GOOD, "one message; tbmpi sends one"),
        "nothing": Meaning(WORD, "nothing came; tbmpi sends one"),
    },
    "unsignaled": {
        "quiet": Meaning(GOOD, "tbmpi asks for every completion"),
        "completes": Meaning(GOOD, "it completes all the same"),
        "refuse": Meaning(GOOD, "tbmpi asks for every completion"),
        "nothing": Meaning(WORD, "it did not arrive; tbmpi asks for every completion"),
    },
    "order": {
        "overtakes": Meaning(GOOD, "packets are put in order by number"),
        "waits": Meaning(WORD, "a short message waits for a long one before it"),
        "nothing": Meaning(WORD, "neither came in time"),
    },
    "lost": {
        "vanish": Meaning(GOOD, "stays posted; the gap is seen and repaired"),
        "fail": Meaning(GOOD, "fails; a new epoch begins and repairs it"),
    },
    "leak": {
        "off": Meaning(GOOD, "given back"),
        "on": Meaning(WORD, "gone until a restart: a router outlives its ranks"),
    },
    "link": {
        "works": Meaning(GOOD, ""),
        "fails": Meaning(BAD, "no job can use these cables"),
    },
}
for _name in ("empty", "immediate"):
    MEANINGS[_name] = {
        "refuse": Meaning(GOOD, "refused; tbmpi sends none"),
        "arrives": Meaning(GOOD, "it arrives; tbmpi sends none"),
        "nothing": Meaning(GOOD, "taken, and nothing came; tbmpi sends none"),
    }
MEANINGS["rdma_write"] = {
    "refuse": Meaning(GOOD, "refused; tbmpi uses SEND alone"),
    "swallow": Meaning(GOOD, "taken, and nothing landed; tbmpi uses SEND alone"),
    "lands": Meaning(WORD, "it lands: not Apple's; tbmpi uses SEND alone"),
}
MEANINGS["overpost"] = {
    "refuse": Meaning(GOOD, "refused; tbmpi counts frames and never does"),
    "len_error": Meaning(GOOD, "the oldest fails; tbmpi counts frames and never does"),
    "corrupt": Meaning(GOOD, "silent corruption; tbmpi counts frames and never does"),
    "works": Meaning(WORD, "it works; tbmpi counts frames and never does"),
    "nothing": Meaning(WORD, "nothing came; tbmpi counts frames and never does"),
}
# How many of each a device has to give.
NEEDED = {"queue_pairs": 3, "domains": 1, "queues": 3, "regions": 16}


def rows_of(line: Line, place: str) -> Iterable[Row]:
    """What one line of a probe means; a few make several rows, or none."""
    probe, seen, values = line["probe"], line["seen"], line["values"]
    if probe in NEEDED:
        yield _counted(line, place)
    elif probe == "rate":
        return  # summed up for the cable
    elif probe == "latency":
        yield from _latency(line, place)
    else:
        unknown = Meaning(WORD, "unheard of: please report it")
        meaning = MEANINGS.get(probe, {}).get(seen, unknown)
        figures = _figures(probe, values)
        yield Row(probe, place, seen, figures, meaning, line["note"], values)


def _counted(line: Line, place: str) -> Row:
    values = line["values"]
    enough = values["count"] >= NEEDED[line["probe"]]
    need = f"tbmpi needs {NEEDED[line['probe']]} a cable"
    if line["probe"] == "regions":
        need = "tbmpi needs at most 16"
    meaning = Meaning(GOOD if enough else BAD, need)
    more = "" if line["seen"] == "limited" else " or more"
    refused = f", then {values['errno']}" if values["errno"] else ""
    return Row(
        line["probe"],
        place,
        f"{values['count']}{more}{refused}",
        "",
        meaning,
        line["note"],
        values,
    )


def _figures(probe: str, values: Mapping[str, Any]) -> str:
    """The figures that belong into the table."""
    if probe in ("port", "errno", "leak"):
        return ", ".join(f"{key} {value}" for key, value in values.items())
    if probe == "advertised":
        wanted = ("qp", "qp_wr", "cq", "mr", "pd", "sge")
        return ", ".join(f"{key} {values[key]}" for key in wanted if key in values)
    if probe == "depth":
        return ", ".join(f"{asked}: {got}" for asked, got in values.items())
    if probe in ("longest", "gid", "sharing"):
        return ", ".join(f"{key} {value}" for key, value in values.items() if value)
    if probe == "link" and values.get("rate"):
        return (
            f"{values['small_us']:.1f} us, {values['rate']:.2f} GB/s, "
            f"{values['lost']} lost, {values['damaged']} damaged, "
            f"{values['epochs']} epochs"
        )
    return f"error {values['errno']}" if values.get("errno") else ""


def _latency(line: Line, place: str) -> Iterable[Row]:
    values = line["values"]
    frames = f"{values['frames']} frame{'s' if values['frames'] > 1 else ''}"
    if line["seen"] != "measured":
        yield Row("latency", place, "nothing came", frames, Meaning(BAD, ""))
        return
    figures = f"{values['least_us']:.1f} us, median {values['median_us']:.1f} us"
    yield Row("latency", place, figures, frames, Meaning(GOOD, ""), values=values)
    share = values["late"] / max(1, values["rounds"])
    if values["frames"] == 1 and share > LATE_SHARE:
        seen = f"{share:.1%} of round trips, by {values['late_us']:.0f} us"
        meaning = Meaning(WORD, "tbmpi waits, and asks when it takes too long")
        yield Row("late", place, seen, "", meaning, values=values)


LATE_SHARE = 0.02  # fewer are any busy machine's


def summed(lines: Sequence[Line], place: str) -> Iterable[Row]:
    """Bandwidth, loss and damage of a cable, from all its bursts."""
    rates = [line["values"] for line in lines if line["probe"] == "rate"]
    for values in rates:
        frames = f"{values['frames']} frame{'s' if values['frames'] > 1 else ''}"
        way = "there" if values["from"] == 0 else "back"
        seen = f"{values['median']:.2f} GB/s, best {values['best']:.2f}"
        good = Meaning(GOOD if values["messages"] > values["lost"] else BAD, "")
        yield Row("rate", place, seen, f"{frames}, {way}", good, values=values)
    if not rates:
        return
    yield from _trouble(rates, place)


def _trouble(rates: Sequence[Mapping[str, Any]], place: str) -> Iterable[Row]:
    """What did not arrive as it was sent. A message is lost with any frame."""
    frames = sum(row["messages"] * row["frames"] for row in rates)
    short = [row for row in rates if row["frames"] == 1]
    sent = sum(row["messages"] for row in short)
    missing = sum(row["lost"] + row["failed"] for row in short)
    failed = sum(row["failed"] for row in rates)
    gone = sum(row["lost"] for row in rates) + failed
    share = missing / max(1, sent)
    yield Row(
        "loss",
        place,
        f"{gone} messages ({share:.2%} of single frames)" if gone else "none",
        f"{frames} frames",
        Meaning(WORD if gone else GOOD, "seen and repaired" if gone else ""),
        values={"messages": gone, "frames": frames, "share": share},
    )
    if gone:
        seen = "fail" if failed else "vanish"
        yield Row("lost", place, seen, "", MEANINGS["lost"][seen])
    damaged = sum(row["damaged"] for row in rates)
    yield _wrong("damage", place, damaged, "messages", "none", "seen by CRC32C")
    wrong = sum(row["disordered"] + row["duplicated"] for row in rates)
    yield _wrong(
        "sequence", place, wrong, "out of order or twice", "kept", "numbers tell"
    )


def _wrong(
    probe: str, place: str, messages: int, what: str, usual: str, cure: str
) -> Row:
    """So many messages had something that the link mends; `usual` if none had."""
    meaning = Meaning(WORD, cure) if messages else Meaning(GOOD, "")
    seen = f"{messages} {what}" if messages else usual
    return Row(probe, place, seen, "", meaning, values={"messages": messages})
