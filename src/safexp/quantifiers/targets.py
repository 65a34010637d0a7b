"""Targets of a quantifier, the cost or the signed margin, and conversion of their intervals to costs."""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from safexp.core.arrays import Array
from safexp.quantifiers.base import Transitions

Target = Literal["cost", "margin", "change"]
"""The modelled quantity: the cost, the signed margin, or (for `ChangeModel`) any number around 0."""


def check_target(owner: str, target: str) -> None:
    """Raise `ValueError` if this is not a target."""
    if target not in get_args(Target):
        raise ValueError(f"{owner}(target={target!r}) is not one of {', '.join(get_args(Target))}.")


def target_of(owner: str, target: Target, data: Transitions) -> Array:
    """Values of the target (n,); raises `ValueError` if margins are required and missing."""
    if target != "margin":
        return data.costs
    if data.margins is None:
        raise ValueError(
            f"{owner}(target='margin') received transitions without margins: let the environment provide "
            "info['margin'], pass logged transitions as Log(..., margins=...), or use target='cost'."
        )
    return data.margins


def prior_mean(target: Target) -> float:
    """Prediction without data: the worst cost, a margin of 0, or no change."""
    return 1.0 if target == "cost" else 0.0


def cost_interval(target: Target, mean: Array, width: Array) -> tuple[Array, Array]:
    """Mean and width of the cost from those of the target.

    A margin that is surely above 0 gives cost 0 ± 0, one surely below 0 cost 1 ± 0, and any other ½ ± ½: the cost is
    then only known to be between 0 and 1. NaN stays NaN.
    """
    if target != "margin":
        return mean, width
    unsure = np.where(np.abs(mean) > width, 0.0, 0.5)
    if (unknown := np.isnan(mean + width)).any():
        unsure[unknown] = np.nan
    return np.where(mean < -width, 1.0, unsure), unsure


def unknown_interval(target: Target, n: int, m: int) -> tuple[Array, Array]:
    """Prediction (n, m) before there is a model: infinite width."""
    return np.full((n, m), 0.5 if target == "cost" else 0.0), np.full((n, m), np.inf)


def error_of(target: Target, observed: Array, mean: Array) -> Array:
    """Error of a mean in the unsafe direction: too low a cost, too high a margin, any error of a change."""
    if target == "change":
        return np.abs(observed - mean)
    return observed - mean if target == "cost" else mean - observed


def normal_multiplier(delta: float) -> float:
    """Number of standard deviations that a normal variable exceeds, in either direction, with probability δ."""
    return NormalDist().inv_cdf(1 - delta / 2)
