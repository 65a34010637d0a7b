"""TRPO: the best step within a trust region; it ignores costs."""

from __future__ import annotations

from torch import Tensor

from safexp.learners.on_policy import TrustRegionAlgorithm, standardised
from safexp.learners.surrogate import Surrogate


class TRPO(TrustRegionAlgorithm):
    """Trust-region policy optimisation: x = √(2δ / gᵀF⁻¹g) F⁻¹g, then a backtracking line search.

    See `TrustRegionAlgorithm` for its arguments; their names and meanings are sb3-contrib's.
    """

    def improve(self, surrogate: Surrogate, reward: Tensor, cost: Tensor) -> None:
        self.ascend(surrogate, standardised(reward))
