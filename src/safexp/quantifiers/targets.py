"""What a quantifier models, the cost itself or the signed margin, and what its interval then says of the cost."""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from safexp.core.arrays import Array
from safexp.quantifiers.base import Transitions

Target = Literal["cost", "margin", "change"]
"""What is modelled: the cost, the signed margin, or (by `ChangeModel`) any number around 0."""


def check_target(owner: str, target: str) -> None:
    """Raise `ValueError` where this is nothing that can be modelled."""
    if target not in get_args(Target):
        raise ValueError(f"{owner}(target={target!r}) is not one of {', '.join(get_args(Target))}.")


def target_of(owner: str, target: Target, data: Transitions) -> Array:
    """What is modelled (n,); raises `ValueError` where margins are wanted and missing."""
    if target != "margin":
        return data.costs
    if data.margins is None:
        raise ValueError(
            f"{owner}(target='margin') was given transitions without margins: let the environment tell "
            "info['margin'], give logged transitions as Log(..., margins=...), or use target='cost'."
        )
    return data.margins


def prior_mean(target: Target) -> float:
    """What is predicted where nothing is known: the worst cost, to be at the limit, or no change."""
    return 1.0 if target == "cost" else 0.0


def cost_interval(target: Target, mean: Array, width: Array) -> tuple[Array, Array]:
    """Mean and width of the cost from those of what is modelled.

    A margin that is surely above 0 means cost 0 ± 0, one surely below 0 cost 1 ± 0, and any other ½ ± ½: the cost
    is then between 0 and 1, and no more is known. NaN stays NaN.
    """
    if target != "margin":
        return mean, width
    unsure = np.where(np.abs(mean) > width, 0.0, 0.5)
    if (unknown := np.isnan(mean + width)).any():
        unsure[unknown] = np.nan
    return np.where(mean < -width, 1.0, unsure), unsure


def unknown_interval(target: Target, n: int, m: int) -> tuple[Array, Array]:
    """What is said (n, m) before there is a model: nothing."""
    return np.full((n, m), 0.5 if target == "cost" else 0.0), np.full((n, m), np.inf)


def error_of(target: Target, observed: Array, mean: Array) -> Array:
    """By how much a mean was wrong on the side that matters: too low a cost, too high a margin, any change."""
    if target == "change":
        return np.abs(observed - mean)
    return observed - mean if target == "cost" else mean - observed


def normal_multiplier(delta: float) -> float:
    """How many standard deviations a normal variable exceeds, in either direction, with probability δ."""
    return NormalDist().inv_cdf(1 - delta / 2)
