"""Observations and actions as vectors."""

import numpy as np
import pytest
from gymnasium import spaces

from safexp.core.encoding import check_action_space, encode_actions, encode_observations, fits


def test_dicts_are_flattened_in_key_order():
    space = spaces.Dict({"b": spaces.Box(-1, 1, (2, 2)), "a": spaces.Discrete(3, start=1), "c": spaces.MultiBinary(2)})
    batch = {"b": np.arange(8.0).reshape(2, 2, 2), "a": np.array([1, 3]), "c": np.array([[1, 0], [0, 1]])}
    expected = np.concatenate([[[1, 0, 0], [0, 0, 1]], np.arange(8).reshape(2, 4), [[1, 0], [0, 1]]], axis=1)
    np.testing.assert_array_equal(encode_observations(space, batch), expected)


def test_actions_are_clipped_to_their_box():
    np.testing.assert_array_equal(encode_actions(spaces.Box(-1, 1, (1,)), np.array([[3.0], [-0.5]])), [[1.0], [-0.5]])


def test_unknown_keys_indices_and_spaces_are_named():
    with pytest.raises(ValueError, match=r"keys \['x'\], expected \['a'\]"):
        encode_observations(spaces.Dict({"a": spaces.Discrete(2)}), {"x": np.zeros(1)})
    with pytest.raises(ValueError, match="not all indices of 3 choices"):
        encode_actions(spaces.Discrete(3), np.array([3]))
    with pytest.raises(ValueError, match="FlattenObservation"):
        encode_observations(spaces.Text(3), np.zeros(1))


@pytest.mark.parametrize(
    ("space", "batch", "message"),
    [
        (spaces.Box(-1, 1, (2,)), np.array([[0.0, 0.0], [0.0, np.nan]]), "observation 1 of the batch holds a NaN"),
        (spaces.Box(-1, 1, (2,)), np.array([[np.inf, 0.0], [0.0, 0.0]]), "observation 0 of the batch holds a NaN"),
        (spaces.Box(-1, 1, (2,)), np.zeros((2, 3)), r"observations have shape \(2, 3\), expected \(n, 2\)"),
        (spaces.MultiBinary(2), np.zeros((2, 3)), r"expected \(n, 2\)"),
        (spaces.MultiDiscrete([2, 2]), np.zeros((2, 3)), r"expected \(n, 2\)"),
        (spaces.Discrete(2), np.array([0, -1]), "not all indices of 2 choices"),
        (spaces.Discrete(2), np.array([0, 2]), "not all indices of 2 choices"),
        (spaces.Discrete(2), np.array([0.5, 1.0]), "not all indices of 2 choices"),
        (spaces.Discrete(2), np.array([np.nan, 1.0]), "not all indices of 2 choices"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": np.zeros(1), "b": np.zeros(1)}, r"keys \['a', 'b'\]"),
        (spaces.Dict(a=spaces.Discrete(2)), np.zeros(1), "keys ndarray"),
    ],
)
def test_what_does_not_fit_its_space_is_refused(space, batch, message):
    with pytest.raises(ValueError, match=message):
        encode_observations(space, batch)


def test_whole_numbers_are_encoded_as_they_are():
    np.testing.assert_array_equal(encode_observations(spaces.MultiDiscrete([3, 4]), np.array([[2, 3]])), [[2.0, 3.0]])
    np.testing.assert_array_equal(encode_observations(spaces.Discrete(3, start=-1), np.array([-1, 1])), np.eye(3)[::2])
    assert encode_observations(spaces.Discrete(3), np.zeros(0, dtype=int)).shape == (0, 3)


def test_actions_are_encoded_at_the_precision_in_which_they_are_run():
    space = spaces.Box(-1, 1, (2, 1), np.float32)
    found = encode_actions(space, np.array([[[0.1], [-7.0]]]))
    np.testing.assert_array_equal(found, [[np.float32(0.1), -1.0]])
    assert found.dtype == np.float64
    with pytest.raises(ValueError, match=r"actions have shape \(1, 2\), expected \(n, 2, 1\)"):
        encode_actions(space, np.zeros((1, 2)))
    np.testing.assert_array_equal(encode_actions(spaces.Discrete(3, start=5), np.array([5, 7])), np.eye(3)[::2])


@pytest.mark.parametrize(
    ("space", "value", "fitting"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), [1.0, -1.0], True),
        (spaces.Box(-1, 1, (2,), np.float64), [1.0, -1.0001], False),
        (spaces.Box(-1, 1, (2,), np.float64), [1.0001, 0.0], False),
        (spaces.Box(-1, 1, (2,), np.float64), [np.nan, 0.0], False),
        (spaces.Box(-np.inf, np.inf, (2,), np.float64), [np.inf, 0.0], False),
        (spaces.Box(-1, 1, (2,), np.float64), [0.0], False),
        (spaces.Box(-1, 1, (2,), np.float64), "far", False),
        (spaces.Box(-1, 1, (2,), np.float64), [[0.0], [0.0, 1.0]], False),
        (spaces.Box(0, 5, (1,), np.int64), [5], True),
        (spaces.Box(0, 5, (1,), np.int64), [5.4], False),
        (spaces.Box(-0.7, 0.7, (1,), np.float32), [0.7], True),
        (spaces.Discrete(3), 2, True),
        (spaces.Discrete(3), 2.5, False),
        (spaces.Discrete(3), 3, False),
        (spaces.MultiBinary(2), [1, 0], True),
        (spaces.MultiBinary(2), [0.5, 0], False),
        (spaces.MultiDiscrete([2, 3]), [1, 2], True),
        (spaces.MultiDiscrete([2, 3]), [2, 2], False),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)), {"a": 1, "b": 0}, True),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)), {"a": 1, "b": 7}, False),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)), {"a": 1}, False),
        (spaces.Dict(a=spaces.Discrete(2)), 1, False),
    ],
)
def test_what_fits_a_space(space, value, fitting):
    assert fits(space, value) is fitting


def test_only_actions_that_can_be_searched_are_taken():
    boxes = (spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-1, 1, (2,), np.float64))
    for space in (*boxes, spaces.Discrete(3), spaces.MultiBinary(2), spaces.MultiDiscrete([2, 2])):
        assert check_action_space(space) is space
    for unbounded in (spaces.Box(-np.inf, 1, (2,)), spaces.Box(-1, np.inf, (2,))):
        with pytest.raises(ValueError, match="has no finite bounds"):
            check_action_space(unbounded)
    for other in (spaces.Box(0, 5, (1,), np.int64), spaces.Text(3)):
        with pytest.raises(ValueError, match="use a bounded float Box, Discrete, MultiDiscrete or MultiBinary"):
            check_action_space(other)
