"""The account of an episode: what is spent of a constraint, and what remains for the next step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from safexp.constraints.base import Constraint
from safexp.core.arrays import Array, Observations, take


class Account:
    """What n episodes have spent of a constraint, and the `thresholds` (n,) or (n, K) that leaves for their next costs.

    Args:
        constraint: turns costs into thresholds.
        num_envs: how many episodes run side by side.
        braking: what a stop itself may cost while the machine comes to rest, in units of the largest cost of a step;
            it is kept back from what an action may be certified against.
    """

    def __init__(self, constraint: Constraint, num_envs: int, braking: float = 0.0) -> None:
        if not (math.isfinite(braking) and braking >= 0):
            raise ValueError(f"braking={braking} must be finite and at least 0.")
        self.constraint = constraint
        self.braking = braking
        self.thresholds: Array = np.full((num_envs, *np.shape(constraint.largest_threshold)), -np.inf)
        self._memory = np.zeros((num_envs, constraint.memory))

    def open(self, fresh: NDArray[np.bool_], observations: Observations) -> None:
        """Begin episodes in these of the n environments, at these of their n observations."""
        if fresh.any():
            self._memory[fresh] = self.constraint.start(take(observations, fresh))
            self.thresholds = self.thresholds.copy()
            self.thresholds[fresh] = self.constraint.threshold(self._memory[fresh])

    def charge(self, costs: Array, upper_bounds: Array) -> None:
        """Spend what a step cost, (n,) or (n, K), scaled, of which `upper_bounds` was certified."""
        self._memory = self.constraint.update(self._memory, costs, upper_bounds)
        self.thresholds = self.constraint.threshold(self._memory)

    @property
    def certifiable(self) -> Array:
        """The thresholds that a shield is asked about: less what is kept for braking."""
        return self.thresholds - self.braking
