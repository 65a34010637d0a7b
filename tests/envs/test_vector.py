"""Every kind of environment behind SB3's interface: resets, final observations, infos."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

from safexp.envs.infos import Infos
from safexp.envs.vector import as_vec_env, reset_some
from support.line import Line

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED]


def vector(mode, horizons=(3, 5), **options):
    return SyncVectorEnv([lambda h=h: Line(h, **options) for h in horizons], autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mapping", [False, True])
def test_every_autoreset_mode_resets_in_the_same_step(mode, mapping):
    venv = as_vec_env(vector(mode, mapping=mapping))
    reference = DummyVecEnv([lambda h=h: Line(h, mapping=mapping) for h in (3, 5)])
    venv.reset()
    reference.reset()
    for t in range(12):
        actions = np.full((2, 1), 0.1 * (t % 4), dtype=np.float32)
        found, rewards, dones, infos = venv.step(actions)
        expected, reference_rewards, reference_dones, reference_infos = reference.step(actions)
        np.testing.assert_equal(found, expected)
        np.testing.assert_array_equal(rewards, reference_rewards)
        np.testing.assert_array_equal(dones, reference_dones)
        for info, other in zip(infos, reference_infos, strict=True):
            assert info["cost"] == other["cost"]
            assert info.get("TimeLimit.truncated", False) == other["TimeLimit.truncated"]
            np.testing.assert_equal(info.get("terminal_observation"), other.get("terminal_observation"))
        np.testing.assert_array_equal(Infos.of(infos).column("cost"), [info["cost"] for info in reference_infos])


def test_a_single_environment_and_a_step_of_six_values():
    class SixTuple(Line):
        def step(self, action):
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, reward, info.pop("cost"), terminated, truncated, info

    venv = as_vec_env(SixTuple(2))
    venv.reset()
    _, _, _, infos = venv.step(np.array([[0.25]], dtype=np.float32))
    np.testing.assert_array_equal(Infos.of(infos).column("cost"), [0.25])


@pytest.mark.parametrize(
    "make", [lambda: vector(AutoresetMode.NEXT_STEP), lambda: DummyVecEnv([lambda: Line(3), lambda: Line(5)])]
)
def test_some_environments_can_be_reset(make):
    venv = as_vec_env(make())
    observations = venv.reset()
    observations, *_ = venv.step(np.full((2, 1), 0.5, dtype=np.float32))
    observations = reset_some(venv, np.array([True, False]), observations)
    np.testing.assert_allclose(observations, [[0.0], [0.5]])
    observations, *_ = venv.step(np.full((2, 1), 0.5, dtype=np.float32))
    np.testing.assert_allclose(observations, [[0.5], [1.0]])


def test_seeds_reach_the_environments():
    def first(seed):
        venv = as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=3))
        venv.seed(seed)
        return venv.reset()

    np.testing.assert_array_equal(first(1), first(1))
    assert np.any(first(1) != first(2))


def test_wrappers_that_hide_the_truth_are_refused():
    venv = DummyVecEnv([Line])
    with pytest.raises(ValueError, match="norm_reward=True\\) would squash the penalty"):
        as_vec_env(VecMonitor(VecNormalize(venv)))
    with pytest.raises(ValueError, match="VecNormalize hides the raw observation"):
        as_vec_env(VecNormalize(venv, norm_reward=False))
    with pytest.raises(ValueError, match="VecFrameStack hides the raw observation"):
        as_vec_env(VecFrameStack(venv, 2))
    assert isinstance(as_vec_env(VecMonitor(venv)), VecMonitor)


def test_a_missing_cost_is_named():
    class Costless(Line):
        def info(self, move):
            return {"speed": 1.0}

    venv = as_vec_env(Costless())
    venv.reset()
    _, _, _, infos = venv.step(np.zeros((1, 1), dtype=np.float32))
    with pytest.raises(KeyError, match=r"environment 0 gave no info\['cost'\] \(it has .*'speed'.*cost=<function"):
        Infos.of(infos).column("cost")


@pytest.mark.parametrize(("thing", "message"), [("CartPole-v1", "expected a live environment"), (3, "got a int")])
def test_things_that_are_no_environments_are_named(thing, message):
    with pytest.raises(TypeError, match=message):
        as_vec_env(thing)


def test_a_vector_environment_that_resets_more_than_it_was_asked_is_found_out():
    venv = as_vec_env(gym.make_vec("CartPole-v1", num_envs=4))
    observations = venv.reset()
    with pytest.raises(RuntimeError, match=r"ignores options\['reset_mask'\].*vectorization_mode='sync'"):
        reset_some(venv, np.array([True, False, False, False]), observations)


def test_a_whole_number_does_not_make_the_other_costs_whole():
    class Mixed(Line):
        def info(self, move):
            return {"cost": 0 if move == 0 else abs(move)}

    venv = as_vec_env(SyncVectorEnv([Mixed, Mixed]))
    venv.reset()
    _, _, _, infos = venv.step(np.array([[0.0], [0.75]], dtype=np.float32))
    np.testing.assert_array_equal(Infos.of(infos).column("cost"), [0.0, 0.75])


def test_what_was_returned_is_not_written_over():
    venv = as_vec_env(SyncVectorEnv([Line], copy=False))
    first = venv.reset()
    venv.step(np.full((1, 1), 0.5, dtype=np.float32))
    np.testing.assert_array_equal(first, [[0.0]])


class Mixed(Line):
    """Tells whole numbers where the cost is zero, as Python does, and sometimes as arrays."""

    def __init__(self, kind):
        super().__init__(50)
        self.kind = kind

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"cost": self.kind}


@pytest.mark.parametrize("zero", [0, np.array(0), np.int64(0), False])
@pytest.mark.parametrize("wrap", [lambda envs: envs, RecordEpisodeStatistics])
def test_a_whole_number_does_not_round_the_costs_of_others(zero, wrap):
    venv = as_vec_env(wrap(SyncVectorEnv([lambda: Mixed(zero), lambda: Mixed(0.9)])))
    venv.reset()
    _, _, _, infos = venv.step(np.zeros((2, 1), dtype=np.float32))
    np.testing.assert_array_equal(Infos.of(infos).column("cost"), [0.0, 0.9])


def test_an_array_without_dimensions_is_a_number():
    assert Infos.of([{"margin": np.array(0.5)}]).gives("margin")
    assert not Infos.of([{"margin": np.array([0.5])}]).gives("margin")
    assert not Infos.of([{"margin": None}]).gives("margin")


def test_a_monitor_that_misses_stops_is_warned_of(caplog):
    as_vec_env(VecMonitor(DummyVecEnv([lambda: Line(3)])))
    assert "VecMonitor misses the episodes that the shield stops" in caplog.text
