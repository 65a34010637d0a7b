"""Figure of the grid-world study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safexp.core.arrays import Array
from safexp.studies.finite.grid_explorer import Walk
from safexp.tasks.grid_world import GridWorld, violations


def write_figure(world: GridWorld, limits: Array, blind: Walk, seeing: Walk, path: Path) -> None:
    """A world's altitude and reward with both paths, and the growth of the cells that MASE certified.

    `limits` (T,) are the thresholds in force, `blind` is SNO-MDP's run and `seeing` MASE's.
    """
    n = len(world.altitude)
    figure = Figure(figsize=(11.0, 3.9), layout="constrained")
    height, reward, growth = figure.subplots(1, 3)
    image = height.imshow(world.altitude, cmap="Greys", alpha=0.6)
    figure.colorbar(image, ax=height, shrink=0.8)
    height.set_title("altitude and paths")
    image = reward.imshow(world.reward, cmap="Greens")
    figure.colorbar(image, ax=reward, shrink=0.8)
    reward.set_title("reward and paths")
    for axes in (height, reward):
        _path(axes, blind, n, "#d55e00", "SNO-MDP")
        _path(axes, seeing, n, "#0072b2", "MASE")
        row, column = divmod(world.start, n)
        axes.plot(column, row, marker="o", color="black", ms=6, ls="", label="start")
        broken = np.flatnonzero(violations(world.altitude, blind.path, limits))
        if len(broken):
            rows, columns = np.divmod(blind.path[broken + 1], n)
            axes.plot(columns, rows, marker="x", color="#d55e00", ms=8, mew=2, ls="", label="SNO-MDP's violations")
    steps = len(seeing.rewards)
    first = np.where(seeing.first_certified < steps, seeing.first_certified, np.nan).reshape(n, n)
    growth.set_facecolor("#dddddd")
    image = growth.imshow(first, cmap="viridis", vmin=0, vmax=steps)
    figure.colorbar(image, ax=growth, shrink=0.8)
    growth.set_title("step at which MASE certified a cell")
    for axes in (height, reward, growth):
        axes.set(xticks=[], yticks=[])
    handles, labels = height.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _path(axes: Axes, run: Walk, n: int, colour: str, label: str) -> None:
    rows, columns = np.divmod(run.path, n)
    axes.plot(columns, rows, color=colour, lw=1.4, alpha=0.9, label=label)
