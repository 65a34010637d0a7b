"""TRPO on reward − λ·cost, with a multiplier λ that rises while the cost of episodes exceeds the limit."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv
from torch import Tensor

from safexp.learners.on_policy import TrustRegionAlgorithm, check_cost_limit, standardised
from safexp.learners.surrogate import Surrogate


class Multiplier:
    """Lagrange multiplier λ ≥ 0, driven by the excess of the mean episode cost over its limit.

    Projected gradient ascent on the dual, λ ← max(0, λ + η·excess), is the integral part; with a proportional and a
    derivative part it is a PID controller: λ = max(0, K_p·excess + I + K_d·max(0, rise of the cost)).
    """

    def __init__(self, integral: float, proportional: float = 0.0, derivative: float = 0.0) -> None:
        self.gains = (integral, proportional, derivative)
        self.value = self._sum = 0.0
        self._last_cost: float | None = None

    def update(self, episode_cost: float, limit: float) -> float:
        """Update the multiplier after episodes of this mean cost, and return it."""
        integral, proportional, derivative = self.gains
        excess = episode_cost - limit
        rise = 0.0 if self._last_cost is None else max(0.0, episode_cost - self._last_cost)
        self._sum = max(0.0, self._sum + integral * excess)
        self._last_cost = episode_cost
        self.value = max(0.0, proportional * excess + self._sum + derivative * rise)
        return self.value


class TRPOLagrangian(TrustRegionAlgorithm):
    """TRPO on the Lagrangian: advantages (A − λ A_cost) / (1 + λ), both standardised, so that λ has no units.

    The limit is kept in expectation and in the long run: λ lags behind the cost, so episodes exceed it throughout.

    If λ oscillates, lower `penalty_lr` or use `penalty_derivative`. Use `MASE` where no episode may exceed the limit.

    Args:
        policy: like the `shared` arguments, see `TrustRegionAlgorithm`.
        env: the environments, with a cost in `info["cost"]`.
        cost_limit: largest mean cost of an episode; 0 works.
        penalty_lr: η, the step of projected gradient ascent in λ: a controller's integral gain.
        penalty_proportional: K_p of a PID controller.
        penalty_derivative: K_d of a PID controller.
        cost_gamma: discount of the cost in the cost critic and its advantages.

    Example:
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
        >>> learner = safexp.TRPOLagrangian("MlpPolicy", safexp.as_vec_env(envs), cost_limit=3.0, n_steps=64)
        >>> learner.learn(128).num_timesteps
        128
    """

    costly: ClassVar[bool] = True

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str,
        *,
        cost_limit: float = 25.0,
        penalty_lr: float = 3e-2,
        penalty_proportional: float = 0.0,
        penalty_derivative: float = 0.0,
        cost_gamma: float = 0.99,
        **shared: Any,
    ) -> None:
        check_cost_limit(cost_limit)
        super().__init__(policy, env, **shared)
        self.cost_limit = cost_limit
        self.cost_gamma = cost_gamma
        self.multiplier = Multiplier(penalty_lr, penalty_proportional, penalty_derivative)

    def improve(self, surrogate: Surrogate, reward: Tensor, cost: Tensor) -> None:
        episode_cost, _ = self.episode_cost()
        penalty = self.multiplier.update(episode_cost, self.cost_limit)
        self.ascend(surrogate, (standardised(reward) - penalty * standardised(cost)) / (1 + penalty))
        self.logger.record("train/penalty", penalty)
