"""Visited region of a model of levels: nothing is known further from the data than held-out stretches were."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Transitions, stretches_of
from safexp.quantifiers.boldness import ladder, stretch_maxima
from safexp.quantifiers.landmarks import Landmarks
from safexp.quantifiers.regression import pairs_of, standards

RUNGS = 5
"""How many times the boldest fifth of the remaining stretches is held out."""

FEWEST = 10
"""Number of stretches below which the data is split into this many blocks of successive transitions."""

LEAST_WEIGHT = 0.1
"""Smallest weight of an input in a distance, as a share of the largest: none is trusted to be irrelevant elsewhere."""

MOST = 4096
"""Number of evenly spaced transitions among which landmarks are chosen; single outliers do not narrow the region."""

RIDGE = 1e-6
"""Share of the largest eigenvalue that is added to all, so that inputs that move together share their weight."""


class Visited:
    """The region of inputs in which a model of costs or margins may certify.

    A cautious log says nothing about a cost that rises in a place it never visited: no noise, no trend and no held-out
    error shows it. So certificates reach only as far from the data as the log itself can test: the boldest fifth of
    its stretches is held out, and again the boldest fifth of the others, and so on. `tested` is the distance from the
    data that a share 1 − δ of the steps held out did not exceed. As actions are executed the region grows around them.

    Distances are Euclidean in standardised inputs, each weighted by how much the value changes along it: the root mean
    square slope of a quadratic function of every single input, as a share of the largest and at least a tenth.

    Args:
        shift: mean of the inputs, (d,).
        scale: standard deviation of the inputs over their weight, (d,).
        tested: distance from the data beyond which widths are infinite.
        landmarks: points that cover the data, in these units.
    """

    def __init__(self, shift: Array, scale: Array, tested: float, landmarks: Landmarks) -> None:
        self.shift, self.scale, self.tested, self.landmarks = shift, scale, tested, landmarks

    @classmethod
    def measured(cls, data: Transitions, values: Array, boldness: Array, delta: float) -> Visited:
        """Measure distances in data with these values (n,); larger `boldness` (n,) is nearer to the limit."""
        shift, deviation = standards(inputs := pairs_of(data))
        scale = deviation / weights_of((inputs - shift) / deviation, values)
        points = (inputs - shift) / scale
        tested = float(np.quantile(held_out_distances(points, boldness, blocks_of(data)), 1 - delta))
        return cls(shift, scale, tested, Landmarks.covering(points, MOST))

    @property
    def reach(self) -> float:
        """Largest distance from a landmark: as far as tested, and no less than the data itself."""
        return max(self.tested, self.landmarks.radius)

    def add(self, data: Transitions) -> None:
        """Add transitions: the region grows around them."""
        points = (pairs_of(data) - self.shift) / self.scale
        self.landmarks = self.landmarks.and_covering(points, MOST)

    def contains(self, states: Array, actions: Array) -> NDArray[np.bool_]:
        """Whether actions (n, m, da) in states (n, ds) are in the region, (n, m)."""
        size = states.shape[1]
        near = self.landmarks.distance_of_pairs(
            (states - self.shift[:size]) / self.scale[:size], (actions - self.shift[size:]) / self.scale[size:]
        )
        return np.asarray(near <= self.reach)

    def state(self) -> dict[str, Array]:
        """The region as named arrays."""
        return {
            "visited.metric": np.stack([self.shift, self.scale]),
            "visited.landmarks": self.landmarks.points,
            "visited.distances": np.array([self.tested, self.landmarks.radius]),
        }

    @classmethod
    def of(cls, state: dict[str, NDArray[Any]]) -> Visited | None:
        """Build from the arrays of `state`, or None if there are none."""
        if "visited.metric" not in state:
            return None
        shift, scale = np.array(state["visited.metric"])
        tested, radius = state["visited.distances"].tolist()
        return cls(shift, scale, tested, Landmarks(np.array(state["visited.landmarks"]), radius))


def weights_of(standard: Array, values: Array) -> Array:
    """Weight (d,) of standardised inputs (n, d): the slope of the values along each, from 0.1 to 1."""
    design = np.column_stack([np.ones(len(standard)), standard, standard**2])
    gram = design.T @ design
    eigenvalues, axes = np.linalg.eigh(gram)
    inverse = 1.0 / (np.maximum(eigenvalues, 0.0) + RIDGE * eigenvalues[-1])
    _, linear, square = np.split(axes @ (inverse * (axes.T @ (design.T @ values))), [1, 1 + standard.shape[1]])
    slopes = np.sqrt(((linear + 2 * square * standard) ** 2).mean(axis=0))
    return np.clip(slopes / slopes.max(), LEAST_WEIGHT, 1.0) if slopes.max() > 0 else np.ones(len(slopes))


def held_out_distances(points: Array, boldness: Array, stretches: NDArray[np.int64]) -> Array:
    """Distance of every held-out point (n, d) from those that it was held out from."""
    found = [np.zeros(1)]
    for learned, held_out in ladder(np.argsort(stretch_maxima(boldness, stretches), kind="stable"), RUNGS):
        landmarks = Landmarks.covering(points[np.isin(stretches, learned)], MOST)
        found.append(landmarks.nearest(points[np.isin(stretches, held_out)]))
    return np.concatenate(found)


def blocks_of(data: Transitions) -> NDArray[np.int64]:
    """Stretches (n,) of the data, or blocks of it where there are few."""
    stretches = stretches_of(data)
    if stretches[-1:].size and stretches.max() + 1 >= FEWEST:
        return stretches
    return np.arange(len(data.costs)) * FEWEST // max(len(data.costs), 1)
