"""Ridge regression that also returns ‖φ‖_{Λ⁻¹}, with rank-one updates."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array

FEW = 16
"""Largest number of rows that are absorbed one by one."""

DRIFT = 1000
"""Number of rank-one updates after which the inverse is recomputed, before rounding errors accumulate."""


class Head:
    """The statistics Λ = λI + Σφφᵀ, Σφy and Σy² of D features, and Λ⁻¹."""

    def __init__(self, num_features: int, regulariser: float) -> None:
        self.regulariser = regulariser
        self.gram: Array = regulariser * np.eye(num_features)
        self.moment: Array = np.zeros(num_features)
        self.inverse: Array = np.eye(num_features) / regulariser
        self.weights: Array = np.zeros(num_features)
        self.log_det = num_features * math.log(regulariser)
        self.squares = 0.0
        self.count = 0
        self._updates = 0

    def absorb(self, phi: Array, values: Array) -> None:
        """Add features (n, D) and their values (n,)."""
        self.gram += phi.T @ phi
        self.moment += phi.T @ values
        self.squares += float(values @ values)
        self.count += len(values)
        if len(phi) > FEW or self._updates + len(phi) > DRIFT:
            self._solve()
            return
        for row in phi:
            known = self.inverse @ row
            gain = 1.0 + float(row @ known)
            self.inverse -= np.outer(known, known) / gain
            self.log_det += math.log(gain)
        self._updates += len(phi)
        self.weights = self.inverse @ self.moment

    def predict(self, phi: Array) -> tuple[Array, Array]:
        """⟨θ̂, φ⟩ and ‖φ‖_{Λ⁻¹}, (n,), of features (n, D)."""
        squares = np.einsum("nd,nd->n", phi @ self.inverse, phi)
        return phi @ self.weights, np.sqrt(np.maximum(squares, 0.0))

    @property
    def residual(self) -> float:
        """Root mean square residual of the features, per remaining degree of freedom."""
        explained = 2 * self.weights @ self.moment - self.weights @ self.gram @ self.weights
        explained += self.regulariser * self.weights @ self.weights
        used = len(self.gram) - self.regulariser * float(np.trace(self.inverse))
        return math.sqrt(max(self.squares - float(explained), 0.0) / max(self.count - used, 1.0))

    def scale(self, norm_bound: float, noise: float, delta: float) -> float:
        """The factor of ‖φ‖_{Λ⁻¹} in the self-normalised bound."""
        information = self.log_det - len(self.gram) * math.log(self.regulariser)
        spread = math.sqrt(max(information, 0.0) + 2 * math.log(1 / delta))
        return math.sqrt(self.regulariser) * norm_bound + noise * spread

    def state(self) -> dict[str, NDArray[Any]]:
        """The statistics as named arrays."""
        solved = {"inverse": self.inverse, "log_det": np.array([self.log_det, float(self._updates)])}
        sums = np.array([self.squares, float(self.count)])
        return {"gram": self.gram, "moment": self.moment, "sums": sums, **solved}

    @classmethod
    def of(cls, state: dict[str, NDArray[Any]], regulariser: float) -> Self:
        """Build from the arrays of `state`."""
        head = cls(len(state["moment"]), regulariser)
        head.gram, head.moment, head.inverse = (np.array(state[name]) for name in ("gram", "moment", "inverse"))
        head.log_det, head._updates = float(state["log_det"][0]), int(state["log_det"][1])
        head.squares, head.count = float(state["sums"][0]), int(state["sums"][1])
        head.weights = head.inverse @ head.moment
        return head

    def _solve(self) -> None:
        factor = np.linalg.cholesky(self.gram)  # at least λI, so it needs no jitter
        root = np.linalg.inv(factor)
        self.inverse = root.T @ root
        self.log_det = 2 * float(np.log(np.diagonal(factor)).sum())
        self.weights = self.inverse @ self.moment
        self._updates = 0
