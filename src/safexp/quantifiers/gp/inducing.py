"""Base class of Gaussian processes with inducing points: data, refits, predictions of costs, and state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.data_set import DataSet
from safexp.quantifiers.fitted import FittedQuantifier
from safexp.quantifiers.regression import (
    check_counts,
    check_delta,
    check_positive,
    check_question,
    pairs_of,
    refit,
)
from safexp.quantifiers.support import REACH
from safexp.quantifiers.targets import Target, normal_multiplier, prior_mean, target_of

MODEL = "model."
"""Prefix of the model's array names in `InducingGP.state`."""


class Model(Protocol):
    """Learned parameters."""

    def state(self) -> dict[str, Array]:
        """The parameters as named arrays."""


M = TypeVar("M", bound=Model)


class Fitted(Protocol[M]):
    """A model that is ready to predict."""

    model: M

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean less the prior mean, and variance of an observation, (n, m)."""


class InducingGP(FittedQuantifier, Generic[M]):
    """A process trained on a bounded data set, whose width is a multiple of its standard deviation.

    The arguments are those of `SparseGP`.
    """

    bounds_realised_cost = True

    def __init__(
        self,
        target: Target = "cost",
        *,
        num_inducing: int = 128,
        delta: float = 0.01,
        multiplier: float | None = None,
        capacity: int = 2048,
        steps: int = 20,
        first_steps: int = 200,
        batch_size: int = 64,
        learning_rate: float = 0.05,
        reach: float = REACH,
        seed: int = 0,
    ) -> None:
        super().__init__(target, reach)
        name = type(self).__name__
        check_counts(name, num_inducing=num_inducing, steps=steps, first_steps=first_steps, batch_size=batch_size)
        check_delta(name, delta)
        check_positive(name, multiplier=multiplier, learning_rate=learning_rate)
        self.num_inducing = num_inducing
        self.delta = delta
        self.multiplier = multiplier
        self.capacity = capacity
        self.steps = steps
        self.first_steps = first_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.seed = seed
        self._multiplier = normal_multiplier(delta) if multiplier is None else multiplier
        self._fitted: Fitted[M] | None = None
        self._data = DataSet(capacity, seed, costly=target != "change")

    @abstractmethod
    def _trained(self, pairs: Array, values: Array, steps: int, rng: np.random.Generator) -> Fitted[M]:
        """Train on `values` (n,) less the prior mean at `pairs` (n, d), starting from the old model if there is one."""

    @abstractmethod
    def _from_state(self, parts: dict[str, NDArray[Any]]) -> Fitted[M]:
        """Build the model from the arrays of its `state`."""

    def _predicted(self, states: Array, actions: Array) -> tuple[Array, Array]:
        rows = self._data.rows
        assert self._fitted is not None, "called only after a fit"
        assert rows is not None, "fitted to some rows"
        check_question(self._name, (rows.states.shape[1], rows.actions.shape[1]), states, actions)
        mean, variance = self._fitted.predict(states, actions)
        return mean, self._multiplier * np.sqrt(variance)

    @property
    def knows(self) -> bool:
        return self._fitted is not None

    @property
    def width_multiplier(self) -> float:
        """Number of standard deviations in a width."""
        return self._multiplier

    @property
    def model(self) -> M | None:
        """The learned parameters, or None before the first fit."""
        return None if self._fitted is None else self._fitted.model

    def update(self, data: Transitions) -> None:
        target_of(self._name, self.target, data)
        self._data.add(data)
        self._extend(data)
        self._fitted = refit(self._name, self._fitted, self._train)

    def state(self) -> dict[str, NDArray[Any]]:
        model = {} if self.model is None else self.model.state()
        return {**super().state(), **self._data.state(), **{f"{MODEL}{name}": part for name, part in model.items()}}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._data.restore(state)
        parts = {name.removeprefix(MODEL): np.array(part) for name, part in state.items() if name.startswith(MODEL)}
        self._fitted = self._from_state(parts) if parts else None

    def _train(self) -> Fitted[M]:
        rows = self._data.rows
        assert rows is not None, "trained after data was added"
        values = target_of(self._name, self.target, rows) - prior_mean(self.target)
        steps = self.first_steps if self.model is None else self.steps
        return self._trained(pairs_of(rows), values, steps, np.random.default_rng([self.seed, self._data.updates]))
