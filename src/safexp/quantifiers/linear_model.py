"""Least squares on features of the inputs, which learns from any number of rows at a constant cost per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.regression import standards

LEAST_NOISE = 1e-6
"""Lower limit of the residual, as a share of the size of the values."""

BEYOND = 1.0
"""Standard deviations beyond the data at which inputs are clipped, so that features do not diverge."""

SINGULAR = 1e-10
"""Share of the largest eigenvalue below which a combination of features varied only by rounding error."""


class LinearModel(ABC):
    """Least squares y = Wᵀφ(x) on features φ of the inputs, of which the first is constant.

    Inputs are standardised by the first data and clipped one standard deviation beyond all data. Only Φᵀ·Φ and Φᵀ·Y are
    accumulated, so that the cost of an update does not grow with the rows seen.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Array] = {}
        self._weights = self._root = np.zeros((0, 0))
        self.noise: Array = np.zeros(0)
        """Root-mean-square residual (v,)."""

    @abstractmethod
    def begin(self, standard: Array, values: Array, weights: Array | None) -> dict[str, Array]:
        """Prepare the features by the first standardised inputs (n, d) and values (n, v); returns arrays to save."""

    @abstractmethod
    def resume(self, size: int, saved: Mapping[str, Array]) -> None:
        """Prepare the features of `size` inputs from the saved arrays."""

    @abstractmethod
    def of_standard(self, standard: Array) -> Array:
        """Features (n, p) of standardised inputs (n, d)."""

    @property
    def weights(self) -> Array:
        """Weights W (p, v)."""
        return self._weights

    @property
    def root(self) -> Array:
        """Root (p, p) of the uncertainty of the weights."""
        return self._root

    @property
    def inputs(self) -> tuple[Array, Array, Array]:
        """Mean and standard deviation (d,) of the inputs, and the limits (2, d) of standardised ones."""
        return self._sums["shift"], self._sums["scale"], self._sums["extent"]

    @property
    def known(self) -> bool:
        """Whether the model has learned anything."""
        return bool(self._sums)

    def add(self, inputs: Array, values: Array, weights: Array | None = None) -> None:
        """Learn values (n, v) at inputs (n, d); residuals count in proportion to their weights (n,), 1 by default."""
        if not self.known:
            shift, scale = standards(inputs)
            standard = (inputs - shift) / scale
            saved = self.begin(standard, values, weights)
            size = self.of_standard(standard[:1]).shape[1]
            self._sums = {
                **saved,
                "shift": shift,
                "scale": scale,
                "gram": np.zeros((size, size)),
                "product": np.zeros((size, values.shape[1])),
                "squares": np.zeros(values.shape[1]),
                "count": np.zeros(1),
                "extent": np.zeros((2, len(shift))),
                "ridge": np.zeros(1),
            }
        standard = (inputs - self._sums["shift"]) / self._sums["scale"]
        reached = np.stack([standard.min(axis=0) - BEYOND, standard.max(axis=0) + BEYOND])
        low, high = self._sums["extent"]
        self._sums["extent"] = np.stack([np.minimum(low, reached[0]), np.maximum(high, reached[1])])
        features, sums = self.features(inputs), self._sums
        if weights is not None:
            features, values = features * weights[:, None], values * weights[:, None]
        sums["gram"] = sums["gram"] + features.T @ features
        sums["product"] = sums["product"] + features.T @ values
        sums["squares"] = sums["squares"] + (values**2).sum(axis=0)
        sums["count"] = sums["count"] + len(values)
        self._solve()

    def features(self, inputs: Array) -> Array:
        """Features (n, p) of inputs (n, d)."""
        limit = self._sums["extent"]
        standard = (inputs - self._sums["shift"]) / self._sums["scale"]
        return self.of_standard(np.minimum(np.maximum(standard, limit[0]), limit[1]))

    def shrink(self, ridge: float) -> None:
        """Penalise the weights: `ridge` is added to every eigenvalue of the features' correlations.

        Features of inputs that move together are nearly collinear, and without a penalty their weights are large and
        wrong wherever these inputs part.
        """
        self._sums["ridge"] = np.array([ridge])
        self._solve()

    def at(self, features: Array) -> Array:
        """Values (n, v) at these features (n, p)."""
        return features @ self._weights

    def leverage(self, features: Array) -> Array:
        """Uncertainty at these features (n,): standard deviation of the prediction, in units of the residual's."""
        return np.linalg.norm(features @ self._root, axis=-1)

    def state(self, prefix: str) -> dict[str, Array]:
        """Named arrays, to be saved."""
        return {f"{prefix}{name}": part.copy() for name, part in self._sums.items()}

    def restore(self, state: Mapping[str, NDArray[Any]], prefix: str) -> None:
        """Restore the output of `state`."""
        self._sums = {
            name.removeprefix(prefix): np.array(part) for name, part in state.items() if name.startswith(prefix)
        }
        if self.known:
            self.resume(len(self._sums["shift"]), self._sums)
            self._solve()

    def _solve(self) -> None:
        """Ridge regression; directions without variation keep a deviation of the size of the values."""
        sums, count = self._sums, self._sums["count"][0]
        eigenvalues, axes = np.linalg.eigh(sums["gram"])
        varied = eigenvalues > SINGULAR * eigenvalues[-1]
        eigenvalues = np.where(varied, eigenvalues, 0.0)
        inverse = np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=varied)
        along = axes.T @ sums["product"]
        left = sums["squares"] - (inverse[:, None] * along**2).sum(axis=0)
        size = np.maximum(sums["squares"] / count, np.finfo(np.float64).tiny)
        freedom = max(count - np.count_nonzero(varied), 1.0)
        noise = np.maximum(left / freedom, LEAST_NOISE**2 * size)
        ridge = max(float((noise / size).min()), LEAST_NOISE**2)
        self._weights = axes @ (along / (eigenvalues + ridge)[:, None])
        if (shrinkage := float(sums["ridge"][0])) > 0:
            self._weights = _ridge_weights(sums["gram"], sums["product"], shrinkage)
        self._root = axes / np.sqrt(eigenvalues + ridge)
        self.noise = np.sqrt(noise)


def _ridge_weights(gram: Array, product: Array, ridge: float) -> Array:
    """Weights (p, v) of a ridge regression on features of unit length; 0 for features that are always 0."""
    length = np.sqrt(np.diag(gram))
    weight = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    correlation = weight[:, None] * gram * weight + ridge * np.eye(len(gram))
    return weight[:, None] * np.linalg.solve(correlation, weight[:, None] * product)
