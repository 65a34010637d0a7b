"""The generalised linear model g(s, a) = f(⟨φ(s, a), θ⟩) as an uncertainty quantifier (the paper's Section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of
from safexp.quantifiers.links import IDENTITY, Link

FeatureMap = Callable[[Array, Array], Array]
Width = Literal["tight", "paper"]


@final
class GLM(Quantifier):
    """Generalised linear model of costs f(⟨φ, θ*⟩), with ‖θ*‖ ≤ 1, known features ‖φ‖ ≤ 1, σ-sub-Gaussian noise.

    With Λ = λI + Σφφᵀ, κ̲ ≤ |f′| ≤ κ̄ and θ̂ the maximum quasi-likelihood estimate in the unit ball, the
    tight width is κ̄·(√λ + (σ/κ̲)·√(2 ln(1/δ) + ln det Λ/λᵈ))·‖φ‖_{Λ⁻¹}; it holds for all (s, a) and all
    times at once with probability 1 − δ (docs/explanation/glm-mase.md proves it in six lines). Without noise it always
    holds, and λ may be as small as arithmetic allows. `width="paper"` is C_g·‖φ‖_{Λ⁻¹} with C = 1 and λ = 1:
    it certifies next to nothing.

    `features` maps states (N, ds) and actions (N, da) to (N, d). The model stores at most `capacity` distinct
    features; later ones are omitted from both the fit and Λ, so the width stays valid.

    If `update` raises because a feature is longer than 1, scale the features. If nothing is certified, the model has
    too many features for its data. Use `ExactGP` if you know a kernel instead of features.

    Args:
        features: function φ of states (N, ds) and actions (N, da) that returns (N, d), of norm at most 1.
        dimension: d.
        link: f.
        width: "tight", or "paper".
        noise: σ, in units of the largest cost; 0 for costs that are a function of (s, a).
        regulariser: λ; by default 1 with noise, and 0.01 without.
        delta: probability that the width ever fails.
        capacity: largest number of stored features.
        optimism_cap: largest optimistic estimate in the paper's width.

    Example:
        >>> def features(states, actions):
        ...     return np.column_stack([states, actions]) / 2**0.5
        >>> states, actions = np.eye(2)[[0, 1, 0]], np.array([[0.0], [0.5], [1.0]])
        >>> model = safexp.GLM(features, dimension=3)
        >>> model.fit(safexp.Transitions(states, actions, costs=features(states, actions) @ [0.2, 0.5, 0.4]))
        >>> mean, width = model.predict(np.array([[1.0, 0.0]]), np.array([[[0.5]]]))
        >>> print(mean.round(3), width.round(3))
        [[0.281]] [[0.07]]
    """

    is_regression = True

    def __init__(
        self,
        features: FeatureMap,
        dimension: int,
        *,
        link: Link = IDENTITY,
        width: Width = "tight",
        noise: float = 0.0,
        regulariser: float | None = None,
        delta: float = 0.05,
        capacity: int = 20_000,
        optimism_cap: float = 1.0,
    ) -> None:
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta={delta} must be a probability strictly between 0 and 1")
        if noise < 0.0 or dimension < 1 or capacity < 1:
            raise ValueError(
                f"got noise {noise}, dimension {dimension}, capacity {capacity}; "
                "noise must be at least 0, the others at least 1"
            )
        if width == "paper" and regulariser not in (None, 1.0):
            raise ValueError(f"regulariser={regulariser}: the paper's width is defined for 1; leave it out")
        by_default = 1.0 if width == "paper" or noise > 0.0 else 0.01
        self.regulariser = by_default if regulariser is None else regulariser
        if self.regulariser <= 0.0:
            raise ValueError(f"regulariser={regulariser} must be positive")
        self.features, self.dimension, self.link, self.width = features, dimension, link, width
        self.noise, self.delta, self.capacity, self.optimism_cap = noise, delta, capacity, optimism_cap
        self.bounds_realised_cost = noise == 0.0
        self._index: dict[bytes, int]
        self._phi: Array
        self._counts: Array
        self._sums: Array
        self._forget()

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m) of the costs of `actions` (n, m, da) in `states` (n, ds)."""
        n, m, _ = actions.shape
        phi = self._features(np.repeat(states, m, axis=0), actions.reshape(n * m, -1))
        mean, width = self.bounds(phi)
        return mean.reshape(n, m), width.reshape(n, m)

    def bounds(self, phi: Array) -> tuple[Array, Array]:
        """Mean and width (N,) at features (N, d)."""
        norm = np.sqrt(np.einsum("nd,nd->n", phi @ self.inverse_gram, phi))
        return self.link.extended(phi @ self.theta)[0], self.scale * norm

    def update(self, data: Transitions) -> None:
        """Learn from further transitions."""
        if data.costs.ndim != 1:
            raise ValueError(f"costs have shape {data.costs.shape}, expected (n,): use one GLM for each cost")
        self.learn(self._features(data.states, data.actions), data.costs)

    def as_regression(self, delta: float) -> Quantifier:
        return GLM(**(arguments_of(self) | {"delta": delta}))

    def learn(self, phi: Array, costs: Array) -> None:
        """Learn costs (N,) at features (N, d); repeated features are stored once, with their count and sum."""
        for row, cost in zip(phi, costs, strict=True):
            index = self._index.setdefault(row.tobytes(), len(self._index))
            if index >= self.capacity:
                del self._index[row.tobytes()]
                continue
            if index == len(self._phi):
                self._phi = np.concatenate([self._phi, np.zeros_like(self._phi)])
                self._counts, self._sums = (np.concatenate([x, np.zeros_like(x)]) for x in (self._counts, self._sums))
            self._phi[index] = row
            self._counts[index] += 1.0
            self._sums[index] += cost
        self._estimate()

    def state(self) -> dict[str, NDArray[Any]]:
        """The distinct features, their counts and the sums of their costs."""
        used = len(self._index)
        return {"features": self._phi[:used], "counts": self._counts[:used], "sums": self._sums[:used]}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        self._forget()
        for name, own in (("features", "_phi"), ("counts", "_counts"), ("sums", "_sums")):
            setattr(self, own, np.concatenate([np.array(state[name]), getattr(self, own)]))
        self._index = {row.tobytes(): index for index, row in enumerate(np.array(state["features"]))}
        self._estimate()

    def _forget(self) -> None:
        self._index = {}
        self._phi = np.zeros((64, self.dimension))
        self._counts, self._sums = np.zeros(64), np.zeros(64)
        self.theta: Array = np.zeros(self.dimension)
        self._estimate()

    def _estimate(self) -> None:
        used = len(self._index)
        phi, counts, sums = self._phi[:used], self._counts[:used], self._sums[:used]
        self.gram: Array = (phi.T * counts) @ phi + self.regulariser * np.eye(self.dimension)
        self.inverse_gram: Array = np.asarray(np.linalg.inv(self.gram), dtype=np.float64)
        self.theta = quasi_likelihood(phi, counts, sums, self.link, self.regulariser, self.theta)
        self.scale: float = self._scale()

    def _scale(self) -> float:
        """The factor of ‖φ‖_{Λ⁻¹}: C_g of Lemma 5.4, or the tight one."""
        low, high, d = self.link.least_slope, self.link.largest_slope, self.dimension
        if self.width == "paper":
            return paper_scale(self.link, d, self.delta, self.optimism_cap)
        spread = np.linalg.slogdet(self.gram)[1] - d * np.log(self.regulariser) + 2.0 * np.log(1.0 / self.delta)
        return float(high * (np.sqrt(self.regulariser) + self.noise / low * np.sqrt(spread)))

    def _features(self, states: Array, actions: Array) -> Array:
        phi = np.ascontiguousarray(self.features(states, actions), dtype=np.float64)
        if phi.shape != (len(states), self.dimension):
            raise ValueError(
                f"features returned shape {phi.shape} for {len(states)} pairs, expected "
                f"({len(states)}, {self.dimension})"
            )
        largest = float(np.sqrt(np.einsum("nd,nd->n", phi, phi)).max(initial=0.0))
        if not largest <= 1.0 + 1e-9:
            raise ValueError(f"a feature has norm {largest:.4g}, but must have at most 1: scale the features down")
        return phi


def paper_scale(link: Link, dimension: int, delta: float, optimism_cap: float) -> float:
    """C_g of Lemma 5.4 with its universal constant set to 1; `optimism_cap` is α_max."""
    low, high = link.least_slope, link.largest_slope
    inside = 1.0 + link.curvature + high + dimension**2 * np.log((1.0 + high + optimism_cap) / delta)
    return float(high / low * np.sqrt(inside))


def quasi_likelihood(
    phi: Array, counts: Array, sums: Array, link: Link, regulariser: float, start: Array, radius: float = 1.0
) -> Array:
    """θ in the ball with Σ(f(⟨φ, θ⟩) − y)·φ·sign(f′) + κ̲λθ = 0, or nearest to it on the sphere.

    That is the minimum of a convex function over the ball. `counts` and `sums` (N,) are the number of
    observations of each feature (N, d) and the sum of its values. Outside the ball, a multiplier added to the
    regulariser reduces the norm to `radius`; the norm falls as it grows, so bisection finds it.
    """
    ridge = link.least_slope * regulariser
    theta = _newton(phi, counts, sums, link, ridge, start)
    if np.linalg.norm(theta) <= radius:
        return theta
    low, high = ridge, 2.0 * ridge
    while np.linalg.norm(_newton(phi, counts, sums, link, high, theta)) > radius:
        low, high = high, 4.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        theta = _newton(phi, counts, sums, link, middle, theta)
        low, high = (middle, high) if np.linalg.norm(theta) > radius else (low, middle)
    return theta * min(1.0, radius / float(np.linalg.norm(theta)))


def _newton(phi: Array, counts: Array, sums: Array, link: Link, ridge: float, theta: Array) -> Array:
    """Newton's method; where a full step overshoots, the step of the steepest quadratic majorant."""
    sign, identity = link.sign, np.eye(len(theta))
    before = np.inf
    for _ in range(100):
        value, slope = link.extended(phi @ theta)
        gradient = sign * phi.T @ (counts * value - sums) + ridge * theta
        size = float(np.abs(gradient).max())
        if size <= 1e-12 * (1.0 + float(np.abs(sums).sum())):
            break
        steep = np.full_like(slope, link.largest_slope) if size > before else np.abs(slope)
        theta = theta - np.linalg.solve((phi.T * (counts * steep)) @ phi + ridge * identity, gradient)
        before = size
    return theta
