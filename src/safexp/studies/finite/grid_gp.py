"""A Gaussian process on the cells of a grid, updated exactly as cells are seen."""

from __future__ import annotations

from typing import final

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from safexp.core.arrays import Array, Indices
from safexp.tasks.grid_world import DOWN, LEFT, RIGHT, UP, axis_kernel


@final
class GridGP:
    """The posterior of several maps on all N cells, each an RBF process of unit variance and zero mean.

    The maps are seen at the same cells, so they share one partial Cholesky factor of the kernel. New cells
    append their rows to it, which costs O(N·k) each after k of them. `mean` (maps, N) is always up to date;
    the variances of all cells and moves catch up when asked for, so that walking on costs little.
    """

    def __init__(
        self,
        maps: int,
        size: int,
        *,
        step: float = 0.5,
        length_scale: float = 2.0,
        noise_variance: float = 1e-6,
    ) -> None:
        self._axis = axis_kernel(size, step, length_scale)
        self._noise_variance = noise_variance
        self._rows = np.empty((64, size * size))
        self._count = self._counted = 0
        self._seen = np.zeros(size * size, dtype=bool)
        self._variance = np.ones((size, size))
        # The variance of a difference is kept for itself: correlation makes it far smaller than the sum of
        # two.
        self._prior = 2.0 - 2.0 * float(self._axis[0, 1])
        self._across, self._down = (
            np.full((size, size - 1), self._prior),
            np.full((size - 1, size), self._prior),
        )
        self.mean: Array = np.zeros((maps, size * size))

    def unseen(self, cells: Indices) -> Indices:
        """Cells that have not been observed yet."""
        return cells[~self._seen[cells]]

    def observe(self, cells: Indices, values: Array) -> None:
        """Learn the values (maps, c) of c distinct cells not seen before."""
        self._seen[cells] = True
        earlier = self._rows[: self._count]
        row, column = np.divmod(cells, len(self._axis))
        covariance = (self._axis[row][:, :, None] * self._axis[column][:, None, :]).reshape(len(cells), -1)
        for own, cell in zip(covariance, cells, strict=True):
            # One product per cell: for so few of them BLAS is faster on vectors than on a thin matrix.
            own -= earlier[:, cell] @ earlier
        joint = covariance[:, cells]
        joint.flat[:: len(cells) + 1] += self._noise_variance
        whiten = dtrtri(dpotrf(joint, lower=True, clean=True)[0], lower=True)[0]
        new = whiten @ covariance
        self.mean += (values - self.mean[:, cells]) @ whiten.T @ new
        if self._count + len(cells) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count : self._count + len(cells)] = new
        self._count += len(cells)

    def variance(self) -> Array:
        """The variance (N,) of each cell."""
        self._catch_up()
        return self._variance.ravel()

    def move_variance(self) -> Array:
        """The variance (N, 5) of the difference between a cell and where each action leads; 0 off the map."""
        self._catch_up()
        moves = np.zeros((*self._variance.shape, 5))
        moves[:, :-1, RIGHT] = moves[:, 1:, LEFT] = self._across
        moves[:-1, :, DOWN] = moves[1:, :, UP] = self._down
        return moves.reshape(-1, 5)

    def difference_variance(self, cell: int, neighbour: int) -> Array:
        """The variance () of the difference between a cell and its neighbour, without catching up on all others."""
        change = self._rows[: self._count, cell] - self._rows[: self._count, neighbour]
        return np.maximum(self._prior * (cell != neighbour) - change @ change, 0.0)

    def _catch_up(self) -> None:
        if self._counted == self._count:
            return
        new = self._rows[self._counted : self._count].reshape(-1, *self._variance.shape)
        across, down = new[:, :, 1:] - new[:, :, :-1], new[:, 1:] - new[:, :-1]
        for variance, change in ((self._variance, new), (self._across, across), (self._down, down)):
            variance -= np.einsum("kij,kij->ij", change, change)
            np.maximum(variance, 0.0, out=variance)
        self._counted = self._count
