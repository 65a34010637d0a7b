"""Training of the network whose last hidden layer gives `FeatureRegression` its learned features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch as th

from safexp.core.arrays import Array
from safexp.quantifiers.regression import standards

BATCH = 256


def train(
    pairs: Array,
    values: Array,
    old: Sequence[Array],
    *,
    num_features: int,
    steps: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> list[Array]:
    """Fit two tanh layers of raw inputs by least squares, starting from old ones if given; returns weights and biases.

    The linear output layer of the fit starts as the ridge solution for the first features and is trained with them.
    """
    shift, scale = standards(pairs)
    x, y = th.from_numpy((pairs - shift) / scale).float(), th.from_numpy(values).float()
    layers = _standardised(old, shift, scale) if old else _beginning(x.shape[1], num_features, rng)
    with th.no_grad():
        features = _forward(layers, x)
        gram = features.mT @ features + 1e-2 * th.eye(num_features)
        output = th.linalg.solve(gram, features.mT @ y)
    free = [part.requires_grad_() for part in (*layers, output)]
    optimizer = th.optim.Adam(free, lr=learning_rate)
    for _ in range(steps):
        batch = th.from_numpy(rng.integers(len(x), size=BATCH))
        optimizer.zero_grad()
        loss = ((_forward(layers, x[batch]) @ output - y[batch]) ** 2).mean()
        loss.backward()
        optimizer.step()
    trained = [part.detach().double().numpy() for part in layers]
    raw = trained[0] / scale[:, None]
    return [raw, trained[1] - shift @ raw, *trained[2:]]


def _forward(layers: Sequence[th.Tensor], x: th.Tensor) -> th.Tensor:
    for weights, biases in zip(layers[::2], layers[1::2], strict=True):
        x = th.tanh(x @ weights + biases)
    return x / math.sqrt(x.shape[1])


def _beginning(dimension: int, num_features: int, rng: np.random.Generator) -> list[th.Tensor]:
    """Two layers with weights of variance 1/d and no biases."""
    layers = []
    for inputs in (dimension, num_features):
        weights = rng.standard_normal((inputs, num_features), dtype=np.float32) / np.float32(math.sqrt(inputs))
        layers += [th.from_numpy(weights), th.zeros(num_features)]
    return layers


def _standardised(old: Sequence[Array], shift: Array, scale: Array) -> list[th.Tensor]:
    """The same layers as functions of standardised inputs."""
    first = [old[0] * scale[:, None], old[1] + shift @ old[0]]
    return [th.from_numpy(np.ascontiguousarray(part)).float() for part in (*first, *old[2:])]
