"""Cost bounds from a quantifier; whatever it fails to predict counts as unsafe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from safexp.core.arrays import Array, every
from safexp.quantifiers.base import Quantifier

Levels = tuple[Array | None, ...]
"""The only values that each of K costs can take, in ascending order; None for a cost that can take any value."""

LEVEL_TOLERANCE = 1e-6
"""Largest rounding error by which a bound may fall short of a level and still count as that level."""


class Answers(Protocol):
    """Predicts costs: a quantifier, or a compiled one."""

    num_costs: int

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m), or (n, m, K) for K > 1, of the costs of `actions` (n, m, da) in `states` (n, ds)."""


class Compiled(Answers, Protocol):
    """Answers in place of a quantifier, as that was at the last `refresh`."""

    def refresh(self) -> None:
        """Take over what the quantifier has learned."""


def ask(
    quantifier: Answers, states: Array, actions: Array, levels: Levels | None = None, most: float = 1.0
) -> tuple[Array, Array, str]:
    """Upper bounds and widths (n, m, K) of the costs of `actions` (n, m, da) in `states` (n, ds), and an error message.

    Bounds are min(`most`, mean + width), rounded down to the largest possible one of a cost's `levels`, if it has any.
    An exception, a NaN, a negative width or a wrong shape gives infinite bounds and widths, and a non-empty message.
    """
    num_costs = quantifier.num_costs
    shape = (*actions.shape[:2], num_costs)
    try:
        mean, width = quantifier.predict(states, actions)
        mean, width = np.asarray(mean, dtype=np.float64), np.asarray(width, dtype=np.float64)
        if mean.shape != width.shape or mean.shape not in (shape, shape[:2] if num_costs == 1 else shape):
            raise ValueError(f"mean and width have shapes {mean.shape} and {width.shape}, expected {shape}")
        mean, width = mean.reshape(shape), width.reshape(shape)
    except Exception as error:  # any failure certifies nothing
        return np.full(shape, np.inf), np.full(shape, np.inf), f"{type(error).__name__}: {error}"
    usable = np.isfinite(mean) & (width >= 0)
    if every(usable):
        return _rounded(mean + width, levels, most), width, ""
    problem = f"{int((~usable).sum())} of {usable.size} predictions are NaN or have a negative width"
    bounds = _rounded(np.where(usable, mean, 0.0) + np.where(usable, width, np.inf), levels, most)
    return np.where(usable, bounds, np.inf), np.where(usable, width, np.inf), problem


def where_demanded(
    answer: Callable[[Array, Array], tuple[Array, Array]],
    states: Array,
    candidates: Array,
    limits: Array,
    most: float = 1.0,
) -> tuple[Array, Array]:
    """Bounds and widths (n, m, K) of candidates (n, m, da), queried only where a threshold (n, K) is below `most`.

    Everywhere else any action is allowed: bound `most`, width infinite.
    """
    below = limits < most
    if below.all():
        return answer(states, candidates)
    demanding = below.any(axis=1)
    shape = (*candidates.shape[:2], limits.shape[1])
    bounds, widths = np.full(shape, most), np.full(shape, np.inf)
    if demanding.any():
        bounds[demanding], widths[demanding] = answer(states[demanding], candidates[demanding])
    return bounds, widths


def as_levels(levels: Sequence[Any] | None, quantifier: Quantifier) -> Levels | None:
    """Parse a user's `levels`: one list of values per cost, or the values themselves for a single cost.

    Raises:
        ValueError: if there is not one list per cost, if a level is not a cost, or if the quantifier does not bound the
            observed cost, so that rounding would be unsound.
    """
    if levels is None:
        return None
    count = quantifier.num_costs
    each = [levels] if count == 1 else list(levels)
    if len(each) != count or (count > 1 and not all(part is None or isinstance(part, Sequence) for part in each)):
        raise ValueError(
            f"levels={levels!r} must be {count} lists, one for each cost, with None for a cost that can take any "
            "value: [(0, 1), None]."
        )
    for part, own in zip(each, getattr(quantifier, "parts", [quantifier]), strict=True):
        if part is not None and not (len(part) and 0 <= min(part) <= max(part) <= 1):
            raise ValueError(f"levels={levels!r} must be one or more costs in [0, 1], such as (0, 1).")
        if part is not None and not own.bounds_realised_cost:
            raise ValueError(
                f"levels={levels!r} would round the bounds of {type(own).__name__} down, but they hold for the "
                "expected cost, not for the realised one; leave levels out or use a quantifier that bounds what is "
                "observed."
            )
    return tuple(None if part is None else np.sort(np.asarray(part, dtype=np.float64)) for part in each)


def describe_levels(levels: Levels | None) -> list[Any] | None:
    """Levels as JSON, in the form in which a user gives them."""
    if levels is None:
        return None
    each = [None if own is None else own.tolist() for own in levels]
    return each[0] if len(each) == 1 else each


def check_levels(levels: Levels, costs: Array) -> None:
    """Raise `ValueError` if one of these costs (n,) or (n, K) is not one of its levels, on which the bounds rely."""
    for k, (own, values) in enumerate(zip(levels, costs.reshape(len(costs), -1).T, strict=True)):
        if own is None:
            continue
        distance = np.abs(values[:, None] - own).min(axis=1)
        if (distance > LEVEL_TOLERANCE).any():
            raise ValueError(
                f"cost {k} was {float(values[distance.argmax()]):g} (scaled by cost_max), which is not one of its "
                f"levels {own.tolist()}, to which bounds were rounded down: leave levels out, or give all values."
            )


def _rounded(bounds: Array, levels: Levels | None, most: float) -> Array:
    bounds = np.minimum(np.maximum(bounds, 0.0), most)  # np.clip takes twice as long for few numbers
    if levels is None:
        return bounds
    for k, own in enumerate(levels):
        if own is not None:
            # A bound that misses a level only by rounding error counts as that level.
            above = np.searchsorted(own, bounds[..., k] + LEVEL_TOLERANCE, side="right")
            bounds[..., k] = own[np.maximum(above - 1, 0)]
    return bounds
