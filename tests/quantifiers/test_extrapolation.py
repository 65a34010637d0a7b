"""Widths away from the data: none on it, and as large elsewhere as the errors of extrapolation were."""

import numpy as np
import pytest

from safexp import ChangeModel, ExactGP, FeatureRegression, SparseGP, Within
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.extrapolation import Extrapolation


def measured(inputs, values):
    return Extrapolation.measured(inputs, values, inputs[:, 0])


def widths(found, points):
    points = np.atleast_2d(np.asarray(points, dtype=np.float64))
    return found.widths(np.column_stack([points, np.ones(len(points))]))


def test_a_linear_system_has_no_slope():
    inputs = np.random.default_rng(0).normal(size=(500, 2))
    found = measured(inputs, inputs @ np.array([[1.0, -2.0], [3.0, 0.5]]))
    assert (found.slopes < 1e-8).all()
    assert (widths(found, [[3.0, 3.0]]) < 1e-8).all()


def test_a_curved_system_is_wide_where_it_was_not_visited_even_within_the_range_of_each_input():
    rng = np.random.default_rng(0)
    inputs = np.repeat(rng.uniform(-1, 1, (3000, 1)), 2, axis=1) + 0.05 * rng.normal(size=(3000, 2))  # a diagonal
    found = measured(inputs, np.exp(inputs.sum(axis=1, keepdims=True)))
    assert found.slopes > 0.1
    assert (widths(found, inputs) < 1e-5).all()
    assert widths(found, [[0.9, -0.9]]) > 5 * widths(found, [[0.2, -0.2]]) > 0


def test_nothing_is_known_further_than_was_tested():
    inputs = np.linspace(-1, 1, 201)[:, None]
    found = measured(inputs, inputs**2)
    assert np.isfinite(widths(found, [[1.0 + 0.9 * found.tested]])).all()
    assert np.isinf(widths(found, [[1.0 + 1.1 * found.tested]])).all()
    linear = measured(inputs, inputs)
    assert np.isinf(widths(linear, [[1.0 + 1.1 * linear.tested]])).all()


def test_further_data_carries_it_along_and_it_survives_a_file():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (400, 2))
    found = measured(inputs, (inputs**2).sum(axis=1, keepdims=True))
    assert widths(found, [[1.6, 0.0]]) > 0
    found.add(np.array([[1.6, 0.0]]))
    assert widths(found, [[1.6, 0.0]]) < 1e-6
    again = Extrapolation.of(found.state())
    np.testing.assert_array_equal(widths(again, 2 * inputs), widths(found, 2 * inputs))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_few_rows_are_enough_to_start(rows):
    inputs = 1.0 + np.arange(rows)[:, None]
    assert (widths(measured(inputs, inputs), inputs) < 1e-5).all()


@pytest.mark.parametrize("regression", [SparseGP(first_steps=60), FeatureRegression(), ExactGP(2.0, 3.0, noise=0.1)])
def test_models_of_a_reaction_hold_where_the_log_has_not_been(regression):
    """Heating that grows exponentially with the temperature, and a log that ends one standard deviation below."""

    def change(heat, action):
        return 0.1 * (np.exp(0.8 * heat) - 2.0 * heat + action)

    rng = np.random.default_rng(0)
    heat = rng.uniform(0.0, 1.5, (1000, 1))
    action = np.clip(0.8 - heat + 0.1 * rng.normal(size=(1000, 1)), -1, 1)
    after = heat + change(heat, action)
    data = Transitions(np.tile(heat, 2), action, np.zeros(1000), episodes=np.arange(1000) // 10, signals=after)
    model = ChangeModel(regression).bound_to(Within("heat", high=2.0).sides, (0,))
    model.fit(data)
    beyond, actions = rng.uniform(0.0, 1.9, (500, 1)), rng.uniform(-1, 1, (500, 1))
    mean, width = model.interval(np.tile(beyond, 2), actions[:, None])
    assert (np.abs(mean[:, 0] - beyond - change(beyond, actions)) <= width[:, 0]).all()
    assert np.median(width[np.isfinite(width)]) < 0.5


def test_calibration_neither_scales_nor_counts_the_width_of_the_distance():
    rng = np.random.default_rng(0)
    heat, action = rng.uniform(0.0, 1.5, (400, 1)), rng.uniform(-1, 1, (400, 1))
    after = heat + 0.1 * (np.exp(heat) + action)
    data = Transitions(np.tile(heat, 2), action, np.zeros(400), episodes=np.arange(400) // 10, signals=after)
    model = ChangeModel(FeatureRegression()).bound_to(Within("heat", high=2.0).sides, (0,))
    model.fit(data)
    asked = np.full((1, 2), 1.9), np.zeros((1, 1, 1))  # at some distance from the data
    single, double, triple = (model.scaled_interval(*asked, scale)[1].item() for scale in (1.0, 2.0, 3.0))
    own = double - single
    distant = single - own
    assert triple == pytest.approx(single + 2 * own)
    assert distant > 0
    mean = model.interval(*asked)[0].item()
    wrong = Transitions(asked[0], asked[1][0], np.zeros(1), signals=np.array([[mean + own + distant]]))
    assert model.score(wrong).item() == pytest.approx(1.0)
    assert model.score(wrong, held_out=True).item() == pytest.approx((own + distant) / own)
