"""TRPO: the best step within a trust region; it ignores costs."""

from __future__ import annotations

from torch import Tensor

from safexp.learners.on_policy import TrustRegionAlgorithm, standardised
from safexp.learners.surrogate import Surrogate


class TRPO(TrustRegionAlgorithm):
    """Trust-region policy optimisation: x = √(2δ / gᵀF⁻¹g) F⁻¹g, then a backtracking line search.

    See `TrustRegionAlgorithm` for its arguments; their names and meanings are sb3-contrib's.

    Made for many parallel environments. If a run learns nothing, check `n_steps` × environments: a rollout should hold
    several episodes.

    Example:
        >>> envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
        >>> budget, options = safexp.Budget(3.0), {"n_steps": 64}
        >>> agent = safexp.MASE(envs, budget, safexp.Unknown(), safexp.TRPO, learner_options=options, seed=0)
        >>> agent.learn(128).violations
        0
    """

    def improve(self, surrogate: Surrogate, reward: Tensor, cost: Tensor) -> None:
        self.ascend(surrogate, standardised(reward))
