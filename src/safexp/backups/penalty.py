"""What an emergency stop costs the learner (the paper's equation 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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
    """

    c: float = 1.0
    largest: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.c <= self._most < math.inf:
            raise ValueError(f"{self} needs 0 ≤ c ≤ largest < ∞; penalties are given as positive numbers.")

    def __call__(self, least_width: Array) -> Array:
        """The rewards (n,) of transitions into states whose least width is `least_width` (n,)."""
        if self.c == 0:
            return np.zeros_like(least_width)
        return -self.c / np.clip(least_width, self.c / self._most, 1.0)

    @property
    def _most(self) -> float:
        return self.c if self.largest is None else self.largest
