"""Readings of one step, one number per cost and per signal, arranged for the limits of a constraint."""

from __future__ import annotations

import numpy as np

from safexp.constraints import Constraint, Within
from safexp.core.arrays import Array, Observations
from safexp.core.signals import in_observation
from safexp.shield.transitions import parts_of


def readings_of(constraint: Constraint) -> int:
    """Number of readings per step; a signal counts once, however many limits it has."""
    return sum(_size(part) for part in parts_of(constraint))


def by_limit(constraint: Constraint, readings: Array) -> Array:
    """Readings (M,) as the constraint takes them: () or, for K limits, (K,)."""
    columns = [
        np.atleast_1d(part.by_side(own)) if isinstance(part, Within) else own[: part.num_costs]
        for part, own in zip(parts_of(constraint), _split(constraint, readings), strict=True)
    ]
    return np.concatenate(columns).reshape(np.shape(constraint.largest_threshold))


def signals_among(constraint: Constraint, readings: Array) -> Array:
    """Signals (S,) among the readings (M,)."""
    own = zip(parts_of(constraint), _split(constraint, readings), strict=True)
    return np.concatenate([np.zeros(0), *(values[_size(part) - len(part.sources) :] for part, values in own)])


def all_observed(constraint: Constraint, observations: Observations) -> bool:
    """Whether the observations contain everything that the constraint reads at a step."""
    return all(
        isinstance(part, Within) and all(in_observation(source, observations) for source in part.sources)
        for part in parts_of(constraint)
    )


def _size(part: Constraint) -> int:
    """Number of readings of a part: its signals, after its costs where these are not computed from the signals."""
    return len(part.sources) + (0 if isinstance(part, Within) else part.num_costs)


def _split(constraint: Constraint, readings: Array) -> list[Array]:
    return np.split(readings, np.cumsum([_size(part) for part in parts_of(constraint)])[:-1])
