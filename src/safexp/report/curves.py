"""Learning curves of a group of runs: what each epoch was like, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.report.groups import Group
from safexp.signals import Array
from safexp.studies.folder import Run
from safexp.studies.stats import interquartile_interval, interquartile_mean, mean_and_deviation

POINTS = 250
"""How many points of a curve are drawn."""


@dataclass(frozen=True)
class Curve:
    """One number of every epoch: `key` names it in metrics.jsonl, `axis` is its unit.

    Where several epochs become one point it is their mean, or the `largest`. On a logarithmic axis nothing is drawn
    below `floor`; without one it has no such axis.
    """

    key: str
    title: str
    caption: str
    axis: Literal["return", "cost", "episodes", "share"]
    largest: bool = False
    floor: float | None = None


ENDED = "the episodes that ended in an epoch"
RETURN = Curve("mean_return", "Average episode return", f"What the task paid in {ENDED}.", "return")
COST = Curve("mean_cost", "Average episode cost", f"The mean of {ENDED}.", "cost", floor=0.1)
MAX_COST = Curve("max_cost", "Maximum episode cost", f"The worst of {ENDED}.", "cost", largest=True, floor=0.1)
STOPS = Curve("stop_rate", "Stop rate", f"How many of {ENDED} were stopped.", "share", floor=0.001)
VIOLATIONS = Curve(
    "violations", "Violations so far", "Episodes that broke the constraint.", "episodes", largest=True, floor=0.5
)
PENALISED = Curve("mean_penalised_return", "Penalised return", f"What the learner got in {ENDED}.", "return")
CURVES = (RETURN, COST, MAX_COST, STOPS, VIOLATIONS, PENALISED)


class Spread(NamedTuple):
    """A curve of a group, (n,) each: after how many steps, from how many runs, and what they had.

    `low` and `high` are the 95% bootstrap interval of the inter-quartile mean `middle`; of a single run, itself.
    """

    steps: NDArray[np.int64]
    runs: NDArray[np.int64]
    mean: Array
    deviation: Array
    middle: Array
    low: Array
    high: Array


def spread(group: Group, curve: Curve, points: int | None = POINTS) -> Spread:
    """A curve of a group in at most so many points, or in all; runs that are shorter count as far as they got."""
    lines = [_values(run, curve.key) for run in group.runs]
    grid = np.unique(np.concatenate([steps for steps, _, _ in lines]))
    if points is not None and len(grid) > points:
        grid = grid[np.linspace(0, len(grid) - 1, points).round().astype(np.intp)]
    table = np.array([on_grid(steps, values, last, grid, curve.largest) for steps, values, last in lines])
    return over_runs(grid, table.reshape(len(lines), len(grid)))


def _values(run: Run, key: str) -> tuple[NDArray[np.int64], Array, int]:
    """The steps and values of the epochs that have one, and the last step of all; other versions may not know `key`."""
    known = [(line["steps"], line[key]) for line in run.metrics if line.get(key) is not None]
    steps, values = zip(*known, strict=True) if known else ((), ())
    last = int(run.metrics[-1]["steps"]) if run.metrics else 0
    return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64), last


def on_grid(steps: NDArray[np.int64], values: Array, last: int, grid: NDArray[np.int64], largest: bool) -> Array:
    """A run's values at the steps of a grid (n,): each stands for what came after the one before it.

    Where nothing did, the run's last value holds on; before its first value and after its end it has none (NaN).
    """
    found = np.full(len(grid), np.nan)
    if len(steps):
        cells = np.searchsorted(grid, steps)
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        counts = np.diff(starts, append=len(cells))
        summed = np.maximum.reduceat(values, starts) if largest else np.add.reduceat(values, starts) / counts
        found[cells[starts]] = summed
        latest = np.maximum.accumulate(np.where(np.isnan(found), -1, np.arange(len(grid))))
        found = np.where((latest < 0) | (grid > last), np.nan, found[latest])
    return found


def over_runs(steps: NDArray[np.int64], table: Array) -> Spread:
    """The statistics of a table (runs, n) in which some runs have no value at some steps; steps without any go."""
    present = ~np.isnan(table)
    some = present.any(axis=0)
    steps, table, present = steps[some], table[:, some], present[:, some]
    results = np.empty((5, len(steps)))
    for pattern in np.unique(present, axis=1).T:
        columns = (present == pattern[:, None]).all(axis=0)
        results[:, columns] = _statistics(table[np.ix_(pattern, columns)])
    return Spread(steps, present.sum(axis=0), *results)


def _statistics(table: Array) -> Array:
    """Mean, deviation, inter-quartile mean and its interval, (5, n), of a table (runs, n) without gaps."""
    middle = interquartile_mean(table, axis=0)
    low, high = interquartile_interval([table.T]) if len(table) > 1 else (middle, middle)
    return np.array([*mean_and_deviation(table, axis=0), middle, low, high])


def limits(groups: Sequence[Group]) -> list[float]:
    """The limits of the plain sum of costs, which is what is drawn, that these groups have."""
    plain = (group.config for group in groups if group.config.constraint == "budget" and group.config.discount == 1)
    return sorted({config.limit for config in plain if config.limit is not None})
