"""The numbers of a run that a table shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safexp.coverage import Coverage, total
from safexp.studies.folder import Run
from safexp.studies.stats import exact_interval

WINDOW = 100
"""How many of the last episodes make up the final performance."""


@dataclass(frozen=True)
class Summary:
    """A run in numbers.

    `final_return` and `final_stops` are means over the last episodes, None where none ended. `violations` counts
    episodes, also those that broke the constraint and had not ended (`unfinished_violations` of them); the interval is
    of the probability that a finished episode breaks it. `coverage` counts how often the quantifier was right before
    it learned, and `delta` is how often it may be wrong by its own account, None in runs without one.
    """

    episodes: int
    final_return: float | None
    violations: int
    unfinished_violations: int
    interval: tuple[float, float]
    final_stops: float | None
    stops: int
    interventions: int
    steps: int
    steps_per_second: float | None
    coverage: Coverage
    delta: float | None


def summarise(run: Run) -> Summary:
    """The numbers of a run."""
    last = run.episodes[-WINDOW:]
    finished = sum(episode.violated for episode in run.episodes)
    counted = int(run.metrics[-1]["violations"]) if run.metrics else 0
    return Summary(
        episodes=len(run.episodes),
        final_return=float(np.mean([episode.true_return for episode in last])) if last else None,
        violations=max(counted, finished),
        unfinished_violations=max(counted - finished, 0),
        interval=exact_interval(finished, len(run.episodes)),
        final_stops=float(np.mean([episode.stopped for episode in last])) if last else None,
        stops=sum(episode.stopped for episode in run.episodes),
        interventions=sum(episode.interventions for episode in run.episodes),
        steps=int(run.metrics[-1]["steps"]) if run.metrics else 0,
        steps_per_second=run.timing.get("steps_per_second"),
        coverage=total(coverages(run)),
        delta=run.metrics[-1].get("delta") if run.metrics else None,
    )


def coverages(run: Run) -> list[Coverage]:
    """What was counted of the quantifier in each epoch; nothing in runs without one."""
    return [
        Coverage(*(int(line[f"coverage_{name}"]) for name in Coverage._fields))
        for line in run.metrics
        if "coverage_rows" in line
    ]


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its folder's, or the whole path where two folders have the same."""
    names = Counter(run.path.resolve().name for run in runs)
    return [name if names[name := run.path.resolve().name] == 1 else str(run.path) for run in runs]


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 0) -> str:
    """A share for a table."""
    return "-" if value is None else f"{value:.{digits}%}"


def coverage_text(covered: int, rows: int) -> str:
    """A share of covered transitions with its exact interval."""
    low, high = exact_interval(covered, rows)
    return f"{100 * covered / rows:.4g} % ({100 * low:.4g} to {100 * high:.4g})" if rows else "-"


def interval_text(summary: Summary) -> str:
    """The interval of the violation rate, with as many digits as a rate near 0 or 1 needs."""
    low, high = summary.interval
    return f"{100 * low:.3g} to {100 * high:.3g} %" if summary.episodes else "-"
