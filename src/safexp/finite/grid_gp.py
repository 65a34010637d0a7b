"""A Gaussian process on the cells of a grid, updated one exact observation at a time."""

from __future__ import annotations

from typing import final

import numpy as np

from safexp.finite.grid_world import Array, Indices, axis_kernel


@final
class GridGP:
    """The posterior of an RBF process on all N cells, of unit prior variance and zero prior mean.

    Each new cell appends one row to the partial Cholesky factor of the kernel, so an observation costs O(N·k)
    after k of them, and `mean`, `variance` (N,) and `move_variance` (N, 5) are always up to date. The last is
    the variance of the *difference* of two neighbours, which their correlation makes far smaller than the sum.
    """

    def __init__(
        self,
        size: int,
        next_state: Indices,
        *,
        step: float = 0.5,
        length_scale: float = 2.0,
        noise_variance: float = 1e-6,
    ) -> None:
        self._axis = axis_kernel(size, step, length_scale)
        self._next_state = next_state
        self._noise_variance = noise_variance
        self._rows = np.empty((64, size * size))
        self._count = 0
        self._seen = np.zeros(size * size, dtype=bool)
        self.mean: Array = np.zeros(size * size)
        self.variance: Array = np.ones(size * size)
        same = next_state == np.arange(size * size)[:, None]
        self.move_variance: Array = np.where(same, 0.0, 2.0 - 2.0 * self._axis[0, 1])

    def observe(self, cell: int, value: float) -> bool:
        """Learn the value of a cell; false when it was known already."""
        if self._seen[cell]:
            return False
        self._seen[cell] = True
        earlier = self._rows[: self._count]
        row, column = divmod(cell, len(self._axis))
        covariance = np.outer(self._axis[row], self._axis[column]).ravel() - earlier[:, cell] @ earlier
        new = covariance / np.sqrt(self.variance[cell] + self._noise_variance)
        self.mean += new * ((value - self.mean[cell]) / np.sqrt(self.variance[cell] + self._noise_variance))
        self.variance = np.maximum(self.variance - new * new, 0.0)
        change = new[:, None] - new[self._next_state]
        self.move_variance = np.maximum(self.move_variance - change * change, 0.0)
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = new
        self._count += 1
        return True
