"""How often a quantifier was right, on transitions that it had not learned from: nothing here knows of the shield."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions

MOST_ROWS = 2000
"""How many transitions of an epoch are looked at, evenly taken from all."""

NEAR = 0.1
"""How far a scaled cost may be from its threshold to count as near it."""


FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""The multiples of a width at which calibration is looked at."""


class Coverage(NamedTuple):
    """Counts of transitions.

    `covered` have |cost − mean| ≤ width, `exceeded` cost > mean + width, which is the side that matters; `vacuous` have
    a width of 1 or more, which says nothing of a cost in [0, 1] and always covers it. `near` have a cost within 0.1 of
    their threshold. Of several costs all must be covered, and one exceeded, vacuous or near suffices.
    """

    rows: int = 0
    covered: int = 0
    exceeded: int = 0
    vacuous: int = 0
    near: int = 0
    near_covered: int = 0


def measure(quantifier: Quantifier, data: Transitions, thresholds: Array) -> Coverage:
    """Compare predictions with true costs, given the thresholds (n,) or (n, K) that they had to keep.

    What cannot be predicted, because the quantifier raises or returns a NaN, is not covered and counts as exceeded.
    """
    rows = _evenly(len(data.costs))
    costs, limits = _columns(data.costs[rows]), _columns(thresholds[rows])
    mean, width = _predictions(quantifier, data.states[rows], data.actions[rows], costs.shape)
    covered = (np.abs(costs - mean) <= width).all(axis=1)
    near = (np.abs(costs - limits) <= NEAR).any(axis=1)
    return Coverage(
        rows=len(rows),
        covered=_count(covered),
        exceeded=_count(~(costs <= mean + width).all(axis=1)),
        vacuous=_count((width >= 1.0).any(axis=1)),
        near=_count(near),
        near_covered=_count(near & covered),
    )


class Calibration(NamedTuple):
    """How many of the `rows` whose width says anything (less than 1) lie within each of `FACTORS` times that width."""

    rows: int
    within: tuple[int, ...]


def calibration(quantifier: Quantifier, data: Transitions) -> Calibration:
    """Whether a quantifier's widths are of the right size: none needed to be larger, or all could be smaller."""
    rows = _evenly(len(data.costs))
    costs = _columns(data.costs[rows])
    mean, width = _predictions(quantifier, data.states[rows], data.actions[rows], costs.shape)
    telling = (width < 1.0).all(axis=1)
    missed = np.abs(costs - mean)[telling]
    within = tuple(_count((missed <= factor * width[telling]).all(axis=1)) for factor in FACTORS)
    return Calibration(_count(telling), within)


def total(parts: list[Coverage]) -> Coverage:
    """The counts of several epochs together."""
    return Coverage(*(sum(counts) for counts in zip(*parts, strict=True))) if parts else Coverage()


def _evenly(count: int) -> NDArray[np.int64]:
    """At most `MOST_ROWS` of so many rows."""
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
    except Exception:  # whatever went wrong, nothing was predicted; the shield says what
        return np.full(shape, np.nan), np.full(shape, np.nan)
    return np.clip(mean, 0.0, 1.0), width  # costs are clipped, those of signals far from their limits, too


def _count(flags: ArrayLike) -> int:
    return int(np.count_nonzero(flags))
