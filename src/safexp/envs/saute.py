"""Sauté RL: the remaining budget becomes a part of the state, and no reward is paid once it is spent."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from safexp.constraints import Budget
from safexp.core.arrays import Array, Flags, Observations
from safexp.envs.observations import shown_with, space_with
from safexp.envs.recording import Outcome, Recording, Taken

REMAINING = "remaining"
"""Key of z in a Dict observation."""


class Saute(Recording):
    """Environments of Sauté RL: the observation includes the remaining share z of the budget, and reward ends with it.

    z₀ = 1 and z' = (z − cost / d) / γ_g. With the constraint's own discount, d is its limit. A γ_g < 1 for an
    undiscounted budget over T steps rescales it, d = limit · (1 − γ_gᵀ) / ((1 − γ_g) T): the discounted cost of an
    episode that spends the limit evenly.

    A baseline that discourages violations; `MASE` prevents them.

    Args:
        venv: the environments.
        constraint: the budget; it alone defines violations.
        discount: γ_g; by default the constraint's.
        horizon: T, the length of an episode; required if the discount is not the constraint's.
        unsafe_reward: replaces the reward once the budget is spent.

    Example:
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> augmented = safexp.Saute(envs, safexp.Budget(3.0))
        >>> augmented.reset()[:, -1]
        array([1., 1.])
    """

    def __init__(
        self,
        venv: VecEnv,
        constraint: Budget,
        *,
        discount: float | None = None,
        horizon: int | None = None,
        unsafe_reward: float = -1.0,
    ) -> None:
        if not isinstance(constraint, Budget) or constraint.limit <= 0:
            raise ValueError(f"Saute({constraint!r}) divides by a budget: give a Budget whose limit is above 0.")
        self.discount = constraint.discount if discount is None else discount
        self.budget = constraint.limit
        if self.discount != constraint.discount:
            if constraint.discount != 1.0 or not 0 < self.discount < 1 or horizon is None or horizon < 1:
                raise ValueError(
                    f"Saute(discount={discount}, horizon={horizon}) needs an undiscounted Budget, a discount in (0, 1) "
                    "and horizon=<steps of an episode>, to rescale the budget; or leave the discount out."
                )
            self.budget *= (1 - self.discount**horizon) / ((1 - self.discount) * horizon)
        added = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        super().__init__(venv, constraint, space_with(venv.observation_space, REMAINING, added))
        self.unsafe_reward = unsafe_reward
        self._remaining = np.ones(venv.num_envs)

    def begin(self, fresh: Flags) -> None:
        self._remaining[fresh] = 1.0

    def judge(self, taken: Taken) -> Outcome:
        self._remaining = (self._remaining - taken.received.signals / self.budget) / self.discount
        return Outcome(np.where(self._remaining <= 0, self.unsafe_reward, taken.received.rewards), self._nowhere)

    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        return shown_with(observations, REMAINING, self._remaining[rows], self.observation_space)
