"""Polynomial regression that learns from any number of rows at a constant cost per row."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.regression import standards

MOST_FEATURES = 400
"""Largest number of monomials of a model, so that a prediction is a small matrix product."""

ROWS_PER_FEATURE = 10
"""Smallest number of rows per monomial."""

LEAST_NOISE = 1e-6
"""Lower limit of the residual, as a share of the size of the values."""

BEYOND = 1.0
"""Standard deviations beyond the data at which inputs are clipped, so that polynomials do not diverge."""

SINGULAR = 1e-10
"""Share of the largest eigenvalue below which a combination of features varied only by rounding error."""


class Polynomial:
    """Least squares y = Wᵀφ(x) on all monomials φ of the inputs up to a degree.

    Inputs are standardised by the first data and clipped one standard deviation beyond all data, where polynomials
    diverge. Only Φᵀ·Φ and Φᵀ·Y are accumulated, so that the cost of an update does not grow with the rows seen.

    Args:
        degree: degree of the monomials.
    """

    def __init__(self, degree: int) -> None:
        self.degree = degree
        self._sums: dict[str, Array] = {}
        self._factors: list[NDArray[np.int64]] = []
        self._size = 0
        self._weights = self._root = np.zeros((0, 0))
        self.noise: Array = np.zeros(0)
        """Root-mean-square residual (v,)."""

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
    def factors(self) -> list[NDArray[np.int64]]:
        """For each degree from 2 on, every monomial as one of the degree below and an input, (2, number)."""
        return self._factors

    @property
    def known(self) -> bool:
        """Whether the model has learned anything."""
        return bool(self._sums)

    def add(self, inputs: Array, values: Array, weights: Array | None = None) -> None:
        """Learn values (n, v) at inputs (n, d); residuals count in proportion to their weights (n,), 1 by default."""
        if not self.known:
            shift, scale = standards(inputs)
            self._prepare(inputs.shape[1])
            size = self._size
            self._sums = {
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
        """Monomials (n, p) of the standardised inputs (n, d), the constant first."""
        limit = self._sums["extent"]
        standard = np.minimum(np.maximum((inputs - self._sums["shift"]) / self._sums["scale"], limit[0]), limit[1])
        features = np.empty((len(inputs), self._size))
        features[:, 0] = 1.0
        end = 1 + standard.shape[1]
        features[:, 1:end] = last = standard
        for shorter, factor in self._factors:
            start, end = end, end + len(factor)
            np.multiply(last[:, shorter], standard[:, factor], out=features[:, start:end])
            last = features[:, start:end]
        return features

    def shrink(self, ridge: float) -> None:
        """Penalise the weights: `ridge` is added to every eigenvalue of the features' correlations.

        Monomials of inputs that move together are nearly collinear, and without a penalty their weights are large and
        wrong wherever these inputs part.
        """
        self._sums["ridge"] = np.array([ridge])
        self._solve()

    def at(self, features: Array) -> Array:
        """Values (n, v) at these monomials (n, p)."""
        return features @ self._weights

    def leverage(self, features: Array) -> Array:
        """Uncertainty at these monomials (n,): standard deviation of the prediction, in units of the residual's."""
        return np.linalg.norm(features @ self._root, axis=-1)

    def slopes(self) -> tuple[Array, Array]:
        """A model of degree 1 as plain slopes (d, v) and a constant (v,), without clipping."""
        slopes = self._weights[1:] / self._sums["scale"][:, None]
        return slopes, self._weights[0] - self._sums["shift"] @ slopes

    def state(self, prefix: str) -> dict[str, Array]:
        """Named arrays, to be saved."""
        return {f"{prefix}{name}": part.copy() for name, part in self._sums.items()}

    def restore(self, state: Mapping[str, NDArray[Any]], prefix: str) -> None:
        """Restore the output of `state`."""
        self._sums = {
            name.removeprefix(prefix): np.array(part) for name, part in state.items() if name.startswith(prefix)
        }
        if self.known:
            self._prepare(len(self._sums["shift"]))
            self._solve()

    def _prepare(self, size: int) -> None:
        """Index each monomial as one of the degree below times an input."""
        self._factors = []
        shorter: list[tuple[int, ...]] = [(k,) for k in range(size)]
        for power in range(2, self.degree + 1):
            place = {monomial: k for k, monomial in enumerate(shorter)}
            shorter = list(combinations_with_replacement(range(size), power))
            self._factors.append(np.array([[place[m[:-1]], m[-1]] for m in shorter]).T)
        self._size = 1 + size + sum(factors.shape[1] for factors in self._factors)

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


def degrees(num_inputs: int, rows: int) -> list[int]:
    """Degrees of monomials that this many inputs and rows allow; 1 is always among them."""
    allowed, size = [1], 1 + num_inputs
    for degree in (2, 3):
        size = size * (num_inputs + degree) // degree
        if size <= MOST_FEATURES and rows >= ROWS_PER_FEATURE * size:
            allowed.append(degree)
    return allowed
