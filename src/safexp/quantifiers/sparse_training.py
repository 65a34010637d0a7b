"""Training of `SparseGP`: gradient steps on the kernel, and the best posterior in closed form in between."""

from __future__ import annotations

import math

import numpy as np
import torch as th

from safexp.quantifiers.learned import standards
from safexp.quantifiers.sparse_gp import SparseModel
from safexp.quantifiers.variational import (
    Layer,
    Tensor,
    best_posterior,
    divergence,
    log_likelihood,
    marginals,
    whitened,
)
from safexp.signals import Array

ROUND = 10
"""Gradient steps between two closed forms."""

LEAST_NOISE = 3e-3
"""The noise's deviation as a share of the data's scale, so that no matrix becomes singular."""


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
    """A model of `values` (n,), less the prior's mean, at `pairs` (n, d); it starts from an old one if there is any."""
    shift, scale = standards(pairs)
    x, y = th.from_numpy((pairs - shift) / scale), th.from_numpy(values)
    size = float(np.mean(values**2)) or 1.0
    layer, log_noise = _beginning(x, size, num_inducing, rng) if old is None else _continued(old, shift, scale)
    for part in layer:
        part.requires_grad_(True)
    optimizer = th.optim.Adam(layer, lr=learning_rate)
    mean, root, log_noise = _posterior(layer, x, y, log_noise, size)
    for step in range(steps):
        batch = th.from_numpy(rng.integers(len(x), size=batch_size))
        optimizer.zero_grad()
        (-bound(layer, log_noise, mean, root[None], x[batch], y[batch], len(x))).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with th.no_grad():
            layer.log_variance.clamp_(min=math.log(size))
        if step % ROUND == ROUND - 1 or step == steps - 1:
            mean, root, log_noise = _posterior(layer, x, y, log_noise, size)
    return SparseModel(
        shift,
        scale,
        inducing=layer.inducing.detach()[0].numpy(),
        log_lengthscales=layer.log_lengthscales.detach()[0].numpy(),
        log_variance=layer.log_variance.detach()[0].numpy(),
        log_noise=log_noise.numpy(),
        mean=mean.numpy(),
        covariance=(root @ root.mT).numpy(),
    )


def bound(layer: Layer, log_noise: Tensor, mean: Tensor, root: Tensor, x: Tensor, y: Tensor, total: int) -> Tensor:
    """The evidence lower bound per transition, estimated from a batch x (n, d), y (n,) of `total` transitions.

    `mean` (M,) and `root` (1, M, M) are those of q(v).
    """
    f_mean, f_variance = marginals(whitened(layer, x[None]), layer.log_variance, mean[None], root)
    return log_likelihood(y, f_mean[0], f_variance[0], log_noise).mean() - divergence(mean[None], root) / total


@th.no_grad()
def _posterior(layer: Layer, x: Tensor, y: Tensor, log_noise: Tensor, size: float) -> tuple[Tensor, Tensor, Tensor]:
    """q(v)'s mean and root for this noise, and then the noise for this q(v): each the best given the other."""
    a = whitened(layer, x[None])
    mean, root = best_posterior(a[0], y, log_noise)
    f_mean, f_variance = marginals(a, layer.log_variance, mean[None], root[None])
    noise = ((y - f_mean[0]) ** 2 + f_variance[0]).mean()
    return mean, root, noise.clamp(min=LEAST_NOISE**2 * size).log()


def _beginning(x: Tensor, size: float, num_inducing: int, rng: np.random.Generator) -> tuple[Layer, Tensor]:
    """Inducing inputs from the data, lengthscales √d, the data's own size as prior variance, a tenth of it as noise."""
    dimension = x.shape[1]
    rows = rng.choice(len(x), num_inducing, replace=len(x) < num_inducing)
    inducing = x[th.from_numpy(rows)] + 1e-3 * th.from_numpy(rng.standard_normal((num_inducing, dimension)))
    lengthscales = th.full((1, dimension), 0.5 * math.log(dimension), dtype=x.dtype)
    variance = th.full((1,), math.log(size), dtype=x.dtype)
    return Layer(inducing[None], lengthscales, variance), variance[0] + math.log(0.01)


def _continued(old: SparseModel, shift: Array, scale: Array) -> tuple[Layer, Tensor]:
    """The same function as the old model's, in newly standardised inputs."""
    inducing = (old.inducing * old.scale + old.shift - shift) / scale
    log_lengthscales = old.log_lengthscales + np.log(old.scale / scale)
    parts = [th.from_numpy(part[None].copy()) for part in (inducing, log_lengthscales, old.log_variance)]
    layer = Layer(parts[0], parts[1], parts[2])
    return layer, th.from_numpy(np.array(old.log_noise))
