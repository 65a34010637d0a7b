"""Coverage of a quantifier on transitions that it has not learned from, independent of the shield."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions

MOST_ROWS = 2000
"""Number of transitions of an epoch that are evaluated, evenly spaced."""

NEAR = 0.1
"""Distance of a scaled cost from its threshold up to which it counts as near."""


FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Multiples of the width at which calibration is evaluated."""


class Coverage(NamedTuple):
    """Counts of transitions.

    `covered` have |cost − mean| ≤ width, `exceeded` cost > mean + width, which is the side that matters; `vacuous` have
    a width of 1 or more, which always covers a cost in [0, 1] and says nothing. `near` have a cost within 0.1 of their
    threshold (`Constraint.in_units` gives that distance in the user's units). With several costs, all must be covered,
    one that is exceeded or near is enough, and a transition is vacuous if all its widths are.
    """

    rows: int = 0
    covered: int = 0
    exceeded: int = 0
    vacuous: int = 0
    near: int = 0
    near_covered: int = 0


def measure(quantifier: Quantifier, data: Transitions, thresholds: Array) -> Coverage:
    """Compare predictions with true costs, whose thresholds were (n,) or (n, K).

    A transition for which the quantifier raises or returns a NaN is not covered and counts as exceeded. A quantifier
    that looks ahead bounds more than the cost of a step, and is not judged by it: drills are its test.
    """
    if quantifier.looks_ahead:
        return Coverage()
    rows = _evenly(len(data.costs))
    costs, limits = _columns(data.costs[rows]), _columns(thresholds[rows])
    mean, width = _predictions(quantifier, data.states[rows], data.actions[rows], costs.shape)
    covered = (np.abs(costs - mean) <= width).all(axis=1)
    near = (np.abs(costs - limits) <= NEAR).any(axis=1)
    return Coverage(
        rows=len(rows),
        covered=_count(covered),
        exceeded=_count(~(costs <= mean + width).all(axis=1)),
        vacuous=_count((width >= 1.0).all(axis=1)),
        near=_count(near),
        near_covered=_count(near & covered),
    )


class Calibration(NamedTuple):
    """How many of the `rows` with an informative width (below 1) are within each of `FACTORS` times that width.

    Of several costs, those with an informative width count.
    """

    rows: int
    within: tuple[int, ...]


def calibration(quantifier: Quantifier, data: Transitions) -> Calibration:
    """Evaluate whether a quantifier's widths are too small, too large, or right."""
    rows = _evenly(len(data.costs))
    costs = _columns(data.costs[rows])
    mean, width = _predictions(quantifier, data.states[rows], data.actions[rows], costs.shape)
    telling = width < 1.0
    rows_told = telling.any(axis=1)
    missed = np.where(telling, np.abs(costs - mean), 0.0)[rows_told]
    within = tuple(_count((missed <= factor * width[rows_told]).all(axis=1)) for factor in FACTORS)
    return Calibration(_count(rows_told), within)


def total(parts: list[Coverage]) -> Coverage:
    """Sum of the counts of several epochs."""
    return Coverage(*(sum(counts) for counts in zip(*parts, strict=True))) if parts else Coverage()


def _evenly(count: int) -> NDArray[np.int64]:
    """Indices of at most `MOST_ROWS` evenly spaced rows."""
    return np.unique(np.linspace(0, count - 1, min(MOST_ROWS, count)).astype(np.int64))


def _columns(values: Array) -> Array:
    """Values (n,) or (n, K) as (n, K)."""
    return values[:, None] if values.ndim == 1 else values


def _predictions(quantifier: Quantifier, states: Array, actions: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Means, clipped as the costs are, and widths; NaN where there are none."""
    try:
        mean, width = (
            np.asarray(part, dtype=np.float64).reshape(shape) for part in quantifier.predict(states, actions[:, None])
        )
    except Exception:  # nothing was predicted; the shield reports the reason
        return np.full(shape, np.nan), np.full(shape, np.nan)
    return np.clip(mean, 0.0, 1.0), width  # costs are clipped, those of signals far from their limits, too


def _count(flags: ArrayLike) -> int:
    return int(np.count_nonzero(flags))
