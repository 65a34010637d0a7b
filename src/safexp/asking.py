"""Asking a quantifier so that whatever it could not answer is not safe."""

from __future__ import annotations

import numpy as np

from safexp.quantifiers.base import Quantifier
from safexp.signals import Array

LEVEL_TOLERANCE = 1e-6
"""How far a bound may lie below a level that it means."""


def ask(
    quantifier: Quantifier, states: Array, actions: Array, num_costs: int, levels: Array | None = None
) -> tuple[Array, Array, str]:
    """Upper bounds and widths (n, m, K) of the costs of `actions` (n, m, da) in `states` (n, ds), and what went wrong.

    Bounds are min(1, mean + width), rounded down to the largest of the `levels` that can occur, if there are any. An
    exception, a NaN, a negative width or a wrong shape makes bound and width infinite, and a message that is not empty.
    """
    shape = (*actions.shape[:2], num_costs)
    try:
        mean, width = quantifier.predict(states, actions)
        mean, width = np.asarray(mean, dtype=np.float64), np.asarray(width, dtype=np.float64)
        if mean.shape != width.shape or mean.shape not in (shape, shape[:2] if num_costs == 1 else shape):
            raise ValueError(f"mean and width have shapes {mean.shape} and {width.shape}, expected {shape}")
        mean, width = mean.reshape(shape), width.reshape(shape)
    except Exception as error:  # whatever went wrong, nothing was certified
        return np.full(shape, np.inf), np.full(shape, np.inf), f"{type(error).__name__}: {error}"
    usable = np.isfinite(mean) & (width >= 0)
    if usable.all():
        return _rounded(mean + width, levels), width, ""
    problem = f"{int((~usable).sum())} of {usable.size} predictions are NaN or have a negative width"
    bounds = _rounded(np.where(usable, mean, 0.0) + np.where(usable, width, np.inf), levels)
    return np.where(usable, bounds, np.inf), np.where(usable, width, np.inf), problem


def _rounded(bounds: Array, levels: Array | None) -> Array:
    bounds = np.minimum(np.maximum(bounds, 0.0), 1.0)  # np.clip, at half its price for few numbers
    if levels is None:
        return bounds
    # A bound that misses its level by rounding alone means that level.
    above = np.searchsorted(levels, bounds + LEVEL_TOLERANCE, side="right")
    return levels[np.maximum(above - 1, 0)]
