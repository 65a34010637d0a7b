"""The actions that are searched, and what a promise of the user's is worth."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from safexp import Shield, Unknown
from safexp.shield.candidates import candidate_actions, unasked, vouched_actions, with_extra

STATES = spaces.Box(-1.0, 1.0, (2,), np.float64)
SQUARE = spaces.Box(-1.0, 1.0, (2,), np.float32)
LOPSIDED = spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 6.0], np.float32))


@given(st.integers(1, 6), st.integers(1, 80))
def test_so_many_actions_within_the_box_and_the_centre_first(dimension, count):
    space = spaces.Box(-1.0, 3.0, (dimension,), np.float32)
    found = candidate_actions(space, count)
    assert found.shape == (count, dimension)
    assert (found >= -1.0).all() and (found <= 3.0).all()
    np.testing.assert_array_equal(found[0], np.ones(dimension))
    assert len(np.unique(found, axis=0)) == count
    np.testing.assert_array_equal(found, found.astype(np.float32), "what is certified can be run as it is")


@pytest.mark.parametrize(("count", "corners"), [(8, True), (7, False)])
def test_the_corners_are_taken_while_they_fill_at_most_half(count, corners):
    found = candidate_actions(LOPSIDED, count)
    expected = (
        [[0.0, -2.0], [1.0, -2.0], [0.0, 6.0], [1.0, 6.0]]
        if corners
        else [[0.0, 2.0], [0.5, -2.0], [1.0, 2.0], [0.5, 6.0]]
    )
    np.testing.assert_array_equal(found[1:5], expected)
    inside = (found[5:] > LOPSIDED.low).all() and (found[5:] < LOPSIDED.high).all()
    assert inside, "the rest is spread over the inside"


def test_the_spread_is_even_and_the_same_every_time():
    found = candidate_actions(SQUARE, 260)[5:]
    quarters = np.unique(np.sign(found), axis=0, return_counts=True)[1]
    assert quarters.min() > 50
    np.testing.assert_array_equal(candidate_actions(SQUARE, 260)[5:], found)


def test_discrete_actions_are_all_there():
    np.testing.assert_array_equal(candidate_actions(spaces.Discrete(3, start=5), 1), np.eye(3))


@pytest.mark.parametrize("count", [0, -1])
def test_no_candidates_are_no_search(count):
    with pytest.raises(ValueError, match=rf"num_candidates={count} must be at least 1"):
        candidate_actions(SQUARE, count)


def test_further_actions_come_after_the_fixed_ones_and_nan_stands_for_the_first():
    fixed = np.array([[0.0, 0.5], [1.0, 1.0]])
    found = with_extra(fixed, 2, [np.array([[3.0, 4.0], [np.nan, np.nan]]), np.nan])
    np.testing.assert_array_equal(found[0], [[0.0, 0.5], [1.0, 1.0], [3.0, 4.0], [0.0, 0.5]])
    np.testing.assert_array_equal(found[1], [[0.0, 0.5], [1.0, 1.0], [0.0, 0.5], [0.0, 0.5]])


def test_before_anyone_is_asked_only_promises_are_known():
    candidates = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]] * 3)
    vouched = np.array([[1.0, 0.0], [np.nan, np.nan], [np.nan, 0.0]])
    offers = unasked(candidates, 2, vouched)
    np.testing.assert_array_equal(offers.safe, [[False, False, True], [False] * 3, [False] * 3])
    np.testing.assert_array_equal(offers.viable, [True, False, False])
    assert np.all(offers.upper_bounds[offers.safe] == 0.0)
    assert np.all(offers.upper_bounds[~offers.safe] == np.inf)
    assert np.all(offers.widths == np.inf)
    np.testing.assert_array_equal(offers.promised, [2, -1, -1])
    nothing = unasked(candidates, 2, None)
    assert not nothing.safe.any()
    np.testing.assert_array_equal(nothing.promised, [-1, -1, -1])


def test_the_least_width_is_the_smallest_of_any_action():
    offers = unasked(np.zeros((2, 3, 1)), 1, None)._replace(widths=np.array([[3.0, 1.0, 2.0], [4.0, 9.0, 9.0]]))
    np.testing.assert_array_equal(offers.least_width, [1.0, 4.0])


@pytest.mark.parametrize("promise", [[0.5, np.nan], [np.nan, 0.5], [np.nan, np.nan]])
def test_an_action_that_is_partly_nan_vouches_for_nothing(promise):
    def somewhere(observations):
        return np.where(observations[:, :1] > 0, [[0.5, 0.5]], [promise])

    observations = np.array([[1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_array_equal(vouched_actions(SQUARE, somewhere, observations), [[0.5, 0.5], [np.nan, np.nan]])
    shield = Shield(Unknown(), STATES, SQUARE, safe_action=somewhere)
    decisions = shield.filter_batch(observations, np.zeros((2, 2)), np.full(2, 0.1))
    np.testing.assert_array_equal(decisions.stopped, [False, True])
    np.testing.assert_array_equal(decisions.actions[0], [0.5, 0.5])
    np.testing.assert_array_equal(shield.glance(shield.question(observations, np.full(2, 0.1))).viable, [True, False])


def test_one_action_is_vouched_for_in_all_states():
    found = vouched_actions(SQUARE, [0.25, -1.0], np.zeros((3, 2)))
    np.testing.assert_array_equal(found, [[0.25, -1.0]] * 3)
    found = vouched_actions(spaces.Discrete(3, start=5), 6, np.zeros((2, 2)))
    np.testing.assert_array_equal(found, [[0.0, 1.0, 0.0]] * 2)
    found = vouched_actions(spaces.Discrete(3), lambda seen: np.array([np.nan, 2.0]), np.zeros((2, 2)))
    np.testing.assert_array_equal(found, [[np.nan] * 3, [0.0, 0.0, 1.0]])


def test_a_box_of_several_axes_is_vouched_for_row_by_row():
    space = spaces.Box(-1.0, 1.0, (2, 2), np.float32)

    def brake(observations):
        actions = np.zeros((len(observations), 2, 2))
        actions[0, 1, 1] = np.nan
        actions[1, 0, 0] = -1.0
        return actions

    np.testing.assert_array_equal(
        vouched_actions(space, brake, np.zeros((2, 2))), [[np.nan] * 4, [-1.0, 0.0, 0.0, 0.0]]
    )
    with pytest.raises(ValueError, match="is not an action of Box"):
        vouched_actions(space, lambda seen: brake(seen) * 2, np.zeros((2, 2)))


@pytest.mark.parametrize("actions", [[[1.0, 0.0], [0.0, 1.001]], [[-1.001, 0.0], [0.0, 0.0]]])
def test_an_action_outside_its_space_vouches_for_nothing_and_is_named(actions):
    with pytest.raises(ValueError, match="nobody vouched for"):
        vouched_actions(SQUARE, lambda seen: np.array(actions), np.zeros((2, 2)))


def test_actions_at_the_bounds_are_inside():
    np.testing.assert_array_equal(
        vouched_actions(SQUARE, lambda seen: np.array([[1.0, -1.0]]), np.zeros((1, 2))), [[1.0, -1.0]]
    )


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2), ()])
def test_a_promise_of_another_shape_is_named(shape):
    with pytest.raises(ValueError, match=r"safe_action has shape .*, expected \(2,\) or \(2, 2\) for 2 states"):
        vouched_actions(SQUARE, np.zeros(shape), np.zeros((2, 2)))
