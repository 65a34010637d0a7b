"""Range of a model's data: nothing is known about inputs that never varied, or far outside their range."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, some
from safexp.quantifiers.boldness import ladder, stretch_maxima

REACH = 1.0
"""Distance beyond the visited range of an input up to which anything is certified, in standard deviations."""

LEAST_REACH = 0.05
"""The least reach that is measured, so that the certified region can grow."""

RUNGS = 5
"""How many times the boldest fifth of the remaining stretches is held out to measure a reach."""

ROUNDING = 1e-6
"""Relative tolerance within which an input that never varied counts as unchanged."""


class Ranges(NamedTuple):
    """Visited range (d,) of every input, the points at which widths become infinite, and 1 / standard deviation."""

    low: Array
    high: Array
    least: Array
    most: Array
    rate: Array


class Support:
    """Range of every input in a model's data, and the factor by which its widths grow outside it.

    The factor is 1 inside, 1 / (1 − e / reach) where an input is e standard deviations outside its range, and infinite
    from `reach` on. It is also infinite at any other value of an input that never varied, such as a discrete action
    that was never taken, and beyond zero for an input that never changed its sign: absolute values, friction and
    rectifiers have kinks there. Ranges grow with every update, so `reach` also determines how fast the certified region
    can grow with the executed actions.

    Args:
        reach: distance at which widths become infinite, in standard deviations of an input.
    """

    def __init__(self, reach: float = REACH) -> None:
        if not (math.isfinite(reach) and reach > 0):
            raise ValueError(f"reach={reach} must be finite and above 0, in standard deviations beyond the data.")
        self.reach = reach
        self._count = 0.0
        self._moments: Array = np.zeros((4, 0))  # lowest, highest; sum and sum of squares less the first
        self._origin: Array = np.zeros(0)
        self._low = self._high = self._least = self._most = self._rate = self._origin

    @property
    def known(self) -> bool:
        """Whether any inputs were added."""
        return self._count > 0

    @property
    def ranges(self) -> Ranges:
        """Ranges of the inputs added so far."""
        return Ranges(self._low, self._high, self._least, self._most, self._rate)

    def add(self, inputs: Array) -> None:
        """Add inputs (n, d)."""
        if not len(inputs):
            return
        if not self.known:
            self._origin = np.array(inputs[0], dtype=np.float64)
            self._moments = np.stack([self._origin, self._origin, 0 * self._origin, 0 * self._origin])
        moved = inputs - self._origin
        low, high, total, squares = self._moments
        self._moments = np.stack(
            [
                np.minimum(low, inputs.min(axis=0)),
                np.maximum(high, inputs.max(axis=0)),
                total + moved.sum(axis=0),
                squares + (moved**2).sum(axis=0),
            ]
        )
        self._count += len(inputs)
        self._settle()

    def factor(self, states: Array, actions: Array) -> Array:
        """The factors (n, m) of widths for actions (n, m, da) in states (n, ds)."""
        size = states.shape[1]
        beyond = np.maximum(self._beyond(states, slice(None, size))[:, None], self._beyond(actions, slice(size, None)))
        room = 1.0 - beyond / self.reach
        return np.divide(1.0, room, out=np.full(room.shape, np.inf), where=room > 0)

    def state(self) -> dict[str, Array]:
        """The ranges as named arrays."""
        if not self.known:
            return {}
        return {
            "support": np.concatenate([self._moments, self._origin[None], np.full((1, len(self._origin)), self._count)])
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        rows = np.array(state.get("support", np.zeros((6, 0))), dtype=np.float64)
        self._moments, self._origin = rows[:4], rows[4]
        self._count = float(rows[5, 0]) if rows.shape[1] else 0.0
        self._settle()

    def _settle(self) -> None:
        """Compute the visited range, the points where a factor becomes infinite, and the standard deviations."""
        if not self.known:
            return
        low, high, total, squares = self._moments
        variance = np.maximum(squares / self._count - (total / self._count) ** 2, 0.0)
        rounding = ROUNDING * (1.0 + np.abs(self._origin))
        varied = high - low > rounding
        deviation = np.where(varied, np.sqrt(variance), rounding / self.reach)
        self._low, self._high = low, high
        room = self.reach * deviation
        below, above = self._low - room, self._high + room
        self._least = np.where(varied & (self._low >= 0), np.maximum(below, np.minimum(self._low, 0.0)), below)
        self._most = np.where(varied & (self._high <= 0), np.minimum(above, np.maximum(self._high, 0.0)), above)
        self._rate = 1.0 / np.maximum(deviation, np.finfo(np.float64).tiny)

    def _beyond(self, values: Array, part: slice) -> Array:
        """Distance of values (..., d) from the range in standard deviations, for the worst input, (...)."""
        outside = np.maximum(self._low[part] - values, values - self._high[part])
        if not some(outside > 0):  # the usual case
            return np.zeros(values.shape[:-1])
        outside *= self._rate[part]
        outside[(values < self._least[part]) | (values > self._most[part])] = np.inf
        return np.asarray(outside.max(axis=-1, initial=0.0))


def tested_reach(inputs: Array, stretches: NDArray[np.int64], order: NDArray[np.int64], delta: float) -> float:
    """Distance that a share 1 − δ of held-out stretches did not go beyond the range of the others, in deviations.

    Stretches are given in the `order` of their boldness, and held out as for calibration (`ladder`): the scale of the
    widths was measured as far as that beyond the data, and no further. Of several inputs the worst counts.
    """
    found = [np.zeros(1)]
    for learned, held_out in ladder(order, RUNGS):
        known, unseen = inputs[np.isin(stretches, learned)], np.isin(stretches, held_out)
        others, deviation = inputs[unseen], known.std(axis=0)
        outside = np.maximum(known.min(axis=0) - others, others - known.max(axis=0))
        distance = np.divide(outside, deviation, out=np.zeros_like(outside), where=deviation > 0).max(axis=1)
        found.append(np.maximum(stretch_maxima(distance, stretches[unseen]), 0.0))
    return float(np.clip(np.quantile(np.concatenate(found), 1 - delta), LEAST_REACH, REACH))
