"""Polynomial regression from accumulated sums."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.quantifiers.polynomial import Polynomial


def test_a_polynomial_is_learned_in_parts_as_well_as_at_once():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(500, 2))
    values = (1 + inputs[:, :1] - 2 * inputs[:, :1] * inputs[:, 1:] ** 2) * [[1.0, 3.0]]
    model = Polynomial(3)
    for part in (slice(0, 100), slice(100, 500)):
        model.add(inputs[part], values[part])
    assert model.at(model.features(inputs)) == pytest.approx(values, abs=1e-6)
    again = Polynomial(3)
    again.restore(model.state("a."), "a.")
    assert np.array_equal(again.at(again.features(inputs)), model.at(model.features(inputs)))


def test_weights_decide_between_contradictory_values():
    inputs, values = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([[0.0], [0.0], [1.0], [1.0]])
    model = Polynomial(1)
    model.add(inputs, values, np.array([1.0, 1.0, 3.0, 3.0]))
    assert model.at(model.features(inputs))[0] == pytest.approx([0.9], abs=1e-2)
