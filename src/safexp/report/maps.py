"""Maps of the robots' paths, early and late in a run; endings differ in dash and marker as well as in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from safexp.core.arrays import Array
from safexp.report.plots import Chart
from safexp.runs.folder import Run
from safexp.runs.trajectories import Ending, Trajectory
from safexp.tasks.scene import Floor, Place

PANELS = 4
"""Number of episodes drawn if each has its own map."""

BORDER = 0.12
"""Border around floor and paths, as a share of their half-width."""

GAP = 0.04
"""Space between panels, as a share of the total."""

INK = "#1f2937"
HAZARD = {"name": "hazard", "fillcolor": "#d9b8b4", "line": {"color": "#7f1d1d", "width": 1.5}}
GOAL = {"name": "goal", "fillcolor": "#e3f1e6", "line": {"color": "#14532d", "width": 1.5, "dash": "dash"}}
START = {"symbol": "circle", "size": 6, "color": "#ffffff", "line": {"color": INK, "width": 1.5}}


class EndingStyle(NamedTuple):
    """Name and phrase for an ending, and the style of its paths."""

    name: str
    phrase: str
    line: dict[str, Any]
    marker: dict[str, Any]


ENDING_STYLES: dict[Ending, EndingStyle] = {
    "kept": EndingStyle(
        "kept",
        "kept the constraint",
        {"color": "#0a58a8", "dash": "solid", "width": 1.5},
        {"color": "#0a58a8", "symbol": "circle", "size": 7},
    ),
    "stopped": EndingStyle(
        "stopped",
        "stopped in time",
        {"color": "#8a5a00", "dash": "dash", "width": 2},
        {"color": "#8a5a00", "symbol": "square", "size": 8},
    ),
    "violated": EndingStyle(
        "violated",
        "broke the constraint",
        {"color": "#a3120a", "dash": "dot", "width": 2.5},
        {"color": "#a3120a", "symbol": "x", "size": 9},
    ),
}


def maps(run: Run, label: str) -> list[Chart]:
    """Maps of the first and the last recorded episodes of a run, if there are any."""
    early, late = run.trajectories.early, run.trajectories.late
    charts = []
    if early:
        charts.append(_chart(f"{label}, early", "first", early, early[:PANELS]))
    if late:
        charts.append(_chart(f"{label}, late", "last", late, late[-PANELS:]))
    return charts


def _chart(title: str, which: str, ways: Sequence[Trajectory], few: Sequence[Trajectory]) -> Chart:
    """All of these episodes on one map if they share it, otherwise a few on separate maps."""
    shared = len({way.floor for way in ways}) == 1
    groups = [list(ways)] if shared else [[way] for way in few]
    shown = [way for group in groups for way in group]
    counts = {ending: sum(way.ending == ending for way in shown) for ending in ENDING_STYLES}
    told = ", ".join(f"{count} {ENDING_STYLES[ending].phrase}" for ending, count in counts.items() if count)
    episodes = f"{which} {len(shown)} recorded episodes" if len(shown) > 1 else f"{which} recorded episode"
    caption = f"The {episodes}: {told}."
    if not shared:
        caption += " Each on its own map, with hazards and goal as they stood when it began."
    summary = f"Map of the robot's paths, {title}. {caption}"
    return Chart(title, caption, summary, _figure(groups))


def _figure(groups: Sequence[Sequence[Trajectory]]) -> go.Figure:
    """A panel for each group of episodes that share a map, in a square grid, with one legend for all."""
    side = 1 if len(groups) == 1 else 2
    figure = go.Figure(layout=_layout())
    for ending, look in ENDING_STYLES.items():  # all of them, so that maps beside each other have equal legends
        figure.add_trace(_scatter([], ending, "lines+markers", look.line, look.marker, name=look.name))
    figure.add_trace(_scatter([], "start", "markers", {}, START, name="start"))
    for index, ways in enumerate(groups):
        axes = "" if index == 0 else str(index + 1)
        _add_axes(figure, axes, _reach(ways), divmod(index, side), side)
        _add_floor(figure, axes, ways[0].floor)
        _add_paths(figure, axes, ways)
    return figure


def _reach(ways: Sequence[Trajectory]) -> float:
    """Half-width of a panel: around the floor and all paths, but at most twice the floor."""
    extent = ways[0].floor.extent
    farthest = max(float(np.abs(way.path).max()) for way in ways)
    return min(max(extent, farthest) * (1 + BORDER), 2 * extent)


def _add_axes(figure: go.Figure, axes: str, reach: float, cell: tuple[int, int], side: int) -> None:
    """Equal axes for the panel in this row and column of the grid."""
    row, column = cell
    width = (1 - GAP * (side - 1)) / side
    left, bottom = column * (width + GAP), (side - 1 - row) * (width + GAP)
    axis: dict[str, Any] = {
        "range": [-reach, reach],
        "constrain": "domain",
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "showline": True,
        "mirror": True,
        "linecolor": "#9ca3af",
        "nticks": 5,
        "showticklabels": side == 1,
    }
    figure.layout[f"xaxis{axes}"] = {**axis, "domain": [left, left + width], "anchor": f"y{axes}"}
    vertical = {"domain": [bottom, bottom + width], "anchor": f"x{axes}", "scaleanchor": f"x{axes}"}
    figure.layout[f"yaxis{axes}"] = {**axis, **vertical}


def _add_floor(figure: go.Figure, axes: str, floor: Floor) -> None:
    """The discs of a map; the first panel's are in the legend."""
    for number, hazard in enumerate(floor.hazards):
        figure.add_shape(_disc(hazard, floor.hazard_radius, axes), **HAZARD, showlegend=not axes and number == 0)
    figure.add_shape(_disc(floor.goal, floor.goal_radius, axes), **GOAL, showlegend=not axes)


def _disc(centre: Place, radius: float, axes: str) -> dict[str, Any]:
    (x, y) = centre
    corners = {"x0": x - radius, "x1": x + radius, "y0": y - radius, "y1": y + radius}
    return {"type": "circle", "layer": "below", "xref": f"x{axes}", "yref": f"y{axes}", **corners}


def _add_paths(figure: go.Figure, axes: str, ways: Sequence[Trajectory]) -> None:
    """Add the paths of each ending with markers at their ends, and all starts on top."""
    for ending, look in ENDING_STYLES.items():
        paths = [way.path for way in ways if way.ending == ending]
        if paths:
            figure.add_trace(_scatter(paths, ending, "lines", look.line, {}, axes))
            figure.add_trace(_scatter([path[-1:] for path in paths], ending, "markers", {}, look.marker, axes))
    figure.add_trace(_scatter([way.path[:1] for way in ways], "start", "markers", {}, START, axes))


def _scatter(
    paths: Sequence[Array],
    group: str,
    mode: str,
    line: dict[str, Any],
    marker: dict[str, Any],
    axes: str = "",
    name: str = "",
) -> go.Scatter:
    """Paths (t, 2) as one trace with gaps; a trace with a name and no path is an entry of the legend."""
    x, y = ([value for path in paths for value in (*path[:, k].tolist(), None)] or [None] for k in (0, 1))
    places: dict[str, Any] = {"x": x, "y": y, "xaxis": f"x{axes}", "yaxis": f"y{axes}", "hoverinfo": "skip"}
    return go.Scatter(
        **places, mode=mode, line=line, marker=marker, legendgroup=group, name=name, showlegend=bool(name)
    )


def _layout() -> go.Layout:
    return go.Layout(
        template="none",
        margin={"l": 34, "r": 8, "t": 8, "b": 28},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="#fbfbf9",
        showlegend=True,
        legend={
            "orientation": "h",
            "x": -0.06,
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12},
            "tracegroupgap": 2,
        },
    )
