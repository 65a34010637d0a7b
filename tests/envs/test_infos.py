"""Infos as columns, and as the dicts that they become where someone looks."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import safexp
from safexp.envs.infos import Infos
from safexp.envs.vector import as_vec_env


def infos() -> Infos:
    return Infos({"cost": np.array([0.25, 0.5, 1.0]), "place": np.arange(6.0).reshape(3, 2)}, [None] * 3)


def test_a_row_is_a_dict_that_stays():
    found = infos()
    assert len(found) == 3
    assert set(found[1]) == {"cost", "place"} and found[1]["cost"] == 0.5
    found[1]["terminal_observation"] = 7
    assert found[1]["terminal_observation"] == 7
    assert found[-2] is found[1]
    assert [info["cost"] for info in found] == [0.25, 0.5, 1.0]
    assert found[1:] == [found[1], found[2]]
    with pytest.raises(IndexError):
        found[3]


def test_a_group_of_columns_is_a_dict_in_every_row():
    found = infos()
    before = found[2]
    found.add("shield", {"action": np.array([[1.0], [2.0], [3.0]]), "stopped": [False, True, False]})
    assert found[1]["shield"] == {"action": np.array([2.0]), "stopped": True}
    assert before["shield"]["action"] == 3.0
    assert before["shield"]["stopped"] is False


def test_columns_are_read_without_the_rows():
    found = infos()
    assert found.column("cost") is found.columns["cost"]
    assert found.gives("cost") and not found.gives("place") and not found.gives("margin")
    np.testing.assert_array_equal(found.readable("cost"), [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(found.readable("margin"), [np.nan] * 3)


def test_a_list_of_dicts_is_taken_as_it_is():
    rows = [{"cost": 1}, {"cost": "much"}]
    found = Infos.of(rows)
    assert found[0] is rows[0] and Infos.of(found) is found
    np.testing.assert_array_equal(found.readable("cost"), [1.0, np.nan])


def test_infos_that_are_kept_do_not_change_with_the_next_step():
    guard = safexp.Guard(
        venv := as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=3)),
        safexp.Budget(9.0),
        safexp.Shield(safexp.Unknown(), venv.observation_space, venv.action_space),
        safexp.Penalty(),
    )
    guard.seed(0)
    guard.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (2, 3, 2)).astype(np.float32)
    *_, first = guard.step(actions[0])
    costs = first.column("cost").copy()
    guard.step(actions[1])
    np.testing.assert_array_equal([info["cost"] for info in first], costs)
    np.testing.assert_array_equal([info["shield"]["action"] for info in first], actions[0])
