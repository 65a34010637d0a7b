"""Quantifier that knows only that costs are at most 1."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions


class Unknown(Quantifier):
    """Infinite width: an action is safe only where the threshold is at least 1, the largest cost.

    With a budget this stops an episode when less than one largest cost remains, which is safe with probability 1 and
    needs no model: the baseline for quantifiers that learn.
    """

    delta = 0.0
    bounds_realised_cost = True

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        shape = actions.shape[:2]
        return np.zeros(shape), np.full(shape, np.inf)

    def update(self, data: Transitions) -> None:
        """Nothing to learn."""
