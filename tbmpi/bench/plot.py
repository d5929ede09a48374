# SPDX-License-Identifier: MIT
"""The picture: a small panel per family, with the ratios below it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tbmpi.bench.errors import BenchError
from tbmpi.bench.units import figure_unit, number_text, shown
from tbmpi.bench.verdict import RULE_RATIO, Family, Row
from tbmpi.bench.wire import Wire

COLOURS = ("#0b6e99", "#d9730d", "#8a8a8a", "#6940a5")
WIRE = "#444444"
COLUMNS = 3
MOST_SHOWN = 8.0
TICKS = {
    0: "0",
    8: "8",
    256: "256",
    8192: "8K",
    1 << 18: "256K",
    1 << 22: "4M",
}


def need_matplotlib() -> None:
    """Raise BenchError with the remedy if there is no matplotlib."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise BenchError(
            "--png needs matplotlib: pip install 'tbmpi[plot]' (or leave --png out)"
        ) from error


def draw(
    path: Path,
    families: Sequence[Family],
    subject: str,
    titles: Mapping[str, str],
    caption: str,
    wire: Wire | None = None,
) -> None:
    """Write the PNG. BenchError if the file cannot be written."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    columns = min(COLUMNS, len(families))
    lines = math.ceil(len(families) / columns)
    figure = pyplot.figure(figsize=(max(7.0, 4.4 * columns), 4.0 * lines + 1.9))
    grid = figure.add_gridspec(lines, columns, hspace=0.32, wspace=0.28)
    for place, family in enumerate(families):
        cell = grid[place // columns, place % columns]
        if len(titles) < 2:
            axes = figure.add_subplot(cell)
            _draw_times(axes, family, titles)
            if wire:
                _draw_wire(axes, family, wire)
            continue
        pair = cell.subgridspec(2, 1, height_ratios=(2.4, 1), hspace=0.1)
        axes = [figure.add_subplot(part) for part in pair]
        _draw_times(axes[0], family, titles)
        axes[0].tick_params(labelbottom=False)
        axes[0].set_xlabel("")
        _draw_ratios(axes[1], family, subject)
    _finish(figure, caption)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise BenchError(f"cannot write {path}: {error}") from error
    finally:
        pyplot.close(figure)


def _finish(figure: Any, caption: str) -> None:
    """Add legend and caption, in margins of a fixed width."""
    height = figure.get_figheight()
    top, bottom = 1 - 0.9 / height, 0.95 / height
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.06, 1 - 0.55 / height),
        ncols=len(labels),
        frameon=False,
    )
    figure.text(0.07, 0.2 / height, caption, fontsize=8, wrap=True)
    figure.subplots_adjust(left=0.07, right=0.98, top=top, bottom=bottom)


def _place(size: int) -> float:
    """Return where a size stands on the axis; 0 has a place before 1."""
    return math.log2(size) if size else -1.0


def _points(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    xs, ys = [], []
    for row in rows:
        if name in row.times:
            family, size = row.key
            xs.append(_place(size))
            ys.append(shown(family, size, row.times[name], row.streams))
    return xs, ys


def _draw_times(axes: Any, family: Family, titles: Mapping[str, str]) -> None:
    is_single = len(family.rows) == 1
    for number, (name, title) in enumerate(titles.items()):
        xs, ys = _points(family.rows, name)
        colour = COLOURS[number % len(COLOURS)]
        if is_single:
            bars = axes.bar([number] * len(ys), ys, 0.6, color=colour)
            axes.bar_label(bars, [number_text(y) for y in ys])
            bars.set_label(title)
            continue
        axes.plot(
            xs,
            ys,
            marker="o",
            markersize=2.5,
            linewidth=2.0 if number == 0 else 1.2,
            zorder=10 - number,
            color=colour,
            label=title,
        )
    if not is_single:
        axes.set_yscale("log")
    axes.set_title(f"{family.name}, {figure_unit(family.name)}", loc="left")
    axes.grid(True, which="major", axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _size_ticks(axes, family)


def _draw_wire(axes: Any, family: Family, wire: Wire) -> None:
    points = [
        (_place(row.key[1]), shown(*row.key, usec, row.streams))
        for row in family.rows
        if (usec := wire.usec(*row.key)) > 0
    ]
    if points:
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, "--", color=WIRE, linewidth=1.2, label="modelled wire")


def _draw_ratios(axes: Any, family: Family, subject: str) -> None:
    rows = [row for row in family.rows if row.is_compared]
    xs = [_place(row.key[1]) for row in rows]
    colours = [_ratio_colour(row) for row in rows]
    spreads = [_known(row.spreads.get(subject, 1.0)) for row in rows]
    largest = max([abs(math.log2(row.ratio)) for row in rows], default=0)
    reach = min(MOST_SHOWN, 2 ** max(1.0, 1.15 * largest))
    ends = [min(max(row.ratio, 1 / reach), reach) for row in rows]
    if len(rows) > 1:
        low = [1 / spread for spread in spreads]
        axes.fill_between(xs, low, spreads, color="black", alpha=0.1, lw=0)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.axhline(RULE_RATIO, color="#c0392b", linewidth=0.8, linestyle=":")
    axes.vlines(xs, 1.0, ends, colors=colours)
    axes.scatter(xs, ends, s=12, color=colours, clip_on=False, zorder=3)
    axes.set_yscale("log", base=2)
    axes.set_ylim(1 / reach, reach)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("ratio", fontsize=8)
    axes.grid(True, which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _size_ticks(axes, family)


def _known(spread: float) -> float:
    return 1.0 if math.isnan(spread) else spread


def _ratio_colour(row: Row) -> str:
    if row.is_miss:
        return "#c0392b"
    return "#2e7d32" if row.ratio <= 1 else "#b8860b"


def _size_ticks(axes: Any, family: Family) -> None:
    sizes = [row.key[1] for row in family.rows]
    if len(sizes) == 1:
        axes.set_xticks([])
        return
    ticks = {s: t for s, t in TICKS.items() if min(sizes) <= s <= max(sizes)}
    axes.set_xlim(_place(min(sizes)) - 0.5, _place(max(sizes)) + 0.5)
    axes.set_xticks([_place(size) for size in ticks])
    axes.set_xticklabels(ticks.values())
    axes.set_xlabel("bytes", fontsize=8)
