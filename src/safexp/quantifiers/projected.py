"""Another quantifier on a few linear combinations of the state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions


class Projected(Quantifier):
    """Shows a quantifier `matrix` · state in place of the state, and the action as it is.

    For observations of many numbers of which few matter: a model of all of them learns from its first data that most do
    not, and is then sure of itself where it has never been. The cost must depend on the state through these
    combinations alone, or nearly so; what the others do is noise, which a width must cover.

    Args:
        quantifier: predicts the costs from projected states.
        matrix: the combinations (k, ds), each a row.
    """

    def __init__(self, quantifier: Quantifier, matrix: ArrayLike) -> None:
        self.quantifier = quantifier
        self.matrix = np.array(matrix, dtype=np.float64)
        self.delta = quantifier.delta
        self.bounds_realised_cost = quantifier.bounds_realised_cost
        if self.matrix.ndim != 2 or not np.isfinite(self.matrix).all():
            raise ValueError(f"Projected(matrix=...) has shape {self.matrix.shape}, expected finite numbers (k, ds).")

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.quantifier.predict(self._project(states), actions)

    def update(self, data: Transitions) -> None:
        self.quantifier.update(data._replace(states=self._project(data.states)))

    def fit(self, data: Transitions) -> None:
        self.quantifier.fit(data._replace(states=self._project(data.states)))

    def state(self) -> dict[str, NDArray[Any]]:
        return self.quantifier.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.quantifier.restore(state)

    def _project(self, states: Array) -> Array:
        if states.shape[1] != self.matrix.shape[1]:
            raise ValueError(
                f"Projected has a matrix for {self.matrix.shape[1]} entries of a state, got {states.shape[1]}."
            )
        return states @ self.matrix.T
