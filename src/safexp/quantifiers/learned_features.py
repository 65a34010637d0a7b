"""Regression on the hidden layer of a small network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from safexp.core.arrays import Array
from safexp.core.extras import MissingExtraError, needed_for
from safexp.quantifiers.linear_model import LinearModel

HIDDEN = 48
"""Number of units of each of the two layers."""

STEPS, LEARNING_RATE = 1500, 0.01
"""Gradient steps of the training, and their size at first."""

ROWS = 500
"""Smallest number of rows to train on."""

LAYER = "layer"
"""Prefix of the names of the saved layers."""


class LearnedFeatures(LinearModel):
    """Least squares on the inputs and the second hidden layer of a small network of them.

    The layers are trained on the first data and then kept, so that later data change the weights of the features alone.
    They follow motors that saturate and other kinks of a machine, which a polynomial cannot.
    """

    def __init__(self) -> None:
        super().__init__()
        self._layers: list[Array] = []

    @staticmethod
    def trainable(rows: int) -> bool:
        """Whether there are enough rows, and the packages that training needs."""
        try:
            with needed_for("training a network"):
                import torch  # noqa: F401
        except MissingExtraError:
            return False
        return rows >= ROWS

    def begin(self, standard: Array, values: Array, weights: Array | None) -> dict[str, Array]:
        from safexp.quantifiers.feature_training import train

        size = float(np.sqrt((values**2).mean())) or 1.0
        self._layers = train(
            standard,
            values / size,
            (),
            num_features=HIDDEN,
            steps=STEPS,
            learning_rate=LEARNING_RATE,
            rng=np.random.default_rng(0),
            weights=None if weights is None else weights / np.sqrt((weights**2).mean()),
            decay=True,
        )
        return {f"{LAYER}{k}": part for k, part in enumerate(self._layers)}

    def resume(self, size: int, saved: Mapping[str, Array]) -> None:
        self._layers = [saved[f"{LAYER}{k}"] for k in range(4)]

    def of_standard(self, standard: Array) -> Array:
        first, first_bias, second, second_bias = self._layers
        features = np.empty((len(standard), 1 + standard.shape[1] + HIDDEN))
        features[:, 0] = 1.0
        features[:, 1:-HIDDEN] = standard
        hidden = np.tanh(standard @ first + first_bias)
        np.tanh(hidden @ second + second_bias, out=features[:, -HIDDEN:])
        return features
