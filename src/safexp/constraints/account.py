"""The account of an episode: how much of a constraint is spent, and the threshold for the next step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from safexp.constraints.base import JUDGED, Constraint
from safexp.core.arrays import Array, Flags, Observations, take


class Account:
    """Spending of n episodes under a constraint, and the `thresholds` (n,) or (n, K) for their next costs.

    Args:
        constraint: turns costs into thresholds.
        num_envs: number of episodes that run in parallel.
        braking: cost of the stop itself while the machine comes to rest, in units of the largest cost of a step; it is
            subtracted from the threshold that actions are certified against.
    """

    def __init__(self, constraint: Constraint, num_envs: int, braking: float = 0.0) -> None:
        if not (math.isfinite(braking) and braking >= 0):
            raise ValueError(f"braking={braking} must be finite and at least 0.")
        self.constraint = constraint
        self.braking = braking
        self.thresholds: Array = np.full((num_envs, *np.shape(constraint.largest_threshold)), -np.inf)
        self._memory = np.zeros((num_envs, constraint.memory))

    def open(self, fresh: NDArray[np.bool_], observations: Observations) -> None:
        """Start episodes in the `fresh` ones of n environments, at their observations (n, ...)."""
        if fresh.any():
            self._memory[fresh] = self.constraint.start(take(observations, fresh))
            self.thresholds = self.thresholds.copy()
            self.thresholds[fresh] = self.constraint.threshold(self._memory[fresh])

    def exceeded(self, costs: Array) -> Flags:
        """Which (n,) of the scaled costs (n,) or (n, K) of a step, not yet charged, are more than was allowed.

        Judged without the reserve for braking. A cost of zero breaks nothing, and neither does one that is NaN.
        """
        tolerance = JUDGED * np.maximum(self.constraint.largest_threshold, 1.0)
        beyond = costs > np.maximum(self.thresholds, 0.0) + tolerance
        return np.asarray(beyond.reshape(len(costs), -1).any(axis=1))

    def charge(self, costs: Array, upper_bounds: Array) -> None:
        """Spend the scaled costs (n,) or (n, K) of a step, for which `upper_bounds` were certified."""
        self._memory = self.constraint.update(self._memory, costs, upper_bounds)
        self.thresholds = self.constraint.threshold(self._memory)

    @property
    def certifiable(self) -> Array:
        """The thresholds that actions are certified against: reduced by the reserve for braking."""
        return self.thresholds - self.braking
