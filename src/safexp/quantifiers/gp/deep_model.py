"""Parameters of a deep GP, and its predictions, in single precision and without a factorisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.regression import check_finite, factor

Single = NDArray[np.float32]

JITTERS = (1e-4, 1e-3, 1e-2)
"""Coarser than a sparse GP's, so that single precision has enough digits."""

CHUNK = 1024
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
        x = ((pairs - self.model.shift) / self.model.scale).astype(np.float32)
        samples = self._hidden(x, [draw[:, None] for draw in self._draws])
        mean, variance = (
            part.reshape(len(samples), len(x)).astype(np.float64)
            for part in self._output(samples.reshape(-1, samples.shape[2]))
        )
        total = variance.mean(axis=0) + mean.var(axis=0) + self._noise
        return mean.mean(axis=0).reshape(n, m), total.reshape(n, m)


class HiddenLayers:
    """Samples of the last hidden values."""

    def __init__(self, layers: Sequence[LayerModel]) -> None:
        self._layers = [Shared(layer) if layer.root.ndim == 2 else _Separate(layer) for layer in layers]

    def __call__(self, x: Single, draws: Sequence[Single]) -> Single:
        """Samples (s, n, Q) at points x (n, d), from standard normal draws (s, n, Q) or (s, 1, Q) for every layer."""
        samples = x[None]
        for layer, draw in zip(self._layers, draws, strict=True):
            mean, variance = (
                part.reshape(*samples.shape[:2], -1) for part in layer(samples.reshape(-1, samples.shape[2]))
            )
            samples = mean + draw * np.sqrt(variance)
        return samples


def draws(count: int, width: int, seed: int, layer: int) -> Single:
    """Standard normal numbers (count, width) with mean 0 and variance 1 in every column; a single one is 0."""
    half = np.random.default_rng([seed, layer]).standard_normal((count // 2, width))
    pairs = np.concatenate([half, -half, np.zeros((count % 2, width))])
    size = np.sqrt((pairs**2).mean(axis=0))
    return (pairs / np.where(size > 0, size, 1.0)).astype(np.float32)


class _Separate:
    """Processes with separate inducing inputs: variance k** + kᵀBk for B = L⁻ᵀ(S − I)L⁻¹, mean kᵀL⁻ᵀm."""

    def __init__(self, layer: LayerModel) -> None:
        self._linear = layer.weights.astype(np.float32)
        self._variance = np.exp(layer.log_variance).astype(np.float32)
        self._units = []
        for k in range(len(layer.inducing)):
            inverse, root = _inverse_root(layer, k), np.tril(layer.root[k])
            middle = inverse.T @ (root @ (root.T @ inverse) - inverse)
            weights = np.column_stack([np.exp(layer.log_variance[k]) * middle, inverse.T @ layer.mean[k]])
            weights *= np.exp(layer.log_variance[k])
            self._units.append((*_scaled(layer, k), weights.astype(np.float32)))

    def __call__(self, x: Single) -> tuple[Single, Single]:
        """Means and variances (n, Q) at points x (n, d)."""
        mean = x @ self._linear
        variance = np.empty_like(mean)
        for rows in _chunks(len(x)):
            for k, (rate, inducing, norms, weights) in enumerate(self._units):
                correlation = _correlation(x[rows] * rate, inducing, norms)
                projected = correlation @ weights
                mean[rows, k] += projected[:, -1]
                variance[rows, k] = self._variance[k] + np.einsum("nm,nm->n", projected[:, :-1], correlation)
        return mean, np.maximum(variance, 1e-10)


class Output:
    """The output process, whose variance is small compared with the prior's and needs more digits.

    With (I − S) = U·diag(λ)·Uᵀ the variance is k** − Σ λᵢ(wᵢᵀk)² for the columns wᵢ of L⁻ᵀU, a sum of squares.
    """

    def __init__(self, layer: LayerModel) -> None:
        inverse, root = _inverse_root(layer, 0), np.tril(layer.root[0])
        known, axes = np.linalg.eigh(np.eye(len(root)) - root @ root.T)
        weights = np.exp(layer.log_variance[0]) * (inverse.T @ np.column_stack([axes, layer.mean[0]]))
        self.rate, self.inducing, self.norms = _scaled(layer, 0)
        self.weights, self.known = weights.astype(np.float32), known.astype(np.float32)
        self.variance = np.exp(layer.log_variance[0]).astype(np.float32)

    def __call__(self, x: Single) -> tuple[Single, Single]:
        """Mean and variance (n,) at points x (n, d)."""
        mean, variance = np.empty(len(x), dtype=np.float32), np.empty(len(x), dtype=np.float32)
        for rows in _chunks(len(x)):
            projected = _correlation(x[rows] * self.rate, self.inducing, self.norms) @ self.weights
            mean[rows] = projected[:, -1]
            explained = projected[:, :-1]
            explained *= explained
            variance[rows] = self.variance - explained @ self.known
        return mean, np.maximum(variance, 0.0)


class Shared:
    """Processes that share their inducing inputs, with independent whitened values: one product for all of them.

    With a = L⁻¹k the variances are k** + Σ aᵢ²(sᵢ² − 1) and the means aᵀm.
    """

    def __init__(self, layer: LayerModel) -> None:
        self.linear = layer.weights.astype(np.float32)
        self.rate, self.inducing, self.norms = _scaled(layer, 0)
        self.variance = np.exp(layer.log_variance[0]).astype(np.float32)
        self.whiten = (np.exp(layer.log_variance[0]) * _inverse_root(layer, 0).T).astype(np.float32)
        self.mean = np.ascontiguousarray(layer.mean.T, dtype=np.float32)
        self.gain = np.ascontiguousarray(layer.root.T**2 - 1.0, dtype=np.float32)

    def __call__(self, x: Single) -> tuple[Single, Single]:
        """Means and variances (n, Q) at points x (n, d)."""
        mean = x @ self.linear
        variance = np.empty_like(mean)
        for rows in _chunks(len(x)):
            a = _correlation(x[rows] * self.rate, self.inducing, self.norms) @ self.whiten
            mean[rows] += a @ self.mean
            a *= a
            variance[rows] = self.variance + a @ self.gain
        return mean, np.maximum(variance, 1e-10)


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def _rate(layer: LayerModel, unit: int) -> Array:
    return np.asarray(np.exp(-layer.log_lengthscales[unit]))


def _scaled(layer: LayerModel, unit: int) -> tuple[Single, Single, Single]:
    """The inverse lengthscales (d,), the scaled inducing inputs (d, M), and half their squared norms (M,)."""
    rate = _rate(layer, unit)
    inducing = layer.inducing[unit] * rate
    norms = 0.5 * np.einsum("md,md->m", inducing, inducing)
    return rate.astype(np.float32), np.ascontiguousarray(inducing.T, dtype=np.float32), norms.astype(np.float32)


def _inverse_root(layer: LayerModel, unit: int) -> Array:
    """L⁻¹ (M, M) of a process' inducing points, in double precision."""
    inducing = layer.inducing[unit] * _rate(layer, unit)
    norms = 0.5 * np.einsum("md,md->m", inducing, inducing)
    correlation = np.exp(np.minimum(inducing @ inducing.T - norms[:, None] - norms, 0.0))
    return np.asarray(np.linalg.inv(factor(np.exp(layer.log_variance[unit]) * correlation, JITTERS)), dtype=np.float64)


def _correlation(x: Single, inducing: Single, norms: Single) -> Single:
    """exp(−½|x − z|²) (n, M) for scaled points x (n, d) and inducing inputs (d, M)."""
    exponent = x @ inducing
    exponent -= norms
    exponent -= 0.5 * np.einsum("nd,nd->n", x, x)[:, None]
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))
