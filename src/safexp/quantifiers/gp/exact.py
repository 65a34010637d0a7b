"""Exact Gaussian process with the corrected width of Theorem 6.1 (erratum 6)."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of
from safexp.quantifiers.data_set import check_transitions
from safexp.quantifiers.gp.kernels import Kernel, covariance

CHUNK = 4096
"""Number of new points processed at a time; bounds the memory of an update."""


class ExactGP(Quantifier):
    """Kernel regression of the cost on (state, action), with a bound that holds over the whole run.

    If g − `prior_mean` has RKHS norm at most B = `norm_bound` under the kernel, and observed costs are g plus
    R-sub-Gaussian noise (R = `noise`), then with probability 1 − δ, for all points and all times at once,

        |g(z) − μ_n(z)| ≤ (B + (R/√λ)·√(ln det(I + K_n/λ) + 2 ln(1/δ)))·σ_n(z).

    Kernel and lengthscales are fixed: fitting them to the data would void the bound.

    Points are stored in the order they come if their posterior variance exceeds `novelty` times the prior's, until
    there are `capacity` of them; none is ever dropped. The rule depends on where a point is and never on its cost, so
    the stored points are still an adapted sequence and the bound still holds.

    If nothing is certified, B is too large or the lengthscales are too short; if violations occur, the opposite. If
    nothing is known about either, use `Calibrated(SparseGP())`.

    Args:
        lengthscale: one for all inputs, or one for each entry of the state and then of the action.
        norm_bound: B, the largest RKHS norm of the cost, from the user's knowledge.
        noise: R, the sub-Gaussian scale of the noise in observed costs; 0 for costs that are a function of (s, a).
        delta: probability that the bound ever fails.
        kernel: "rbf", "matern12", "matern32" or "matern52".
        regulariser: λ; noise² by default, and 1e-6 if that is 0.
        prior_mean: prediction far from all data.
        capacity: largest number of stored points.
        novelty: smallest posterior variance of a point to be stored, as a share of the prior's.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(0, 1, (200, 1)), rng.uniform(0, 1, (200, 1))
        >>> data = safexp.Transitions(states, actions, costs=states[:, 0] * actions[:, 0])
        >>> model = safexp.ExactGP(lengthscale=0.5, norm_bound=2.0)
        >>> model.fit(data)
        >>> mean, width = model.predict(np.array([[0.5]]), np.array([[[0.2], [3.0]]]))
        >>> print(mean.round(2), width.round(2))
        [[0.1 0. ]] [[0.02 2.  ]]
    """

    is_regression = True

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        norm_bound: float = 1.0,
        *,
        noise: float = 0.0,
        delta: float = 0.05,
        kernel: Kernel = "rbf",
        regulariser: float | None = None,
        prior_mean: float = 0.0,
        capacity: int = 1000,
        novelty: float = 1e-3,
    ) -> None:
        for name, value in [("norm_bound", norm_bound), ("capacity", capacity), ("regulariser", regulariser)]:
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"ExactGP({name}={value}) must be finite and above 0.")
        for name, value in [("noise", noise), ("novelty", novelty)]:
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"ExactGP({name}={value}) must be finite and at least 0.")
        if kernel not in get_args(Kernel):
            raise ValueError(f"ExactGP(kernel={kernel!r}) is not one of {', '.join(get_args(Kernel))}.")
        if not 0 < delta < 1:
            raise ValueError(f"ExactGP(delta={delta}) must lie in (0, 1).")
        self.lengthscale = np.atleast_1d(np.asarray(lengthscale, dtype=np.float64))
        if not np.all(self.lengthscale > 0):
            raise ValueError(f"ExactGP(lengthscale={self.lengthscale}) must be above 0.")
        self.norm_bound = norm_bound
        self.noise = noise
        self.delta = delta
        self.kernel = kernel
        self.regulariser = (noise**2 or 1e-6) if regulariser is None else regulariser
        self.prior_mean = prior_mean
        self.capacity = capacity
        self.novelty = novelty
        self.bounds_realised_cost = noise == 0
        self._size = 0
        self._log_det = 0.0
        self._points: Array = np.zeros((0, 0))
        self._costs: Array = np.zeros(0)
        self._inverse_factor: Array = np.zeros((0, 0))
        self._weights: Array = np.zeros(0)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        n, m, _ = actions.shape
        points = self._scale(np.repeat(states, m, axis=0), actions.reshape(n * m, -1))
        if self.size == 0:
            return np.full((n, m), self.prior_mean), np.full((n, m), self.beta)
        cross = covariance(self.kernel, self._points[: self.size], points)
        whitened = self._inverse_factor[: self.size, : self.size] @ cross
        variance = np.maximum(1.0 - np.einsum("ij,ij->j", whitened, whitened), 0.0)
        mean = self.prior_mean + self._weights @ cross
        return mean.reshape(n, m), (self.beta * np.sqrt(variance)).reshape(n, m)

    @property
    def size(self) -> int:
        """Number of stored points."""
        return self._size

    @property
    def beta(self) -> float:
        """The factor of σ_n in the width."""
        information = self._log_det - self.size * math.log(self.regulariser)
        spread = math.sqrt(max(information, 0.0) + 2 * math.log(1 / self.delta))
        return self.norm_bound + self.noise / math.sqrt(self.regulariser) * spread

    @property
    def knows(self) -> bool:
        return self.size > 0

    def as_regression(self, delta: float) -> Quantifier:
        return ExactGP(**(arguments_of(self) | {"prior_mean": 0.0, "delta": delta}))

    def update(self, data: Transitions) -> None:
        check_transitions(data)
        points = self._scale(data.states, data.actions)
        if self.size == 0:
            self._forget(points.shape[1])
        for start in range(0, len(points), CHUNK):
            self._keep_novel(points[start : start + CHUNK], data.costs[start : start + CHUNK])
        self._reweigh()

    def state(self) -> dict[str, NDArray[Any]]:
        n = self.size
        return {
            "points": self._points[:n].copy(),
            "costs": self._costs[:n].copy(),
            "inverse_factor": self._inverse_factor[:n, :n].copy(),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        n, dimension = state["points"].shape
        if n > self.capacity:
            raise ValueError(f"{n} saved points do not fit into ExactGP(capacity={self.capacity}).")
        self._forget(dimension)
        self._size = n
        self._points[:n] = state["points"]
        self._costs[:n] = state["costs"]
        self._inverse_factor[:n, :n] = state["inverse_factor"]
        self._reweigh()

    def _keep_novel(self, points: Array, costs: Array) -> None:
        """Store those of these points (n, d), in their order, whose posterior variance is still large."""
        # Column j of `whitened` has the coordinates of new point j in the factor's rows, so its posterior variance is
        # one minus the squared norm of its column, however many points have been stored in the meantime.
        whitened = np.zeros((self.capacity, len(points)))
        known = covariance(self.kernel, self._points[: self.size], points)
        whitened[: self.size] = self._inverse_factor[: self.size, : self.size] @ known
        variance = 1.0 - np.einsum("ij,ij->j", whitened[: self.size], whitened[: self.size])
        turn = 0
        while self.size < self.capacity:
            novel = np.flatnonzero(variance[turn:] > self.novelty)
            if novel.size == 0:
                return
            turn += int(novel[0])
            n, rest = self.size, slice(turn, None)
            diagonal = self._keep(points[turn], float(costs[turn]), whitened[:n, turn])
            ahead = covariance(self.kernel, points[turn : turn + 1], points[rest])[0]
            whitened[n, rest] = (ahead - whitened[:n, turn] @ whitened[:n, rest]) / diagonal
            variance[rest] -= whitened[n, rest] ** 2
            turn += 1

    def _keep(self, point: Array, cost: float, whitened: Array) -> float:
        """Append a row to the inverse of the Cholesky factor of K + λI; returns the factor's new diagonal entry."""
        n = self.size
        diagonal = math.sqrt(max(1.0 + self.regulariser - float(whitened @ whitened), self.regulariser))
        self._inverse_factor[n, :n] = -(whitened @ self._inverse_factor[:n, :n]) / diagonal
        self._inverse_factor[n, n] = 1.0 / diagonal
        self._points[n] = point
        self._costs[n] = cost
        self._size = n + 1
        return diagonal

    def _reweigh(self) -> None:
        """Compute the weights of the stored points, bit for bit the same whether they were learned or loaded."""
        factor = self._inverse_factor[: self.size, : self.size]
        self._log_det = -2 * float(np.log(np.diagonal(factor)).sum())
        self._weights = factor.T @ (factor @ (self._costs[: self.size] - self.prior_mean))

    def _forget(self, dimension: int) -> None:
        self._size = 0
        self._log_det = 0.0
        self._points = np.zeros((self.capacity, dimension))
        self._costs = np.zeros(self.capacity)
        self._inverse_factor = np.zeros((self.capacity, self.capacity))
        self._weights = np.zeros(0)

    def _scale(self, states: Array, actions: Array) -> Array:
        points = np.concatenate([states, actions], axis=1)
        if self.lengthscale.size not in (1, points.shape[1]):
            raise ValueError(
                f"ExactGP has {self.lengthscale.size} lengthscales, but states and actions have "
                f"{states.shape[1]} + {actions.shape[1]} entries."
            )
        if self.size and self._points.shape[1] != points.shape[1]:
            raise ValueError(f"ExactGP learned inputs of {self._points.shape[1]} entries, got {points.shape[1]}.")
        return points / self.lengthscale
