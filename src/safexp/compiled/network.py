"""Translation of fully connected layers, and of controllers made of them."""

from __future__ import annotations

from collections.abc import Sequence

from safexp.compiled.program import Program
from safexp.compiled.tables import padded, tiled, widened
from safexp.core.network import Layer

ACTIVATIONS = {
    "": "NO_ACTIVATION",
    "tanh": "TANH_ACTIVATION",
    "relu": "RELU",
    "sigmoid": "SIGMOID",
    "elu": "ELU",
    "leaky_relu": "LEAKY_RELU",
}


def layer_fields(program: Program, layers: Sequence[Layer]) -> list[dict[str, int | str]]:
    """Fields of the C struct `dense_layer` for each layer."""
    add = program.tables.add
    return [
        {
            "inputs": len(layer.weights),
            "outputs": padded(len(layer.biases)),
            "weights": add(f"layer {k}: weights", tiled(layer.weights)),
            "biases": add(f"layer {k}: biases", widened(layer.biases, padded(len(layer.biases)))),
            "activation": ACTIVATIONS[layer.activation],
            "slope": add(f"layer {k}: slope below 0", [layer.slope]),
        }
        for k, layer in enumerate(layers)
    ]
