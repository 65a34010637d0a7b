"""What an emergency stop costs the learner (the paper's equation 1)."""

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
    """−c / min_a Γ(s', a), with the width taken as at most 1 and the penalty as at most `largest`.

    A width above 1 says no more than 1 does, since costs lie in [0, 1]; so a quantifier that knows nothing pays −c,
    and the penalty grows to −`largest` as the stop becomes certain. The paper's form has no `largest` and tends to −∞
    (erratum 10), while its experiments use the constant −1: both are here, and the constant is the default.

    Args:
        c: the penalty of a stop about which nothing is known.
        largest: the penalty of a stop that is certain; c itself by default, which makes a constant.
        moved: the penalty of a proposal that was replaced by the opposite corner of a box, or by another discrete
            action; proportionally less for a nearer one. It teaches an on-policy learner to propose what is certified;
            off-policy learners learn from the executed actions, and do not see it.
    """

    c: float = 1.0
    largest: float | None = None
    moved: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.c <= self._most < math.inf:
            raise ValueError(f"{self} needs 0 ≤ c ≤ largest < ∞; penalties are given as positive numbers.")
        if not 0 <= self.moved < math.inf:
            raise ValueError(f"{self} needs 0 ≤ moved < ∞; penalties are given as positive numbers.")

    def __call__(self, least_width: Array) -> Array:
        """The rewards (n,) of transitions into states whose least width is `least_width` (n,)."""
        if self.c == 0:
            return np.zeros_like(least_width)
        return -self.c / np.clip(least_width, self.c / self._most, 1.0)

    def of_moves(self, space: spaces.Space[Any], proposed: NDArray[Any], executed: NDArray[Any]) -> Array:
        """What is taken from the rewards (n,) of proposals (n, ...) in whose place others were executed."""
        if not isinstance(space, spaces.Box):
            return self.moved * (proposed != executed).reshape(len(proposed), -1).any(axis=1)
        span = np.maximum(space.high - space.low, np.finfo(np.float32).tiny)
        moves = np.abs(np.clip(proposed, space.low, space.high) - executed) / span
        return np.asarray(self.moved * moves.reshape(len(proposed), -1).mean(axis=1))

    @property
    def _most(self) -> float:
        return self.c if self.largest is None else self.largest
