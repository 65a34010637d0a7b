"""One quantifier for each of several costs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, inner_of, restore_parts, state_of_parts


def models_margin(quantifier: Quantifier) -> bool:
    """Whether a quantifier, or one inside it, predicts the cost from the margin."""
    return getattr(quantifier, "target", None) == "margin" or any(models_margin(part) for part in inner_of(quantifier))


class PerCost(Quantifier):
    """One quantifier for each part of `AllOf`.

    The probability that any of them misses is at most the sum of their δ.

    Args:
        parts: a quantifier for each cost, in the order of the constraints.

    Example:
        >>> level = safexp.Known(lambda states, actions: states[:, 0])
        >>> both = safexp.PerCost(level, safexp.Unknown())
        >>> mean, width = both.predict(np.array([[0.4]]), np.zeros((1, 1, 1)))
        >>> print(mean, width)
        [[[0.4 0. ]]] [[[ 0. inf]]]
    """

    def __init__(self, *parts: Quantifier) -> None:
        self.parts = parts
        self.num_costs = sum(part.num_costs for part in parts)
        self.num_signals = sum(part.num_signals for part in parts)
        self.delta = sum(part.delta for part in parts)
        self.bounds_realised_cost = all(part.bounds_realised_cost for part in parts)
        self.looks_ahead = any(part.looks_ahead for part in parts)

    @classmethod
    def of(cls, quantifier: Quantifier, count: int) -> PerCost:
        """`count` copies that share the δ of one.

        Raises:
            ValueError: if it models the margin, of which there is only one and which says nothing about other costs.
        """
        if count > 1 and models_margin(quantifier):
            raise ValueError(
                f"{type(quantifier).__name__} models the margin, and {count} copies of it would predict {count} costs "
                'from that alone: give one quantifier for each, such as PerCost(SparseGP("margin"), SparseGP("cost")).'
            )
        return cls(*(quantifier.with_delta(quantifier.delta / count) for _ in range(count)))

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        answers = [part.predict(own, actions) for part, own in zip(self.parts, self._states(states), strict=True)]
        shape = actions.shape[:2]
        mean, width = (
            np.concatenate([np.reshape(one, (*shape, -1)) for one in kind], -1) for kind in zip(*answers, strict=True)
        )
        return mean, width

    def update(self, data: Transitions) -> None:
        for part, own in zip(self.parts, self._data(data), strict=True):
            part.update(own)

    def fit(self, data: Transitions) -> None:
        for part, own in zip(self.parts, self._data(data), strict=True):
            part.fit(own)

    def settings(self) -> dict[str, Any]:
        """Empty: the parts are described separately."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        return state_of_parts(self.parts)

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        restore_parts(self.parts, state)

    def _states(self, states: Array) -> list[Array]:
        """The states for each part: without signals, or followed by those of the part."""
        if not self.num_signals:
            return [states] * len(self.parts)
        bare, signals = np.split(states, [states.shape[1] - self.num_signals], axis=1)
        return [np.concatenate([bare, own], axis=1) for own in _shares(signals, [p.num_signals for p in self.parts])]

    def _data(self, data: Transitions) -> list[Transitions]:
        """The transitions for each part, with its costs and signals."""
        costs = _shares(data.costs, [part.num_costs for part in self.parts])
        signals = [None] * len(costs)
        if data.signals is not None:
            signals = _shares(data.signals, [part.num_signals for part in self.parts])  # type: ignore[assignment]
        following = [None] * len(costs)
        if data.next_states is not None:
            following = self._states(data.next_states)  # type: ignore[assignment]
        return [
            data._replace(
                states=states, costs=own[:, 0] if own.shape[1] == 1 else own, signals=measured, next_states=after
            )
            for states, own, measured, after in zip(self._states(data.states), costs, signals, following, strict=True)
        ]

    def with_delta(self, delta: float) -> Self:
        share = delta / len(self.parts)
        return type(self)(*(part.with_delta(share) for part in self.parts))


def _shares(columns: Array, counts: list[int]) -> list[Array]:
    """Split columns (n, sum of counts) by the counts."""
    return np.split(columns, np.cumsum(counts)[:-1], axis=1)
