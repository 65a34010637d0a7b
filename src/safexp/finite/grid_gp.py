"""A Gaussian process on the cells of a grid, updated exactly as cells are seen."""

from __future__ import annotations

from typing import final

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from safexp.finite.grid_world import DOWN, LEFT, RIGHT, UP, Array, Indices, axis_kernel


@final
class GridGP:
    """The posterior of several maps on all N cells, each an RBF process of unit variance and zero mean.

    The maps are seen at the same cells, so they share one partial Cholesky factor of the kernel. New cells append
    their rows to it, which costs O(N·k) each after k of them, and `mean` (maps, N), `variance` (N,) and
    `move_variance` are always up to date. The last is kept for itself because the correlation of two neighbours
    makes it far smaller than the sum of their variances.
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
        self._count = 0
        self._seen = np.zeros(size * size, dtype=bool)
        self.mean: Array = np.zeros((maps, size * size))
        self.variance: Array = np.ones(size * size)
        prior = 2.0 - 2.0 * self._axis[0, 1]
        self._across, self._down = np.full((size, size - 1), prior), np.full((size - 1, size), prior)
        self._moves = np.zeros((size, size, 5))
        self._subtract_from_moves(np.zeros((1, size, size)))

    @property
    def move_variance(self) -> Array:
        """The variance (N, 5) of the difference between a cell and where each action leads; 0 off the map."""
        return self._moves.reshape(-1, 5)

    def unseen(self, cells: Indices) -> Indices:
        """Those of the cells that were not observed yet."""
        return cells[~self._seen[cells]]

    def observe(self, cells: Indices, values: Array) -> None:
        """Learn the values (maps, c) of c distinct cells not seen before."""
        self._seen[cells] = True
        earlier = self._rows[: self._count]
        row, column = np.divmod(cells, len(self._axis))
        covariance = (self._axis[row][:, :, None] * self._axis[column][:, None, :]).reshape(len(cells), -1)
        # One product per cell: for so few rows BLAS is several times faster on vectors than on a thin matrix.
        covariance -= np.stack([earlier[:, cell] @ earlier for cell in cells])
        joint = covariance[:, cells]
        joint.flat[:: len(cells) + 1] += self._noise_variance
        whiten = dtrtri(dpotrf(joint, lower=True, clean=True)[0], lower=True)[0]
        new = whiten @ covariance
        self.mean += (values - self.mean[:, cells]) @ whiten.T @ new
        self.variance = np.maximum(self.variance - np.einsum("cs,cs->s", new, new), 0.0)
        self._subtract_from_moves(new.reshape(len(cells), len(self._axis), len(self._axis)))
        if self._count + len(cells) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count : self._count + len(cells)] = new
        self._count += len(cells)

    def _subtract_from_moves(self, rows: Array) -> None:
        across, down = rows[:, :, 1:] - rows[:, :, :-1], rows[:, 1:] - rows[:, :-1]
        self._across = np.maximum(self._across - np.einsum("cij,cij->ij", across, across), 0.0)
        self._down = np.maximum(self._down - np.einsum("cij,cij->ij", down, down), 0.0)
        self._moves[:, :-1, RIGHT] = self._moves[:, 1:, LEFT] = self._across
        self._moves[:-1, :, DOWN] = self._moves[1:, :, UP] = self._down
