"""What a learner sees: spaces with a number added, how it is taken off again, and what is told of an episode's end."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import AllOf, Budget, Instantaneous
from safexp.envs.observations import describe_ends, shown_with, space_with, threshold_shown, threshold_space, without
from safexp.records.episodes import Recorder

ADDED = spaces.Box(0.0, 1.0, (2,), np.float32)
NUMBERS = np.array([[0.25, 0.5], [0.75, 1.0]])

RAW = {
    "vector": (spaces.Box(-6.0, 6.0, (3,), np.float64), np.arange(6.0).reshape(2, 3)),
    "whole numbers": (spaces.Box(0, 5, (3,), np.int64), np.arange(6).reshape(2, 3)),
    "matrix": (spaces.Box(-6.0, 6.0, (3, 1), np.float32), np.arange(6.0, dtype=np.float32).reshape(2, 3, 1)),
    "choice": (spaces.Discrete(4), np.array([1, 3])),
    "mapping": (spaces.Dict(place=spaces.Box(-1.0, 1.0, (1,))), {"place": np.zeros((2, 1), np.float32)}),
}


@pytest.mark.parametrize("kind", RAW)
def test_what_is_added_can_be_seen_and_taken_off_again(kind):
    raw, observations = RAW[kind]
    space = space_with(raw, "left", ADDED)
    seen = shown_with(observations, "left", NUMBERS, space)
    for row in range(2):
        one = {key: part[row] for key, part in seen.items()} if isinstance(seen, dict) else seen[row]
        assert space.contains(one)
    np.testing.assert_equal(without(raw, seen, "left"), observations)
    np.testing.assert_array_equal(seen["left"] if isinstance(seen, dict) else seen[:, 3:], NUMBERS)


def test_only_vectors_of_floats_grow_and_others_become_a_mapping():
    space = space_with(RAW["vector"][0], "left", ADDED)
    assert space == spaces.Box(np.array([-6.0] * 3 + [0.0] * 2), np.array([6.0] * 3 + [1.0] * 2), dtype=np.float64)
    assert set(space_with(RAW["matrix"][0], "left", ADDED).spaces) == {"observation", "left"}
    assert set(space_with(RAW["whole numbers"][0], "left", ADDED).spaces) == {"observation", "left"}
    assert set(space_with(RAW["mapping"][0], "left", ADDED).spaces) == {"place", "left"}


def test_a_key_that_is_taken_is_named():
    with pytest.raises(ValueError, match="already have the key 'place'"):
        space_with(RAW["mapping"][0], "place", ADDED)


def test_thresholds_are_shares_of_the_largest_within_zero_and_one():
    constraint = AllOf(Budget(4.0), Instantaneous(0.5))
    raw, observations = RAW["vector"]
    space = threshold_space(constraint, raw)
    assert space == spaces.Box(np.array([-6.0] * 3 + [0.0] * 2), np.array([6.0] * 3 + [1.0] * 2), dtype=np.float64)
    seen = threshold_shown(constraint, observations, np.array([[1.0, 0.5], [9.0, -0.5]]), space)
    np.testing.assert_allclose(seen[:, 3:], [[0.25, 0.5], [1.0, 0.0]])
    assert threshold_space(Budget(4.0), raw).shape == (4,)


def test_each_end_is_told_with_its_own_episode():
    recorder = Recorder(Budget(9.0), 3)
    everywhere = np.ones(3, dtype=bool)
    recorder.begin(everywhere, np.zeros((3, 1)))
    recorder.end(np.array([False, True, False]), ~everywhere)  # an older episode, of which nothing is told here
    recorder.begin(everywhere, np.zeros((3, 1)))
    for rewards in ([1.0, 10.0, 100.0], [2.0, 20.0, 200.0]):
        recorder.step(np.array(rewards), np.zeros(3), ~everywhere)
    infos = [{"TimeLimit.truncated": True}, {}, {"TimeLimit.truncated": True}]
    ended, stopped = np.array([True, False, True]), np.array([False, False, True])
    recorder.end(ended, stopped)
    describe_ends(infos, ended, stopped, recorder, lambda rows: np.array([[float(row)] for row in rows]))
    assert infos[0]["episode"] == {"r": 3.0, "l": 2, "t": 0.0}
    assert infos[2]["episode"] == {"r": 300.0, "l": 2, "t": 0.0}
    assert (infos[0]["TimeLimit.truncated"], infos[2]["TimeLimit.truncated"]) == (True, False)
    assert (infos[0]["terminal_observation"], infos[2]["terminal_observation"]) == ([0.0], [2.0])
    assert infos[1] == {}


def test_where_nothing_ended_nothing_is_told():
    infos = [{}]
    nowhere = np.zeros(1, dtype=bool)
    describe_ends(infos, nowhere, nowhere, Recorder(Budget(9.0), 1), lambda rows: pytest.fail("asked"))
    assert infos == [{}]


def test_an_end_without_a_time_limit_is_no_time_out():
    recorder, here = Recorder(Budget(9.0), 1), np.ones(1, dtype=bool)
    recorder.begin(here, np.zeros((1, 1)))
    recorder.end(here, ~here)
    infos = [{}]
    describe_ends(infos, here, ~here, recorder, lambda rows: np.zeros((1, 1)))
    assert infos[0]["TimeLimit.truncated"] is False
