"""CPO: the best step within a trust region and, to first order, within the cost limit."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv
from torch import Tensor

from safexp.learners.on_policy import TrustRegionAlgorithm, centred, check_cost_limit, standardised
from safexp.learners.surrogate import PolicyChange, Surrogate
from safexp.learners.trust_region import StepCase, constrained_step


class CPO(TrustRegionAlgorithm):
    """Constrained policy optimisation: maximise gᵀx subject to c + bᵀx ≤ 0 and ½xᵀFx ≤ δ, then a line search.

    c is the mean undiscounted cost of the episodes that ended in the rollout less the limit, and b the gradient of the
    cost of an *episode*: the mean length times the gradient of a step's mean cost advantage. The limit is kept in
    expectation, by the policies that training converges to; single episodes exceed it.

    Use `MASE` where no episode may exceed the limit. If the cost stays above the limit, raise `n_steps`: its estimate
    comes from the episodes that end in a rollout, and there must be some.

    Args:
        policy: like the `shared` arguments, see `TrustRegionAlgorithm`.
        env: the environments, with a cost in `info["cost"]`.
        cost_limit: largest mean cost of an episode; 0 works.
        cost_gamma: discount of the cost in the cost critic and its advantages.

    Example:
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
        >>> learner = safexp.CPO("MlpPolicy", safexp.as_vec_env(envs), cost_limit=3.0, n_steps=64)
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
        cost_gamma: float = 0.99,
        **shared: Any,
    ) -> None:
        check_cost_limit(cost_limit)
        super().__init__(policy, env, **shared)
        self.cost_limit = cost_limit
        self.cost_gamma = cost_gamma

    def improve(self, surrogate: Surrogate, reward: Tensor, cost: Tensor) -> None:
        episode_cost, length = self.episode_cost()
        excess = episode_cost - self.cost_limit
        reward, cost = standardised(reward), length * centred(cost)

        gradient, cost_gradient = surrogate.gradient(reward), surrogate.gradient(cost)
        direction = surrogate.natural(gradient, self.cg_max_steps)
        cost_direction = surrogate.natural(cost_gradient, self.cg_max_steps)
        found = constrained_step(gradient, cost_gradient, excess, direction, cost_direction, self.target_kl)

        must_gain = excess <= 0 or found.case is StepCase.NO_GRADIENT

        def better(change: PolicyChange) -> bool:
            gains = float((change.ratios * reward).mean() - reward.mean()) > 0
            costs_more = float((change.ratios * cost).mean() - cost.mean())
            return (gains or not must_gain) and costs_more <= max(-excess, 0.0)

        self.search(surrogate, found.step, better)
        self.logger.record("train/cost_excess", excess)
        self.logger.record("train/recovery", float(found.case is StepCase.RECOVERY))
