"""Networks in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import Layer, Network

SEEN = np.array([[1.0, -2.0]])


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("", [3.0, -3.0]),
        ("tanh", np.tanh([3.0, -3.0])),
        ("relu", [3.0, 0.0]),
        ("sigmoid", [1 / (1 + np.exp(-3)), 1 / (1 + np.exp(3))]),
        ("elu", [3.0, 0.5 * (np.exp(-3) - 1)]),
        ("leaky_relu", [3.0, -1.5]),
    ],
)
def test_activations(activation, expected):
    layer = Layer(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2), activation, 0.5)
    np.testing.assert_allclose(Network([layer], low=[-9, -9], high=[9, 9])(SEEN), [expected])


def test_outputs_are_clipped_stretched_or_chosen():
    layer = Layer(np.eye(2), np.zeros(2))
    np.testing.assert_allclose(Network([layer], low=[-1, -1], high=[1, 1])(SEEN), [[1.0, -1.0]])
    stretched = Network([layer], low=[0, 0], high=[4, 8], squashed=True)
    np.testing.assert_allclose(stretched(np.array([[0.5, -0.5]])), [[3.0, 2.0]])
    assert Network([layer], start=3)(SEEN) == [3]


def test_thresholds_follow_the_observation():
    layer = Layer(np.array([[0.0], [0.0], [1.0]]), np.zeros(1))
    network = Network([layer], low=[-1], high=[9], largest_thresholds=[4.0])
    np.testing.assert_allclose(network(np.zeros((3, 2)), [1.0, 8.0, -1.0]), [[0.25], [1.0], [0.0]])


@pytest.mark.parametrize(
    ("layers", "named", "reason"),
    [
        ([Layer(np.eye(2), np.zeros(2), "gelu")], {}, "layer 0 has the activation 'gelu', which is not one of"),
        ([Layer(np.eye(2), np.zeros(3))], {}, r"layer 0 has weights \(2, 2\) and biases \(3,\), expected \(2, n\) and"),
        ([], {}, "needs at least one layer"),
        ([Layer(np.eye(2), np.zeros(2))], {"low": [0, 0]}, "both low and high or neither"),
    ],
)
def test_what_is_no_network_is_refused(layers, named, reason):
    with pytest.raises(ValueError, match=reason):
        Network(layers, **named)
