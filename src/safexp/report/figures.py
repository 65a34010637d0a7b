"""Figures of groups of runs for a paper: learning curves and converged performance, in print size."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from PIL import Image

from safexp.report.curves import (
    COST,
    MAX_COST,
    MAX_STEP_COST,
    RETURN,
    STEP_COST,
    MetricCurve,
    epochs,
    is_told,
    limits,
    spread,
)
from safexp.report.groups import RunGroup, by_task, group_runs
from safexp.report.plots import COLOURS, Styles, styles
from safexp.runs.folder import Run

SHOWN = (RETURN, COST, MAX_COST, STEP_COST, MAX_STEP_COST)
"""The paper's three metrics, and its costs where limits hold for every step."""

CONVERGED = 0.1
"""Share of the last epochs whose values make up the converged performance."""

DRAWN = 125
"""Number of points drawn of a curve in print size."""

FORMATS = ("png", "svg", "pdf")
PNG_COLOURS = 128
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 2)), (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "osD^X*Ph"

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "svg.hashsalt": "safexp",
    "pdf.fonttype": 42,
}
"""Print size, fonts that stay text, and the same bytes for the same runs."""


def write_figures(folder: Path, runs: Sequence[Run]) -> list[Path]:
    """Write curves.* (metrics by tasks) and converged.* into a folder; returns the files."""
    groups = group_runs(runs)
    tasks = by_task(groups)
    drawings = {"curves": draw_curves(tasks, styles(groups)), "converged": draw_converged(tasks, styles(groups))}
    return save_figures(folder, drawings)


@mpl.rc_context(STYLE)
def save_figures(folder: Path, drawings: Mapping[str, Figure], formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write figures into a folder by their names; the same figure gives the same bytes. Returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in drawings.items():
        for kind in formats:
            paths.append(folder / f"{name}.{kind}")
            if kind == "png":
                _save_png(figure, paths[-1])
            else:
                figure.savefig(paths[-1], metadata={"svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind])
    return paths


def _save_png(figure: Figure, path: Path) -> None:
    """Save with a palette: few colours take a third of the space and look the same."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=200)
    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(PNG_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


@mpl.rc_context(STYLE)
def draw_curves(tasks: dict[str, list[RunGroup]], drawn_as: Styles, middle: bool = False) -> Figure:
    """The paper's Figure 2: a row for each metric, a column for each task, mean ± one standard deviation over runs.

    With `middle` it is the inter-quartile mean and its 95% bootstrap interval. The metrics of a single task are beside
    each other.
    """
    curves = _shown(tasks)
    figure, grid = _grid(curves, tasks, height=1.65)
    for column, groups in enumerate(tasks.values()):
        for row, curve in enumerate(curves):
            axes: Axes = grid[row, column]
            for group in groups:
                if is_told(curve, group):
                    _draw_curve(axes, group, curve, drawn_as[group.name], middle)
            _draw_limits(axes, groups, curve)
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        for axes in _lowest(grid, column):
            axes.set_xlabel("environment steps")
    _draw_legend(figure, grid)
    return figure


@mpl.rc_context(STYLE)
def draw_converged(tasks: dict[str, list[RunGroup]], drawn_as: Styles) -> Figure:
    """The paper's Figure 3: box plots of the last tenth of the epochs of all runs that finished, if any did."""
    curves = _shown(tasks)
    figure, grid = _grid(curves, tasks, height=1.5)
    for column, groups in enumerate(tasks.values()):
        for row, curve in enumerate(curves):
            axes: Axes = grid[row, column]
            boxes = axes.boxplot(
                [converged(group, curve) if is_told(curve, group) else [] for group in groups],
                widths=0.6,
                patch_artist=True,
                medianprops={"linewidth": 2, "zorder": 3},
                flierprops={"markersize": 2},
            )
            for group, box, median in zip(groups, boxes["boxes"], boxes["medians"], strict=True):
                colour = COLOURS[drawn_as[group.name] % len(COLOURS)]
                box.set(facecolor=f"{colour}66")
                median.set(color=colour)
            _draw_limits(axes, groups, curve)
            axes.set_xticks(range(1, len(groups) + 1), [""] * len(groups))
        for axes in _lowest(grid, column):
            axes.set_xticklabels([_plain(group.name) for group in groups], rotation=30, ha="right")
    _draw_legend(figure, grid)
    return figure


def converged(group: RunGroup, curve: MetricCurve) -> list[float]:
    """The values of the last tenth of the epochs that have one, of all runs that finished, if any did."""
    found: list[float] = []
    for run in group.trained:
        values = [value for _, value in epochs(run, curve)]
        found += values[-max(int(np.ceil(CONVERGED * len(values))), 1) :]
    return found


def _shown(tasks: dict[str, list[RunGroup]]) -> list[MetricCurve]:
    """The metrics that apply to some group on some task."""
    return [curve for curve in SHOWN if any(is_told(curve, group) for groups in tasks.values() for group in groups)]


def _plain(text: str) -> str:
    """Escape text so that Matplotlib does not parse it as a formula."""
    return text.replace("$", r"\$")


def _grid(curves: Sequence[MetricCurve], tasks: dict[str, list[RunGroup]], height: float) -> tuple[Figure, Any]:
    """A figure and its axes (metrics, tasks) with their titles; those of a single task are beside each other."""
    if len(tasks) == 1:
        figure = Figure(figsize=(2.4 * len(curves), height + 1.0), layout="constrained")
        grid = figure.subplots(1, len(curves), squeeze=False).T
        figure.suptitle(_plain(next(iter(tasks))), fontsize=STYLE["axes.titlesize"])
    else:
        figure = Figure(figsize=(2.9 * len(tasks), height * len(curves) + 0.5), layout="constrained")
        grid = figure.subplots(len(curves), len(tasks), squeeze=False, sharex="col", sharey="row")
        for column, task in enumerate(tasks):
            grid[0, column].set_title(_plain(task))
    for row, curve in enumerate(curves):
        grid[row, 0].set_ylabel(curve.title)
    return figure, grid


def _lowest(grid: Any, column: int) -> list[Axes]:
    """The lowest axes of a task."""
    return list(grid[:, 0] if grid.shape[1] == 1 else grid[-1:, column])


def _draw_curve(axes: Axes, group: RunGroup, curve: MetricCurve, index: int, middle: bool) -> None:
    found = spread(group, curve, DRAWN, intervals=middle)
    if not len(found.steps):
        return
    apart = max(len(found.steps) // 5, 1)
    colour = COLOURS[index % len(COLOURS)]
    axes.plot(
        found.steps,
        found.middle if middle else found.mean,
        color=colour,
        linestyle=DASHES[index % len(DASHES)],
        marker=MARKERS[index % len(MARKERS)],
        markevery=(index * apart // len(MARKERS) % apart, apart),  # markers of overlapping curves are offset
        markersize=3.5,
        label=_plain(group.name),
    )
    if len(group.runs) > 1:
        below, above = found.mean - found.deviation, found.mean + found.deviation
        if curve.axis == "cost":
            below = np.maximum(below, 0.0)  # costs are not negative
        if middle:
            below, above = found.low, found.high
        axes.fill_between(found.steps, below, above, color=colour, alpha=0.16, linewidth=0)


def _draw_limits(axes: Axes, groups: Sequence[RunGroup], curve: MetricCurve) -> None:
    for limit in limits(curve, groups):
        axes.axhline(limit, color="black", linewidth=0.8, zorder=1, label=f"limit {limit:g}")


def _draw_legend(figure: Figure, grid: Any) -> None:
    """Draw one legend for all axes at the bottom."""
    entries: dict[str, Artist] = {}
    for axes in grid.flat:
        handles, names = axes.get_legend_handles_labels()
        entries |= dict(zip(names, handles, strict=True))
    inches = 0.55 + 0.065 * max(map(len, entries), default=0)  # of the longest entry, in print size
    columns = max(min(len(entries), int(figure.get_figwidth() / inches)), 1)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns, frameon=False)
