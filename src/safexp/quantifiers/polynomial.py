"""Polynomial regression."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.linear_model import LinearModel

MOST_FEATURES = 400
"""Largest number of monomials of a model, so that a prediction is a small matrix product."""

ROWS_PER_FEATURE = 10
"""Smallest number of rows per monomial."""


class Polynomial(LinearModel):
    """Least squares on all monomials of the inputs up to a degree.

    Args:
        degree: degree of the monomials.
    """

    def __init__(self, degree: int) -> None:
        super().__init__()
        self.degree = degree
        self._factors: list[NDArray[np.int64]] = []
        self._size = 0

    def begin(self, standard: Array, values: Array, weights: Array | None) -> dict[str, Array]:
        self.resume(standard.shape[1], {})
        return {}

    @property
    def factors(self) -> list[NDArray[np.int64]]:
        """For each degree from 2 on, every monomial as one of the degree below and an input, (2, number)."""
        return self._factors

    def resume(self, size: int, saved: Mapping[str, Array]) -> None:
        """Index each monomial as one of the degree below times an input."""
        self._factors = []
        shorter: list[tuple[int, ...]] = [(k,) for k in range(size)]
        for power in range(2, self.degree + 1):
            place = {monomial: k for k, monomial in enumerate(shorter)}
            shorter = list(combinations_with_replacement(range(size), power))
            self._factors.append(np.array([[place[m[:-1]], m[-1]] for m in shorter]).T)
        self._size = 1 + size + sum(factors.shape[1] for factors in self._factors)

    def of_standard(self, standard: Array) -> Array:
        features = np.empty((len(standard), self._size))
        features[:, 0] = 1.0
        end = 1 + standard.shape[1]
        features[:, 1:end] = last = standard
        for shorter, factor in self._factors:
            start, end = end, end + len(factor)
            np.multiply(last[:, shorter], standard[:, factor], out=features[:, start:end])
            last = features[:, start:end]
        return features

    def slopes(self) -> tuple[Array, Array]:
        """A model of degree 1 as plain slopes (d, v) and a constant (v,), without clipping."""
        slopes = self._weights[1:] / self._sums["scale"][:, None]
        return slopes, self._weights[0] - self._sums["shift"] @ slopes


def degrees(num_inputs: int, rows: int) -> list[int]:
    """Degrees of monomials that this many inputs and rows allow; 1 is always among them."""
    allowed, size = [1], 1 + num_inputs
    for degree in (2, 3):
        size = size * (num_inputs + degree) // degree
        if size <= MOST_FEATURES and rows >= ROWS_PER_FEATURE * size:
            allowed.append(degree)
    return allowed
