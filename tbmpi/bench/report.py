# SPDX-License-Identifier: MIT
"""The tables on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from tbmpi.bench.program import P2P, Figure, Key
from tbmpi.bench.units import figure_unit, key_text, number_text, shown
from tbmpi.bench.verdict import (
    RULE_MEAN,
    RULE_RATIO,
    RULE_RUNS,
    TOO_NOISY,
    Family,
    Row,
    halves_spread,
    lower_quartile,
)
from tbmpi.bench.wire import Wire

Samples = Mapping[Key, Sequence[Figure]]


def print_alone(console: Console, samples: Samples, wire: Wire | None = None) -> None:
    """Print one library's own figures, a table per family.

    With the modelled wire beside them, and what software adds to it.
    """
    for family in dict.fromkeys(family for family, _ in samples):
        unit = figure_unit(family)
        table = _table(f"{family}", "size")
        is_wired = wire is not None and family in P2P
        # With a wire beside it, the rest is in the JSON only: the table is full.
        for heading in ("lower quartile", "median", "minimum")[: 1 if is_wired else 3]:
            table.add_column(f"{heading}, us", justify="right")
        if unit != "us":
            table.add_column(unit, justify="right", style="bold")
        if is_wired:
            table.add_column(f"wire, {unit}", justify="right")
            heading = "above it, us" if unit == "us" else "% of it"
            table.add_column(heading, justify="right", style="bold")
        table.add_column("A/A", justify="right", style="dim")
        table.add_column("#wrong", justify="right")
        for (name, size), figures in samples.items():
            if name == family:
                table.add_row(*_alone_cells(family, size, figures, wire))
        console.print(table)


def _alone_cells(
    family: str, size: int, figures: Sequence[Figure], wire: Wire | None
) -> list[str]:
    first = lower_quartile([figure.q1 for figure in figures])
    cells = [key_text(family, size), number_text(first)]
    if not (wire and family in P2P):
        cells.append(number_text(lower_quartile([f.median for f in figures])))
        cells.append(number_text(min(figure.minimum for figure in figures)))
    if figure_unit(family) != "us":
        value = shown(family, size, first, figures[0].streams)
        cells.append(number_text(value))
    if wire and family in P2P:
        cells += _wire_cells(wire, figures[0], first)
    spread = halves_spread([figure.q1 for figure in figures])
    cells.append(number_text(spread))
    wrong = sum(figure.wrong for figure in figures)
    cells.append(f"[bold red]{wrong}[/]" if wrong else "0")
    return cells


def _wire_cells(wire: Wire, figure: Figure, usec: float) -> list[str]:
    family, size = figure.key
    model = wire.usec(family, size)
    if figure_unit(family) == "us":
        return [number_text(model), number_text(max(0.0, usec - model))]
    if not model > 0:
        return ["-", "-"]
    speed = shown(family, size, model, figure.streams)
    return [number_text(speed), number_text(100 * model / usec)]


def print_comparison(
    console: Console,
    families: Sequence[Family],
    subject: str,
    titles: Mapping[str, str],
    rounds: int,
) -> None:
    """Print every family against its peers, then the verdict.

    `titles` names the libraries in the order of the columns.
    """
    for family in families:
        console.print(_family_table(family, subject, titles))
    console.print(_verdict_table(families))
    console.print(
        f"ratio: {subject}'s time / the better peer's, below 1 is faster. "
        f"A family passes with a geometric mean of at most {RULE_MEAN:.2f} "
        f"and no ratio above {RULE_RATIO:.2f} or the A/A spread, whichever "
        "is larger.",
        style="dim",
    )
    noisy = [family.name for family in families if family.noise > TOO_NOISY]
    if noisy:
        console.print(
            f"[yellow]Too noisy to judge: {', '.join(noisy)}. Same programme, "
            f"same library, and the times differ by more than {TOO_NOISY}; "
            "repeat it on a quiet machine.[/]"
        )
    if rounds < RULE_RUNS:
        console.print(
            f"[yellow]{rounds} runs are an indication only: the rule wants "
            f"{RULE_RUNS}.[/]"
        )


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(first, justify="right")
    return table


def _family_table(family: Family, subject: str, titles: Mapping[str, str]) -> Table:
    unit = figure_unit(family.name)
    table = _table(f"{family.name}, {unit}", "size")
    for name, title in titles.items():
        style = "bold" if name == subject else ""
        table.add_column(title, justify="right", style=style)
    table.add_column("ratio", justify="right")
    table.add_column("limit", justify="right", style="dim")
    table.add_column("A/A", justify="right", style="dim")
    table.add_column("")
    for row in family.rows:
        table.add_row(*_comparison_cells(row, subject, titles))
    return table


def _comparison_cells(row: Row, subject: str, titles: Mapping[str, str]) -> list[str]:
    family, size = row.key
    cells = [key_text(family, size)]
    for name in titles:
        usec = row.times.get(name, math.nan)
        value = shown(family, size, usec, row.streams)
        cells.append(number_text(value))
    colour = "red" if row.is_miss else "green" if row.ratio <= 1 else "yellow"
    cells.append(f"[{colour}]{number_text(row.ratio)}[/]")
    cells.append(number_text(row.limit))
    cells.append(number_text(row.spreads.get(subject, math.nan)))
    return [*cells, "[red]miss[/]" if row.is_miss else ""]


def _verdict_table(families: Sequence[Family]) -> Table:
    table = _table("verdict", "family")
    headings = ("geometric mean", "worst ratio", "at", "misses", "median A/A")
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("")
    for family in families:
        known = [row for row in family.rows if row.is_compared]
        worst = max(known, key=lambda row: row.ratio, default=None)
        table.add_row(
            family.name,
            number_text(family.mean),
            number_text(worst.ratio) if worst else "-",
            key_text(*worst.key) if worst else "-",
            str(len(family.misses)),
            number_text(family.noise),
            _verdict_word(family),
        )
    return table


def _verdict_word(family: Family) -> str:
    if not any(row.best_peer for row in family.rows):
        return "[yellow]no peer's figure[/]"
    if family.passes:
        is_noisy = family.noise > TOO_NOISY
        return "[yellow]noise[/]" if is_noisy else "[green]passes[/]"
    return "[bold red]misses[/]"


def print_gaps(
    console: Console,
    errors: Mapping[str, Sequence[str]],
    skipped: Mapping[str, Mapping[Key, str]],
    samples: Mapping[str, Samples],
) -> None:
    """Print which runs failed and which figures are missing, and why."""
    for name, messages in errors.items():
        console.print(f"[bold red]{name}: {len(messages)} failed runs[/]")
        for message in dict.fromkeys(messages):
            console.print(f"  {message}", markup=False, highlight=False)
    for name, group in skipped.items():
        places: dict[tuple[str, str], list[str]] = {}
        for (family, size), why in group.items():
            if (family, size) not in samples.get(name, {}):
                sizes = places.setdefault((family, why), [])
                sizes.append(key_text(family, size))
        for (family, why), sizes in places.items():
            console.print(
                f"{name}: no {family} at {', '.join(sizes)}: {why}",
                style="yellow",
            )
        rest = sum(key in samples.get(name, {}) for key in group)
        if rest:
            console.print(
                f"{name}: {rest} figures come from fewer runs: {why}",
                style="dim",
            )


def print_wrong(console: Console, wrong: Mapping[str, Sequence[Key]]) -> None:
    """Print which figures came with wrong data."""
    for name, keys in wrong.items():
        places = ", ".join(f"{f} {key_text(f, s)}" for f, s in keys)
        console.print(f"[bold red]{name}: wrong data in {places}[/]")
