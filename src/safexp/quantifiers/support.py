"""Where a model has data: nothing is known of inputs that never varied, or far beyond the values that were seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array

REACH = 1.0
"""How far beyond the visited range of an input something may be certified, in its standard deviations."""

ROUNDING = 1e-6
"""How far an input that never varied may be from its value, relative to that, and still count as the same."""


class Support:
    """The range of every input that a model has learned from, and the factor by which its widths grow beyond it.

    The factor is 1 inside, 1 / (1 − e / reach) where an input is e standard deviations outside of its range, and
    infinite from `reach` on. It is infinite as well at any other value of an input that never varied, such as a
    discrete action that was never taken, and beyond zero for an input that never changed its sign: absolute values,
    friction and rectifiers have their kinks there. Ranges grow with every update, so `reach` also sets how fast what is
    certified can grow with what is executed.

    Args:
        reach: in standard deviations of an input.
    """

    def __init__(self, reach: float = REACH) -> None:
        if not (math.isfinite(reach) and reach > 0):
            raise ValueError(f"reach={reach} must be finite and above 0: standard deviations beyond the visited range.")
        self.reach = reach
        self._count = 0.0
        self._moments: Array = np.zeros((4, 0))  # lowest, highest; sum and sum of squares less the first
        self._origin: Array = np.zeros(0)
        self._low = self._high = self._least = self._most = self._rate = self._origin

    @property
    def known(self) -> bool:
        """Whether anything was added."""
        return self._count > 0

    def add(self, inputs: Array) -> None:
        """Visit these inputs (n, d)."""
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
        with np.errstate(divide="ignore"):
            return 1.0 / np.maximum(1.0 - beyond / self.reach, 0.0)

    def state(self) -> dict[str, Array]:
        """As named arrays."""
        if not self.known:
            return {}
        return {
            "support": np.concatenate([self._moments, self._origin[None], np.full((1, len(self._origin)), self._count)])
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` returned."""
        rows = np.array(state.get("support", np.zeros((6, 0))), dtype=np.float64)
        self._moments, self._origin = rows[:4], rows[4]
        self._count = float(rows[5, 0]) if rows.shape[1] else 0.0
        self._settle()

    def _settle(self) -> None:
        """What a question needs: the visited range, where a factor becomes infinite, and the deviations."""
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
        """How many standard deviations values (..., d) lie outside of the range, in the worst input, (...)."""
        outside = np.maximum(np.maximum(self._low[part] - values, values - self._high[part]), 0.0) * self._rate[part]
        outside[(values < self._least[part]) | (values > self._most[part])] = np.inf
        return np.asarray(outside.max(axis=-1, initial=0.0))
