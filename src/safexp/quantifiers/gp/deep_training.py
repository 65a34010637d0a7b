"""Training of `DeepGP`: doubly stochastic variational inference (Salimbeni and Deisenroth 2017) in single precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch as th

from safexp.core.arrays import Array
from safexp.quantifiers.gp.deep_model import JITTERS, DeepModel, HiddenLayers, LayerModel
from safexp.quantifiers.gp.variational import (
    Layer,
    Tensor,
    best_posterior,
    covariance,
    divergence,
    factor,
    log_likelihood,
    marginals,
    whitened,
)
from safexp.quantifiers.regression import standards

ROUND = 20
"""Gradient steps between closed-form updates while a model is young."""

WHOLE, YOUNG_WHOLE = 20, 2
"""Interval of the steps that also update kernels, inducing inputs and roots."""

WARM = 0.2
"""Learning rate of a model that is no longer young, as a share of the first."""

PACE = 5.0
"""Factor of the learning rate for kernels and inducing inputs."""

LEAST_NOISE = 1e-2
"""Smallest noise deviation, as a share of the data's scale."""

HIDDEN_DEVIATION = 0.1
"""Initial prior variance of the hidden processes, whose linear means are about 1."""


class Hidden(NamedTuple):
    """A hidden layer of Q processes: kernel, linear mean (d, Q), and q(v): means (Q, M) and roots (Q, M, M).

    Where all processes share their inducing inputs and kernel (G = 1), q(v) has independent entries and `root` (Q, M)
    holds their deviations.
    """

    kernel: Layer
    weights: Tensor
    mean: Tensor
    root: Tensor

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.kernel, self.weights, self.mean, self.root]


class Solved(NamedTuple):
    """Factors of a layer with fixed kernel and roots, (G, M, M): L⁻¹, and L⁻ᵀ(S − I)L⁻¹ for separate processes."""

    inverse: Tensor
    middle: Tensor | None


def hidden_moments(layer: Hidden, x: Tensor, solved: Solved | None = None) -> tuple[Tensor, Tensor]:
    """Means and variances (n, Q) of a layer at points x (n, d), faster with factors from `solve`."""
    if solved is not None and solved.middle is not None:
        k = covariance(layer.kernel, x[None], layer.kernel.inducing)
        mean = (k @ (layer.mean[:, None] @ solved.inverse).mT)[:, :, 0]
        variance = th.exp(layer.kernel.log_variance)[:, None] + (k @ solved.middle * k).sum(2)
        return mean.mT + x @ layer.weights, variance.mT.clamp(min=1e-10)
    if solved is None:
        a = whitened(layer.kernel, x[None], JITTERS)
    else:
        a = solved.inverse @ covariance(layer.kernel, layer.kernel.inducing, x[None])
    if layer.root.ndim == 3:
        mean, variance = marginals(a, layer.kernel.log_variance, layer.mean, layer.root)
    else:
        mean, squares = layer.mean @ a[0], a[0] ** 2
        variance = th.exp(layer.kernel.log_variance) - squares.sum(0) + layer.root**2 @ squares
    return mean.mT + x @ layer.weights, variance.mT.clamp(min=1e-10)


def hidden_divergence(layer: Hidden) -> Tensor:
    """KL(q(v) ‖ p(v)) of a hidden layer."""
    if layer.root.ndim == 3:
        return divergence(layer.mean, layer.root)
    variance = layer.root**2
    return 0.5 * (variance + layer.mean**2 - 1.0 - variance.log()).sum()


def bound(
    layers: Sequence[Hidden],
    solved: Sequence[Solved | None],
    log_noise: Tensor,
    x: Tensor,
    y: Tensor,
    draws: Sequence[Tensor],
    total: int,
) -> Tensor:
    """The evidence lower bound per transition, estimated from a batch x (n, d), y (n,) of `total` transitions.

    `layers` are the hidden layers, then the output layer; `draws` (n, Q) are standard normal, for every hidden layer.
    """
    mean, variance = hidden_moments(layers[0], x, solved[0])
    for layer, ready, draw in zip(layers[1:], solved[1:], draws, strict=True):
        mean, variance = hidden_moments(layer, mean + variance.sqrt() * draw, ready)
    complexity = sum((hidden_divergence(layer) for layer in layers), start=th.zeros((), dtype=x.dtype))
    return log_likelihood(y, mean[:, 0], variance[:, 0], log_noise).mean() - complexity / total


def train(
    pairs: Array,
    values: Array,
    old: DeepModel | None,
    *,
    widths: Sequence[int],
    shared: bool,
    num_inducing: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> tuple[DeepModel, HiddenLayers]:
    """Train a model of `values` (n,) less the prior mean at `pairs` (n, d), starting from an old one if there is any.

    Every step updates the linear means and the means of the hidden layers' q(v). Every twentieth, and every second
    while the model is young, also updates kernels, inducing inputs and roots; covariances must then be factorised
    again. A model that is no longer young is trained at a fifth of the learning rate.

    The output layer's q(v) and the noise are set to their optimum on the whole data set, every twenty steps while the
    model is young, and at the end. Also returns the hidden layers, ready for predictions.
    """
    shift, scale = (old.shift, old.scale) if old else standards(pairs)
    x = th.from_numpy((pairs - shift) / scale).float()
    y = th.from_numpy(values).float()
    size = float(np.mean(values**2)) or 1.0
    if old is None:
        layers = _beginning(x, y, size, widths, shared, num_inducing, rng)
        hidden, log_noise = _refine(layers, x, y, th.tensor(math.log(0.01 * size)), size, rng)
    else:
        layers = [_from_model(layer) for layer in old.layers]
        log_noise = th.tensor(float(old.log_noise))
    kernels = [part for layer in layers for part in layer.kernel]
    roots = [layer.root for layer in layers[:-1]]
    means = [part.requires_grad_() for layer in layers[:-1] for part in (layer.weights, layer.mean)]
    learning_rate *= 1.0 if old is None else WARM
    groups: list[dict[str, Any]] = [{"params": [*means, *roots]}, {"params": kernels, "lr": PACE * learning_rate}]
    optimizer = th.optim.Adam(groups, lr=learning_rate, fused=True)
    solved = [solve(layer) for layer in layers]
    for step in range(1, steps + 1):
        whole = step % (YOUNG_WHOLE if old is None else WHOLE) == 0
        for part in (*kernels, *roots):
            part.requires_grad_(whole)
        batch = th.from_numpy(rng.integers(len(x), size=batch_size))
        draws = [_draws(layer, batch_size, rng) for layer in layers[:-1]]
        optimizer.zero_grad()
        (
            -bound(layers, [None] * len(layers) if whole else solved, log_noise, x[batch], y[batch], draws, len(x))
        ).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if whole:
            layers[-1].kernel.log_variance.detach().clamp_(min=math.log(size))
            for root in roots:
                root.detach().tril_() if root.ndim == 3 else root.detach().clamp_(min=1e-4)
        if step == steps or (old is None and step % ROUND == 0):
            hidden, log_noise = _refine(layers, x, y, log_noise, size, rng)
        if whole and step < steps:  # the rounds of a young model end with such a step
            solved = [solve(layer) for layer in layers]
    return DeepModel(shift, scale, tuple(_to_model(layer) for layer in layers), log_noise.double().numpy()), hidden


@th.no_grad()
def _refine(
    layers: list[Hidden], x: Tensor, y: Tensor, log_noise: Tensor, size: float, rng: np.random.Generator
) -> tuple[HiddenLayers, Tensor]:
    """Set the last layer's q(v) to its optimum for one sample of the hidden values.

    Returns the hidden layers, ready for predictions, and the optimal noise for that q(v).
    """
    hidden = HiddenLayers([_to_model(layer) for layer in layers[:-1]])
    draws = [_draws(layer, len(x), rng).numpy()[None] for layer in layers[:-1]]
    h = th.from_numpy(hidden(x.numpy(), draws)[0]).double()
    kernel = Layer(*(part.double() for part in layers[-1].kernel))
    best = best_posterior(kernel, h, y.double(), log_noise.double(), JITTERS)
    root = th.linalg.cholesky(best.root @ best.root.mT)
    layers[-1] = layers[-1]._replace(mean=best.mean[None].float(), root=root[None].float())
    return hidden, best.log_noise.clamp(min=math.log(LEAST_NOISE**2 * size)).float()


@th.no_grad()
def solve(layer: Hidden) -> Solved:
    """Factors of a layer's kernel and q(v) for fixed inducing inputs."""
    cholesky = factor(covariance(layer.kernel, layer.kernel.inducing, layer.kernel.inducing), JITTERS)
    identity = th.eye(cholesky.shape[-1], dtype=cholesky.dtype).expand_as(cholesky)
    inverse = th.linalg.solve_triangular(cholesky, identity, upper=False)
    if layer.root.ndim == 2:
        return Solved(inverse, None)
    return Solved(inverse, inverse.mT @ (layer.root @ (layer.root.mT @ inverse) - inverse))


def _draws(layer: Hidden, count: int, rng: np.random.Generator) -> Tensor:
    """Standard normal numbers (count, Q) for a hidden layer."""
    return th.from_numpy(rng.standard_normal((count, layer.weights.shape[1]), dtype=np.float32))


def _beginning(
    x: Tensor,
    y: Tensor,
    size: float,
    widths: Sequence[int],
    shared: bool,
    num_inducing: int,
    rng: np.random.Generator,
) -> list[Hidden]:
    """Initial layers: linear features of the inputs, with inducing inputs from the data."""
    rows = rng.choice(len(x), num_inducing, replace=len(x) < num_inducing)
    noise = rng.standard_normal((num_inducing, x.shape[1]), dtype=np.float32)
    inducing = x[th.from_numpy(rows)] + 1e-2 * th.from_numpy(noise)
    layers = []
    for width in widths:
        weights = _features(x, y, width)
        groups = 1 if shared else width
        kernel = _kernel(inducing.expand(groups, -1, -1), HIDDEN_DEVIATION**2)
        root = th.full((width, num_inducing), 1e-2)
        layers.append(
            Hidden(kernel, weights, th.zeros(width, num_inducing), root if shared else th.diag_embed(root).contiguous())
        )
        x, inducing = x @ weights, inducing @ weights
    prior = th.zeros(1, num_inducing), th.eye(num_inducing)[None]
    return [*layers, Hidden(_kernel(inducing[None], size), th.zeros(x.shape[1], 1), *prior)]


def _kernel(inducing: Tensor, variance: float) -> Layer:
    groups, _, dimension = inducing.shape
    log_lengthscales = th.full((groups, dimension), 0.5 * math.log(dimension))
    return Layer(inducing.contiguous(), log_lengthscales, th.full((groups,), math.log(variance)))


def _features(x: Tensor, y: Tensor, width: int) -> Tensor:
    """Weights (d, width) of a layer's linear mean: the direction of a ridge regression, then principal components."""
    dimension = x.shape[1]
    if dimension == width:
        return th.eye(width)
    gram = x.mT @ x / len(x)
    slope = th.linalg.solve(gram + 1e-2 * th.eye(dimension), x.mT @ (y - y.mean()) / len(x))
    components = th.linalg.eigh(gram)[1].flip(1)
    basis = th.linalg.qr(th.column_stack([slope, components]))[0]
    return th.nn.functional.pad(basis, (0, max(width - dimension, 0)))[:, :width].contiguous()


def _from_model(layer: LayerModel) -> Hidden:
    inducing, lengthscales, variance, weights, mean, root = (
        th.from_numpy(part).float() for part in (*layer.kernel, layer.weights, layer.mean, layer.root)
    )
    return Hidden(Layer(inducing, lengthscales, variance), weights, mean, root)


def _to_model(layer: Hidden) -> LayerModel:
    # Contiguous, as after loading from a file: the memory order affects the rounding of products.
    return LayerModel(*(part.detach().double().contiguous().numpy() for part in layer.tensors))
