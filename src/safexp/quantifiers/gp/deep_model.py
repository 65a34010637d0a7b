"""Parameters of a deep GP, and its predictions without a factorisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.gp.triangle import Triangle, lower_root
from safexp.quantifiers.regression import check_finite, factor

JITTERS = (1e-4, 1e-3, 1e-2)
"""Coarser than a sparse GP's, because training runs in single precision."""

CHUNK = 256
"""Number of points that a layer processes at a time, so that its covariances fit into the processor's cache."""


@dataclass(frozen=True)
class LayerModel:
    """Parameters of a layer: Q processes of d inputs, with M inducing inputs each (G = Q) or shared by all (G = 1).

    Inducing inputs (G, M, d), the logarithms of lengthscales (G, d) and prior variances (G,), the weights (d, Q) of a
    linear mean, and q(v) of whitened values: means (Q, M) and roots (Q, M, M), or deviations (Q, M) if shared.
    """

    inducing: Array
    log_lengthscales: Array
    log_variance: Array
    weights: Array
    mean: Array
    root: Array

    @property
    def kernel(self) -> tuple[Array, Array, Array]:
        return self.inducing, self.log_lengthscales, self.log_variance


@dataclass(frozen=True)
class DeepModel:
    """Parameters of a deep GP: standardisation (d,) of the inputs, hidden layers, output layer, and noise variance."""

    shift: Array
    scale: Array
    layers: tuple[LayerModel, ...]
    log_noise: Array

    def state(self) -> dict[str, Array]:
        """The parameters as named arrays."""
        own = {"shift": self.shift, "scale": self.scale, "log_noise": self.log_noise}
        return own | {
            f"{index}.{field.name}": getattr(layer, field.name)
            for index, layer in enumerate(self.layers)
            for field in fields(layer)
        }

    @classmethod
    def of(cls, state: dict[str, NDArray[Any]]) -> DeepModel:
        """Build from the arrays of `state`."""
        count = sum(name.endswith(".inducing") for name in state)
        names = [field.name for field in fields(LayerModel)]
        layers = tuple(LayerModel(**{name: np.array(state[f"{k}.{name}"]) for name in names}) for k in range(count))
        return cls(np.array(state["shift"]), np.array(state["scale"]), layers, np.array(state["log_noise"]).reshape(()))


class DeepPredictor:
    """Predictions of a deep GP.

    Each of `num_samples` samples passes all points through the hidden layers with the same standard normal draws, so a
    prediction depends on its inputs alone. The draws come in pairs of opposite sign, scaled to variance 1.
    """

    def __init__(self, model: DeepModel, hidden: HiddenLayers, num_samples: int, seed: int) -> None:
        check_finite("DeepGP", **model.state())
        self.model = model
        self._hidden = hidden
        self._output = Output(model.layers[-1])
        self._draws = [draws(num_samples, layer.weights.shape[1], seed, k) for k, layer in enumerate(model.layers[:-1])]
        self._noise = float(np.exp(model.log_noise))

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean less the prior mean, and variance of an observation, (n, m)."""
        n, m, _ = actions.shape
        pairs = np.concatenate([np.repeat(states, m, axis=0), actions.reshape(n * m, -1)], axis=1)
        x = (pairs - self.model.shift) / self.model.scale
        samples = self._hidden(x, [draw[:, None] for draw in self._draws])
        mean, variance = (
            part.reshape(len(samples), len(x)) for part in self._output(samples.reshape(-1, samples.shape[2]))
        )
        total = variance.mean(axis=0) + mean.var(axis=0) + self._noise
        return mean.mean(axis=0).reshape(n, m), total.reshape(n, m)


class HiddenLayers:
    """Samples of the last hidden values."""

    def __init__(self, layers: Sequence[LayerModel]) -> None:
        self._layers = [Shared(layer) if layer.root.ndim == 2 else _Separate(layer) for layer in layers]

    def __call__(self, x: Array, draws: Sequence[Array]) -> Array:
        """Samples (s, n, Q) at points x (n, d), from standard normal draws (s, n, Q) or (s, 1, Q) for every layer."""
        samples = x[None]
        for layer, draw in zip(self._layers, draws, strict=True):
            mean, variance = (
                part.reshape(*samples.shape[:2], -1) for part in layer(samples.reshape(-1, samples.shape[2]))
            )
            samples = mean + draw * np.sqrt(variance)
        return samples


def draws(count: int, width: int, seed: int, layer: int) -> Array:
    """Standard normal numbers (count, width) with mean 0 and variance 1 in every column; a single one is 0."""
    half = np.random.default_rng([seed, layer]).standard_normal((count // 2, width))
    pairs = np.concatenate([half, -half, np.zeros((count % 2, width))])
    size = np.sqrt((pairs**2).mean(axis=0))
    return np.asarray(pairs / np.where(size > 0, size, 1.0))


class _Separate:
    """Processes with separate inducing inputs: variance k** + kᵀBk for B = L⁻ᵀ(S − I)L⁻¹, mean kᵀL⁻ᵀm.

    In single precision, which halves the time of Q products as large as the only one of `Shared`.
    """

    def __init__(self, layer: LayerModel) -> None:
        self._linear = layer.weights
        self._variance = np.exp(layer.log_variance)
        self._units = []
        for k in range(len(layer.inducing)):
            inverse, root = _inverse_root(layer, k), np.tril(layer.root[k])
            middle = inverse.T @ (root @ (root.T @ inverse) - inverse)
            weights = np.column_stack([np.exp(layer.log_variance[k]) * middle, inverse.T @ layer.mean[k]])
            weights *= np.exp(layer.log_variance[k])
            self._units.append((Correlation(layer, k, np.float32), weights.astype(np.float32)))

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Means and variances (n, Q) at points x (n, d)."""
        mean = x @ self._linear
        variance = np.empty_like(mean)
        for rows in _chunks(len(x)):
            for k, (correlated, weights) in enumerate(self._units):
                correlation = correlated(x[rows])
                projected = correlation @ weights
                mean[rows, k] += projected[:, -1]
                variance[rows, k] = self._variance[k] + np.einsum("nm,nm->n", projected[:, :-1], correlation)
        return mean, np.maximum(variance, 1e-10)


class Output:
    """The output process, whose variance is small compared with the prior's: k** − |kᵀT|², as in `SparsePredictor`."""

    def __init__(self, layer: LayerModel) -> None:
        inverse, root = _inverse_root(layer, 0), np.tril(layer.root[0])
        known, axes = np.linalg.eigh(np.eye(len(root)) - root @ root.T)
        half = axes * np.sqrt(np.clip(known, 0.0, 1.0))
        self.variance = float(np.exp(layer.log_variance[0]))
        self.correlation = Correlation(layer, 0)
        self.weights = self.variance * (inverse.T @ layer.mean[0])
        self.root = lower_root(self.variance * (inverse.T @ half))
        self._root = Triangle(self.root)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance (n,) at points x (n, d)."""
        mean, variance = np.empty(len(x)), np.empty(len(x))
        for rows in _chunks(len(x)):
            correlation = self.correlation(x[rows])
            mean[rows] = correlation @ self.weights
            projected = self._root(correlation)
            variance[rows] = self.variance - np.einsum("nm,nm->n", projected, projected)
        return mean, np.maximum(variance, 0.0)


class Shared:
    """Processes that share their inducing inputs, with independent whitened values: one product for all of them.

    With a = L⁻¹k the variances are k** + Σ aᵢ²(sᵢ² − 1) and the means aᵀm.
    """

    def __init__(self, layer: LayerModel) -> None:
        self.linear = layer.weights
        self.correlation = Correlation(layer, 0)
        self.variance = float(np.exp(layer.log_variance[0]))
        self.whiten = self.variance * _inverse_root(layer, 0).T
        self.mean = np.ascontiguousarray(layer.mean.T)
        self.gain = np.ascontiguousarray(layer.root.T**2 - 1.0)
        self._whiten = Triangle(self.whiten)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Means and variances (n, Q) at points x (n, d)."""
        mean = x @ self.linear
        variance = np.empty_like(mean)
        for rows in _chunks(len(x)):
            a = self._whiten(self.correlation(x[rows]))
            mean[rows] += a @ self.mean
            a *= a
            variance[rows] = self.variance + a @ self.gain
        return mean, np.maximum(variance, 1e-10)


class Correlation:
    """exp(−½|x − z|²) for the inducing inputs z of a process; `rate` (d,) and `inducing` (d, M) are scaled.

    The exponent x·z − ½|z|² − ½|x|² is one product: (x, 1, ½|x|²) with (z, −½|z|², −1).
    """

    def __init__(self, layer: LayerModel, unit: int, dtype: type[np.floating[Any]] = np.float64) -> None:
        self.rate = np.exp(-layer.log_lengthscales[unit])
        self.inducing = np.ascontiguousarray((layer.inducing[unit] * self.rate).T)
        self.norms = 0.5 * np.einsum("dm,dm->m", self.inducing, self.inducing)
        self._factors = np.vstack([self.inducing, -self.norms, np.full_like(self.norms, -1.0)]).astype(dtype)

    def __call__(self, x: Array) -> NDArray[Any]:
        """(n, M) at points x (n, d)."""
        points = np.ones((len(x), len(self._factors)), dtype=self._factors.dtype)
        scaled = points[:, :-2]
        np.multiply(x, self.rate, out=scaled, casting="same_kind")
        points[:, -1] = 0.5 * np.einsum("nd,nd->n", scaled, scaled)
        exponent = points @ self._factors
        np.minimum(exponent, 0.0, out=exponent)
        return np.asarray(np.exp(exponent, out=exponent))


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def _inverse_root(layer: LayerModel, unit: int) -> Array:
    """L⁻¹ (M, M) of a process' inducing points."""
    inducing = layer.inducing[unit] * np.exp(-layer.log_lengthscales[unit])
    norms = 0.5 * np.einsum("md,md->m", inducing, inducing)
    correlation = np.exp(np.minimum(inducing @ inducing.T - norms[:, None] - norms, 0.0))
    inverse = np.linalg.inv(factor(np.exp(layer.log_variance[unit]) * correlation, JITTERS))
    return np.tril(np.asarray(inverse, dtype=np.float64))
