"""Base class of quantifiers with fitted widths: the modelled quantity, and the range of the data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, arguments_of
from safexp.quantifiers.regression import pairs_of
from safexp.quantifiers.support import Support
from safexp.quantifiers.targets import (
    Target,
    check_target,
    cost_interval,
    error_of,
    prior_mean,
    target_of,
    unknown_interval,
)
from safexp.quantifiers.visited import Visited


class FittedQuantifier(Quantifier):
    """A model of the cost, the margin or a change, whose widths are a fit without a guarantee.

    Widths grow beyond the range of the data (`Support`), and are infinite before there is any. Those of a cost or a
    margin are also infinite away from the visited inputs (`Visited`); `ChangeModel` has its own rule for changes.

    Args:
        target: the modelled quantity.
        reach: distance beyond the data up to which a width is finite, in standard deviations of an input.
    """

    is_regression = True
    promises_coverage = False

    def __init__(self, target: Target, reach: float) -> None:
        self._name = type(self).__name__
        check_target(self._name, target)
        self.target = target
        self.reach = reach
        self._support = Support(reach)
        self._visited: Visited | None = None

    @property
    def visited(self) -> Visited | None:
        """Region in which costs or margins are certified; None for changes, and before the first fit."""
        return self._visited

    @property
    def support(self) -> Support:
        """Range of the data."""
        return self._support

    @abstractmethod
    def _predicted(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m) of the modelled quantity less the prior mean, within the range of the data."""

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        mean, width = self.interval(states, actions)
        return self.as_costs(mean, width) if self.knows else (mean, width)

    def interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        if not self.knows:
            return unknown_interval(self.target, *actions.shape[:2])
        mean, width = self._predicted(states, actions)
        width = width * self._support.factor(states, actions)
        if self._visited is not None:
            width = np.where(self._visited.contains(states, actions), width, np.inf)
        return mean + prior_mean(self.target), width

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        return cost_interval(self.target, mean, width)

    def observed(self, data: Transitions) -> Array:
        return target_of(self._name, self.target, data)

    def error(self, observed: Array, mean: Array) -> Array:
        return error_of(self.target, observed, mean)

    def nearness(self, data: Transitions) -> Array:
        observed = self.observed(data)
        return -observed if self.target == "margin" else observed

    def as_regression(self, delta: float) -> Quantifier:
        return type(self)(**(arguments_of(self) | {"target": "change", "delta": delta}))

    def state(self) -> dict[str, NDArray[Any]]:
        return {**self._support.state(), **({} if self._visited is None else self._visited.state())}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._support.restore(state)
        self._visited = Visited.of(state)

    def _extend(self, data: Transitions) -> None:
        """Add transitions to the range and the region in which widths are finite."""
        self._support.add(pairs_of(data))
        if self._visited is not None:
            self._visited.add(data)
        elif self.target != "change" and len(data.costs):
            self._visited = Visited.measured(data, self.observed(data), self.nearness(data), self.delta)
