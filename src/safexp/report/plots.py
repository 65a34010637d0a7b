"""Learning curves of groups of runs, as Plotly figures that differ in dash and marker as well as in colour."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.report.curves import CURVES, MetricCurve, Spread, is_told, limits, spread
from safexp.report.groups import RunGroup

COLOURS = ("#0a58a8", "#c2410c", "#0f766e", "#7e22ce", "#a16207", "#be185d", "#334155", "#4d7c0f")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")

LEGEND_LINE = 34
"""Number of characters of a name on a line of a legend, so that it fits on a phone."""

Styles = dict[str, int]
"""The number of each group's colour, dash and marker, by its name: the same on every task."""


@dataclass(frozen=True)
class Chart:
    """A figure with title and caption; `summary` is its description for screen readers."""

    title: str
    caption: str
    summary: str
    figure: go.Figure


def styles(groups: Sequence[RunGroup]) -> Styles:
    """Style of each group, in the order in which their names first appear."""
    return {name: index for index, name in enumerate(dict.fromkeys(group.name for group in groups))}


def charts(groups: Sequence[RunGroup], drawn_as: Styles) -> list[Chart]:
    """All learning curves of the groups on one task, each with the groups that it applies to."""
    told = {curve: [group for group in groups if is_told(curve, group)] for curve in CURVES}
    return [draw(curve, members, drawn_as) for curve, members in told.items() if members]


def draw(curve: MetricCurve, groups: Sequence[RunGroup], drawn_as: Styles) -> Chart:
    """Chart of one metric for all groups: mean over runs, ± one standard deviation if there are several."""
    figure = go.Figure(layout=layout(curve.axis, [group.name for group in groups], curve.floor))
    spreads = [spread(group, curve) for group in groups]
    endings = []
    for group, found in zip(groups, spreads, strict=True):
        if not len(found.steps):
            endings.append(f"{group.name} has no finished episode")
            continue
        index = drawn_as[group.name]
        if len(group.runs) > 1:
            figure.add_trace(_band(index, group.name, found))
        figure.add_trace(line(index, group.name, found.steps, found.mean, views(found.mean, found.middle)))
        ending = f"{found.mean[-1]:.0%}" if curve.axis == "share" else f"{found.mean[-1]:,.4g}"
        endings.append(f"{group.name} ends at {ending}")
    steps = np.concatenate([found.steps for found in spreads])
    for limit in limits(curve, groups) if len(steps) else []:
        figure.add_trace(_limit_line(limit, int(steps.min()), int(steps.max())))
        endings.append(f"the limit is {limit:g}")
    summary = f"Line chart of {curve.title.lower()} against environment steps: {'; '.join(endings)}."
    return Chart(curve.title, curve.caption, summary, figure)


def views(mean: Array, middle: Array) -> dict[str, list[float]]:
    """The two views of a trace: mean ± one standard deviation, or inter-quartile mean with its interval."""
    return {"mean": mean.tolist(), "middle": middle.tolist()}


def line(
    index: int, name: str, steps: NDArray[Any], values: Array, meta: dict[str, list[float]] | None = None
) -> go.Scatter:
    """The curve of a group drawn in style `index`."""
    colour = COLOURS[index % len(COLOURS)]
    return go.Scatter(
        x=steps.tolist(),
        y=values.tolist(),
        name=wrapped(name, LEGEND_LINE),
        legendgroup=name,
        meta=meta,
        mode="lines+markers",
        line={"color": colour, "width": 2.25, "dash": DASHES[index % len(DASHES)]},
        marker={"color": colour, "size": 8, "symbol": MARKERS[index % len(MARKERS)], "maxdisplayed": 9},
    )


def wrapped(text: str, width: int) -> str:
    """Wrap text to lines of at most `width` characters for Plotly, with tags escaped."""
    return "<br>".join(map(html.escape, textwrap.wrap(text, width)))


def _band(index: int, name: str, found: Spread) -> go.Scatter:
    """Band of the spread of a group's runs, shown and hidden with their curve."""
    around = [np.concatenate([found.mean + found.deviation, (found.mean - found.deviation)[::-1]])]
    around.append(np.concatenate([found.high, found.low[::-1]]))
    red, green, blue = bytes.fromhex(COLOURS[index % len(COLOURS)][1:])
    return go.Scatter(
        x=[*found.steps.tolist(), *found.steps[::-1].tolist()],
        y=around[0].tolist(),
        legendgroup=name,
        meta=views(*around),
        mode="lines",
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},0.16)",
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def _limit_line(limit: float, first_step: int, last_step: int) -> go.Scatter:
    return go.Scatter(
        x=[first_step, last_step],
        y=[limit, limit],
        name=f"limit {limit:g}",
        legendgroup=f"limit {limit:g}",
        mode="lines",
        line={"color": "#111827", "width": 1.25},
    )


def layout(
    axis: str, names: Sequence[str], floor: float | None = None, include: tuple[float, ...] = (0.0,)
) -> go.Layout:
    """What all figures against environment steps have in common; `floor` is told to the page, `include` always seen."""
    lines = sum(len(textwrap.wrap(name, LEGEND_LINE)) for name in names)
    grid = {"gridcolor": "#e5e7eb", "zerolinecolor": "#d1d5db", "linecolor": "#9ca3af", "automargin": True}
    title_font = {"size": 13}
    return go.Layout(
        template="none",
        height=300 + 12 * lines,  # a legend must not squeeze its curves
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="x unified",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        meta={"floor": floor},
        xaxis={
            **grid,
            "title": {"text": "environment steps", "font": title_font},
            "tickformat": "~s",
            "rangemode": "tozero",
        },
        yaxis={
            **grid,
            "title": {"text": axis, "font": title_font},
            "autorangeoptions": {"include": include},  # not "tozero": a curve at 0 must not hide in the axis
            "tickformat": ".2~%" if axis == "share" else "",
        },
    )
