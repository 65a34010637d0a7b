"""Variational inference for Gaussian processes with inducing points, as pure functions on tensors.

A layer holds G processes, each with its own M inducing inputs and an RBF kernel with a lengthscale for every input.
Inducing values u are whitened, u = L·v with L·Lᵀ = k(Z, Z), and q(v) = N(mean, covariance) (Hensman et al. 2015), so

    q(f(x)) = N(aᵀ·mean, k(x, x) − aᵀa + aᵀ·covariance·a)    with a = L⁻¹k(Z, x).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch as th

from safexp.quantifiers.regression import JITTERS, singular

Tensor = th.Tensor


class Layer(NamedTuple):
    """Inducing inputs (G, M, d), the logarithms of lengthscales (G, d) and of prior variances (G,)."""

    inducing: Tensor
    log_lengthscales: Tensor
    log_variance: Tensor


def covariance(layer: Layer, x: Tensor, y: Tensor) -> Tensor:
    """k(x, y) (G, n, m) of points x (G, n, d) or (1, n, d) and y, likewise."""
    rates = th.exp(-layer.log_lengthscales)[:, None]
    x, y = x * rates, y * rates
    norms = 0.5 * ((x * x).sum(2)[:, :, None] + (y * y).sum(2)[:, None])
    return th.exp((x @ y.mT - norms).clamp(max=0.0) + layer.log_variance[:, None, None])


def factor(matrices: Tensor, jitters: Sequence[float] = JITTERS) -> Tensor:
    """Lower Cholesky factors (G, M, M); raises `LinAlgError` if no jitter helps."""
    diagonal = matrices.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    identity = th.eye(matrices.shape[-1], dtype=matrices.dtype)
    for jitter in jitters:
        result, failed = th.linalg.cholesky_ex(matrices + jitter * diagonal * identity)
        if not failed.any() and bool(th.isfinite(result.sum())):
            return result
    raise singular(matrices.shape[-1], jitters)


def whitened(layer: Layer, x: Tensor, jitters: Sequence[float] = JITTERS) -> Tensor:
    """The coordinates a = L⁻¹k(Z, x) (G, M, n) of points x (G, n, d) or (1, n, d)."""
    cholesky = factor(covariance(layer, layer.inducing, layer.inducing), jitters)
    return th.linalg.solve_triangular(cholesky, covariance(layer, layer.inducing, x), upper=False)


def marginals(a: Tensor, log_variance: Tensor, mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances (G, n) of q(f) from `whitened` (G, M, n), q(v)'s mean (G, M) and root (G, M, M)."""
    rotated = root.mT @ a
    variance = th.exp(log_variance)[:, None] - (a * a).sum(1) + (rotated * rotated).sum(1)
    return (mean[:, None] @ a)[:, 0], variance


def log_likelihood(y: Tensor, mean: Tensor, variance: Tensor, log_noise: Tensor) -> Tensor:
    """E[ln N(y | f, noise)] under f ~ N(mean, variance), all (n,); `log_noise` is the logarithm of a variance."""
    return -0.5 * (math.log(2 * math.pi) + log_noise + ((y - mean) ** 2 + variance) * th.exp(-log_noise))


def divergence(mean: Tensor, root: Tensor) -> Tensor:
    """KL(q(v) ‖ N(0, I)) summed over G, from q(v)'s mean (G, M) and a triangular root (G, M, M) of its covariance."""
    log_det = 2.0 * root.diagonal(dim1=-2, dim2=-1).abs().log().sum()
    return 0.5 * ((root * root).sum() + (mean * mean).sum() - mean.numel() - log_det)


class Best(NamedTuple):
    """Optimal q(v): its mean (M,), a triangular root (M, M) of its covariance, and the optimal noise for it."""

    mean: Tensor
    root: Tensor
    log_noise: Tensor


def best_posterior(layer: Layer, x: Tensor, y: Tensor, log_noise: Tensor, jitters: Sequence[float] = JITTERS) -> Best:
    """The q(v) of a single process (G = 1) that maximises the bound on all data x (n, d), y (n,).

    With Gaussian noise the bound is quadratic in q(v) (Titsias 2009): covariance⁻¹ = I + a·aᵀ/noise and
    mean = covariance·a·y/noise, for `whitened` a (M, n). The noise returned is the mean of (y − f)² under q(f).
    """
    noise, identity = th.exp(log_noise), th.eye(layer.inducing.shape[1], dtype=x.dtype)
    cholesky = factor(covariance(layer, layer.inducing, layer.inducing), jitters)[0]
    inverse = th.linalg.solve_triangular(cholesky, identity, upper=False)  # faster than a solve for many points
    a = inverse @ covariance(layer, layer.inducing, x[None])[0]
    gram, product = a @ a.mT, a @ y
    # At least the identity, so it needs no jitter.
    root = th.linalg.solve_triangular(th.linalg.cholesky(identity + gram / noise), identity, upper=False).mT
    mean = root @ (root.mT @ (product / noise))
    errors = ((y - mean @ a) ** 2).sum()
    variances = len(y) * th.exp(layer.log_variance[0]) - gram.trace() + (gram * (root @ root.mT)).sum()
    return Best(mean, root, ((errors + variances) / len(y)).log())
