"""Bayesian linear regression against its closed forms."""

import numpy as np

from safexp.quantifiers.trend import Trend


def linear(n=200, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0]
    values = inputs @ np.array([[2.0], [-0.3], [7.0]]) + 1.0
    return inputs, values + noise * rng.standard_normal((n, 1))


def test_a_linear_function_is_found_and_extrapolated():
    inputs, values = linear()
    mean, deviation = Trend.fit(inputs, values).predict(np.array([[100.0, -400.0]]), np.array([[[3.0]]]))
    np.testing.assert_allclose(mean, [[[2 * 100 + 0.3 * 400 + 21 + 1]]], rtol=1e-6)
    assert deviation < 1e-3


def test_the_deviation_is_that_of_least_squares():
    inputs, values = linear(noise=0.5)
    found = Trend.fit(inputs, values).predict(inputs[:5, :2], inputs[:5, None, 2:])[1][:, 0, 0]
    design = np.column_stack([inputs, np.ones(len(inputs))])
    rest = values[:, 0] - design @ np.linalg.lstsq(design, values[:, 0])[0]
    variance = (rest @ rest) / (len(inputs) - 4) * np.linalg.inv(design.T @ design)
    expected = np.sqrt(np.einsum("nd,de,ne->n", design[:5], variance, design[:5]))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_an_action_that_follows_from_the_state_is_not_told_from_it():
    rng = np.random.default_rng(0)
    states = rng.standard_normal((300, 1))
    actions = -0.5 * states
    trend = Trend.fit(np.concatenate([states, actions], axis=1), states + actions)
    on, off = (trend.predict(np.array([[1.0]]), np.array([[[action]]]))[1].item() for action in (-0.5, 0.5))
    assert on < 1e-6
    assert off > 0.2  # the size of the values for each deviation of the action


def test_several_values_have_deviations_of_their_own():
    inputs, values = linear(noise=0.0)
    noisy = linear(noise=2.0, seed=0)[1]
    _, deviation = Trend.fit(inputs, np.concatenate([values, noisy], axis=1)).predict(
        inputs[:2, :2], inputs[:2, None, 2:]
    )
    assert (deviation[..., 0] < deviation[..., 1] / 1000).all()
    again = Trend.of(Trend.fit(inputs, values).state())
    np.testing.assert_array_equal(again.weights, Trend.fit(inputs, values).weights)
