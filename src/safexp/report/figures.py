"""Figures of groups of runs for a paper: learning curves and converged performance, in print size."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from PIL import Image

from safexp.report.curves import (
    COST,
    MAX_COST,
    MAX_STEP_COST,
    OWN_ACTIONS,
    PENALISED,
    RETURN,
    STEP_COST,
    STOPS,
    VIOLATIONS,
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

PANELS: Mapping[str, MetricCurve] = MappingProxyType(
    {
        "return": RETURN,
        "cost": COST,
        "max-cost": MAX_COST,
        "step-cost": STEP_COST,
        "max-step-cost": MAX_STEP_COST,
        "violations": VIOLATIONS,
        "stops": STOPS,
        "own-actions": OWN_ACTIONS,
        "penalised-return": PENALISED,
    }
)
"""Metrics that a figure can show, by name."""

NARROWEST = 1.5
"""Smallest width of a panel in inches at a font size of 8; where there is less room, panels are stacked."""

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


@dataclass(frozen=True)
class Look:
    """Appearance of figures.

    Attributes:
        width: width in inches, such as that of a column; by default as wide as the panels need.
        font: font size in points.
        panels: metrics to show, names of `PANELS`; by default the paper's.
    """

    width: float | None = None
    font: float = 8.0
    panels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.width is not None and not 1 <= self.width <= 100:
            raise ValueError(f"width={self.width:g} must be a width in inches, from 1 to 100.")
        if not 1 <= self.font <= 100:
            raise ValueError(f"font={self.font:g} must be a font size in points, from 1 to 100.")
        for name in self.panels:
            if name not in PANELS:
                raise ValueError(f"there is no panel {name!r}: use {', '.join(PANELS)}.")

    @property
    def style(self) -> dict[Any, Any]:
        """Matplotlib's settings."""
        return {**STYLE, "font.size": self.font, "axes.titlesize": self.font}


def write_figures(folder: Path, runs: Sequence[Run], look: Look = Look()) -> list[Path]:  # noqa: B008 (it is frozen)
    """Write curves.* (metrics by tasks) and converged.* into a folder; returns the files."""
    groups = group_runs(runs)
    tasks, drawn_as = by_task(groups), styles(groups)
    curves, boxes = draw_curves(tasks, drawn_as, look=look), draw_converged(tasks, drawn_as, look=look)
    return save_figures(folder, {"curves": curves, "converged": boxes})


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


def draw_curves(
    tasks: dict[str, list[RunGroup]],
    drawn_as: Styles,
    middle: bool = False,
    look: Look = Look(),  # noqa: B008 (it is frozen)
) -> Figure:
    """The paper's Figure 2: a row for each metric, a column for each task, mean ± one standard deviation over runs.

    With `middle` it is the inter-quartile mean and its 95% bootstrap interval. The metrics of a single task are beside
    each other.
    """
    curves = _shown(tasks, look)
    with mpl.rc_context(look.style):
        figure, grid = _grid(curves, tasks, 1.65, look)
        for column, groups in enumerate(tasks.values()):
            for row, curve in enumerate(curves):
                axes: Axes = grid[row, column]
                for group in groups:
                    if is_told(curve, group):
                        _draw_curve(axes, group, curve, drawn_as[group.name], middle)
                _draw_limits(axes, groups, curve)
                axes.xaxis.set_major_formatter(EngFormatter(sep=""))
                axes.xaxis.set_major_locator(MaxNLocator(4))
            for axes in _lowest(grid, column):
                beside = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
                room = figure.get_figwidth() / beside - 0.6 * look.font / STYLE["font.size"]
                axes.set_xlabel(wrapped("environment steps", room, look))
        _draw_legend(figure, grid, look)
    return figure


def draw_converged(
    tasks: dict[str, list[RunGroup]],
    drawn_as: Styles,
    look: Look = Look(),  # noqa: B008 (it is frozen)
) -> Figure:
    """The paper's Figure 3: box plots of the last tenth of the epochs of all runs that finished, if any did."""
    with mpl.rc_context(look.style):
        return _boxes(tasks, drawn_as, look)


def _boxes(tasks: dict[str, list[RunGroup]], drawn_as: Styles, look: Look) -> Figure:
    curves = _shown(tasks, look)
    figure, grid = _grid(curves, tasks, 1.5, look)
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
                box.set(facecolor=f"{colour}66", label=_plain(group.name))
                median.set(color=colour)
            _draw_limits(axes, groups, curve)
            axes.set_xticks(range(1, len(groups) + 1), [""] * len(groups))
    _draw_legend(figure, grid, look)
    return figure


def converged(group: RunGroup, curve: MetricCurve) -> list[float]:
    """The values of the last tenth of the epochs that have one, of all runs that finished, if any did."""
    found: list[float] = []
    for run in group.trained:
        values = [value for _, value in epochs(run, curve)]
        found += values[-max(int(np.ceil(CONVERGED * len(values))), 1) :]
    return found


def _shown(tasks: dict[str, list[RunGroup]], look: Look) -> list[MetricCurve]:
    """The chosen metrics, or else those that apply to some group on some task."""
    if look.panels:
        return [PANELS[name] for name in look.panels]
    return [curve for curve in SHOWN if any(is_told(curve, group) for groups in tasks.values() for group in groups)]


def wrapped(text: str, inches: float, look: Look) -> str:
    """Text broken into lines of at most about this length."""
    return "\n".join(textwrap.wrap(text, max(int(inches / (0.0075 * look.font)), 8)))


def _plain(text: str) -> str:
    """Escape text so that Matplotlib does not parse it as a formula."""
    return text.replace("$", r"\$")


def _grid(
    curves: Sequence[MetricCurve], tasks: dict[str, list[RunGroup]], height: float, look: Look
) -> tuple[Figure, Any]:
    """A figure and its axes (metrics, tasks) with their titles; those of a single task are beside each other."""
    size = look.font / STYLE["font.size"]
    height *= size
    if len(tasks) == 1:
        width = look.width or 2.4 * len(curves) * size
        beside = max(min(len(curves), int(width / (NARROWEST * size))), 1)
        rows = -(-len(curves) // beside)
        figure = Figure(figsize=(width, height * rows + 0.75 * size), layout="constrained")
        places = figure.subplots(rows, beside, squeeze=False).reshape(-1)
        for spare in places[len(curves) :]:
            spare.remove()
        grid = places[: len(curves), None]
        figure.suptitle(wrapped(_plain(next(iter(tasks))), width, look), fontsize=look.font)
    else:
        width = look.width or 2.9 * len(tasks) * size
        figure = Figure(figsize=(width, height * len(curves) + 0.4 * size), layout="constrained")
        grid = figure.subplots(len(curves), len(tasks), squeeze=False, sharex="col", sharey="row")
        for column, task in enumerate(tasks):
            grid[0, column].set_title(wrapped(_plain(task), width / len(tasks) - 0.5 * size, look))
    for row, curve in enumerate(curves):
        grid[row, 0].set_ylabel(wrapped(curve.title, height - 0.7 * size, look))
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


def _draw_legend(figure: Figure, grid: Any, look: Look) -> None:
    """Draw one legend for all axes at the bottom."""
    entries: dict[str, Artist] = {}
    for axes in grid.flat:
        handles, names = axes.get_legend_handles_labels()
        entries |= dict(zip(names, handles, strict=True))
    size = look.font / STYLE["font.size"]
    inches = size * (0.55 + 0.065 * max(map(len, entries), default=0))  # of the longest entry, in print size
    columns = max(min(len(entries), int(figure.get_figwidth() / inches)), 1)
    names = [wrapped(name, figure.get_figwidth() - 0.6 * size, look) for name in entries]
    lines = -(-len(names) // columns) * max((name.count("\n") + 1 for name in names), default=0)
    figure.set_figheight(figure.get_figheight() + 0.17 * size * lines)
    figure.legend(list(entries.values()), names, loc="outside lower center", ncols=columns, frameon=False)
