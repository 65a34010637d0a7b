"""Learning curves of some runs, as Plotly figures that differ in dash and marker as well as in colour."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from safexp.episodes import Episode
from safexp.signals import Array
from safexp.studies.folder import Run

WINDOW = 50
"""How many episodes a smoothed point is the mean of."""

POINTS = 250
"""How many points of a curve are drawn."""

EARLIEST = 9
"""The first episode that is drawn, where there are more."""

COLOURS = ("#0a58a8", "#c2410c", "#0f766e", "#7e22ce", "#a16207", "#be185d", "#334155", "#4d7c0f")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")


@dataclass(frozen=True)
class Chart:
    """A figure with the words around it; `summary` says in a sentence what a reader would see."""

    title: str
    caption: str
    summary: str
    figure: go.Figure


@dataclass(frozen=True)
class Curve:
    """One quantity of every episode, against environment steps, and how many episodes become one point."""

    title: str
    caption: str
    axis: str
    value: Callable[[Episode], float]
    smooth: Callable[[Array], Array]


def rolling_mean(values: Array) -> Array:
    """The mean of each value (n,) and the `WINDOW` − 1 before it; of fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - WINDOW, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def rolling_max(values: Array) -> Array:
    """The largest of each value (n,) and the `WINDOW` − 1 before it."""
    padded = np.concatenate([np.full(WINDOW - 1, -np.inf), values])
    return np.lib.stride_tricks.sliding_window_view(padded, WINDOW).max(axis=1)


MEAN = f"Mean of the last {WINDOW} episodes."
CURVES = (
    Curve("True return", f"What the task paid. {MEAN}", "return", lambda e: e.true_return, rolling_mean),
    Curve("Penalised return", f"What the learner got. {MEAN}", "return", lambda e: e.penalised_return, rolling_mean),
    Curve("Episode cost", MEAN, "cost", lambda e: e.cost, rolling_mean),
    Curve("Largest episode cost", f"Of the last {WINDOW} episodes.", "cost", lambda e: e.cost, rolling_max),
    Curve("Violations so far", "Episodes that broke the constraint.", "episodes", lambda e: e.violated, np.cumsum),
    Curve("Stop rate", f"Episodes that the shield ended. {MEAN}", "share", lambda e: e.stopped, rolling_mean),
)


def charts(runs: Sequence[Run], labels: Sequence[str]) -> list[Chart]:
    """All learning curves of these runs."""
    return [draw(curve, runs, labels) for curve in CURVES]


def draw(curve: Curve, runs: Sequence[Run], labels: Sequence[str]) -> Chart:
    """One quantity of all runs."""
    figure = go.Figure(layout=layout(curve.axis, len(runs)))
    last_step = max((run.episodes[-1].end_step for run in runs if run.episodes), default=1)
    endings = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        if not run.episodes:
            endings.append(f"{label} has no finished episode")
            continue
        steps = np.array([episode.end_step for episode in run.episodes])
        values = np.array([curve.value(episode) for episode in run.episodes], dtype=np.float64)
        shown = curve.smooth(values)
        picked = sample(len(values))
        figure.add_trace(line(index, label, steps[picked], shown[picked]))
        ending = f"{shown[-1]:.0%}" if curve.axis == "share" else f"{shown[-1]:,.4g}"
        endings.append(f"{label} ends at {ending}")
    if curve.axis == "cost":
        for limit in sorted({limit for run in runs for limit in _limits(run)}):
            figure.add_trace(_limit_line(limit, last_step))
            endings.append(f"the limit is {limit:g}")
    summary = f"Line chart of {curve.title.lower()} against environment steps: {'; '.join(endings)}."
    return Chart(curve.title, curve.caption, summary, figure)


def sample(count: int) -> NDArray[np.intp]:
    """At most `POINTS` of `count` indices, evenly, up to the last.

    The first few are left out where there are others: the episodes that end first are the shortest, and no fair sample.
    """
    return np.unique(np.linspace(min(EARLIEST, count - 1), count - 1, POINTS).round().astype(np.intp))


def _limits(run: Run) -> list[float]:
    """The limit of the plain sum of costs, which is what is drawn, if the run has one."""
    config = run.config
    plain = config.constraint == "budget" and config.discount == 1
    return [config.limit] if plain and config.limit is not None else []


def line(index: int, label: str, steps: Array, values: Array) -> go.Scatter:
    """A curve of run `index`."""
    colour = COLOURS[index % len(COLOURS)]
    return go.Scatter(
        x=steps.tolist(),
        y=values.tolist(),
        name=html.escape(label),  # Plotly reads tags in text
        mode="lines+markers",
        line={"color": colour, "width": 2.25, "dash": DASHES[index % len(DASHES)]},
        marker={"color": colour, "size": 8, "symbol": MARKERS[index % len(MARKERS)], "maxdisplayed": 9},
    )


def _limit_line(limit: float, last_step: int) -> go.Scatter:
    return go.Scatter(
        x=[0, last_step], y=[limit, limit], name=f"limit {limit:g}", mode="lines", line={"color": "#111827", "width": 1}
    )


def layout(axis: str, runs: int) -> go.Layout:
    """What all figures against environment steps have in common."""
    grid = {"gridcolor": "#e5e7eb", "zerolinecolor": "#d1d5db", "linecolor": "#9ca3af", "automargin": True}
    title_font = {"size": 13}
    return go.Layout(
        template="none",
        height=300 + 18 * runs,  # a legend must not squeeze its curves
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="x unified",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis={
            **grid,
            "title": {"text": "environment steps", "font": title_font},
            "tickformat": "~s",
            "rangemode": "tozero",
        },
        yaxis={
            **grid,
            "title": {"text": axis, "font": title_font},
            "autorangeoptions": {"include": 0},  # not "tozero": a curve at 0 must not hide in the axis
            "tickformat": ".0%" if axis == "share" else "",
        },
    )
