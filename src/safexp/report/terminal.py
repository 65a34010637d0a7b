"""The table of a report, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from safexp.report.summary import WINDOW, interval_text, labels, number, percent, summarise
from safexp.studies.folder import Run


def plain_console() -> Console:
    """A console that colours nothing by itself, and does not fold tables where the output is a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def print_summary(runs: Sequence[Run], console: Console | None = None) -> None:
    """Print what a reader asks first: true return, violations, stops and interventions of each run."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("run")
    for heading in ("true return", "violations", "episodes", "95 % interval", "stops", "interventions"):
        table.add_column(heading, justify="right")
    for label, run in zip(labels(runs), runs, strict=True):
        summary = summarise(run)
        table.add_row(
            Text(label if run.status == "finished" else f"{label} ({run.status})"),
            number(summary.final_return),
            Text(f"{summary.violations:,}", style="bold red" if summary.violations else "bold green"),
            f"{summary.episodes:,}",
            interval_text(summary),
            percent(summary.final_stops),
            f"{summary.interventions:,}",
        )
    console = console or plain_console()
    console.print(table)
    console.print(f"True return and stops: the last {WINDOW} episodes. The rest: the whole training.", style="dim")
