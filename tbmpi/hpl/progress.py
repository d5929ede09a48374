# SPDX-License-Identifier: MIT
"""One line of progress per run: a bar on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress_line(
    console: Console, label: str
) -> Iterator[Callable[[float | None], None]]:
    """Show `label` and a bar until the block ends; yields how to move it."""
    if not console.is_terminal:
        console.print(f"{label} ...", highlight=False)
        yield lambda share: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=None)

        def show(share: float | None) -> None:
            if share is not None:
                bar.update(task, total=1.0, completed=share)

        yield show
