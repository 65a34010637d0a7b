"""What every uncertainty quantifier offers (the paper's Assumption 3.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array


class Transitions(NamedTuple):
    """Logged steps, as a quantifier learns from them.

    `states` (n, ds) are observations flattened to vectors, `actions` (n, da) the *executed* actions (discrete
    ones one-hot), `costs` (n,) or (n, K) lie in [0, 1], `margins` (n,) are signed distances to the limit after the
    step where the task tells them, and `episodes` (n,) number the episodes that the steps belong to, where known.
    """

    states: Array
    actions: Array
    costs: Array
    margins: Array | None = None
    episodes: NDArray[np.int64] | None = None


class Quantifier(ABC):
    """Predicts the cost g(s, a) as `mean ± width`, right for all (s, a) and the whole run with probability 1 − δ.

    `delta` is the probability, over the whole run and not per step, that the interval ever misses.
    `num_costs` is how many costs K it bounds at once. `bounds_realised_cost` says that `mean + width` bounds the cost
    that is then *observed*, not just its expectation; only then may a shield round the bound down to a level that can
    occur.
    """

    delta: float
    num_costs: int = 1
    bounds_realised_cost: bool = False

    @abstractmethod
    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m), of K > 1 costs (n, m, K), of the costs of `actions` (n, m, da) in `states` (n, ds)."""

    @abstractmethod
    def update(self, data: Transitions) -> None:
        """Learn from further transitions."""

    @abstractmethod
    def fit(self, data: Transitions) -> None:
        """Forget everything and learn from these transitions alone."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON values; raises `TypeError` where one cannot be written down."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as named arrays."""

    @abstractmethod
    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` returned."""

    @abstractmethod
    def with_delta(self, delta: float) -> Self:
        """A copy that may miss with probability `delta`; `AllOf` gives each of its K costs δ/K."""
