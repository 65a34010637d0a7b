"""Tables in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from safexp.report.summary import (
    after_stops_text,
    free_stops_text,
    interval_text,
    interventions_text,
    labels,
    number,
    percent,
)
from safexp.runs.folder import Run
from safexp.runs.summary import WINDOW, Summary


def plain_console() -> Console:
    """A console without automatic highlighting, which does not wrap tables if the output is a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def print_rows(rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print rows of equal keys as a table, or as JSON for programs."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in rows[0]:
        table.add_column(heading.replace("_", " "), overflow="fold")  # nothing is cut off
    for row in rows:
        table.add_row(*map(cell, row.values()))
    plain_console().print(table)


@contextmanager
def track(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr; call the yielded function after each item."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def print_study(document: Mapping[str, object], table: Table, as_json: bool, figure: Path) -> None:
    """Print a study's table, or everything as JSON, and the path of its figure."""
    if as_json:
        print(json.dumps(document))
        return
    plain_console().print(table)
    print(f"figure: {figure}")


def cell(value: object) -> str:
    """Format a value for a table."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3g}"
        case _:
            return escape(str(value))


def print_summary(runs: Sequence[Run], console: Console | None = None) -> None:
    """Print the key numbers of each run: true return, violations, stops, interventions and own actions."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("run", overflow="fold")
    judged = any(run.summary.after_stop_violations is not None for run in runs)
    after = ["after stops"] if judged else []
    counts = ("episodes", "95 % interval", "stops", "interventions", "own actions")
    for heading in ("true return", "violations", *after, *counts):
        table.add_column(heading, justify="right")
    for label, run in zip(labels(runs), runs, strict=True):
        summary = run.summary
        table.add_row(
            Text(label if run.status == "finished" else f"{label} ({run.status})"),
            number(summary.final_return),
            Text(f"{summary.violations:,}", style="bold red" if summary.violations else "bold green"),
            *([_after_stops(summary)] if judged else []),
            f"{summary.episodes:,}",
            interval_text(summary),
            percent(summary.final_stops),
            interventions_text(summary).replace("\n", " "),
            percent(summary.own_actions),
        )
    console = console or plain_console()
    console.print(table)
    console.print(
        f"True return, stops and own actions: the last {WINDOW} episodes. The rest: the whole training.", style="dim"
    )
    if told := free_stops_text(runs):
        console.print(told, style="dim", markup=False)


def _after_stops(summary: Summary) -> Text:
    style = "bold red" if summary.after_stop_violations else "bold green"
    return Text(after_stops_text(summary), style="" if summary.after_stop_violations is None else style)
