"""A sparse variational Gaussian process: inducing points, quick refits, and predictions without a factorisation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.quantifiers.base import Quantifier, Transitions
from safexp.quantifiers.data_set import DataSet
from safexp.quantifiers.learned import (
    check_counts,
    check_delta,
    check_finite,
    check_positive,
    check_question,
    factor,
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
"""What the names of the model's arrays begin with in `SparseGP.state`."""


@dataclass(frozen=True)
class SparseModel:
    """What was learned: M inducing inputs (M, d), the kernel, and q(v) = N(mean, covariance) of whitened values v.

    Inputs are standardised with `shift` and `scale` (d,); inducing inputs and lengthscales (d,) mean standardised ones.
    Variances are squares in the target's units.
    """

    shift: Array
    scale: Array
    inducing: Array
    log_lengthscales: Array
    log_variance: Array
    log_noise: Array
    mean: Array
    covariance: Array


class SparseGP(Quantifier):
    """A Gaussian process with inducing points (Titsias 2009, Hensman et al. 2013) on the cost or on the margin.

    The width is a multiple of the predictive standard deviation, the noise of an observation included. That is a
    statement of the model: an approximate posterior with fitted lengthscales promises nothing about the world. Measure
    its coverage and calibrate it. Two things make ignorance look like ignorance: away from all data the worst is
    predicted (cost 1, or margin 0), and the prior's deviation never falls below the root mean square distance of the
    data from that, so that a run without costs does not conclude that there are none.

    An update takes `steps` gradient steps on kernel and inducing inputs from where they are; in between, q(v) and the
    noise are set to their optimum on the whole data set, which has a closed form.

    Args:
        target: "cost", or "margin": the cost is then 0 where the margin is surely above 0 and 1 where it is surely
            below. An indicator cost jumps, which no RBF process does; its margin is smooth.
        num_inducing: M, the number of inducing points.
        delta: a normal variable leaves the interval with probability δ; each time, and under the model only.
        multiplier: of the deviation, in place of the normal quantile that belongs to `delta`.
        capacity: how many transitions are kept; see `DataSet`.
        steps: gradient steps of an update.
        first_steps: gradient steps from scratch.
        batch_size: how many transitions a gradient step looks at.
        learning_rate: of Adam.
        seed: of the first inducing inputs, of batches, and of what is kept.
    """

    bounds_realised_cost = True

    def __init__(
        self,
        target: Target = "cost",
        num_inducing: int = 128,
        delta: float = 0.01,
        multiplier: float | None = None,
        capacity: int = 2048,
        steps: int = 20,
        first_steps: int = 200,
        batch_size: int = 64,
        learning_rate: float = 0.05,
        seed: int = 0,
    ) -> None:
        check_target("SparseGP", target)
        check_counts("SparseGP", num_inducing=num_inducing, steps=steps, first_steps=first_steps, batch_size=batch_size)
        check_delta("SparseGP", delta)
        check_positive("SparseGP", multiplier=multiplier, learning_rate=learning_rate)
        self.target = target
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
        self._fitted: _Fitted | None = None
        self._data = DataSet(capacity, seed)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        if self._fitted is None:
            return unknown_interval(*actions.shape[:2])
        return cost_interval(self.target, *self.predict_target(states, actions))

    def predict_target(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m) of what is modelled: the cost, or the margin."""
        if self._fitted is None or self._data.rows is None:
            raise ValueError("SparseGP has not learned anything yet: call fit or update first.")
        rows = self._data.rows
        check_question("SparseGP", (rows.states.shape[1], rows.actions.shape[1]), states, actions)
        mean, variance = self._fitted.predict(states, actions)
        return mean + prior_mean(self.target), self._multiplier * np.sqrt(variance)

    @property
    def model(self) -> SparseModel | None:
        """What was learned, if anything was."""
        return None if self._fitted is None else self._fitted.model

    def update(self, data: Transitions) -> None:
        target_of("SparseGP", self.target, data)
        self._data.add(data)
        self._fitted = refit("SparseGP", self._fitted, self._train)

    def fit(self, data: Transitions) -> None:
        target_of("SparseGP", self.target, data)
        self._data = DataSet(self.capacity, self.seed)
        self._fitted = None
        self.update(data)

    def settings(self) -> dict[str, Any]:
        return settings_of(self)

    def state(self) -> dict[str, NDArray[Any]]:
        model = {} if self.model is None else asdict(self.model)
        return {**self._data.state(), **{f"{MODEL}{name}": part for name, part in model.items()}}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._data.restore(state)
        parts = {name.removeprefix(MODEL): np.array(part) for name, part in state.items() if name.startswith(MODEL)}
        for scalar in parts.keys() & {"log_variance", "log_noise"}:  # a file gives them back as arrays of one entry
            parts[scalar] = parts[scalar].reshape(())
        self._fitted = _Fitted(SparseModel(**parts), self._data.num_states) if parts else None

    def with_delta(self, delta: float) -> Self:
        copy = type(self)(**(self.settings() | {"delta": delta}))
        copy.restore(self.state())
        return copy

    def _train(self) -> _Fitted:
        from safexp.quantifiers.sparse_training import train  # here, because a deployed shield needs no torch

        rows = self._data.rows
        assert rows is not None, "trained after data was added"
        model = train(
            pairs_of(rows),
            target_of("SparseGP", self.target, rows) - prior_mean(self.target),
            self.model,
            num_inducing=self.num_inducing,
            steps=self.first_steps if self.model is None else self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=np.random.default_rng([self.seed, self._data.updates]),
        )
        check_finite("SparseGP", **asdict(model))
        return _Fitted(model, rows.states.shape[1])


class _Fitted:
    """A model rearranged so that a prediction needs one matrix product and no factorisation.

    With a = L⁻¹k, the variance k** − aᵀ(I − covariance)a is k** − |W·k|² for W = √(I − covariance)·L⁻¹, a sum of
    squares that loses few digits; the mean is kᵀα for α = L⁻ᵀ·mean. An RBF kernel of (state, action) is a product of
    two, and a shield asks about the same candidates again and again: the factor of actions that all states share is
    computed once and remembered until other ones are asked about.
    """

    def __init__(self, model: SparseModel, split: int) -> None:
        from scipy.linalg import solve_triangular  # here, because the command line starts twice as fast without it

        inducing = model.inducing * np.exp(-model.log_lengthscales)
        norms = 0.5 * np.einsum("md,md->m", inducing, inducing)
        root = factor(np.exp(np.minimum(inducing @ inducing.T - norms[:, None] - norms, 0.0) + model.log_variance))
        known, axes = np.linalg.eigh(np.eye(len(root)) - model.covariance)
        half = axes * np.sqrt(np.clip(known, 0.0, 1.0))
        weights = solve_triangular(root, np.column_stack([half, model.mean]), lower=True, trans="T")
        self.model = model
        self._weights = np.exp(model.log_variance) * weights
        self._of_pairs = _Factor(model, inducing, slice(None))
        self._of_states = _Factor(model, inducing, slice(None, split))
        self._of_actions = _Factor(model, inducing, slice(split, None))
        self._variance, self._noise = float(np.exp(model.log_variance)), float(np.exp(model.log_noise))
        self._remembered = b"", np.zeros((0, len(inducing)))

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean without the prior's, and variance of an observation, (n, m)."""
        n, m, _ = actions.shape
        if m == 1:  # a lone proposal needs no factors, and must not displace the candidates that are remembered
            correlation = self._of_pairs(np.concatenate([states, actions[:, 0]], axis=1))
        else:
            correlation = (self._at_actions(actions) * self._of_states(states)[:, None]).reshape(n * m, -1)
        projected = correlation @ self._weights
        explained = np.einsum("nm,nm->n", projected[:, :-1], projected[:, :-1])
        variance = np.maximum(self._variance - explained, 0.0) + self._noise
        return projected[:, -1].reshape(n, m), variance.reshape(n, m)

    def _at_actions(self, actions: Array) -> Array:
        """The kernel's factor of these actions: (n, m, M), or (1, m, M) where all states share them."""
        shared = (actions == actions[:1]).all(axis=(0, 2))
        common = actions[0, shared]
        remembered = self._remembered  # read once: another thread may replace it
        if remembered[0] != common.tobytes():
            self._remembered = remembered = common.tobytes(), self._of_actions(common)
        if shared.all():
            return remembered[1][None]
        n, m, size = actions.shape
        factors = np.empty((n, m, self._weights.shape[0]))
        factors[:, shared] = remembered[1]
        factors[:, ~shared] = self._of_actions(actions[:, ~shared].reshape(-1, size)).reshape(n, -1, factors.shape[2])
        return factors


class _Factor:
    """The part exp(−½|x − z|²) of a kernel that some of the inputs contribute, for the inducing inputs z."""

    def __init__(self, model: SparseModel, inducing: Array, part: slice) -> None:
        self._shift, self._rate = model.shift[part], np.exp(-model.log_lengthscales[part]) / model.scale[part]
        self._inducing = np.ascontiguousarray(inducing[:, part].T)
        self._norms = 0.5 * np.einsum("dm,dm->m", self._inducing, self._inducing)

    def __call__(self, inputs: Array) -> Array:
        """(n, M) for inputs (n, d)."""
        inputs = (inputs - self._shift) * self._rate
        exponent = inputs @ self._inducing
        exponent -= self._norms
        exponent -= 0.5 * np.einsum("nd,nd->n", inputs, inputs)[:, None]
        np.minimum(exponent, 0.0, out=exponent)
        return np.asarray(np.exp(exponent, out=exponent))
