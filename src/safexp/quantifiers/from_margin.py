"""The cost is a known function of the margin, which is what another quantifier learns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions
from safexp.quantifiers.targets import target_of


class FromMargin(Quantifier):
    """For costs 1 / (1 + exp(margin / softness)): models the margin and bounds the cost by the least margin.

    A soft cost is flat far from the limit and steep near it, so that a model learned far away is sure of what it has
    not seen. Its margin is a distance, which changes evenly. The inner quantifier learns ½ − margin / (2·reach), which
    is `Margin`'s cost; an interval of that is one of the margin, and ends of that are ends of the cost.

    Args:
        quantifier: predicts ½ − margin / (2·reach).
        softness: of the cost, in the margin's units.
        reach: the largest margin that is told from larger ones.
    """

    def __init__(self, quantifier: Quantifier, softness: float, *, reach: float = 2.0) -> None:
        if not (0 < softness < np.inf and 0 < reach < np.inf):
            raise ValueError(f"FromMargin(softness={softness}, reach={reach}) must both be finite and above 0.")
        self.quantifier = quantifier
        self.softness = softness
        self.reach = reach
        self.delta = quantifier.delta
        self.bounds_realised_cost = quantifier.bounds_realised_cost

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        mean, width = (np.asarray(part) for part in self.quantifier.predict(states, actions))
        usable = np.isfinite(mean) & (width >= 0)
        # An end at 1 or 0 stands for all margins beyond the reach.
        high = np.where(mean + width >= 1, 1.0, self._cost_of(mean + width))
        low = np.where(mean - width <= 0, 0.0, self._cost_of(mean - width))
        return np.where(usable, (high + low) / 2, np.nan), np.where(usable, (high - low) / 2, np.nan)

    def update(self, data: Transitions) -> None:
        self.quantifier.update(self._of_margins(data))

    def fit(self, data: Transitions) -> None:
        self.quantifier.fit(self._of_margins(data))

    def state(self) -> dict[str, NDArray[Any]]:
        return self.quantifier.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.quantifier.restore(state)

    def _of_margins(self, data: Transitions) -> Transitions:
        margins = target_of("FromMargin", "margin", data)
        return data._replace(costs=np.clip(0.5 - margins / (2 * self.reach), 0.0, 1.0))

    def _cost_of(self, even: Array) -> Array:
        """The cost at ½ − margin / (2·reach)."""
        margins = self.reach * (1.0 - 2.0 * even)
        return 0.5 - 0.5 * np.tanh(margins / (2 * self.softness))
