"""A report of some runs as one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from safexp.checkpoint import write_bytes
from safexp.report import plots
from safexp.report.coverage import coverage_charts
from safexp.report.maps import maps
from safexp.report.summary import WINDOW, coverage_text, interval_text, labels, number, percent, summarise
from safexp.studies.folder import Run


def write_report(path: Path, runs: Sequence[Run], problems: Sequence[str] = ()) -> None:
    """Write the report of these runs; `problems` tell what had to be left out."""
    write_bytes(path, render(runs, problems).encode())


def render(runs: Sequence[Run], problems: Sequence[str] = ()) -> str:
    """The report as HTML; the template escapes every string."""
    environment = Environment(
        loader=PackageLoader("safexp.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    names = labels(runs)
    return environment.get_template("template.html").render(
        rows=[_row(run, name) for run, name in zip(runs, names, strict=True)],
        runs=[_details(run, name) for run, name in zip(runs, names, strict=True)],
        charts=[_chart(chart) for chart in [*plots.charts(runs, names), *coverage_charts(runs, names)]],
        maps=[
            [_chart(chart) for chart in drawn]
            for run, name in zip(runs, names, strict=True)
            if (drawn := maps(run, name))
        ],
        problems=problems,
        window=WINDOW,
        plotly=Markup(get_plotlyjs()),
    )


def _chart(chart: plots.Chart) -> dict[str, object]:
    """A chart for the template."""
    return {
        "title": chart.title,
        "caption": chart.caption,
        "summary": chart.summary,
        "figure": _script_safe(chart.figure.to_json()),
    }


def _row(run: Run, name: str) -> dict[str, object]:
    """The cells of a run in the table, by their headings."""
    summary = summarise(run)
    return {
        "name": name if run.status == "finished" else f"{name} ({run.status})",
        "safe": summary.violations == 0,
        "unfinished_violations": summary.unfinished_violations,
        "cells": {
            "Method": run.config.method,
            "Return": number(summary.final_return),
            "Violations": f"{summary.violations:,}",
            "Episodes": f"{summary.episodes:,}",
            "95 % interval": interval_text(summary),
            "Stops": percent(summary.final_stops),
            "Interventions": f"{summary.interventions:,}",
            "Coverage": coverage_text(summary.coverage.covered, summary.coverage.rows),
            "near the limit": coverage_text(summary.coverage.near_covered, summary.coverage.near),
            "Steps/s": number(summary.steps_per_second, 0),
            "Learner": run.config.learner,
            "Task": run.config.task,
            "Seed": str(run.config.seed),
        },
    }


def _details(run: Run, name: str) -> dict[str, object]:
    """What it takes to do a run again."""
    return {
        "name": name,
        "folder": str(run.path),
        "command": run.command,
        "versions": run.versions,
        "config": run.config.to_json(),
    }


def _script_safe(document: str) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(document.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
