"""Training of `SparseGP`: gradient steps on the kernel, with closed-form optimal posteriors in between."""

from __future__ import annotations

import math

import numpy as np
import torch as th

from safexp.core.arrays import Array
from safexp.quantifiers.gp.sparse_model import SparseModel
from safexp.quantifiers.gp.variational import (
    Layer,
    Tensor,
    best_posterior,
    covariance,
    factor,
)
from safexp.quantifiers.regression import JITTERS, standards

ROUND = 20
"""Gradient steps between closed-form updates."""

LEAST_NOISE = 3e-3
"""Smallest noise deviation, as a share of the data's scale, so that no matrix becomes singular."""


def train(
    pairs: Array,
    values: Array,
    old: SparseModel | None,
    *,
    num_inducing: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> SparseModel:
    """Train a model of `values` (n,) less the prior mean at `pairs` (n, d), starting from an old one if given."""
    shift, scale = standards(pairs)
    x, y = th.from_numpy((pairs - shift) / scale), th.from_numpy(values)
    size = float(np.mean(values**2)) or 1.0
    layer, log_noise = _beginning(x, size, num_inducing, rng) if old is None else continued(old, shift, scale)
    optimizer = th.optim.Adam(layer, lr=learning_rate, fused=True)
    if old is None:
        mean, root, log_noise = _posterior(layer, x, y, log_noise, size)
    else:
        mean, root = th.from_numpy(old.mean), th.linalg.cholesky(th.from_numpy(old.covariance))
    for step in range(steps):
        batch = th.from_numpy(rng.integers(len(x), size=batch_size))
        for part, slope in zip(layer, slopes(layer, log_noise, mean, root, x[batch], y[batch]), strict=True):
            part.grad = -slope
        optimizer.step()
        layer.log_variance.clamp_(min=math.log(size))
        if step % ROUND == ROUND - 1 or step == steps - 1:
            mean, root, log_noise = _posterior(layer, x, y, log_noise, size)
    return SparseModel(
        shift,
        scale,
        inducing=layer.inducing[0].numpy(),
        log_lengthscales=layer.log_lengthscales[0].numpy(),
        log_variance=layer.log_variance[0].numpy(),
        log_noise=log_noise.numpy(),
        mean=mean.numpy(),
        covariance=(root @ root.mT).numpy(),
    )


def slopes(layer: Layer, log_noise: Tensor, mean: Tensor, root: Tensor, x: Tensor, y: Tensor) -> Layer:
    """Gradient of the evidence lower bound per transition in the kernel of a single process (G = 1).

    It is estimated from a batch x (n, d), y (n,); q(v), with this `mean` (M,) and `root` (M, M), is constant, and the
    divergence of whitened values does not depend on the kernel. Written by hand, because autograd's recording and
    replay of these forty small products costs more than computing them.
    """
    rate, variance, noise = th.exp(-layer.log_lengthscales), th.exp(layer.log_variance), th.exp(log_noise)
    z, x = layer.inducing[0] * rate, x * rate
    among, across = (covariance(layer, layer.inducing, points)[0] for points in (layer.inducing, (x / rate)[None]))
    cholesky = factor(among[None])[0]
    inverse = th.linalg.solve_triangular(cholesky, th.eye(len(z), dtype=z.dtype), upper=False)
    a = inverse @ across
    gained = root @ (root.mT @ a) - a

    # Backwards from the likelihood of y under N(meanᵀa, variance + aᵀ(S − I)a).
    of_mean, of_variance = (y - mean @ a) / (noise * len(y)), -0.5 / (noise * len(y))
    of_a = th.outer(mean, of_mean) + 2.0 * of_variance * gained
    of_across = inverse.mT @ of_a
    lower = (cholesky.mT @ (of_across @ a.mT).tril()).tril()
    lower.diagonal().mul_(0.5)
    of_among = -0.5 * inverse.mT @ (lower + lower.mT) @ inverse

    # Through the kernels: the gradients of their entries, times the entries themselves.
    inner, outer = of_among * among, of_across * across
    inner_z, outer_x = inner @ z, outer @ x
    inner_sums, outer_sums = inner.sum(1)[:, None], outer.sum(1)[:, None]
    of_z = 2.0 * (inner_z - inner_sums * z) + outer_x - outer_sums * z
    squares = (2.0 * inner_sums + outer_sums) * z**2 - 2.0 * z * (inner_z + outer_x)
    of_lengthscales = squares.sum(0) + (outer.sum(0)[:, None] * x**2).sum(0)
    jitter = JITTERS[0] * variance * of_among.trace()
    of_log_variance = inner.sum() + outer.sum() + jitter + len(y) * of_variance * variance
    return Layer((of_z * rate)[None], of_lengthscales[None], of_log_variance)


@th.no_grad()
def _posterior(layer: Layer, x: Tensor, y: Tensor, log_noise: Tensor, size: float) -> tuple[Tensor, Tensor, Tensor]:
    """The optimal mean and root of q(v) for this noise, and then the optimal noise for this q(v)."""
    best = best_posterior(layer, x, y, log_noise)
    return best.mean, best.root, best.log_noise.clamp(min=math.log(LEAST_NOISE**2 * size))


def _beginning(x: Tensor, size: float, num_inducing: int, rng: np.random.Generator) -> tuple[Layer, Tensor]:
    """Initial model: inducing inputs from the data, lengthscales √d, the data as prior variance, a tenth as noise."""
    dimension = x.shape[1]
    rows = rng.choice(len(x), num_inducing, replace=len(x) < num_inducing)
    inducing = x[th.from_numpy(rows)] + 1e-3 * th.from_numpy(rng.standard_normal((num_inducing, dimension)))
    lengthscales = th.full((1, dimension), 0.5 * math.log(dimension), dtype=x.dtype)
    variance = th.full((1,), math.log(size), dtype=x.dtype)
    return Layer(inducing[None], lengthscales, variance), variance[0] + math.log(0.01)


def continued(old: SparseModel, shift: Array, scale: Array) -> tuple[Layer, Tensor]:
    """The old model's function in terms of newly standardised inputs."""
    inducing = (old.inducing * old.scale + old.shift - shift) / scale
    log_lengthscales = old.log_lengthscales + np.log(old.scale / scale)
    parts = [th.from_numpy(part[None].copy()) for part in (inducing, log_lengthscales, old.log_variance)]
    layer = Layer(parts[0], parts[1], parts[2])
    return layer, th.from_numpy(np.array(old.log_noise))
