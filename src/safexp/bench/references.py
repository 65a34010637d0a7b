"""gpytorch models with the parameters of ours, to compare predictions and speed with."""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import torch as th
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    VariationalStrategy,
)

from safexp.quantifiers import regression as learned
from safexp.quantifiers.gp import deep_model
from safexp.quantifiers.gp.deep_model import DeepModel, LayerModel
from safexp.quantifiers.gp.sparse_model import SparseModel


class SparseReference(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """A sparse GP on standardised inputs (n, d), without prior mean and noise.

    Its jitter is ours for the inducing points; gpytorch adds it to the variance of its predictions as well.
    """

    def __init__(self, model: SparseModel) -> None:
        self.jitter = learned.JITTERS[0] * float(np.exp(model.log_variance))
        q = CholeskyVariationalDistribution(len(model.mean))
        super().__init__(VariationalStrategy(self, th.from_numpy(model.inducing), q, jitter_val=self.jitter))
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = _kernel(model.log_lengthscales[None], model.log_variance[None], batch=False)
        self.double()
        q.variational_mean.data = th.from_numpy(model.mean)
        q.chol_variational_covar.data = th.linalg.cholesky(th.from_numpy(model.covariance))
        self.variational_strategy.variational_params_initialized.fill_(1)

    def forward(self, x: th.Tensor) -> Any:
        """The prior at points (n, d)."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _LayerReference(DeepGPLayer):  # type: ignore[misc]
    def __init__(self, layer: LayerModel, output: bool) -> None:
        width, size = layer.mean.shape
        inputs = layer.inducing.shape[2]
        batch = th.Size([] if output else [width])
        inducing = np.broadcast_to(layer.inducing, (width, size, inputs))
        shared = layer.root.ndim == 2
        kind = MeanFieldVariationalDistribution if shared else CholeskyVariationalDistribution
        q = kind(size, batch)
        jitter = deep_model.JITTERS[0] * float(np.exp(layer.log_variance).max())
        points = th.from_numpy(inducing[0].copy() if output else inducing.copy())
        super().__init__(VariationalStrategy(self, points, q, jitter_val=jitter), inputs, None if output else width)
        self.jitter = jitter
        self.mean_module = gpytorch.means.LinearMean(inputs, batch_shape=batch, bias=False)
        lengthscales = np.broadcast_to(layer.log_lengthscales, (width, inputs))
        self.covar_module = _kernel(lengthscales, np.broadcast_to(layer.log_variance, (width,)), batch=not output)
        self.double()
        weights, mean, root = (th.from_numpy(part) for part in (layer.weights.T[..., None], layer.mean, layer.root))
        self.mean_module.weights.data = weights[0] if output else weights.contiguous()
        q.variational_mean.data = mean[0] if output else mean
        if shared:
            q._variational_stddev.data = root
        else:
            q.chol_variational_covar.data = root[0] if output else root
        self.variational_strategy.variational_params_initialized.fill_(1)

    def forward(self, x: th.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class DeepReference(DeepGP):  # type: ignore[misc]
    """A deep GP on standardised inputs (n, d), without prior mean and noise; it returns samples (s, n)."""

    def __init__(self, model: DeepModel) -> None:
        super().__init__()
        last = len(model.layers) - 1
        self.layers = th.nn.ModuleList(_LayerReference(layer, k == last) for k, layer in enumerate(model.layers))

    def forward(self, x: th.Tensor) -> Any:
        """The output process at samples of the hidden values."""
        for layer in self.layers:
            x = layer(x)
        return x


def _kernel(log_lengthscales: Any, log_variance: Any, batch: bool) -> Any:
    width, inputs = log_lengthscales.shape
    shape = th.Size([width] if batch else [])
    kernel = gpytorch.kernels.ScaleKernel(
        gpytorch.kernels.RBFKernel(ard_num_dims=inputs, batch_shape=shape), batch_shape=shape
    ).double()
    lengthscales = th.from_numpy(np.exp(log_lengthscales))
    kernel.base_kernel.lengthscale = lengthscales[:, None] if batch else lengthscales
    kernel.outputscale = th.from_numpy(np.exp(log_variance)) if batch else th.from_numpy(np.exp(log_variance))[0]
    return kernel
