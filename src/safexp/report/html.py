"""Report of runs as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from safexp.core.files import write_bytes
from safexp.report import plots
from safexp.report.coverage import coverage_charts
from safexp.report.frontier import frontier_charts
from safexp.report.groups import RunGroup, by_task, group_runs
from safexp.report.limits import limited_quantity
from safexp.report.maps import maps
from safexp.report.pages import page_template
from safexp.report.summary import (
    GroupSummary,
    after_stops_text,
    between,
    coverage_text,
    free_stops_text,
    interval_text,
    interventions_text,
    labels,
    largest,
    number,
    percent,
    reference_for,
    reference_name,
    summarise_group,
)
from safexp.report.times import time_charts
from safexp.runs.folder import Run
from safexp.runs.summary import WINDOW

NOT_ALWAYS = ("IQM", "Better", "After stops", "Max cost", "Max step cost", "Coverage", "near the limit")
"""Columns that require several runs, a reference, judged stops, a limit of that kind, or a quantifier."""

CHARTS = (plots.charts, frontier_charts, coverage_charts)
"""What draws the curves of a task."""


class TableRow(NamedTuple):
    """A row of a table: name, violations, violations after stops, episodes, and cells by heading."""

    name: str
    violations: int
    after_stop_violations: int
    episodes: int
    cells: dict[str, str]


def write_report(path: Path, runs: Sequence[Run], problems: Sequence[str] = (), reference: str | None = None) -> None:
    """Write the report of runs; `problems` describe the runs left out."""
    write_bytes(path, render(runs, problems, reference).encode())


def render(runs: Sequence[Run], problems: Sequence[str] = (), reference: str | None = None) -> str:
    """The report as HTML."""
    names = labels(runs)
    groups = group_runs(runs)
    compared = reference_name(groups, reference)
    drawn_as = plots.styles(groups)
    tasks = by_task(groups)
    tables = {task: _table(members, compared) for task, members in tasks.items()}
    return page_template("template.html").render(
        tasks=[_task(task, members, tables[task], drawn_as) for task, members in tasks.items()],
        headings={heading for table in tables.values() for row in table for heading in row.cells},
        rows=_without_empty([_run_row(run, name) for run, name in zip(runs, names, strict=True)]),
        runs=[_details(run, name) for run, name in zip(runs, names, strict=True)],
        reference=compared,
        unfinished_violations=sum(run.summary.unfinished_violations for run in runs),
        free_stops=free_stops_text(runs),
        several=any(len(group.runs) > 1 for group in groups),
        problems=problems,
        window=WINDOW,
        plotly=Markup(get_plotlyjs()),
    )


def _table(groups: Sequence[RunGroup], reference: str) -> list[TableRow]:
    """The table of a task, without optional columns that are empty."""
    summaries = [summarise_group(group, reference_for(group, groups, reference)) for group in groups]
    rows = [_group_row(group, summary) for group, summary in zip(groups, summaries, strict=True)]
    return _without_empty(rows)


def _without_empty(rows: Sequence[TableRow]) -> list[TableRow]:
    """Rows without the optional columns in which none of them has anything."""
    empty = {heading for heading in NOT_ALWAYS if all(row.cells.get(heading, "-") == "-" for row in rows)}
    kept = [heading for heading in rows[0].cells if heading not in empty]
    return [row._replace(cells={heading: row.cells[heading] for heading in kept}) for row in rows]


def _task(task: str, groups: Sequence[RunGroup], rows: Sequence[TableRow], drawn_as: plots.Styles) -> dict[str, object]:
    """A task for the template: its groups' rows, curves, maps and times."""
    return {
        "name": task,
        "rows": rows,
        "charts": [_chart(chart) for draw in CHARTS for chart in draw(groups, drawn_as)],
        "times": [_chart(chart) for chart in time_charts(groups)],
        "maps": [[_chart(chart) for chart in drawn] for group in groups if (drawn := _maps(group))],
    }


def _maps(group: RunGroup) -> list[plots.Chart]:
    """The maps of the first of a group's runs that has any."""
    told = next((run for run in group.runs if run.trajectories.early or run.trajectories.late), None)
    if told is None:
        return []
    return maps(told, group.name if len(group.runs) == 1 else f"{group.name}, seed {told.config.seed}")


def _chart(chart: plots.Chart) -> dict[str, object]:
    """A chart for the template."""
    return {
        "title": chart.title,
        "caption": chart.caption,
        "summary": chart.summary,
        "figure": _script_safe(chart.figure.to_json()),
    }


def _group_row(group: RunGroup, summary: GroupSummary) -> TableRow:
    """A group in its task's table."""
    spread = "" if summary.deviation is None else f" ± {number(summary.deviation)}"
    unfinished = f"\n({summary.unfinished} unfinished)" if summary.unfinished else ""
    what = limited_quantity(group.config).name
    return TableRow(
        group.name,
        summary.violations,
        summary.after_stop_violations or 0,
        summary.episodes,
        {
            "Runs": f"{summary.runs}{unfinished}",
            "Return": f"{number(summary.final_return)}{spread}",
            "IQM": between(summary.middle, summary.middle_interval) if summary.middle_interval else "-",
            "Better": between(summary.better, summary.better_interval),
            "Violations": f"{summary.violations:,} of {summary.episodes:,}\n({interval_text(summary)})",
            "After stops": after_stops_text(summary),
            "Max cost": largest(summary.max_cost) if what == "episode cost" else "-",
            "Max step cost": largest(summary.max_step_cost) if what == "step cost" else "-",
            "Stops": percent(summary.final_stops),
            "Interventions": interventions_text(summary),
            "Own actions": percent(summary.own_actions),
            "Coverage": coverage_text(summary.coverage.covered, summary.coverage.rows),
            "near the limit": coverage_text(summary.coverage.near_covered, summary.coverage.near),
            "Steps/s": number(summary.steps_per_second, 0),
        },
    )


def _run_row(run: Run, name: str) -> TableRow:
    """A single run in the table of all."""
    summary = run.summary
    return TableRow(
        name if run.status == "finished" else f"{name} ({run.status})",
        summary.violations,
        summary.after_stop_violations or 0,
        summary.episodes,
        {
            "Task": run.config.task,
            "Method": run.config.method,
            "Learner": run.config.learner,
            "Seed": str(run.config.seed),
            "Return": number(summary.final_return),
            "Violations": f"{summary.violations:,} of {summary.episodes:,}\n({interval_text(summary)})",
            "After stops": after_stops_text(summary),
            "Stops": percent(summary.final_stops),
            "Interventions": interventions_text(summary),
            "Own actions": percent(summary.own_actions),
            "Steps": f"{summary.steps:,}",
            "Steps/s": number(summary.steps_per_second, 0),
        },
    )


def _details(run: Run, name: str) -> dict[str, object]:
    """Details to reproduce a run."""
    return {
        "name": name,
        "folder": str(run.path),
        "command": run.command,
        "versions": run.versions,
        "config": run.config.to_json(),
    }


def _script_safe(document: str) -> Markup:
    """JSON escaped so that it cannot end its script element."""
    return Markup(document.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
