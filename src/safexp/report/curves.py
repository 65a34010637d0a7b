"""Learning curves of a group of runs, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.records.statistics import interquartile_interval, interquartile_mean, mean_and_deviation
from safexp.report.groups import RunGroup
from safexp.report.limits import LimitedName, limited_quantity
from safexp.runs.folder import Run

POINTS = 250
"""Number of points drawn of a curve."""


@dataclass(frozen=True)
class MetricCurve:
    """A metric of every epoch: `key` is its name in metrics.jsonl, `axis` its unit.

    Several epochs in one point are combined by their mean, or the `largest`. On a logarithmic axis nothing is drawn
    below `floor`; without a floor there is no such axis. A curve `of` a limited quantity is drawn for runs that limit
    it.
    """

    key: str
    title: str
    caption: str
    axis: Literal["return", "cost", "episodes", "share"]
    largest: bool = False
    floor: float | None = None
    of: LimitedName | None = None


ENDED = "the episodes that ended in an epoch"
RETURN = MetricCurve("mean_return", "Average episode return", f"What the task paid in {ENDED}.", "return")
COST = MetricCurve("mean_cost", "Average episode cost", f"The mean of {ENDED}.", "cost", floor=0.1, of="episode cost")
MAX_COST = MetricCurve(
    "max_cost", "Maximum episode cost", f"The worst of {ENDED}.", "cost", largest=True, floor=0.1, of="episode cost"
)
STEP_COST = MetricCurve(
    "mean_max_step_cost",
    "Average largest step cost",
    f"The largest cost of a single step, the mean of {ENDED}.",
    "cost",
    floor=0.001,
    of="step cost",
)
MAX_STEP_COST = MetricCurve(
    "max_step_cost",
    "Maximum step cost",
    f"The largest cost of a single step, the worst of {ENDED}.",
    "cost",
    largest=True,
    floor=0.001,
    of="step cost",
)
STOPS = MetricCurve("stop_rate", "Stop rate", f"How many of {ENDED} were stopped.", "share", floor=0.001)
OWN_ACTIONS = MetricCurve(
    "own_actions",
    "Own actions",
    f"Share of the policy's own actions in {ENDED}, neither replaced nor a backup's.",
    "share",
)
VIOLATIONS = MetricCurve(
    "violations", "Violations so far", "Episodes that broke the constraint.", "episodes", largest=True, floor=0.5
)
PENALISED = MetricCurve("mean_penalised_return", "Penalised return", f"What the learner got in {ENDED}.", "return")
CURVES = (RETURN, COST, MAX_COST, STEP_COST, MAX_STEP_COST, STOPS, VIOLATIONS, PENALISED, OWN_ACTIONS)


class Spread(NamedTuple):
    """A curve of a group, (n,) each: steps, numbers of runs, and statistics over runs.

    `low` and `high` are the 95% bootstrap interval of the inter-quartile mean `middle`; of a single run, itself.
    """

    steps: NDArray[np.int64]
    runs: NDArray[np.int64]
    mean: Array
    deviation: Array
    middle: Array
    low: Array
    high: Array


def spread(group: RunGroup, curve: MetricCurve, points: int | None = POINTS, intervals: bool = True) -> Spread:
    """Compute a curve of a group at `points` points, or at all steps; shorter runs count until their end.

    Without `intervals`, which take the most time, `low` and `high` are the inter-quartile mean itself.
    """
    lines = [_values(run, curve) for run in group.runs]
    grid = np.unique(np.concatenate([steps for steps, _, _ in lines]))
    if points is not None and len(grid) > points:
        grid = grid[np.linspace(0, len(grid) - 1, points).round().astype(np.intp)]
    table = np.array([on_grid(steps, values, last, grid, curve.largest) for steps, values, last in lines])
    return over_runs(grid, table.reshape(len(lines), len(grid)), intervals)


def epochs(run: Run, curve: MetricCurve) -> list[tuple[int, float]]:
    """Steps and values of the epochs that have the metric; runs of older versions may lack it."""
    if curve.of == "step cost":
        return _step_costs(run, curve.largest)
    return [(line["steps"], line[curve.key]) for line in run.metrics if line.get(curve.key) is not None]


def _step_costs(run: Run, largest: bool) -> list[tuple[int, float]]:
    """Mean or maximum of the largest step costs of the episodes that ended in an epoch."""
    steps = [int(line["steps"]) for line in run.metrics]
    costs = np.array([episode.max_step_cost for episode in run.episodes])
    ended = np.searchsorted([episode.end_step for episode in run.episodes], steps, side="right")
    parts = np.split(costs, ended)[: len(steps)]
    return [
        (step, float(part.max() if largest else part.mean()))
        for step, part in zip(steps, parts, strict=True)
        if len(part)
    ]


def _values(run: Run, curve: MetricCurve) -> tuple[NDArray[np.int64], Array, int]:
    """Steps and values of the epochs that have the metric, and the last step of the run."""
    known = epochs(run, curve)
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


def over_runs(steps: NDArray[np.int64], table: Array, intervals: bool = True) -> Spread:
    """Statistics of a table (runs, n) in which values may be missing; steps without any value are dropped."""
    present = ~np.isnan(table)
    some = present.any(axis=0)
    steps, table, present = steps[some], table[:, some], present[:, some]
    results = np.empty((5, len(steps)))
    for pattern in np.unique(present, axis=1).T:
        columns = (present == pattern[:, None]).all(axis=0)
        results[:, columns] = _statistics(table[np.ix_(pattern, columns)], intervals)
    return Spread(steps, present.sum(axis=0), *results)


def _statistics(table: Array, intervals: bool) -> Array:
    """Mean, deviation, inter-quartile mean and its interval, (5, n), of a table (runs, n) without gaps."""
    middle = interquartile_mean(table, axis=0)
    low, high = interquartile_interval([table.T]) if intervals and len(table) > 1 else (middle, middle)
    return np.array([*mean_and_deviation(table, axis=0), middle, low, high])


def is_told(curve: MetricCurve, group: RunGroup) -> bool:
    """Whether a curve applies to a group: it is not of a limited quantity, or of the one that the group limits."""
    return curve.of in (None, limited_quantity(group.config).name)


def limits(curve: MetricCurve, groups: Sequence[RunGroup]) -> list[float]:
    """Limits of these groups on the quantity of a curve."""
    found = (limited_quantity(group.config) for group in groups)
    return sorted({one.limit for one in found if one.name == curve.of and one.limit is not None})
