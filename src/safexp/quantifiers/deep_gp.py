"""The paper's deep Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.quantifiers.base import Quantifier, Transitions
from safexp.quantifiers.data_set import DataSet
from safexp.quantifiers.deep_model import DeepModel, HiddenLayers, Predictor
from safexp.quantifiers.learned import (
    check_counts,
    check_delta,
    check_positive,
    check_question,
    pairs_of,
    refit,
    settings_of,
)
from safexp.quantifiers.targets import (
    Target,
    check_target,
    cost_interval,
    normal_multiplier,
    prior_mean,
    target_of,
    unknown_interval,
)
from safexp.signals import Array

MODEL = "model."
"""What the names of the model's arrays begin with in `DeepGP.state`."""


class DeepGP(Quantifier):
    """Gaussian processes of Gaussian processes (Salimbeni and Deisenroth 2017), on the cost or on the margin.

    Hidden layers of `widths` processes with linear means, then one process whose q(v) and noise are set to their
    optimum in closed form. Mean and width come from `num_samples` fixed samples of the hidden values; the width is a
    multiple of the standard deviation of an observation. It promises nothing by itself: measure its coverage and
    calibrate it. Inputs are standardised as they were in the first data.

    As in `SparseGP`, far from the output layer's inducing points the worst is predicted; but linear means go on for
    ever, so that far inputs may land among known hidden values: a deep GP can be sure of itself where it has seen
    nothing.

    Args:
        target: "cost" or "margin"; see `SparseGP`.
        widths: of the hidden layers; the paper's are (16, 16).
        num_inducing: inducing points of every process; the paper's are 128.
        shared: the faster variant. The processes of a hidden layer share their inducing inputs and kernel, and the
            entries of q(v) are independent.
        num_samples: samples of the hidden values in a prediction; 10, or 2 of the faster variant.
        delta: a normal variable leaves the interval with probability δ; each time, and under the model only.
        multiplier: of the deviation, in place of the normal quantile that belongs to `delta`.
        capacity: how many transitions are kept; see `DataSet`.
        steps: gradient steps of an update.
        first_steps: gradient steps from scratch.
        batch_size: how many transitions a gradient step looks at.
        learning_rate: of Adam from scratch; an update has a fifth of it.
        seed: of first values, batches, samples, and of what is kept.
    """

    bounds_realised_cost = True

    def __init__(
        self,
        target: Target = "cost",
        widths: Sequence[int] = (16, 16),
        num_inducing: int = 128,
        shared: bool = False,
        num_samples: int | None = None,
        delta: float = 0.01,
        multiplier: float | None = None,
        capacity: int = 2048,
        steps: int = 20,
        first_steps: int = 200,
        batch_size: int = 64,
        learning_rate: float = 0.005,
        seed: int = 0,
    ) -> None:
        check_target("DeepGP", target)
        check_counts("DeepGP", num_inducing=num_inducing, steps=steps, first_steps=first_steps, batch_size=batch_size)
        check_counts("DeepGP", **{f"widths[{k}]": width for k, width in enumerate(widths)})
        check_delta("DeepGP", delta)
        check_positive("DeepGP", multiplier=multiplier, learning_rate=learning_rate)
        self.target = target
        self.widths = list(widths)
        self.num_inducing = num_inducing
        self.shared = shared
        self.num_samples = (2 if shared else 10) if num_samples is None else num_samples
        check_counts("DeepGP", num_samples=self.num_samples)
        self.delta = delta
        self.multiplier = multiplier
        self.capacity = capacity
        self.steps = steps
        self.first_steps = first_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.seed = seed
        self._multiplier = normal_multiplier(delta) if multiplier is None else multiplier
        self._fitted: Predictor | None = None
        self._data = DataSet(capacity, seed)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        if self._fitted is None:
            return unknown_interval(*actions.shape[:2])
        return cost_interval(self.target, *self.predict_target(states, actions))

    def predict_target(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m) of what is modelled: the cost, or the margin."""
        if self._fitted is None or self._data.rows is None:
            raise ValueError("DeepGP has not learned anything yet: call fit or update first.")
        rows = self._data.rows
        check_question("DeepGP", (rows.states.shape[1], rows.actions.shape[1]), states, actions)
        n, m, _ = actions.shape
        pairs = np.concatenate([np.repeat(states, m, axis=0), actions.reshape(n * m, -1)], axis=1)
        mean, variance = (part.reshape(n, m) for part in self._fitted.predict(pairs))
        return mean + prior_mean(self.target), self._multiplier * np.sqrt(variance)

    @property
    def model(self) -> DeepModel | None:
        """What was learned, if anything was."""
        return None if self._fitted is None else self._fitted.model

    def update(self, data: Transitions) -> None:
        target_of("DeepGP", self.target, data)
        self._data.add(data)
        self._fitted = refit("DeepGP", self._fitted, self._train)

    def fit(self, data: Transitions) -> None:
        target_of("DeepGP", self.target, data)
        self._data = DataSet(self.capacity, self.seed)
        self._fitted = None
        self.update(data)

    def settings(self) -> dict[str, Any]:
        return settings_of(self)

    def state(self) -> dict[str, NDArray[Any]]:
        model = {} if self.model is None else self.model.state()
        return {**self._data.state(), **{f"{MODEL}{name}": part for name, part in model.items()}}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._data.restore(state)
        parts = {name.removeprefix(MODEL): part for name, part in state.items() if name.startswith(MODEL)}
        self._fitted = None
        if parts:
            model = DeepModel.of(parts)
            self._fitted = Predictor(model, HiddenLayers(model.layers[:-1]), self.num_samples, self.seed)

    def with_delta(self, delta: float) -> Self:
        copy = type(self)(**(self.settings() | {"delta": delta}))
        copy.restore(self.state())
        return copy

    def _train(self) -> Predictor:
        from safexp.quantifiers.deep_training import train  # here, because a deployed shield needs no torch

        rows = self._data.rows
        assert rows is not None, "trained after data was added"
        trained = train(
            pairs_of(rows),
            target_of("DeepGP", self.target, rows) - prior_mean(self.target),
            self.model,
            widths=self.widths,
            shared=self.shared,
            num_inducing=self.num_inducing,
            steps=self.first_steps if self.model is None else self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=np.random.default_rng([self.seed, self._data.updates]),
        )
        return Predictor(*trained, self.num_samples, self.seed)
