"""Summary of a group of runs, and formatting of numbers for tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safexp.records.coverage import Coverage, total
from safexp.records.statistics import (
    exact_interval,
    improvement_interval,
    interquartile_interval,
    interquartile_mean,
    mean_and_deviation,
    probability_of_improvement,
)
from safexp.report.groups import RunGroup
from safexp.runs.folder import Run
from safexp.runs.summary import Interval, Summary


@dataclass(frozen=True)
class GroupSummary:
    """Summary of a group.

    Counts, and the interval of violations, are over all its runs; returns, final stops and own actions over the
    finished ones, if any, with a standard deviation for two or more.
    `better` is the probability that a run has a higher final return than one of the reference, with its interval; an
    interval of fewer than two runs is None, like every number that no run provides. `free_stops` are stops after which
    nothing was judged.
    """

    runs: int
    unfinished: int
    final_return: float | None
    deviation: float | None
    middle: float | None
    middle_interval: Interval | None
    better: float | None
    better_interval: Interval | None
    violations: int
    unfinished_violations: int
    episodes: int
    interval: Interval
    max_cost: float | None
    max_step_cost: float | None
    final_stops: float | None
    own_actions: float | None
    stops: int
    interventions: int
    takeovers: int
    steps_per_second: float | None
    coverage: Coverage
    after_stop_steps: int | None
    after_stop_violations: int | None
    free_stops: int
    drills: int | None
    drills_missed: int | None


def summarise_group(group: RunGroup, reference: RunGroup | None = None) -> GroupSummary:
    """Summarise a group, compared with the reference on the same task if there is one."""
    each = [run.summary for run in group.runs]
    returns = _returns(group)
    others = [] if reference is None else _returns(reference)
    compared, several = bool(returns and others), len(returns) > 1
    mean, deviation = map(float, mean_and_deviation(returns)) if returns else (None, None)
    violations, unfinished = sum(run.violations for run in each), sum(run.unfinished_violations for run in each)
    episodes = sum(run.episodes for run in each)
    return GroupSummary(
        runs=len(each),
        unfinished=sum(run.status != "finished" for run in group.runs),
        final_return=mean,
        deviation=deviation if several else None,
        middle=float(interquartile_mean(returns)) if returns else None,
        middle_interval=_floats(interquartile_interval([returns])) if several else None,
        better=probability_of_improvement([returns], [others]) if compared else None,
        better_interval=improvement_interval([returns], [others]) if several and len(others) > 1 else None,
        violations=violations,
        unfinished_violations=unfinished,
        episodes=episodes,
        interval=exact_interval(violations - unfinished, episodes),
        max_cost=max((run.max_cost for run in each if run.max_cost is not None), default=None),
        max_step_cost=max((run.max_step_cost for run in each if run.max_step_cost is not None), default=None),
        final_stops=_mean([share for run in group.trained if (share := run.summary.final_stops) is not None]),
        own_actions=_mean([share for run in group.trained if (share := run.summary.own_actions) is not None]),
        stops=sum(run.stops for run in each),
        interventions=sum(run.interventions for run in each),
        takeovers=sum(run.takeovers for run in each),
        steps_per_second=_mean([run.steps_per_second for run in each if run.steps_per_second is not None]),
        coverage=total([run.coverage for run in each]),
        after_stop_steps=_sum([run.after_stop_steps for run in each]),
        after_stop_violations=_sum([run.after_stop_violations for run in each]),
        free_stops=sum(run.stops for run in each if run.stops_taken_to_be_free),
        drills=_sum([run.drills for run in each]),
        drills_missed=_sum([run.drills_missed for run in each]),
    )


def reference_name(groups: Sequence[RunGroup], wanted: str | None = None) -> str:
    """Name of the groups that the others are compared with: the wanted one, or the most common.

    Raises:
        ValueError: if no group has the wanted name.
    """
    known = Counter(group.name for group in groups)
    if wanted is not None and wanted not in known:
        raise ValueError(f"--reference {wanted}: there is no such method; expected one of {', '.join(known)}.")
    return wanted or max(known, key=lambda name: known[name])


def reference_for(group: RunGroup, groups: Sequence[RunGroup], name: str) -> RunGroup | None:
    """The group of this name on the same task, unless it is the group itself."""
    found = next((other for other in groups if (other.task, other.name) == (group.task, name)), None)
    return None if found is group else found


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its folder's name, or the full path if two folders have the same name."""
    names = Counter(run.path.resolve().name for run in runs)
    return [name if names[name := run.path.resolve().name] == 1 else str(run.path) for run in runs]


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def largest(value: float | None) -> str:
    """A largest cost for a table, in its own units."""
    return "-" if value is None else f"{value:,.4g}"


def percent(value: float | None, digits: int = 0) -> str:
    """A share for a table."""
    return "-" if value is None else f"{value:.{digits}%}"


def between(value: float | None, interval: Interval | None, digits: int = 2) -> str:
    """A number with its interval below it, for a table."""
    if value is None or interval is None:
        return number(value, digits)
    return f"{value:,.{digits}f}\n({interval[0]:,.{digits}f} to {interval[1]:,.{digits}f})"


def coverage_text(covered: int, rows: int) -> str:
    """A share of covered transitions with its exact interval below it."""
    low, high = exact_interval(covered, rows)
    return f"{100 * covered / rows:.4g} %\n({100 * low:.4g} to {100 * high:.4g})" if rows else "-"


def interval_text(summary: Summary | GroupSummary) -> str:
    """The interval of the violation rate, with as many digits as a rate near 0 or 1 needs."""
    low, high = summary.interval
    return f"{100 * low:.3g} to {100 * high:.3g} %" if summary.episodes else "-"


def interventions_text(summary: Summary | GroupSummary) -> str:
    """Numbers of replaced actions, of steps that another controller took over, and of missed drills."""
    driven = f"\n+ {summary.takeovers:,}\ntaken over" if summary.takeovers else ""
    drilled = f"\n({summary.drills_missed or 0:,} of {summary.drills:,}\ndrills missed)" if summary.drills else ""
    return f"{summary.interventions:,}{driven}{drilled}"


def after_stops_text(summary: Summary | GroupSummary) -> str:
    """Number of episodes that violated only after their stop, of all stops that were judged."""
    if summary.after_stop_violations is None:
        return "-"
    judged = summary.stops - (summary.free_stops if isinstance(summary, GroupSummary) else 0)
    return f"{summary.after_stop_violations:,} of {judged:,} stops"


def free_stops_text(runs: Sequence[Run]) -> str:
    """Sentence on the stops that were taken to be free; empty if there were none."""
    free = sum(run.summary.stops for run in runs if run.summary.stops_taken_to_be_free)
    if not free:
        return ""
    were = "stop was" if free == 1 else "stops were"
    return f"{free:,} {were} taken to be free: what the machine did afterwards was not judged (Reset(after=...) does)."


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _returns(group: RunGroup) -> list[float]:
    return [score for run in group.trained if (score := run.summary.final_return) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _floats(interval: tuple[float, float]) -> Interval:
    return float(interval[0]), float(interval[1])
