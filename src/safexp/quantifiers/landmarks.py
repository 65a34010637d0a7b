"""Points that cover the data of a model, from which distances are measured."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import Array

CAPACITY = 512
"""Largest number of landmarks, so that distances are a small matrix product."""

MOST = 2**16
"""Number of evenly spaced points among which landmarks are chosen by default."""

CHUNK = 4096
"""Number of points whose distances are computed at a time; bounds the memory."""


class Landmarks:
    """A few points (k, d) that cover many: all of these are within `radius` of the nearest landmark."""

    def __init__(self, points: Array, radius: float = 0.0) -> None:
        self.points, self.radius = points, radius
        norms = np.einsum("kd,kd->k", points, points)
        self._products = np.concatenate([-2.0 * points.T, norms[None]])  # |x − c|² = |x|² + (x, 1) · column

    @classmethod
    def covering(cls, points: Array, most: int = MOST) -> Landmarks:
        """At most `CAPACITY` of the points (n, d), far from one another, chosen among `most` evenly spaced ones."""
        some = points[:: -(-len(points) // most)]
        landmarks = cls(far_apart(some, min(CAPACITY, len(some))))
        blocks = (points[k : k + CHUNK] for k in range(0, len(points), CHUNK))
        landmarks.radius = max(float(landmarks.nearest(block).max()) for block in blocks)
        return landmarks

    def and_covering(self, points: Array, most: int = MOST) -> Landmarks:
        """Landmarks for further points (n, d), too."""
        return Landmarks.covering(np.concatenate([self.points, points]), most)

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


def far_apart(points: Array, count: int) -> Array:
    """`count` of the points (n, d), each the furthest from those before, by squared distances |x|² − 2x·c + |c|²."""
    norms, chosen = np.einsum("nd,nd->n", points, points), np.zeros(count, dtype=np.int64)
    near = np.full(len(points), np.inf)
    for k in range(1, count):
        last = chosen[k - 1]
        near = np.minimum(near, norms - 2.0 * (points @ points[last]) + norms[last])
        chosen[k] = near.argmax()
    return points[chosen]
