"""Charts of the time spent in the parts of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from safexp.report.groups import RunGroup
from safexp.report.plots import Chart, wrapped
from safexp.runs.folder import Run

PARTS: Mapping[str, tuple[str, str]] = {
    "physics": ("#0a58a8", ""),
    "policy": ("#c2410c", "/"),
    "update": ("#0f766e", "x"),
    "shield": ("#7e22ce", "."),
    "quantifier": ("#a16207", "\\"),
    "records": ("#64748b", "-"),
    "files": ("#be185d", "+"),
    "other": ("#d1d5db", ""),
}
"""Parts of a run in the order of their bars, with colour and pattern, so that they differ in greyscale too."""

PER_STEPS = 100_000
LINE = 14
"""Number of characters of a name on a line, so that a phone has room for the bars."""


def seconds_in(run: Run) -> dict[str, float]:
    """Seconds of every part of a run, with `other` for untimed parts; empty if the run was not timed."""
    spent = run.timing.get("seconds_in")
    if not spent:
        return {}
    known = {name: float(spent.get(name, 0.0)) for name in PARTS}
    return known | {"other": max(float(run.timing["seconds"]) - sum(known.values()), 0.0)}


def group_seconds(group: RunGroup) -> dict[str, float]:
    """Seconds per `PER_STEPS` steps in every part, over all timed runs."""
    told = [(seconds_in(run), int(run.timing["steps"])) for run in group.runs if run.timing.get("seconds_in")]
    steps = sum(count for _, count in told)
    if not steps:
        return {}
    return {name: PER_STEPS * sum(spent[name] for spent, _ in told) / steps for name in PARTS}


def time_charts(groups: Sequence[RunGroup]) -> list[Chart]:
    """A bar for every group on a task; empty if no run was timed."""
    bars = {group.name: spent for group in groups if (spent := group_seconds(group))}
    if not bars:
        return []
    names = [wrapped(name, LINE) for name in bars]
    figure = go.Figure(layout=_layout(sum(20 + 16 * (1 + name.count("<br>")) for name in names)))
    for part, (colour, pattern) in PARTS.items():
        figure.add_trace(
            go.Bar(
                name=part,
                y=names,
                x=[spent[part] for spent in bars.values()],
                orientation="h",
                marker={
                    "color": colour,
                    "pattern": {"shape": pattern, "bgcolor": colour, "fgcolor": "#ffffff", "size": 7, "solidity": 0.25},
                    "line": {"color": "#ffffff", "width": 0.5},
                },
                hovertemplate="%{x:.1f} s",
            )
        )
    told = "; ".join(
        f"{name} needs {sum(spent.values()):.1f} s, most of it for {max(spent, key=lambda part: spent[part])}"
        for name, spent in bars.items()
    )
    caption = (
        "Physics: the task's steps; policy: the rest of a rollout; update: the learner's; shield: without its "
        "quantifier, which has predictions and learning; records: wrappers and counting."
    )
    summary = f"Stacked bars of seconds per {PER_STEPS:,} steps: {told}."
    return [Chart("Where the time went", caption, summary, figure)]


def _layout(height: int) -> go.Layout:
    return go.Layout(
        template="none",
        barmode="stack",
        bargap=0.25,
        height=200 + height,
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        xaxis={
            "gridcolor": "#e5e7eb",
            "automargin": True,
            "title": {"text": f"seconds per {PER_STEPS:,} steps", "font": {"size": 13}},
        },
        yaxis={"automargin": True, "autorange": "reversed"},
    )
