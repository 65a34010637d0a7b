"""Bayesian linear regression on random or learned features, with self-normalised widths."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.core.extras import needed_for
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.data_set import DataSet, check_transitions
from safexp.quantifiers.fitted import FittedQuantifier
from safexp.quantifiers.linear_head import Head
from safexp.quantifiers.regression import (
    check_counts,
    check_delta,
    check_finite,
    check_positive,
    check_question,
    pairs_of,
    refit,
    standards,
)
from safexp.quantifiers.support import REACH
from safexp.quantifiers.targets import Target, normal_multiplier, prior_mean, target_of

Features = Literal["random", "learned"]

LAYER = "layer."
"""Prefix of the feature map's array names in `FeatureRegression.state`."""


class FeatureRegression(FittedQuantifier):
    """Linear regression ⟨θ, φ(s, a)⟩ of the cost or the margin on D features.

    With Λ = λI + Σφφᵀ and the ridge estimate θ̂, for all (s, a) and all times at once with probability 1 − δ,

        |⟨θ, φ⟩ − ⟨θ̂, φ⟩| ≤ (√λ·B + R·√(ln(det Λ / λᴰ) + 2 ln(1/δ)))·‖φ‖_{Λ⁻¹}

    (Abbasi-Yadkori et al. 2011), *if* the target less the prior's mean (1 for a cost, 0 for a margin) is ⟨θ, φ⟩ with
    ‖θ‖ ≤ B = `norm_bound`, plus noise that is R-sub-Gaussian given the past (R = `noise`), and φ was fixed before the
    data. The first *if* is a strong one: where the features cannot express the target, the width shrinks all the same.
    As the regression of a `ChangeModel`, R is at least the root mean square residual of the features, and a multiple of
    that is added to the width, which must cover the next measurement.

    "random" features are cosines whose inner product approximates an RBF kernel; they are fixed except for the
    standardisation of the inputs, which the first data sets without looking at costs. Every transition counts, by a
    rank-one update or, if there are many, by one factorisation; nothing is dropped and nothing grows. "learned"
    features are the last hidden layer of a small network that is trained on the stored data at every update, and Λ sums
    over that data: the formula then gives a width without a guarantee. Measure its coverage and calibrate it.

    `examine` compares it with `SparseGP` on your log.

    Args:
        target: "cost" or "margin"; see `SparseGP`.
        features: "random" or "learned".
        num_features: D.
        lengthscale: lengthscale of the RBF kernel on standardised inputs; √d by default.
        norm_bound: B, in the target's units, from the user's knowledge.
        noise: R, in the target's units; 0 for a target that is a function of (s, a).
        delta: probability that the bound ever fails.
        regulariser: λ.
        capacity: number of transitions stored to train learned features; see `DataSet`.
        steps: gradient steps of an update.
        first_steps: gradient steps from scratch.
        learning_rate: learning rate of Adam.
        reach: distance beyond the visited range of an input up to which widths are finite, in standard deviations.
        seed: seed of features, batches, and the stored sample.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(0, 1, (200, 1)), rng.uniform(0, 1, (200, 1))
        >>> data = safexp.Transitions(states, actions, costs=states[:, 0] * actions[:, 0])
        >>> model = safexp.FeatureRegression(num_features=32)
        >>> model.fit(data)
        >>> mean, width = model.predict(np.array([[0.5]]), np.array([[[0.2], [0.9]]]))
        >>> print(mean.round(1))
        [[0.1 0.4]]
    """

    def __init__(
        self,
        target: Target = "cost",
        *,
        features: Features = "random",
        num_features: int = 256,
        lengthscale: float | None = None,
        norm_bound: float = 3.0,
        noise: float = 0.03,
        delta: float = 0.01,
        regulariser: float = 0.01,
        capacity: int = 4096,
        steps: int = 50,
        first_steps: int = 500,
        learning_rate: float = 3e-3,
        reach: float = REACH,
        seed: int = 0,
    ) -> None:
        super().__init__(target, reach)
        if features not in get_args(Features):
            raise ValueError(f"FeatureRegression(features={features!r}) is not one of {', '.join(get_args(Features))}.")
        check_counts("FeatureRegression", num_features=num_features, steps=steps, first_steps=first_steps)
        check_positive(
            "FeatureRegression",
            lengthscale=lengthscale,
            norm_bound=norm_bound,
            regulariser=regulariser,
            learning_rate=learning_rate,
        )
        if not (math.isfinite(noise) and noise >= 0):
            raise ValueError(f"FeatureRegression(noise={noise}) must be finite and at least 0.")
        check_delta("FeatureRegression", delta)
        self.features = features
        self.num_features = num_features
        self.lengthscale = lengthscale
        self.norm_bound = norm_bound
        self.noise = noise
        self.delta = delta
        self.regulariser = regulariser
        self.capacity = capacity
        self.steps = steps
        self.first_steps = first_steps
        self.learning_rate = learning_rate
        self.seed = seed
        self.bounds_realised_cost = noise == 0 and features == "random"
        self._data = DataSet(capacity, seed, costly=target != "change")
        self._layers: list[Array] = []
        self._split = 0
        self._head: Head | None = None
        self._residual = 0.0
        self._multiplier = normal_multiplier(delta)

    @property
    def knows(self) -> bool:
        return self._head is not None

    @property
    def layers(self) -> list[Array]:
        """The feature map: frequencies and phases, or the weights and biases of the network."""
        return self._layers

    @property
    def head(self) -> Head | None:
        """The regression on the features, or None before the first fit."""
        return self._head

    @property
    def width_factors(self) -> tuple[float, float]:
        """Factor of ‖φ‖_{Λ⁻¹} in a width, and the part that does not depend on it."""
        assert self._head is not None, "called only after a fit"
        noise = max(self.noise, self._residual)
        return self._head.scale(self.norm_bound, noise, self.delta), self._multiplier * self._residual

    def _predicted(self, states: Array, actions: Array) -> tuple[Array, Array]:
        assert self._head is not None, "called only after a fit"
        check_question("FeatureRegression", (self._split, len(self._layers[0]) - self._split), states, actions)
        phi = self._phi(states, actions)
        mean, norm = self._head.predict(phi.reshape(-1, phi.shape[2]))
        scale, residual = self.width_factors
        width = scale * norm + residual
        return mean.reshape(phi.shape[:2]), width.reshape(phi.shape[:2])

    def update(self, data: Transitions) -> None:
        values = target_of("FeatureRegression", self.target, data) - prior_mean(self.target)
        if self.features == "learned":
            self._data.add(data)
            self._extend(data)
            learned = refit("FeatureRegression", (self._layers, self._head), self._learn)
            assert learned is not None, "the old pair is kept if the refit fails"
            self._layers, self._head = learned
            self._settle()
            return
        check_transitions(data)
        if self._head is None:
            self._layers = random_layer(pairs_of(data), self.num_features, self.lengthscale, self.seed)
            self._split = data.states.shape[1]
            self._head = Head(self.num_features, self.regulariser)
        check_question("FeatureRegression", (self._split, len(self._layers[0]) - self._split), *_asked(data))
        self._head.absorb(self._phi(*_asked(data))[:, 0], values)
        self._settle()
        self._extend(data)

    def state(self) -> dict[str, NDArray[Any]]:
        if self._head is None:
            return self._data.state()
        kept = {**super().state(), **self._data.state()}
        layers = {f"{LAYER}{k}": layer for k, layer in enumerate(self._layers)}
        return {**kept, **layers, **self._head.state(), "split": np.array([float(self._split)])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._data.restore(state)
        self._layers = [np.array(state[f"{LAYER}{k}"]) for k in range(sum(name.startswith(LAYER) for name in state))]
        self._head = Head.of(state, self.regulariser) if self._layers else None
        self._split = int(state["split"][0]) if self._layers else 0
        self._settle()

    def _settle(self) -> None:
        """Set the noise of a change, which is not known beforehand, to the residual of the features."""
        self._residual = self._head.residual if self._head is not None and self.target == "change" else 0.0

    def _learn(self) -> tuple[list[Array], Head]:
        with needed_for("training FeatureRegression(features='learned')"):
            from safexp.quantifiers.feature_training import train

        rows = self._data.rows
        assert rows is not None, "trained after data was added"
        pairs, values = pairs_of(rows), target_of("FeatureRegression", self.target, rows) - prior_mean(self.target)
        layers = train(
            pairs,
            values,
            self._layers,
            num_features=self.num_features,
            steps=self.steps if self._layers else self.first_steps,
            learning_rate=self.learning_rate,
            rng=np.random.default_rng([self.seed, self._data.updates]),
        )
        check_finite("FeatureRegression", **{f"layer {k}": layer for k, layer in enumerate(layers)})
        head = Head(self.num_features, self.regulariser)
        head.absorb(network(layers, pairs), values)
        self._split = rows.states.shape[1]
        return layers, head

    def _phi(self, states: Array, actions: Array) -> Array:
        """Features (n, m, D) of actions (n, m, da) in states (n, ds)."""
        n, m, _ = actions.shape
        if self.features == "learned":
            pairs = np.concatenate([np.repeat(states, m, axis=0), actions.reshape(n * m, -1)], axis=1)
            return network(self._layers, pairs).reshape(n, m, -1)
        frequencies, phases = self._layers
        angles = (actions.reshape(n * m, -1) @ frequencies[self._split :]).reshape(n, m, -1)
        angles += (states @ frequencies[: self._split] + phases)[:, None]
        return math.sqrt(2 / self.num_features) * np.cos(angles, out=angles)


def random_layer(pairs: Array, num_features: int, lengthscale: float | None, seed: int) -> list[Array]:
    """Frequencies (d, D) and phases (D,) of random cosines (Rahimi, Recht 2007), with inputs standardised by these."""
    shift, scale = standards(pairs)
    rng = np.random.default_rng(seed)
    dimension = len(shift)
    unit = rng.standard_normal((dimension, num_features)) / (lengthscale or math.sqrt(dimension))
    frequencies = unit / scale[:, None]
    return [frequencies, rng.uniform(0, 2 * math.pi, num_features) - shift @ frequencies]


def network(layers: list[Array], pairs: Array) -> Array:
    """Last hidden layer of a tanh network, scaled to norm at most 1; `layers` are alternating weights and biases."""
    values = pairs
    for weights, biases in zip(layers[::2], layers[1::2], strict=True):
        values = np.tanh(values @ weights + biases)
    return values / math.sqrt(values.shape[1])


def _asked(data: Transitions) -> tuple[Array, Array]:
    """Logged pairs as inputs of a prediction with one action for each state."""
    return data.states, data.actions[:, None]
