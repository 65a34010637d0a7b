"""Early-terminated MDP: an episode ends with the step that breaks the constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Flags, Observations
from safexp.envs.observations import threshold_shown, threshold_space
from safexp.envs.recording import Outcome, Recording, Taken


class EarlyTermination(Recording):
    """Environments that end an episode *after* a violation: `terminated` once a cost g_h exceeds its threshold b_h.

    `Guard` stops before a cost can be incurred; here it has been incurred, so every stop is a violation. The account of
    spent costs is reset at the end of every episode, whatever ended it.

    A baseline: `MASE` stops before the violation.

    Args:
        venv: the environments.
        constraint: turns costs into thresholds.
        show_threshold: append the threshold to the observation, as for MASE; the constraint's choice by default.
        penalty: subtracted from the reward of the step that breaks the constraint.

    Example:
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> ending = safexp.EarlyTermination(envs, safexp.Budget(3.0))
        >>> ending.reset().shape
        (2, 5)
    """

    def __init__(
        self, venv: VecEnv, constraint: Constraint, *, show_threshold: bool | None = None, penalty: float = 0.0
    ) -> None:
        if not (np.isfinite(penalty) and penalty >= 0):
            raise ValueError(f"EarlyTermination(penalty={penalty}) must be finite and at least 0; it is subtracted.")
        self.show_threshold = constraint.in_observation if show_threshold is None else show_threshold
        raw = venv.observation_space
        super().__init__(venv, constraint, threshold_space(constraint, raw) if self.show_threshold else raw)
        self.penalty = penalty

    def judge(self, taken: Taken) -> Outcome:
        excess = (taken.costs - taken.thresholds).reshape(self.num_envs, -1)  # one column per cost
        broken: Flags = excess.max(axis=1) > 0
        return Outcome(taken.received.rewards - self.penalty * broken, broken)

    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        if not self.show_threshold:
            return observations
        return threshold_shown(self.constraint, observations, thresholds, self.observation_space)
