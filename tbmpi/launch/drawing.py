# SPDX-License-Identifier: MIT
"""A topology as a picture: in a terminal, and as SVG.

Hosts stand on a line if the cables form one, around a hub if there is one, and
else on a circle. Cables are numbered as everywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tbmpi.launch.topology import Cable, Topology

Point = tuple[float, float]

WIDTH, HEIGHT = 72, 17  # of the picture in a terminal, in characters
LINE_HEIGHT = 5
BOX_HEIGHT = 4
APART = 3.0  # between cables of one pair, in dots
LABEL_AT = 0.35  # of a cable's length: in the middle the diagonals cross
CABLE, BOX, LABEL = "cyan", "bold", "yellow"


def positions(topology: Topology) -> list[Point]:
    """Where each host stands, from (0, 0) at the top left to (1, 1)."""
    count = len(topology.hosts)
    order = _as_line(topology)
    if order:
        places = {host: at / (count - 1) for at, host in enumerate(order)}
        return [(places[host], 0.5) for host in range(count)]
    hub = _hub(topology)
    around = [host for host in range(count) if host != hub]
    # A flat side at the top; with four, the corners of the picture.
    turn = math.pi / len(around) if len(around) % 2 == 0 else 0.0
    wide = math.sqrt(2) if len(around) == 4 else 1.0
    found = [(0.5, 0.5)] * count
    for at, host in enumerate(around):
        angle = 2 * math.pi * at / len(around) - math.pi / 2 - turn
        found[host] = (
            0.5 + 0.5 * wide * math.cos(angle),
            0.5 + 0.5 * wide * math.sin(angle),
        )
    return _stretched(found)


def _stretched(points: list[Point]) -> list[Point]:
    """The same, filling the whole of 0 to 1 in both directions."""
    columns = []
    for values in zip(*points, strict=True):
        low, high = min(values), max(values)
        columns.append([(value - low) / (high - low) for value in values])
    return list(zip(*columns, strict=True))


def _as_line(topology: Topology) -> list[int]:
    """The hosts in the order of a line, or nothing when they form none."""
    ends = [h for h in range(len(topology.hosts)) if len(topology.neighbours(h)) == 1]
    if len(ends) != 2:
        return []
    order, before = [ends[0]], -1
    while True:
        further = topology.neighbours(order[-1]) - {before}
        if len(further) != 1:
            return order if len(order) == len(topology.hosts) else []
        before = order[-1]
        order.append(further.pop())


def _hub(topology: Topology) -> int | None:
    """The host that all others are joined to, and to nobody else."""
    degrees = [len(topology.neighbours(h)) for h in range(len(topology.hosts))]
    hubs = [host for host, degree in enumerate(degrees) if degree > 1]
    return hubs[0] if len(hubs) == 1 else None


def _reach(dx: float, dy: float, width: float, height: float) -> float:
    """How long a line from a box's middle runs inside of it."""
    length = math.hypot(dx, dy)
    across = width / 2 * length / abs(dx) if dx else math.inf
    down = height / 2 * length / abs(dy) if dy else math.inf
    return min(across, down)


def _strands(topology: Topology) -> Iterator[tuple[Cable, float]]:
    """Every cable, and how far it lies beside the straight line: -0.5, 0.5."""
    for cable in topology.cables:
        bundle = topology.between(*cable.pair)
        yield cable, bundle.index(cable) - (len(bundle) - 1) / 2


# ------------------------------------------------------------------ a terminal


class Picture:
    """Draws itself on a rich console; plain text where there are no colours.

    `notes` is a line for every host: what runs there.
    """

    def __init__(self, topology: Topology, notes: Sequence[str]) -> None:
        self._topology = topology
        self._notes = notes

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Rich's protocol."""
        canvas = None
        if not options.ascii_only and options.max_width > WIDTH:
            canvas = self._drawn()
        if canvas is not None:
            yield from canvas.lines()
        else:
            for host, note in zip(self._topology.hosts, self._notes, strict=True):
                yield Text(f"{host}: {note}")
        yield from self._listed()

    def _drawn(self) -> _Canvas | None:
        """The picture, or None when there are too many Macs for it."""
        canvas = _Canvas(WIDTH, LINE_HEIGHT if _as_line(self._topology) else HEIGHT)
        boxes = list(zip(self._topology.hosts, self._notes, strict=True))
        width = max(len(line) for box in boxes for line in box) + 4
        # The middle of each box.
        spots = [
            (
                width / 2 + round(x * (canvas.width - width)),
                BOX_HEIGHT / 2 + round(y * (canvas.height - BOX_HEIGHT)),
            )
            for x, y in positions(self._topology)
        ]
        for at, (x, y) in enumerate(spots):
            for left, top in spots[:at]:
                if abs(x - left) < width + 2 and abs(y - top) < BOX_HEIGHT + 1:
                    return None
        for cable, beside in _strands(self._topology):
            a, b = (spots[host] for host in cable.pair)
            canvas.cable(a, b, width, beside, str(cable.number))
        for (x, y), box in zip(spots, boxes, strict=True):
            canvas.box(int(x - width / 2), int(y - BOX_HEIGHT / 2), width, box)
        return canvas

    def _listed(self) -> Iterator[Text]:
        hosts = self._topology.hosts
        ends = [
            [f"{hosts[end.host]} {end.device} {end.address}" for end in cable.ends]
            for cable in self._topology.cables
        ]
        width = max(len(a) for a, _ in ends)
        for cable, (a, b) in zip(self._topology.cables, ends, strict=True):
            yield Text(f"cable {cable.number:<3} {a.ljust(width)}  --  {b}")


class _Canvas:
    """Characters with styles; lines are made of Braille's 2 x 4 dots."""

    # The bit of each dot in a Braille character, by column and row.
    _DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
    _BLANK = 0x2800

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._dots = [[0] * width for _ in range(height)]
        self._texts: dict[tuple[int, int], tuple[str, str]] = {}

    def cable(self, a: Point, b: Point, width: int, strand: float, label: str) -> None:
        """A line between two boxes' middles; `strand` counts from the middle one.

        `width` is that of the boxes, which are drawn over it.
        """
        (x0, y0), (x1, y1) = ((2 * x, 4 * y) for x, y in (a, b))
        dx, dy = x1 - x0, y1 - y0
        length = math.hypot(dx, dy)
        x0, y0 = x0 + dy / length * strand * APART, y0 - dx / length * strand * APART
        steps = math.ceil(max(abs(dx), abs(dy)))
        for step in range(steps + 1):
            self._dot(round(x0 + dx * step / steps), round(y0 + dy * step / steps))
        # Labels of a bundle one after the other, or they would cover each other.
        reach = _reach(dx, dy, 2 * width, 4 * BOX_HEIGHT) / length
        at = reach + (1 - 2 * reach) * (LABEL_AT + 0.15 * strand)
        self._text(
            round((x0 + dx * at) / 2 - 0.5),
            round((y0 + dy * at) / 4 - 0.5),
            label,
            LABEL,
        )

    def box(self, x: int, y: int, width: int, lines: Sequence[str]) -> None:
        """A frame of the given width around lines."""
        bar = "─" * (width - 2)
        rows = ["╭" + bar + "╮", *(f"│{t:^{width - 2}}│" for t in lines)]
        for at, row in enumerate([*rows, "╰" + bar + "╯"]):
            self._text(x, y + at, row, BOX)

    def _dot(self, x: int, y: int) -> None:
        if 0 <= x < 2 * self.width and 0 <= y < 4 * self.height:
            self._dots[y // 4][x // 2] |= self._DOTS[x % 2][y % 4]

    def _text(self, x: int, y: int, text: str, style: str) -> None:
        for at, character in enumerate(text):
            self._texts[x + at, y] = character, style

    def lines(self) -> Iterator[Text]:
        """The picture, row by row."""
        for y, row in enumerate(self._dots):
            line = Text()
            for x, dots in enumerate(row):
                blank = chr(self._BLANK + dots) if dots else " "
                line.append(*self._texts.get((x, y), (blank, CABLE)))
            line.rstrip()
            yield line


# ------------------------------------------------------------------------- SVG

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b2733;text-anchor:middle}"
    ".note{font-size:11px;fill:#5b6b7b}"
    ".port{font-size:9px;fill:#5b6b7b;stroke:#fff;stroke-width:3;paint-order:stroke}"
    ".cable{stroke:#2a7de1;stroke-width:2.5}"
    ".mac{fill:#f4f7fa;stroke:#1b2733;stroke-width:1.2}"
)
_MAC = 104.0, 48.0
_STRAND = 12.0
_BACKGROUND = "#ffffff"


def svg(topology: Topology, notes: Sequence[str]) -> str:
    """The same picture as an SVG file's text, with the devices at the ends."""
    line = bool(_as_line(topology))
    width = 190.0 * (len(topology.hosts) if line else 3)
    height = 110.0 if line else 380.0
    spots = [
        (_MAC[0] / 2 + 20 + x * (width - _MAC[0] - 40), 34 + y * (height - 68))
        for x, y in positions(topology)
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(topology.name)}</title><style>{_STYLE}</style>",
        f'<rect width="100%" height="100%" fill="{_BACKGROUND}"/>',
    ]
    for cable, beside in _strands(topology):
        parts += _svg_cable(cable, spots, beside * _STRAND)
    for (x, y), name, note in zip(spots, topology.hosts, notes, strict=True):
        left, top = x - _MAC[0] / 2, y - _MAC[1] / 2
        parts += [
            f'<rect class="mac" x="{left:.1f}" y="{top:.1f}" width="{_MAC[0]}" '
            f'height="{_MAC[1]}" rx="9"/>',
            f'<text x="{x:.1f}" y="{y - 3:.1f}">{escape(name)}</text>',
            f'<text class="note" x="{x:.1f}" y="{y + 14:.1f}">{escape(note)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _svg_cable(cable: Cable, spots: Sequence[Point], beside: float) -> list[str]:
    (x0, y0), (x1, y1) = (spots[host] for host in cable.pair)
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (y1 - y0) / length * beside, (x0 - x1) / length * beside
    x0, x1, y0, y1 = x0 + dx, x1 + dx, y0 + dy, y1 + dy
    parts = [
        f'<line class="cable" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>'
    ]
    length = math.hypot(x1 - x0, y1 - y0)
    slant = abs(x1 - x0) / length
    part = (_reach(x1 - x0, y1 - y0, *_MAC) + 14 + 18 * slant) / length
    for end, at in ((cable.a, part), (cable.b, 1 - part)):
        parts.append(
            f'<text class="port" x="{x0 + (x1 - x0) * at:.1f}" '
            f'y="{y0 + (y1 - y0) * at - 4:.1f}">{escape(end.device)}</text>'
        )
    return parts
