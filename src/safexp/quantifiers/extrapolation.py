"""Widths away from the data: they grow with the distance from it, at a rate that the data itself shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.trend import SINGULAR

CAPACITY = 512
"""Largest number of landmarks, so that distances are a small matrix product."""

CHUNK = 4096
"""Number of points processed at a time; bounds the memory of an update."""

ROUNDING = 1e-6
"""Distance, as a share of a point's size, within which points are the same."""


class Landmarks:
    """Points that cover the data: all of it is within `radius` of the nearest one.

    A new point beyond the radius becomes a landmark. When there are too many, the half that is furthest apart is kept,
    and the radius grows by the largest distance from these to the others.
    """

    def __init__(self, points: Array, radius: float = 0.0) -> None:
        self._replace(points, radius)

    def add(self, points: Array) -> None:
        """Cover further points (n, d)."""
        for start in range(0, len(points), CHUNK):
            self._cover(points[start : start + CHUNK])

    def distance(self, points: Array) -> Array:
        """Distance (n,) of points (n, d + 1), each followed by a one, from the nearest landmark."""
        squares = (points @ self._products).min(axis=1) + np.einsum("nd,nd->n", points, points) - 1.0
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def distance_of_pairs(self, states: Array, actions: Array) -> Array:
        """Distance (n, m) of actions (n, m, da) in states (n, ds), whose share of the products is computed once."""
        n, m, size = len(states), actions.shape[1], states.shape[1]
        products = (actions.reshape(n * m, -1) @ self._products[size:-1]).reshape(n, m, -1)
        products += (states @ self._products[:size] + self._products[-1])[:, None]
        norms = np.einsum("nd,nd->n", states, states)[:, None] + np.einsum("nmd,nmd->nm", actions, actions)
        return np.asarray(np.sqrt(np.maximum(products.min(axis=2) + norms, 0.0)))

    def nearest(self, points: Array) -> Array:
        """Distance (n,) of points (n, d) from the nearest landmark."""
        return self.distance(np.column_stack([points, np.ones(len(points))]))

    def _cover(self, points: Array) -> None:
        rounding = ROUNDING * (1.0 + float(np.abs(points).max(initial=0.0)))
        near = self.nearest(points)
        while near[far := int(near.argmax())] > self.radius + rounding:
            if len(self.points) < CAPACITY:
                self._replace(np.append(self.points, points[far : far + 1], axis=0), self.radius)
                near = np.minimum(near, np.linalg.norm(points - points[far], axis=1))
            else:
                kept, left = spread_out(self.points, CAPACITY // 2)
                self._replace(kept, self.radius + left)
                near = self.nearest(points)

    def _replace(self, points: Array, radius: float) -> None:
        self.points, self.radius = points, radius
        norms = np.einsum("kd,kd->k", points, points)
        self._products = np.concatenate([-2.0 * points.T, norms[None]])  # |x − c|² = |x|² + (x, 1) · column


class Extrapolation:
    """Width of S values away from the data: slope · (distance from the data), as far as that was tested.

    A model of a smooth system is nearly exact where it has data, and wrong elsewhere: outside the range of an input,
    and at combinations of inputs that never occurred. No noise shows that. The rate is therefore measured by holding
    data out: a linear function of the half of the data in the middle is extrapolated to the outer half, and likewise
    from the half further from the limits to the half nearer to them. The slope is the largest error in excess of those
    within the half that was learned, per distance from it; for a linear system it is 0. Beyond the longest of these
    distances the width is infinite.

    Inputs are those of a `Trend`, standardised. Distances are Euclidean, from the nearest landmark less
    `Landmarks.radius`.

    Args:
        slopes: growth of the widths per standard deviation, (S,).
        tested: longest distance that was tested.
        landmarks: points that cover the data, in standardised inputs.
    """

    def __init__(self, slopes: Array, tested: float, landmarks: Landmarks) -> None:
        self.slopes, self.tested = slopes, tested
        self.landmarks = landmarks

    @classmethod
    def measured(cls, inputs: Array, values: Array, boldness: Array) -> Extrapolation:
        """Measure the growth of errors of values (n, S) at standardised inputs (n, d).

        `boldness` (n,) orders the data by the nearness to the limits.
        """
        orders = np.linalg.norm(inputs, axis=1), boldness
        found = [errors_beyond(inputs, values, np.argsort(order, kind="stable")) for order in orders]
        slopes, tested = np.max([one[0] for one in found], axis=0), max(one[1] for one in found)
        extrapolation = cls(slopes, tested, Landmarks(inputs[:1]))
        extrapolation.add(inputs)
        return extrapolation

    def add(self, inputs: Array) -> None:
        """Add further standardised inputs (n, d): widths are small around them, too."""
        self.landmarks.add(inputs)

    def widths(self, standard: Array) -> Array:
        """Widths (..., S) at standardised inputs (..., d + 1), each followed by a one."""
        near = self.landmarks.distance(standard.reshape(-1, standard.shape[-1])).reshape(standard.shape[:-1])
        beyond = np.maximum(near - self.landmarks.radius, 0.0)[..., None]
        return np.where(beyond > self.tested, np.inf, beyond * self.slopes)

    def state(self) -> dict[str, Array]:
        """The parameters as named arrays."""
        return {
            "landmarks": self.landmarks.points,
            "slopes": self.slopes,
            "distances": np.array([self.tested, self.landmarks.radius]),
        }

    @classmethod
    def of(cls, state: dict[str, NDArray[Any]]) -> Extrapolation:
        """Build from the arrays of `state`."""
        tested, radius = state["distances"].tolist()
        return cls(np.array(state["slopes"]), tested, Landmarks(np.array(state["landmarks"]), radius))


def errors_beyond(inputs: Array, values: Array, order: NDArray[np.int64]) -> tuple[Array, float]:
    """Growth (S,) per distance of the errors of a linear function of the first half, and the longest distance."""
    half = (len(order) + 1) // 2
    inner, outer = order[:half], order[half:]
    if not len(outer):
        return np.zeros(values.shape[1]), 0.0
    design = np.column_stack([inputs, np.ones(len(inputs))])
    gram = design[inner].T @ design[inner]
    weights = np.linalg.pinv(gram, rcond=SINGULAR, hermitian=True) @ (design[inner].T @ values[inner])
    errors = np.abs(values - design @ weights)
    landmarks = Landmarks(inputs[inner[:1]])
    landmarks.add(inputs[inner])
    distance = landmarks.nearest(inputs[outer])
    excess = np.maximum(errors[outer] - errors[inner].max(axis=0), 0.0)
    within = max(landmarks.radius, ROUNDING)
    return (excess / np.maximum(distance, within)[:, None]).max(axis=0), float(distance.max())


def spread_out(points: Array, count: int) -> tuple[Array, float]:
    """`count` of the points (n, d), each the furthest from those before, and the largest distance of the others."""
    chosen = [0]
    near = np.linalg.norm(points - points[0], axis=1)
    while len(chosen) < count:
        chosen.append(int(near.argmax()))
        near = np.minimum(near, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return points[chosen], float(near.max())
