"""What a quantifier's answer becomes: bounds within [0, 1], levels, and nothing safe where it could not answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp import Unknown
from safexp.shield.bounds import LEVEL_TOLERANCE, as_levels, ask

STATES, ACTIONS = np.zeros((2, 1)), np.zeros((2, 3, 1))


class Says(Unknown):
    """Answers what it was made with."""

    def __init__(self, mean, width, num_costs=1):
        self.mean, self.wide, self.num_costs = mean, width, num_costs

    def predict(self, states, actions):
        return self.mean, self.wide


def said(mean, width, num_costs=1, levels=None):
    quantifier = Says(mean, width, num_costs)
    return ask(quantifier, STATES, ACTIONS, as_levels(levels, quantifier))


@given(st.floats(-2, 2), st.floats(0, 2))
def test_a_bound_is_mean_plus_width_within_zero_and_one(mean, width):
    bounds, widths, problem = said(np.full((2, 3), mean), np.full((2, 3), width))
    np.testing.assert_array_equal(bounds, np.full((2, 3, 1), np.clip(mean + width, 0, 1)))
    np.testing.assert_array_equal(widths, np.full((2, 3, 1), width))
    assert problem == ""


@given(
    st.lists(st.sampled_from([0.5, np.nan, np.inf, -np.inf]), min_size=6, max_size=6),
    st.lists(st.sampled_from([0.0, 0.25, np.inf, np.nan, -0.1]), min_size=6, max_size=6),
    st.booleans(),
)
def test_what_cannot_be_used_is_infinite_and_leaves_the_rest_alone(means, widths, rounded):
    mean, width = np.reshape(means, (2, 3)), np.reshape(widths, (2, 3))
    bounds, found, problem = said(mean, width, levels=(0.0, 1.0) if rounded else None)
    usable = np.isfinite(mean) & (width >= 0)
    assert np.all(bounds[~usable] == np.inf)
    assert np.all(found[~usable] == np.inf)
    exact = np.clip(mean[usable] + width[usable], 0, 1)
    np.testing.assert_array_equal(bounds[usable][:, 0], np.floor(exact) if rounded else exact)
    np.testing.assert_array_equal(found[usable][:, 0], width[usable])
    assert problem == ("" if usable.all() else f"{(~usable).sum()} of 6 predictions are NaN or have a negative width")


@pytest.mark.parametrize(
    ("mean", "width", "num_costs", "answered"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3)), 1, True),
        (np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), 1, True),
        (np.zeros((2, 3, 2)), np.zeros((2, 3, 2)), 2, True),
        (np.zeros((2, 3)), np.zeros((2, 3)), 2, False),
        (np.zeros((2, 3, 2)), np.zeros((2, 3, 2)), 1, False),
        (np.zeros((2, 3)), np.zeros((2, 3, 1)), 1, False),
        (np.zeros((3, 2)), np.zeros((3, 2)), 1, False),
        (np.zeros(()), np.zeros(()), 1, False),
    ],
)
def test_an_answer_of_another_shape_is_none(mean, width, num_costs, answered):
    bounds, widths, problem = said(mean, width, num_costs)
    assert bounds.shape == widths.shape == (2, 3, num_costs)
    assert np.all(bounds == (0.0 if answered else np.inf))
    assert np.all(widths == (0.0 if answered else np.inf))
    assert (problem == "") == answered
    assert answered or f"expected (2, 3, {num_costs})" in problem


@given(st.floats(0, 1), st.sampled_from([(0.0, 1.0), (0.0, 0.25, 0.5), (0.5,), (0.5, 0.75)]))
def test_a_bound_is_rounded_down_to_a_level_unless_rounding_alone_parts_them(bound, levels):
    bounds, _, _ = said(np.full((2, 3), bound), np.zeros((2, 3)), levels=levels)
    reached = [level for level in levels if level <= bound + LEVEL_TOLERANCE]
    assert np.all(bounds == (max(reached) if reached else levels[0]))


def test_a_level_that_is_missed_by_rounding_is_meant():
    for short, expected in ((1e-9, 1.0), (1e-4, 0.0)):
        bounds, _, _ = said(np.full((2, 3), 1.0 - short), np.zeros((2, 3)), levels=(0.0, 1.0))
        assert np.all(bounds == expected)
