"""Regression on the hidden layer of a small network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from safexp.core.arrays import Array
from safexp.core.extras import MissingExtraError, needed_for
from safexp.quantifiers.linear_model import LinearModel

HIDDEN = 48
"""Number of units of each of the two layers."""

STEPS, BATCH, LEARNING_RATE = 3000, 256, 0.01
"""Gradient steps of the training, the rows of each, and their size at first, from which it falls to zero."""

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
        self._layers = _trained(standard, values, np.ones(len(values)) if weights is None else weights)
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


def _trained(standard: Array, values: Array, factors: Array) -> list[Array]:
    """Weights and biases of two tanh layers of standardised inputs (n, d) that follow the values (n, v).

    Only what a linear function leaves of the values is learned: the inputs themselves are features, too. Residuals
    count in proportion to their factors (n,).
    """
    import torch as th

    inputs = np.concatenate([np.ones((len(standard), 1)), standard], axis=1)
    curved = values - inputs @ np.linalg.lstsq(factors[:, None] * inputs, factors[:, None] * values, rcond=None)[0]
    x, y, weights = (
        th.from_numpy(np.ascontiguousarray(part)).float()
        for part in (
            standard,
            curved / max(float(np.sqrt((curved**2).mean())), np.finfo(np.float32).tiny),
            (factors / np.sqrt((factors**2).mean()))[:, None],
        )
    )
    rng = np.random.default_rng(0)
    parts: list[th.Tensor] = []
    for entries, units in ((x.shape[1], HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, y.shape[1])):
        bound = 1.0 / np.sqrt(entries)
        parts += [
            th.from_numpy(rng.uniform(-bound, bound, shape)).float().requires_grad_()
            for shape in ((entries, units), (units,))
        ]
    optimizer = th.optim.Adam(parts, lr=LEARNING_RATE)
    schedule = th.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        rows = th.from_numpy(rng.integers(len(x), size=BATCH))
        hidden = th.tanh(th.tanh(x[rows] @ parts[0] + parts[1]) @ parts[2] + parts[3])
        loss = ((weights[rows] * (hidden @ parts[4] + parts[5] - y[rows])) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return [part.detach().double().numpy() for part in parts[:4]]
