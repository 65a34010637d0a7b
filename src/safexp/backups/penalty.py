"""Penalty of an emergency stop (the paper's equation 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array


@dataclass(frozen=True)
class Penalty:
    """Penalty of a stop: −c / min_a Γ(s', a), with the width capped at 1 and the penalty at `largest`.

    Costs lie in [0, 1], so a width above 1 means the same as 1: a quantifier that knows nothing gives −c, and the
    penalty grows to −`largest` as the stop becomes certain. The paper's form has no `largest` and tends to −∞ (erratum
    10), while its experiments use the constant −1. Both are supported. The default is the constant −0.5:
    where the return is about 3, a constant of 1 sometimes teaches a learner to stay away from the goal altogether.

    If a learner stays away from its goal, lower c; if stops do not become rarer, raise it.

    Args:
        c: penalty of a stop about which nothing is known.
        largest: penalty of a certain stop; c itself by default, which makes the penalty constant.
        moved: penalty of a proposal that was replaced by the opposite corner of a box, or by another discrete action;
            proportionally less for a nearer one. It teaches an on-policy learner to propose certified actions;
            off-policy learners learn from the executed actions, and do not see it.

    Example:
        >>> float(safexp.Penalty(0.3)(0.25)), float(safexp.Penalty(0.3, largest=2.0)(0.25))
        (-0.3, -1.2)
    """

    c: float = 0.5
    largest: float | None = None
    moved: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.c <= self._most < math.inf:
            raise ValueError(f"{self} needs 0 ≤ c ≤ largest < ∞; penalties are given as positive numbers.")
        if not 0 <= self.moved < math.inf:
            raise ValueError(f"{self} needs 0 ≤ moved < ∞; penalties are given as positive numbers.")

    def __call__(self, least_width: Array) -> Array:
        """Rewards (n,) of transitions into states whose smallest width is `least_width` (n,)."""
        if self.c == 0:
            return np.zeros_like(least_width)
        return -self.c / np.clip(least_width, self.c / self._most, 1.0)

    def of_moves(self, space: spaces.Space[Any], proposed: NDArray[Any], executed: NDArray[Any]) -> Array:
        """Deductions (n,) from the rewards of proposals (n, ...) that were replaced."""
        if not isinstance(space, spaces.Box):
            return self.moved * (proposed != executed).reshape(len(proposed), -1).any(axis=1)
        span = np.maximum(space.high - space.low, np.finfo(np.float32).tiny)
        moves = np.abs(np.clip(proposed, space.low, space.high) - executed) / span
        return np.asarray(self.moved * moves.reshape(len(proposed), -1).mean(axis=1))

    @property
    def _most(self) -> float:
        return self.c if self.largest is None else self.largest
