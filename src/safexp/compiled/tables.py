"""Learned numbers of a shield as one table, and the layouts in which the C core reads matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from safexp.core.arrays import Array

LANES = 8
"""Actions that are evaluated together; the same as in `core/kernels.c`."""

TILE = 16
"""Columns of a tile; the same as in `core/kernels.c`."""

PER_LINE = 6
"""Numbers in a line of C."""


class Tables:
    """Arrays one after the other, each with a comment."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Array]] = []
        self._size = 0

    def add(self, what: str, values: ArrayLike) -> int:
        """Append numbers; returns where they begin."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        start = self._size
        self._parts.append((what, flat))
        self._size += len(flat)
        return start

    @property
    def values(self) -> Array:
        """All numbers (N,)."""
        return np.concatenate([np.zeros(0), *(values for _, values in self._parts)])

    def as_c(self, single: bool) -> str:
        """The initialiser of a C array."""
        lines = []
        for what, values in self._parts:
            lines.append(f"    /* {what} */")
            words = [number(value, single) for value in values.tolist()]
            lines += ["    " + " ".join(words[k : k + PER_LINE]) for k in range(0, len(words), PER_LINE)]
        return "\n".join(lines)


def number(value: float, single: bool) -> str:
    """A number with all its digits, followed by a comma."""
    if np.isnan(value):
        raise ValueError("a shield that learned a NaN cannot be exported: fit it again.")
    if np.isinf(value) or (single and abs(value) > float(np.finfo(np.float32).max)):
        return f"{'-' if value < 0 else ''}INFINITY,"
    text = f"{np.float32(value):.9g}" if single else f"{value:.17g}"
    if not any(mark in text for mark in ".en"):
        text += ".0"
    return f"{text}{'f' if single else ''},"


def padded(count: int) -> int:
    """A multiple of `TILE` that is at least this."""
    return -(-count // TILE) * TILE


def widened(vector: ArrayLike, size: int, fill: float = 0.0) -> Array:
    """A vector (n,) followed by a filling, (size,)."""
    given = np.asarray(vector, dtype=np.float64).ravel()
    return np.concatenate([given, np.full(size - len(given), fill)])


def tiled(matrix: Array) -> Array:
    """A matrix (rows, columns) in tiles of columns, each tile row after row; columns are padded with zeros."""
    rows, columns = matrix.shape
    whole = np.zeros((rows, padded(columns)))
    whole[:, :columns] = matrix
    return whole.reshape(rows, -1, TILE).transpose(1, 0, 2).ravel()


def triangle(root: Array) -> Array:
    """Tiles of an upper triangular R with |R x| = |rootᵀ x|, for a root (n, m); tile j begins with row j."""
    upper = np.linalg.qr(root.T, mode="r")
    size = padded(len(root))
    whole = np.zeros((size, size))
    whole[: len(upper), : len(root)] = upper
    return np.concatenate([whole[j : j + TILE, j:].T.ravel() for j in range(0, size, TILE)])


def in_blocks(per_action: Array) -> Array:
    """Values (m, w) of m actions as blocks [block][value][lane]; the last block is filled with the first action."""
    count = -(-len(per_action) // LANES)
    filled = np.concatenate([per_action, np.repeat(per_action[:1], count * LANES - len(per_action), axis=0)])
    return filled.reshape(count, LANES, -1).transpose(0, 2, 1).ravel()
