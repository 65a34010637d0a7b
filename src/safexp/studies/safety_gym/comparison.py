"""Statistics of the study's runs over their seeds, and the runs that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from safexp.core.arrays import Array
from safexp.records.statistics import exact_interval, mean_and_deviation, ratio_interval, upper_bound
from safexp.studies.safety_gym.results import Line, Result
from safexp.studies.safety_gym.study import SafetyGymStudy, run_name

REFERENCE = "trpo"
"""Whose return the others' are shares of."""

LATE = 10
"""The last epochs, whose stops are counted."""

HUNDRED = 100
"""The last epochs and episodes that the paper's Table 2 counts."""

Selection = Mapping[tuple[str, str], Sequence[Result]]
"""Runs of as many epochs as are wanted, or more, by task and method."""


@dataclass(frozen=True)
class ComparisonRow:
    """A method on a task, over all its seeds.

    `violated` training episodes broke the constraint, also some that had not ended; the exact 95% interval is of the
    rate among those that had. `above` had a plain cost above the limit, and `stops` were stopped. `last_hundred` is the
    share of each seed's last 100 that was stopped; `stopped_epochs` and `late_stopped_epochs` are how many epochs had a
    stop, of all and of the last 100, in the mean. All else is about the last 1,000 episodes of each seed: the mean
    return, its deviation over seeds, and its share of TRPO's with the 95% bootstrap interval; mean and `max_cost`; the
    share that violated, and the share that was stopped with the upper end of its one-sided 95% interval. `late_stops`
    are stops per epoch in the last ten epochs, and `deterministic` is the return without exploration.
    `after_stop_violations` violated only after their stop; None if stops were taken to be free.
    """

    task: str
    method: str
    seeds: int
    epochs: int
    violated: int
    episodes: int
    interval_low: float
    interval_high: float
    above: int
    stops: int
    returns: float | None
    deviation: float | None
    share: float | None
    share_low: float | None
    share_high: float | None
    deterministic: float | None
    cost: float | None
    max_cost: float | None
    violating: float
    stopped: float
    at_most: float
    late_stops: float
    last_hundred: float
    stopped_epochs: float
    late_stopped_epochs: float
    after_stop_violations: int | None


def select(study: SafetyGymStudy, results: Mapping[str, Result], epochs: int) -> tuple[Selection, list[str]]:
    """Runs of the study with enough epochs, and the missing seeds of every task and method."""
    found: dict[tuple[str, str], list[Result]] = {}
    missing = []
    for task in study.tasks:
        for method in study.methods:
            problems: dict[str, list[int]] = {}
            for seed in study.all_seeds:
                name = run_name(task, method, seed)
                if (problem := _problem(results.get(name), epochs, study.budget)) is None:
                    found.setdefault((task, method), []).append(results[name])
                else:
                    problems.setdefault(problem, []).append(seed)
            if problems:
                told = [f"{_names(seeds, study)} {problem}" for problem, seeds in problems.items()]
                missing.append(f"{task} {method}: {'; '.join(told)}")
    return found, missing


def _names(seeds: Sequence[int], study: SafetyGymStudy) -> str:
    return "all seeds" if len(seeds) == len(study.all_seeds) else ", ".join(map(str, seeds))


def _problem(result: Result | None, epochs: int, budget: float) -> str | None:
    """Reason why a result cannot be compared after this number of epochs."""
    if result is None:
        return "missing"
    if (limit := next(iter(result.lines.values())).config.limit) != budget:
        return f"with a budget of {limit:g}, not {budget:g}"
    if len(result.metrics) < epochs:
        return f"with {len(result.metrics):,} of {epochs:,} epochs"
    return None if epochs in result.lines else f"without a summary after {epochs:,} of {len(result.metrics):,} epochs"


def compare(selection: Selection, epochs: int) -> list[ComparisonRow]:
    """A row for every method on every task that has a run."""
    returns = {key: _returns([result.lines[epochs] for result in runs]) for key, runs in selection.items()}
    return [
        _row(task, method, runs, epochs=epochs, reference=returns.get((task, REFERENCE), []))
        for (task, method), runs in selection.items()
    ]


def _row(task: str, method: str, runs: Sequence[Result], *, epochs: int, reference: Sequence[float]) -> ComparisonRow:
    lines = [result.lines[epochs] for result in runs]
    returns = _returns(lines)
    mean, deviation = map(float, mean_and_deviation(returns)) if returns else (None, None)
    violated, episodes = sum(line.violated for line in lines), sum(line.episodes for line in lines)
    low, high = exact_interval(violated - sum(line.unfinished for line in lines), episodes)
    compared = mean is not None and len(reference) > 0
    several = compared and len(returns) > 1 and len(reference) > 1
    share_low, share_high = ratio_interval(returns, reference) if several else (None, None)
    final, final_stops = sum(line.final_episodes for line in lines), sum(line.final_stopped for line in lines)
    played = [line.deterministic for line in lines if line.deterministic is not None]
    costs = [line.final_cost * line.final_episodes for line in lines if line.final_cost is not None]
    judged = [line.after_stop_violations for line in lines if line.after_stop_violations is not None]
    with_stops = [_stops(result, epochs) > 0 for result in runs]
    return ComparisonRow(
        task=task,
        method=method,
        seeds=len(lines),
        epochs=epochs,
        violated=violated,
        episodes=episodes,
        interval_low=low,
        interval_high=high,
        above=sum(line.above for line in lines),
        stops=sum(line.stops for line in lines),
        returns=mean,
        deviation=deviation,
        share=mean / float(np.mean(reference)) if mean is not None and compared else None,
        share_low=share_low,
        share_high=share_high,
        deterministic=float(np.mean(played)) if played else None,
        cost=sum(costs) / final if final else None,
        max_cost=max((line.final_max_cost for line in lines if line.final_max_cost is not None), default=None),
        violating=sum(line.final_violated for line in lines) / max(final, 1),
        stopped=final_stops / max(final, 1),
        at_most=upper_bound(final_stops, final),
        late_stops=float(np.mean([_stops(result, epochs)[-LATE:].mean() for result in runs])),
        last_hundred=float(np.mean([line.hundred_stopped / min(line.episodes or 1, HUNDRED) for line in lines])),
        stopped_epochs=float(np.mean([stops.sum() for stops in with_stops])),
        late_stopped_epochs=float(np.mean([stops[-HUNDRED:].sum() for stops in with_stops])),
        after_stop_violations=sum(judged) if judged else None,
    )


def _returns(lines: Sequence[Line]) -> list[float]:
    return [line.final_return for line in lines if line.final_return is not None]


def _stops(result: Result, epochs: int) -> Array:
    """Number of stopped episodes in each epoch."""
    return np.diff([float(line["stops"]) for line in result.metrics[:epochs]], prepend=0.0)
