"""The visited region, in which models of costs and margins may certify."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp import Calibrated, DeepGP, FeatureRegression, SparseGP
from safexp.quantifiers import Transitions
from safexp.quantifiers.landmarks import CAPACITY
from safexp.quantifiers.visited import LEAST_WEIGHT, Visited, blocks_of, weights_of

MODELS = [
    SparseGP(num_inducing=32, first_steps=50),
    DeepGP(widths=(3,), num_inducing=16, first_steps=20, shared=True),
    FeatureRegression(num_features=32),
    FeatureRegression(features="learned", num_features=16, first_steps=50),
]


def ring(rng, count=40, steps=25, radius=1.0):
    """Episodes around a hill in the middle, which nobody has visited: cost near 0 at radius 1, and 1 at the centre."""
    angle = rng.uniform(0, 2 * np.pi, (count, 1)) + np.linspace(0, 1.5, steps)
    distance = radius + 0.1 * rng.standard_normal((count, 1)) + 0.0 * angle
    states = np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=-1).reshape(-1, 2)
    actions = rng.uniform(-0.05, 0.05, (len(states), 2))
    return Transitions(states, actions, height(states, actions), episodes=np.repeat(np.arange(count), steps))


def height(states, actions):
    return np.exp(-(((states + actions) ** 2).sum(axis=1)) / (2 * 0.3**2))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("calibrated", [False, True])
def test_a_hill_inside_the_range_of_a_log_that_went_around_it_is_not_certified(model, calibrated):
    quantifier = Calibrated(model) if calibrated else model
    quantifier.fit(ring(np.random.default_rng(0)))
    on_the_hill = np.random.default_rng(1).uniform(-0.4, 0.4, (200, 2))
    mean, width = quantifier.predict(on_the_hill, np.zeros((200, 1, 2)))
    assert not (mean + width <= 0.3).any()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_widths_are_finite_at_the_data(model):
    model.fit(data := ring(np.random.default_rng(0)))
    _, width = model.predict(data.states, data.actions[:, None])
    assert np.isfinite(width).all()


def test_the_region_grows_around_what_is_executed_and_is_restored():
    model = FeatureRegression(num_features=32)
    model.update(ring(np.random.default_rng(0)))
    inwards = ring(np.random.default_rng(2), radius=0.75)
    question = inwards.states, inwards.actions[:, None]
    before = np.isfinite(model.predict(*question)[1]).mean()
    model.update(inwards)
    assert before < 0.9
    assert np.isfinite(model.predict(*question)[1]).all()
    copy = FeatureRegression(num_features=32)
    copy.restore(model.state())
    np.testing.assert_array_equal(copy.predict(*question), model.predict(*question))


def test_models_of_changes_have_no_region_of_their_own():
    model = FeatureRegression(num_features=32).as_regression(0.01)
    model.update(ring(np.random.default_rng(0)))
    assert model.visited is None


@given(st.integers(0, 2**32 - 1))
def test_inputs_count_by_the_slope_along_them_and_never_less_than_a_tenth(seed):
    inputs = np.random.default_rng(seed).standard_normal((200, 3))
    np.testing.assert_allclose(
        weights_of(inputs, 4 * inputs[:, 0] - 2 * inputs[:, 1]), [1.0, 0.5, LEAST_WEIGHT], atol=1e-4
    )
    np.testing.assert_array_equal(weights_of(inputs, np.zeros(200)), 1.0)


@given(st.integers(0, 2**32 - 1), st.integers(30, 900))
def test_the_region_contains_all_its_data(seed, count):
    rng = np.random.default_rng(seed)
    data = Transitions(rng.standard_normal((count, 2)), rng.standard_normal((count, 1)), rng.uniform(0, 1, count))
    region = Visited.measured(data, data.costs, data.costs, 0.05)
    assert region.contains(data.states, data.actions[:, None]).all()
    assert len(region.landmarks.points) == min(count, CAPACITY)


def test_short_data_is_split_into_blocks_and_a_single_row_certifies_nothing_else():
    rows = Transitions(np.zeros((25, 1)), np.zeros((25, 1)), np.zeros(25))
    assert np.bincount(blocks_of(rows)).tolist() == [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    single = Transitions(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1))
    region = Visited.measured(single, single.costs, single.costs, 0.05)
    np.testing.assert_array_equal(region.contains(np.array([[0.0], [0.1]]), np.zeros((2, 1, 1)))[:, 0], [True, False])
