"""Bayesian linear regression on states and actions, for extrapolation with an uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.regression import standards

SINGULAR = 1e-10
"""Share of the largest eigenvalue below which a combination of inputs only varied by rounding."""

LEAST_NOISE = 1e-9
"""Smallest residual that is trusted, as a share of the values' size."""


@dataclass(frozen=True)
class Trend:
    """Linear function of standardised inputs, with the uncertainty of its coefficients.

    With X the standardised inputs and a column of ones, σ² the mean squared residual and τ² the mean square of y, the
    coefficients are N(θ, Λ⁻¹) for Λ = XᵀX/σ² + I/τ² and θ = Λ⁻¹Xᵀy/σ²: the value at x is xᵀθ with the standard
    deviation √(xᵀΛ⁻¹x). Directions in which the inputs did not vary, including combinations such as an action that is a
    function of the state, keep the prior's standard deviation: τ for each standard deviation of an input.

    Attributes:
        shift: mean of the inputs, (d,).
        scale: standard deviation of the inputs, (d,).
        weights: θ of S values, (d + 1, S), the intercept last.
        roots: factors R (S, d + 1, d + 1) with R·Rᵀ = Λ⁻¹.
    """

    shift: Array
    scale: Array
    weights: Array
    roots: Array

    @classmethod
    def fit(cls, inputs: Array, values: Array) -> Trend:
        """Fit the trend of `values` (n, S) at `inputs` (n, d)."""
        shift, scale = standards(inputs)
        design = np.column_stack([(inputs - shift) / scale, np.ones(len(inputs))])
        eigenvalues, axes = np.linalg.eigh(design.T @ design)
        eigenvalues = np.where(eigenvalues > SINGULAR * eigenvalues[-1], eigenvalues, 0.0)
        product = axes.T @ (design.T @ values)
        inverse = np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=eigenvalues > 0)
        left = values - design @ (axes @ (inverse[:, None] * product))
        size = np.maximum((values**2).mean(axis=0), np.finfo(np.float64).tiny)
        freedom = max(len(inputs) - int((eigenvalues > 0).sum()), 1)
        noise = np.maximum((left**2).sum(axis=0) / freedom, LEAST_NOISE**2 * size)
        precision = eigenvalues / noise[:, None] + 1.0 / size[:, None]  # (S, d + 1)
        weights = axes @ (product / noise / precision.T)
        return cls(shift, scale, weights, axes / np.sqrt(precision)[:, None])

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Means and standard deviations (n, m, S) at actions (n, m, da) in states (n, ds)."""
        return self.at(self.standard(states, actions))

    def standard(self, states: Array, actions: Array) -> Array:
        """Standardised inputs (n, m, d + 1) of actions (n, m, da) in states (n, ds), followed by a one."""
        size = states.shape[1]
        pairs = np.empty((*actions.shape[:2], len(self.shift) + 1))
        pairs[..., :size] = ((states - self.shift[:size]) / self.scale[:size])[:, None]
        pairs[..., size:-1] = (actions - self.shift[size:]) / self.scale[size:]
        pairs[..., -1] = 1.0
        return pairs

    def at(self, standard: Array) -> tuple[Array, Array]:
        """Means and standard deviations (..., S) at standardised inputs (..., d + 1)."""
        means = standard @ self.weights
        deviations = np.empty_like(means)
        for k, root in enumerate(self.roots):
            spread = standard @ root
            deviations[..., k] = np.sqrt(np.einsum("...d,...d->...", spread, spread))
        return means, deviations

    def state(self) -> dict[str, Array]:
        """The parameters as named arrays."""
        return {f"trend.{name}": getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def of(cls, state: dict[str, NDArray[np.float64]]) -> Trend:
        """Build from the arrays of `state`."""
        return cls(**{name: np.array(state[f"trend.{name}"]) for name in cls.__dataclass_fields__})
