"""One quantifier for each of several costs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, inner_of
from safexp.quantifiers.from_margin import FromMargin


def models_margin(quantifier: Quantifier) -> bool:
    """Whether it predicts the cost from the margin, by itself or through one inside it."""
    by_itself = isinstance(quantifier, FromMargin) or getattr(quantifier, "target", None) == "margin"
    return by_itself or any(models_margin(part) for part in inner_of(quantifier))


class Each(Quantifier):
    """Puts K quantifiers side by side; the probability that any of them misses is at most the sum of their δ."""

    def __init__(self, *parts: Quantifier) -> None:
        self.parts = parts
        self.num_costs = len(parts)
        self.delta = sum(part.delta for part in parts)
        self.bounds_realised_cost = all(part.bounds_realised_cost for part in parts)

    @classmethod
    def of(cls, quantifier: Quantifier, count: int) -> Each:
        """`count` copies that share the δ of one.

        Raises:
            ValueError: where it models the margin, which there is only one of, and which says nothing of other costs.
        """
        if count > 1 and models_margin(quantifier):
            raise ValueError(
                f"{type(quantifier).__name__} models the margin, and {count} copies of it would predict {count} costs "
                'from that alone: give one quantifier for each, such as Each(SparseGP("margin"), SparseGP("cost")).'
            )
        return cls(*(quantifier.with_delta(quantifier.delta / count) for _ in range(count)))

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        predictions = [part.predict(states, actions) for part in self.parts]
        return np.stack([mean for mean, _ in predictions], -1), np.stack([width for _, width in predictions], -1)

    def update(self, data: Transitions) -> None:
        for k, part in enumerate(self.parts):
            part.update(data._replace(costs=data.costs[:, k]))

    def fit(self, data: Transitions) -> None:
        for k, part in enumerate(self.parts):
            part.fit(data._replace(costs=data.costs[:, k]))

    def settings(self) -> dict[str, Any]:
        """Nothing: its parts are all there is to it."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        return {f"{k}.{name}": part for k, own in enumerate(self.parts) for name, part in own.state().items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        for k, part in enumerate(self.parts):
            own = f"{k}."
            part.restore({name.removeprefix(own): array for name, array in state.items() if name.startswith(own)})

    def with_delta(self, delta: float) -> Self:
        share = delta / len(self.parts)
        return type(self)(*(part.with_delta(share) for part in self.parts))
