"""Widths away from the data: they grow with the distance from it, at a rate that the data itself shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.landmarks import Landmarks
from safexp.quantifiers.trend import SINGULAR

ROUNDING = 1e-6
"""Distance within which points are the same."""


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
        return cls(slopes, tested, Landmarks.covering(inputs))

    def add(self, inputs: Array) -> None:
        """Add further standardised inputs (n, d): widths are small around them, too."""
        self.landmarks = self.landmarks.and_covering(inputs)

    def widths(self, standard: Array) -> Array:
        """Widths (..., S) at standardised inputs (..., d + 1), each followed by a one."""
        beyond = self.beyond(standard)[..., None]
        return np.where(np.isinf(beyond), np.inf, beyond * self.slopes)

    def beyond(self, standard: Array) -> Array:
        """Distance (...) of standardised inputs (..., d + 1) from the data, infinite where it was not tested."""
        near = self.landmarks.distance(standard.reshape(-1, standard.shape[-1])).reshape(standard.shape[:-1])
        beyond = np.maximum(near - self.landmarks.radius, 0.0)
        return np.where(beyond > self.tested, np.inf, beyond)

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
    landmarks = Landmarks.covering(inputs[inner])
    distance = landmarks.nearest(inputs[outer])
    excess = np.maximum(errors[outer] - errors[inner].max(axis=0), 0.0)
    within = max(landmarks.radius, ROUNDING)
    return (excess / np.maximum(distance, within)[:, None]).max(axis=0), float(distance.max())
