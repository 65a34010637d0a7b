"""Observations and actions as vectors."""

import numpy as np
import pytest
from gymnasium import spaces

from safexp.encoding import encode_actions, encode_observations


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
        encode_observations(spaces.Tuple([spaces.Discrete(2)]), np.zeros(1))
