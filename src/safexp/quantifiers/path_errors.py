"""Errors of replayed paths, and the widths that follow from them."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import Array, Flags
from safexp.quantifiers.replays import Replay

LEAST_WIDTH = 0.01
"""Smallest width as a share of the distance that a signal has covered, and of its usual change in a step."""


class PathErrors:
    """Squared errors of replays after every step, of those that covered less than the median distance and the others.

    Args:
        moments: below and above the median: counts, squared errors, squared distances, (2, 3, T, S).
        middle: median distances (T, S) of the first replays.

    Attributes:
        level: squared deviation (T, S) after each step; infinite where no replay was as long.
        slope: its growth with the squared distance (T, S).
        least: width (S,) that is added to all others: 1% of the root mean square change of a signal in a step.
    """

    def __init__(self, moments: Array, middle: Array) -> None:
        self.moments, self.middle = moments, middle
        (count, errors, _), (others, more, way) = moments
        level = errors / np.maximum(count, 1.0)
        excess = np.maximum(more / np.maximum(others, 1.0) - level, 0.0)
        self.level = np.where(count > 0, level, np.inf)
        self.slope = np.where(way > 0, excess * others / np.where(way > 0, way, 1.0), 0.0)
        counts, _, ways = moments[:, :, :1].sum(axis=(0, 2))
        self.least = np.asarray(LEAST_WIDTH * np.sqrt(ways / np.maximum(counts, 1.0)))

    @classmethod
    def none(cls, steps: int, signals: int) -> PathErrors:
        """Before any replay."""
        return cls(np.zeros((2, 3, steps, signals)), np.zeros((steps, signals)))

    def with_replays(self, replays: list[tuple[Replay, Array]]) -> PathErrors:
        """These errors and those of replays, each with the predicted signals (T + 1, w, S)."""
        first, moments, middle = not self.moments.any(), self.moments.copy(), self.middle.copy()
        for found, predicted in replays:
            with np.errstate(over="ignore", invalid="ignore"):
                ways = distances(predicted)
                errors = predicted[1:] - found.signals
            told = found.within[..., None] & np.isfinite(errors) & np.isfinite(ways)
            errors, ways = np.where(told, errors, 0.0), np.where(told, ways, 0.0)
            steps = len(ways)
            if first:
                middle[:steps] = _medians(ways, told)
            above = ways > middle[:steps, None]
            for half, side in enumerate((told & ~above, told & above)):
                moments[half, :, :steps] += [
                    (part * side).sum(axis=1) for part in (np.ones_like(ways), errors**2, ways**2)
                ]
        return PathErrors(moments, middle)

    def deviations(self, ways: Array) -> Array:
        """Root mean square errors (T, n, S) of signals that have covered these distances."""
        steps = len(ways)
        squares = ways * ways
        squares *= self.slope[:steps, None]
        squares += self.level[:steps, None]
        return np.sqrt(squares, out=squares)


def distances(signals: Array) -> Array:
    """Distance (T, n, S) that successive signals (T + 1, n, S) have covered after each step."""
    moves = signals[1:] - signals[:-1]
    return np.abs(moves, out=moves).cumsum(axis=0)


def _medians(values: Array, told: Flags) -> Array:
    """Median (T, S) of the values (T, n, S) that are told, 0 if none is."""
    some = np.where(told.any(axis=1, keepdims=True), np.where(told, values, np.nan), 0.0)
    return np.asarray(np.nanmedian(some, axis=1))
