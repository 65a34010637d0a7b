"""One-step model of the whole state: least squares on monomials of states and actions."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.regression import standards

MOST_FEATURES = 400
"""Largest number of monomials of a model, so that one step is a small matrix product."""

ROWS_PER_FEATURE = 10
"""Smallest number of transitions per monomial."""

LEAST_NOISE = 1e-6
"""Lower limit of the one-step residual, as a share of the size of the changes."""

BEYOND = 1.0
"""Standard deviations beyond the data at which inputs are clipped, so that polynomials do not diverge."""

SINGULAR = 1e-10
"""Share of the largest eigenvalue below which a combination of features varied only by rounding error."""

PREFIX = "dynamics."
"""Prefix of the array names in `Dynamics.state`."""


class Dynamics:
    """Change of a state in one step, x' = x + Wᵀφ(x, a), where φ contains all monomials up to a degree.

    Inputs are standardised by the first data; for degree 2 or 3 they are clipped one standard deviation beyond the
    data, where polynomials diverge. `shrunk` penalises the weights as well: monomials of inputs that move together are
    nearly collinear, and their weights are large and wrong wherever these inputs part. Only Φᵀ·Φ and Φᵀ·Y are
    accumulated, so that the cost of an update does not grow with the number of transitions seen.

    Args:
        degree: degree of the monomials.
        inputs: entries of the state that the change depends on; all by default. Every entry is predicted.
    """

    def __init__(self, degree: int, inputs: tuple[int, ...] | None = None) -> None:
        self.degree = degree
        self.inputs = inputs
        self._sums: dict[str, Array] = {}
        self._factors: list[NDArray[np.int64]] = []
        self._size = 0
        self._weights = self._root = np.zeros((0, 0))
        self._linear: tuple[Array, Array, Array] | None = None
        self.noise: Array = np.zeros(0)
        """Root-mean-square residual (ds,) of one step."""

    @property
    def known(self) -> bool:
        """Whether the model has learned anything."""
        return bool(self._sums)

    def add(self, states: Array, actions: Array, following: Array) -> None:
        """Learn from transitions: states (n, ds), encoded actions (n, da), next states (n, ds)."""
        pairs, change = self._pairs(states, actions), following - states
        if not self.known:
            shift, scale = standards(pairs)
            self._prepare(pairs.shape[1])
            size = self._size
            self._sums = {
                "shift": shift,
                "scale": scale,
                "gram": np.zeros((size, size)),
                "product": np.zeros((size, change.shape[1])),
                "squares": np.zeros(change.shape[1]),
                "count": np.zeros(1),
                "extent": np.zeros((2, len(shift))),
                "ridge": np.zeros(1),
            }
        standard = (pairs - self._sums["shift"]) / self._sums["scale"]
        reached = np.stack([standard.min(axis=0) - BEYOND, standard.max(axis=0) + BEYOND])
        low, high = self._sums["extent"]
        self._sums["extent"] = np.stack([np.minimum(low, reached[0]), np.maximum(high, reached[1])])
        features, sums = self._features(pairs), self._sums
        sums["gram"] = sums["gram"] + features.T @ features
        sums["product"] = sums["product"] + features.T @ change
        sums["squares"] = sums["squares"] + (change**2).sum(axis=0)
        sums["count"] = sums["count"] + len(change)
        self._solve()

    def shrunk(self, ridge: float) -> Dynamics:
        """Copy whose weights are penalised: `ridge` is added to every eigenvalue of the features' correlations."""
        other = Dynamics(self.degree, self.inputs)
        other.restore(self.state() | {f"{PREFIX}ridge": np.array([ridge])})
        return other

    def step(self, states: Array, actions: Array) -> Array:
        """Next states (n, ds)."""
        if self._linear is not None:  # the same in three products, since no feature has to be clipped
            of_states, of_actions, constant = self._linear
            return states @ of_states + actions @ of_actions + constant
        return states + self._features(self._pairs(states, actions)) @ self._weights

    def leverage(self, states: Array, actions: Array) -> Array:
        """Uncertainty at these inputs (n,): standard deviation of the prediction, in units of the residual's."""
        return np.linalg.norm(self._features(self._pairs(states, actions)) @ self._root, axis=-1)

    def state(self) -> dict[str, Array]:
        """Named arrays, to be saved."""
        return {f"{PREFIX}{name}": part.copy() for name, part in self._sums.items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore the output of `state`."""
        self._sums = {
            name.removeprefix(PREFIX): np.array(part) for name, part in state.items() if name.startswith(PREFIX)
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

    def _pairs(self, states: Array, actions: Array) -> Array:
        return np.concatenate([states if self.inputs is None else states[:, list(self.inputs)], actions], axis=1)

    def _features(self, pairs: Array) -> Array:
        """Monomials (n, p) of the standardised inputs (n, d), the constant first."""
        limit = self._sums["extent"]
        standard = np.minimum(np.maximum((pairs - self._sums["shift"]) / self._sums["scale"], limit[0]), limit[1])
        features = np.empty((len(pairs), self._size))
        features[:, 0] = 1.0
        end = 1 + standard.shape[1]
        features[:, 1:end] = last = standard
        for shorter, factor in self._factors:
            start, end = end, end + len(factor)
            np.multiply(last[:, shorter], standard[:, factor], out=features[:, start:end])
            last = features[:, start:end]
        return features

    def _solve(self) -> None:
        """Ridge regression; directions without variation keep a deviation of the size of the changes."""
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
        self._linear = self._folded() if self.degree == 1 else None

    def _folded(self) -> tuple[Array, Array, Array]:
        """A linear model as matrices of plain states (ds, ds) and actions (da, ds), and a constant (ds,)."""
        shift, scale, size = self._sums["shift"], self._sums["scale"], self._weights.shape[1]
        slopes = self._weights[1:] / scale[:, None]
        inputs = list(range(size)) if self.inputs is None else list(self.inputs)
        of_states = np.eye(size)
        np.add.at(of_states, inputs, slopes[: len(inputs)])
        return of_states, slopes[len(inputs) :], self._weights[0] - shift @ slopes


def _ridge_weights(gram: Array, product: Array, ridge: float) -> Array:
    """Weights (p, ds) of a ridge regression on features of unit length; 0 for features that are always 0."""
    length = np.sqrt(np.diag(gram))
    weight = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    correlation = weight[:, None] * gram * weight + ridge * np.eye(len(gram))
    return weight[:, None] * np.linalg.solve(correlation, weight[:, None] * product)


def degrees(num_inputs: int, rows: int) -> list[int]:
    """Degrees of monomials that this many inputs and transitions allow; 1 is always among them."""
    allowed, size = [1], 1 + num_inputs
    for degree in (2, 3):
        size = size * (num_inputs + degree) // degree
        if size <= MOST_FEATURES and rows >= ROWS_PER_FEATURE * size:
            allowed.append(degree)
    return allowed
