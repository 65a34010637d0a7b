"""Regression on the hidden layer of a network: kinks that polynomials miss, later data, and files."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.quantifiers.learned_features import LearnedFeatures
from safexp.quantifiers.polynomial import Polynomial


def saturating(rows, seed):
    """A motor that saturates at a fifth of its input."""
    inputs = np.random.default_rng(seed).uniform(-1.0, 1.0, (rows, 2))
    pull = np.clip(5.0 * inputs[:, 0], -1.0, 1.0)
    return inputs, np.stack([pull, pull * inputs[:, 1]], axis=1)


def error(model, inputs, values):
    return float(np.sqrt(((model.at(model.features(inputs)) - values) ** 2).mean()))


@pytest.fixture(scope="module")
def trained():
    model = LearnedFeatures()
    model.add(*saturating(2000, 0))
    return model


def test_it_follows_a_saturation_better_than_a_polynomial(trained):
    cubic = Polynomial(3)
    cubic.add(*saturating(2000, 0))
    unseen = saturating(500, 1)
    assert error(trained, *unseen) < 0.05 * error(cubic, *unseen)


def test_it_comes_back_from_its_arrays(trained):
    again = LearnedFeatures()
    again.restore(trained.state("x."), "x.")
    inputs, _ = saturating(10, 2)
    assert np.array_equal(again.at(again.features(inputs)), trained.at(trained.features(inputs)))


def test_later_data_change_what_it_predicts():
    model = LearnedFeatures()
    inputs, values = saturating(600, 0)
    model.add(inputs, values)
    model.add(inputs, values + 1.0)
    assert (model.at(model.features(inputs)) - values).mean() == pytest.approx(0.5, abs=0.02)


def test_residuals_count_in_proportion_to_their_weights():
    inputs, values = saturating(600, 0)
    model = LearnedFeatures()
    model.add(np.tile(inputs, (2, 1)), np.concatenate([values, values + 1.0]), np.repeat([1.0, 3.0], 600))
    assert (model.at(model.features(inputs)) - values).mean() == pytest.approx(0.9, abs=0.02)


def test_it_needs_enough_rows():
    assert LearnedFeatures.trainable(500) and not LearnedFeatures.trainable(499)
