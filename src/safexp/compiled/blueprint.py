"""Everything that the decisions of a shield depend on."""

from __future__ import annotations

from typing import Any, NamedTuple

from gymnasium import spaces

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller
from safexp.core.encoding import ActionSpace
from safexp.quantifiers.base import Quantifier


class NotExportableError(ValueError):
    """A part of a shield that cannot be translated to C, with the reason and a remedy."""


class Blueprint(NamedTuple):
    """Parts of a shield, for its translation.

    Attributes:
        quantifier: bounds the costs.
        observation_space: space of the observations.
        action_space: space of the actions.
        constraint: the limits, or None if the caller gives every threshold.
        candidates: fixed actions (m, da), encoded.
        ways: shares (w,) of the way from a replacement to the proposal that are tried, the longest first.
        levels: values (L,) that each of K costs can take, None for any.
        most: largest bound.
        vouched: the user's safe action (da,), encoded, or None.
        backup: controller that takes over where nothing is certified, or None.
        horizon: number of steps that a certificate covers after the action.
        digest: hash of the shield.
    """

    quantifier: Quantifier
    observation_space: spaces.Space[Any]
    action_space: ActionSpace
    constraint: Constraint | None
    candidates: Array
    ways: Array
    levels: tuple[Array | None, ...] | None
    most: float
    vouched: Array | None
    backup: Controller | None
    horizon: int
    digest: str
