"""Quantifier that knows only that costs are at most 1."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions


class Unknown(Quantifier):
    """Quantifier that knows nothing: an action is safe only where the threshold is at least 1, the largest cost.

    With a budget this stops an episode when less than one largest cost remains, which is safe with probability 1 and
    needs no model: the baseline for quantifiers that learn.

    Under a limit below the largest cost it certifies nothing: use a quantifier that learns, or `Known`.

    Example:
        >>> mean, width = safexp.Unknown().predict(np.zeros((1, 2)), np.zeros((1, 3, 1)))
        >>> print(width)
        [[inf inf inf]]
    """

    delta = 0.0
    bounds_realised_cost = True

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        shape = actions.shape[:2]
        return np.zeros(shape), np.full(shape, np.inf)

    def update(self, data: Transitions) -> None:
        """Nothing to learn."""
