"""Summary of a run in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from safexp.records.coverage import Coverage, total
from safexp.records.episodes import own_share
from safexp.records.statistics import exact_interval

if TYPE_CHECKING:
    from safexp.runs.folder import Run

WINDOW = 100
"""Number of the last episodes whose mean is the final performance."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Summary:
    """A run in numbers.

    `final_return`, `final_stops` and `own_actions`, the share of the executed actions that were the policy's own, are
    means over the last episodes, None if none ended. `violations` counts episodes
    that violated the constraint, including unfinished ones (`unfinished_violations` of them); the interval is for the
    probability that a finished episode violates. `max_cost` is the largest cost of a finished episode, `max_step_cost`
    that of a single step of one. `coverage` counts how often the quantifier was right on new steps, and `delta` is the
    probability with which it may be wrong, None in runs without one.

    `after_stop_violations` counts the episodes that violated only after their stop, `after_stop_steps` the steps that a
    controller drove then: None in runs that take a stop to be free. `drills` counts the judged drills of a backup, and
    `drills_missed` those in which its certificate was wrong: None in runs whose certificates do not look ahead to one.
    """

    episodes: int
    final_return: float | None
    violations: int
    unfinished_violations: int
    interval: Interval
    max_cost: float | None
    max_step_cost: float | None
    final_stops: float | None
    own_actions: float | None
    stops: int
    interventions: int
    takeovers: int
    steps: int
    steps_per_second: float | None
    coverage: Coverage
    delta: float | None
    after_stop_steps: int | None = None
    after_stop_violations: int | None = None
    drills: int | None = None
    drills_missed: int | None = None

    @property
    def stops_taken_to_be_free(self) -> bool:
        """Whether there were stops, and what the machine did after them was not judged."""
        return bool(self.stops) and self.after_stop_violations is None


def summarise(run: Run) -> Summary:
    """Summarise a run."""
    finished = sum(episode.violated for episode in run.episodes)
    counted = int(run.metrics[-1]["violations"]) if run.metrics else 0
    judged = bool(run.metrics) and "after_stop_violations" in run.metrics[-1]
    return Summary(
        episodes=len(run.episodes),
        final_return=_mean([episode.true_return for episode in run.episodes[-WINDOW:]]),
        violations=max(counted, finished),
        unfinished_violations=max(counted - finished, 0),
        interval=exact_interval(finished, len(run.episodes)),
        max_cost=max((episode.cost for episode in run.episodes), default=None),
        max_step_cost=max((episode.max_step_cost for episode in run.episodes), default=None),
        final_stops=_mean([episode.stopped for episode in run.episodes[-WINDOW:]]),
        own_actions=own_share(run.episodes[-WINDOW:]),
        stops=sum(episode.stopped for episode in run.episodes),
        interventions=sum(episode.interventions for episode in run.episodes),
        takeovers=sum(episode.takeovers for episode in run.episodes),
        steps=int(run.metrics[-1]["steps"]) if run.metrics else 0,
        steps_per_second=run.timing.get("steps_per_second"),
        coverage=total(coverages(run.metrics)),
        delta=run.metrics[-1].get("delta") if run.metrics else None,
        after_stop_steps=sum(episode.after_stop_steps for episode in run.episodes) if judged else None,
        after_stop_violations=sum(episode.after_stop_violated for episode in run.episodes) if judged else None,
        drills=run.metrics[-1].get("drills") if run.metrics else None,
        drills_missed=run.metrics[-1].get("drills_missed") if run.metrics else None,
    )


def coverages(metrics: Sequence[Mapping[str, Any]]) -> list[Coverage]:
    """Coverage of the quantifier in each epoch; empty in runs without one."""
    return [
        Coverage(*(int(line[f"coverage_{name}"]) for name in Coverage._fields))
        for line in metrics
        if "coverage_rows" in line
    ]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
