"""Nearness of a log to its limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safexp.core.arrays import Array
from safexp.core.findings import Finding, percent
from safexp.doctor.subject import LimitedSignals

QUANTILES = (0.5, 0.9, 0.99, 1.0)

FAR = 0.5
"""Share of the way to a limit below which a log says little about its vicinity …"""

STEPS_AWAY = 1.5
"""… unless it came within this number of large steps."""


@dataclass(frozen=True)
class Nearness:
    """Nearness of a log to one limit.

    The *way* is 0 at the median of the signal and 1 at the limit; if the median is beyond it, in standard deviations.

    Attributes:
        signal: name of the signal.
        side: "high" or "low".
        limit: the limit in the signal's units.
        nearest: smallest distance to the limit; negative if it was crossed.
        nearest_in_steps: the same in large steps of the signal, the 99 % quantile of its changes.
        way: 50, 90, 99 and 100 % quantiles of the way over all steps.
        way_by_episode: the same quantiles of the furthest way of each episode.
        rows_beyond: number of steps after which the signal was beyond the limit.
        episodes_beyond: number of episodes with such a step.
        furthest: furthest way of each episode.
    """

    signal: str
    side: str
    limit: float
    nearest: float
    nearest_in_steps: float
    way: tuple[float, ...]
    way_by_episode: tuple[float, ...]
    rows_beyond: int
    episodes_beyond: int
    furthest: tuple[float, ...]


def examine_nearness(subject: LimitedSignals) -> list[Nearness]:
    """Examine every side of a limit; a limit that changes is taken at its initial value."""
    sides = subject.constraint.sides
    episodes = np.unique(subject.episodes, return_inverse=True)[1]
    found = []
    for which, sign, limit in zip(sides.which, sides.sign, sides.reference, strict=True):
        values = subject.after[:, which]
        middle = float(np.median(values))
        left: Array = sign * (limit - values)
        room = sign * (limit - middle)
        way = 1.0 - left / (room if room > 0 else max(float(values.std()), np.finfo(np.float64).tiny))
        furthest = np.full(int(episodes.max()) + 1, -np.inf)
        np.maximum.at(furthest, episodes, way)
        large = float(np.quantile(np.abs(values - subject.now[:, which]), 0.99))
        found.append(
            Nearness(
                subject.names[which],
                "high" if sign > 0 else "low",
                float(limit),
                float(left.min()),
                float(left.min()) / large if large > 0 else float("inf"),
                tuple(np.quantile(way, QUANTILES).tolist()),
                tuple(np.quantile(furthest, QUANTILES).tolist()),
                int((left < 0).sum()),
                len(np.unique(episodes[left < 0])),
                tuple(furthest.tolist()),
            )
        )
    return found


def nearness_findings(found: list[Nearness]) -> list[Finding]:
    """Findings on the nearness to the limits."""
    return [_finding(one) for one in found]


def _finding(one: Nearness) -> Finding:
    topic = f"{one.signal}, {'upper' if one.side == 'high' else 'lower'} limit"
    if one.rows_beyond:
        return Finding(
            topic,
            "caution",
            f"{one.signal} was beyond its limit of {one.limit:g} in {one.rows_beyond:,} rows of "
            f"{one.episodes_beyond:,} episodes.",
            "The log shows what happens near the limit, which is good for a model; its controller is not safe enough "
            "to fall back on.",
            "Check that the limit is as intended, and use another controller as fallback.",
        )
    facts = (
        f"{one.signal} came within {one.nearest:.4g} of its limit of {one.limit:g}: {percent(max(one.way[-1], 0.0))} "
        f"of the way from its median ({percent(max(one.way_by_episode[0], 0.0))} in the median episode), "
        f"{one.nearest_in_steps:.3g} of its large steps away."
    )
    if one.way[-1] >= FAR or one.nearest_in_steps <= STEPS_AWAY:
        return Finding(topic, "ok", facts)
    return Finding(
        topic,
        "caution",
        facts,
        "The log has nothing near this limit: a shield certifies little beyond the visited range, and certificates "
        "there were never tested.",
        f"Log bolder episodes, towards the {'upper' if one.side == 'high' else 'lower'} limit, as far as that is safe; "
        "the steps under a shield then extend the log further.",
    )
