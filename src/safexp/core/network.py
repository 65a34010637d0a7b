"""Feed-forward networks in NumPy: policies that run, and are exported, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from safexp.core.arrays import Array

Activation = Literal["", "tanh", "relu", "sigmoid", "elu", "leaky_relu"]


class Layer(NamedTuple):
    """Fully connected layer: weights (inputs, outputs), biases (outputs,), activation and its slope below 0.

    Example:
        >>> safexp.Layer(np.ones((2, 1)), np.zeros(1), "tanh").activation
        'tanh'
    """

    weights: Array
    biases: Array
    activation: Activation = ""
    slope: float = 1.0


@final
class Network:
    """Deterministic policy: fully connected layers from an observation to an action.

    As the controller of a `Backup` or the policy of `Shield.export_c` it can be exported to C.

    Args:
        layers: the layers, from the observation to the action.
        low: smallest action (da,) of a box, to which the output is clipped; None for discrete actions, where the
            largest output is chosen.
        high: largest action (da,).
        squashed: outputs lie in [−1, 1] and are stretched to the box.
        largest_thresholds: (K,) if the observation is followed by thresholds: their largest values, by which they are
            divided before they are clipped to [0, 1].
        start: number of the first discrete action.

    Example:
        >>> layer = safexp.Layer(np.array([[1.0], [-2.0]]), np.zeros(1), "tanh")
        >>> policy = safexp.Network([layer], low=[-1.0], high=[1.0])
        >>> print(policy(np.array([[0.5, 0.1]])).round(3))
        [[0.291]]
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        squashed: bool = False,
        largest_thresholds: ArrayLike = (),
        start: int = 0,
    ) -> None:
        self.layers = tuple(
            Layer(np.asarray(w, np.float64), np.asarray(b, np.float64), kind, slope) for w, b, kind, slope in layers
        )
        for k, layer in enumerate(self.layers):
            if layer.activation not in get_args(Activation):
                known = ", ".join(repr(name) for name in get_args(Activation))
                raise ValueError(f"layer {k} has the activation {layer.activation!r}, which is not one of {known}.")
            expected = self.layers[k - 1].weights.shape[1] if k else layer.weights.shape[0]
            if layer.weights.shape[0] != expected or layer.biases.shape != layer.weights.shape[1:]:
                raise ValueError(
                    f"layer {k} has weights {layer.weights.shape} and biases {layer.biases.shape}, expected "
                    f"({expected}, n) and (n,)."
                )
        if not self.layers or (low is None) != (high is None):
            raise ValueError("Network(...) needs at least one layer, and both low and high or neither.")
        self.low, self.high = (None if part is None else np.asarray(part, np.float64).ravel() for part in (low, high))
        self.squashed = squashed
        self.largest_thresholds = np.asarray(largest_thresholds, dtype=np.float64)
        self.start = start

    def __call__(self, observations: Any, thresholds: ArrayLike | None = None) -> Any:
        """Actions (n, da), or (n,) if discrete, for observations (n, ds) and thresholds (n, K), if it takes any."""
        values = np.asarray(observations, dtype=np.float64)
        if self.largest_thresholds.size:
            given = np.asarray(thresholds, dtype=np.float64).reshape(len(values), -1)
            values = np.concatenate([values, np.clip(given / self.largest_thresholds, 0.0, 1.0)], axis=1)
        for layer in self.layers:
            values = _activated(layer, values @ layer.weights + layer.biases)
        if self.low is None or self.high is None:
            return values.argmax(axis=1) + self.start
        if self.squashed:
            values = self.low + (values + 1.0) * ((self.high - self.low) / 2)
        return np.minimum(np.maximum(values, self.low), self.high)


def _activated(layer: Layer, x: Array) -> Array:
    match layer.activation:
        case "tanh":
            return np.tanh(x)
        case "relu":
            return np.maximum(x, 0.0)
        case "sigmoid":
            return np.asarray(1.0 / (1.0 + np.exp(-x)))
        case "elu":
            return np.where(x > 0, x, layer.slope * (np.exp(np.minimum(x, 0.0)) - 1.0))
        case "leaky_relu":
            return np.where(x > 0, x, layer.slope * x)
    return x
