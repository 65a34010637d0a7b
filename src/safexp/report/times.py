"""Where the time of some groups of runs went."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from safexp.report.groups import Group
from safexp.report.plots import Chart
from safexp.studies.folder import Run

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
"""The parts of a run in the order of their bars, with colour and pattern: they can be told apart in grey too."""

PER_STEPS = 100_000


def seconds_in(run: Run) -> dict[str, float]:
    """The seconds of every part of a run, `other` being what was not timed; nothing where it did not say."""
    spent = run.timing.get("seconds_in")
    if not spent:
        return {}
    known = {name: float(spent.get(name, 0.0)) for name in PARTS}
    return known | {"other": max(float(run.timing["seconds"]) - sum(known.values()), 0.0)}


def group_seconds(group: Group) -> dict[str, float]:
    """Seconds per `PER_STEPS` steps in every part, over all runs that say so."""
    told = [(seconds_in(run), int(run.timing["steps"])) for run in group.runs if run.timing.get("seconds_in")]
    steps = sum(count for _, count in told)
    if not steps:
        return {}
    return {name: PER_STEPS * sum(spent[name] for spent, _ in told) / steps for name in PARTS}


def time_chart(groups: Sequence[Group]) -> Chart | None:
    """A bar for every group, or nothing where no run was timed."""
    several = len({group.task for group in groups}) > 1
    bars = {
        f"{group.name}, {group.task}" if several else group.name: spent
        for group in groups
        if (spent := group_seconds(group))
    }
    if not bars:
        return None
    names = [html.escape(name) for name in bars]
    figure = go.Figure(layout=_layout(len(bars)))
    for part, (colour, pattern) in PARTS.items():
        figure.add_trace(
            go.Bar(
                name=part,
                y=names,
                x=[spent[part] for spent in bars.values()],
                orientation="h",
                marker={
                    "color": colour,
                    "pattern": {"shape": pattern, "fgcolor": "#ffffff", "size": 7, "solidity": 0.25},
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
        f"Seconds per {PER_STEPS:,} steps, means over runs. Physics: the task's steps; policy: the rest of a rollout; "
        "records: wrappers and counting; quantifier: its predictions and its learning."
    )
    summary = f"Stacked bars of seconds per {PER_STEPS:,} steps: {told}."
    return Chart("Where the time went", caption, summary, figure)


def _layout(bars: int) -> go.Layout:
    return go.Layout(
        template="none",
        barmode="stack",
        height=150 + 34 * bars,
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        xaxis={"gridcolor": "#e5e7eb", "automargin": True, "title": {"text": f"seconds per {PER_STEPS:,} steps"}},
        yaxis={"automargin": True, "autorange": "reversed"},
    )
