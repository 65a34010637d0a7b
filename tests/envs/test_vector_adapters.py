"""Adapters at their edges: infos that only some environments give, resets of some, seeds, ends and refusals."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan

from safexp.core.no_environments import NoEnvironments
from safexp.envs.infos import Infos
from safexp.envs.vector import BatchedVecEnv, as_vec_env, copied, put, reset_some
from support.line import Line

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


class Telling(Line):
    """Tells its cost always, a bonus only at its last step, and a pair of numbers."""

    def __init__(self, horizon, always=True):
        super().__init__(horizon)
        self.always = always

    def info(self, move):
        last = self.steps >= self.horizon
        told = {"cost": abs(move), "pair": np.array([move, 2 * move]), "name": "x"}
        if last or self.always:
            told["bonus"] = 10.0 * self.steps
        return told


def step(venv, *values):
    return venv.step(np.array([[value] for value in values], dtype=np.float32))


@pytest.mark.parametrize("mode", MODES)
def test_the_infos_of_a_step_are_those_of_the_step_that_ended_it(mode):
    make = [lambda h=h: Telling(h) for h in (2, 3)]
    venv = as_vec_env(SyncVectorEnv(make, autoreset_mode=mode))
    venv.reset()
    step(venv, 0.25, 0.5)
    _, _, dones, infos = step(venv, 0.5, 0.75)
    np.testing.assert_array_equal(dones, [True, False])
    np.testing.assert_array_equal(Infos.of(infos).column("cost"), [0.5, 0.75])
    np.testing.assert_array_equal(Infos.of(infos).column("bonus"), [20.0, 20.0])
    np.testing.assert_array_equal(Infos.of(infos).column("pair"), [[0.5, 1.0], [0.75, 1.5]])
    assert [info["cost"] for info in infos] == [0.5, 0.75]
    assert [info["bonus"] for info in infos] == [20.0, 20.0]
    np.testing.assert_array_equal(infos[0]["pair"], [0.5, 1.0])
    np.testing.assert_array_equal(infos[0]["terminal_observation"], [0.75])
    assert infos[0]["TimeLimit.truncated"] is True
    assert "terminal_observation" not in infos[1]


@pytest.mark.parametrize("mode", MODES)
def test_what_only_some_environments_tell_is_told_of_none(mode):
    make = [lambda h=h: Telling(h, always=False) for h in (2, 3)]
    venv = as_vec_env(SyncVectorEnv(make, autoreset_mode=mode))
    venv.reset()
    for costs in ((0.25, 0.5), (0.5, 0.75)):
        _, _, _, infos = step(venv, *costs)
        np.testing.assert_array_equal(Infos.of(infos).column("cost"), costs)
        assert not Infos.of(infos).gives("bonus")
        with pytest.raises(KeyError, match=r"environment 0 gave no info\['bonus'\]"):
            Infos.of(infos).column("bonus")
    both = as_vec_env(SyncVectorEnv([lambda: Telling(1, always=False)] * 2, autoreset_mode=mode))
    both.reset()
    _, _, _, infos = step(both, 0.5, 0.5)
    assert Infos.of(infos).gives("bonus")
    np.testing.assert_array_equal(Infos.of(infos).column("bonus"), [10.0, 10.0])


@pytest.mark.parametrize("vector", [False, True])
def test_a_margin_is_one_number_from_every_environment(vector):
    make = [lambda: Telling(3)] * 2
    venv = as_vec_env(SyncVectorEnv(make) if vector else DummyVecEnv(make))
    venv.reset()
    _, _, _, infos = step(venv, 0.5, 0.5)
    assert Infos.of(infos).gives("cost")
    assert not Infos.of(infos).gives("pair")
    assert not Infos.of(infos).gives("margin")


def test_of_plain_infos_every_one_must_give_the_number():
    assert Infos.of([{"x": 1.0}, {"x": np.float32(2.0)}]).gives("x")
    assert not Infos.of([{"x": 1.0}, {}]).gives("x")
    assert not Infos.of([{"x": 1.0}, {"x": None}]).gives("x")
    with pytest.raises(KeyError, match=r"environment 1 gave no info\['x'\] \(it has \['a', 'b'\]\)"):
        Infos.of([{"x": 1.0}, {"b": 0, "a": 0}]).column("x")
    np.testing.assert_array_equal(Infos.of([{"x": 1}, {"x": True}]).column("x"), [1.0, 1.0])


class Ending(Line):
    """Ends by itself at the horizon, and may be cut short at the same moment."""

    def __init__(self, horizon, truncated):
        super().__init__(horizon)
        self.cut = truncated

    def step(self, action):
        observation, reward, _, over, info = super().step(action)
        return observation, reward, over, over and self.cut, info


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_an_end_is_no_time_out_even_if_both_come_together(mode, cut):
    venv = as_vec_env(SyncVectorEnv([lambda: Ending(1, cut)], autoreset_mode=mode))
    venv.reset()
    _, _, dones, infos = step(venv, 0.5)
    assert dones.all()
    assert infos[0]["TimeLimit.truncated"] is False


class Mute(VectorEnv):
    """A vector environment that tells nothing, and does as it is asked."""

    metadata: dict = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, num_envs=2):
        self.num_envs = num_envs
        self.single_observation_space = self.observation_space = spaces.Box(-9.0, 9.0, (1,))
        self.single_action_space = self.action_space = spaces.Box(-1.0, 1.0, (1,))
        self.place, self.resets, self.closed_times = np.zeros((num_envs, 1)), [], 0

    def reset(self, *, seed=None, options=None):
        self.resets.append((seed, options))
        mask = np.ones(self.num_envs, dtype=bool) if not options else options.get("reset_mask", True)
        self.place[mask] = 0.0
        return self.place, {}

    def step(self, actions):
        self.place += actions
        nobody = np.zeros(self.num_envs, dtype=bool)
        return self.place, np.ones(self.num_envs), nobody, nobody, {}

    def close(self, **_):
        self.closed_times += 1

    def render(self):
        return ("picture",) * self.num_envs

    def double(self, number):
        return (2 * number,) * self.num_envs


def test_a_vector_environment_may_tell_nothing_and_write_over_what_it_returned():
    envs = Mute()
    venv = as_vec_env(envs)
    first = venv.reset()
    second, _, _, infos = step(venv, 0.5, 0.25)
    assert list(infos) == [{}, {}]
    third, *_ = step(venv, 0.5, 0.25)
    np.testing.assert_array_equal(first, np.zeros((2, 1)))
    np.testing.assert_array_equal(second, [[0.5], [0.25]])
    np.testing.assert_array_equal(third, [[1.0], [0.5]])
    fresh = reset_some(venv, np.array([False, True]), third)
    np.testing.assert_array_equal(fresh, [[1.0], [0.0]])
    step(venv, 0.5, 0.5)
    np.testing.assert_array_equal(fresh, [[1.0], [0.0]])
    np.testing.assert_array_equal(third, [[1.0], [0.5]])


def test_seeds_and_options_are_given_once():
    envs = Mute()
    venv = as_vec_env(envs)
    venv.seed(7)
    venv.set_options({"hard": True})
    venv.reset()
    venv.reset()
    assert envs.resets == [(7, {"hard": True}), (None, None)]


def test_the_environments_behind_can_be_reached_and_closed():
    envs = Mute(3)
    venv = as_vec_env(envs)
    assert isinstance(venv, BatchedVecEnv)
    assert venv.get_attr("closed_times") == [0, 0, 0]
    assert venv.get_attr("closed_times", indices=[0]) == [0]
    assert venv.env_method("double", 4) == [8, 8, 8]
    venv.set_attr("goal", 5)
    assert envs.goal == 5
    assert list(venv.get_images()) == ["picture"] * 3
    assert venv.env_is_wrapped(gym.Wrapper) == [False] * 3
    venv.close()
    assert envs.closed_times == 1


class Blind(Line):
    """Observes NaN in one place until it is reset."""

    def observe(self):
        return np.array([np.nan if self.steps else 0.0])


def test_what_cannot_be_read_in_one_environment_does_not_keep_others_from_a_reset():
    venv = as_vec_env(SyncVectorEnv([Blind, Line]))
    venv.reset()
    observations, *_ = step(venv, 0.5, 0.5)
    fresh = reset_some(venv, np.array([False, True]), observations)
    np.testing.assert_array_equal(fresh, [[np.nan], [0.0]])


def test_a_mapping_is_compared_and_copied_part_by_part():
    class Stubborn(Mute):
        """Resets everything, whatever it is asked."""

        def __init__(self):
            super().__init__()
            self.single_observation_space = spaces.Dict(place=spaces.Box(-9.0, 9.0, (1,)))

        def reset(self, *, seed=None, options=None):
            self.place[:] = 0.0
            return {"place": self.place}, {}

        def step(self, actions):
            _, *rest = super().step(actions)
            return {"place": self.place}, *rest

    venv = as_vec_env(Stubborn())
    venv.reset()
    observations, *_ = step(venv, 0.5, 0.5)
    with pytest.raises(RuntimeError, match=r"ignores options\['reset_mask'\]"):
        reset_some(venv, np.array([False, True]), observations)
    whole = {"place": np.zeros((2, 1)), "speed": np.ones((2, 1))}
    other = copied(whole)
    other["place"][:] = 5.0
    assert (whole["place"] == 0.0).all()
    changed = put(whole, [1], [{"place": [7.0], "speed": [8.0]}])
    np.testing.assert_array_equal(changed["place"], [[0.0], [7.0]])
    np.testing.assert_array_equal(changed["speed"], [[1.0], [8.0]])
    assert (whole["place"] == 0.0).all()


def test_what_is_no_environment_is_refused_and_what_steps_is_taken():
    with pytest.raises(TypeError, match=r"got the class Line, expected an environment: Line\(\.\.\.\)"):
        as_vec_env(Line)
    with pytest.raises(TypeError, match=r"got the name 'X-v0', expected a live environment: gymnasium.make\('X-v0'\)"):
        as_vec_env("X-v0")
    plain = DummyVecEnv([Line])
    assert as_vec_env(plain) is plain


def test_an_agent_without_environments_cannot_step():
    nowhere = NoEnvironments(spaces.Discrete(2), spaces.Discrete(3))
    assert (nowhere.num_envs, nowhere.observation_space, nowhere.action_space) == (
        1,
        spaces.Discrete(2),
        spaces.Discrete(3),
    )
    for call in (
        nowhere.reset,
        lambda: nowhere.step_async(np.zeros(1)),
        nowhere.step_wait,
        lambda: nowhere.set_attr("x", 1),
        lambda: nowhere.env_method("x"),
    ):
        with pytest.raises(RuntimeError, match="loaded without environments"):
            call()
    assert nowhere.env_is_wrapped(gym.Wrapper) == [False]
    nowhere.close()


def test_a_vector_of_whole_numbers_becomes_floats_too():
    class Whole(Line):
        def __init__(self, told):
            super().__init__(9)
            self.told = told

        def info(self, move):
            return {"cost": self.told}

    for told in (np.array([0, 1]), np.array([False, True])):
        venv = as_vec_env(SyncVectorEnv([lambda told=told: Whole(told), lambda: Whole(np.array([0.5, 0.25]))]))
        venv.reset()
        _, _, _, infos = step(venv, 0.0, 0.0)
        np.testing.assert_array_equal(Infos.of(infos).column("cost"), [[0.0, 1.0], [0.5, 0.25]])


def test_environments_that_hide_nothing_are_taken_without_a_word(caplog):
    for env in (DummyVecEnv([Line]), VecCheckNan(DummyVecEnv([Line])), Line(), Mute()):
        as_vec_env(env)
    assert not caplog.records


def test_some_of_many_mappings_are_reset():
    venv = as_vec_env(SyncVectorEnv([lambda: Line(9, mapping=True)] * 4))
    venv.reset()
    observations, *_ = step(venv, 0.5, 0.25, 0.75, 1.0)
    fresh = reset_some(venv, np.array([True, False, False, False]), observations)
    np.testing.assert_array_equal(fresh["place"], [[0.0], [0.25], [0.75], [1.0]])


def test_before_the_first_step_nothing_is_told():
    venv = as_vec_env(Mute())
    venv.reset()
    assert not Infos.of([{}, {}]).gives("cost")


@pytest.mark.parametrize("mode", MODES)
def test_infos_within_infos_are_no_columns_and_spoil_none(mode):
    class Nested(Line):
        def info(self, move):
            return super().info(move) | {"sensors": {"left": move}}

    venv = as_vec_env(SyncVectorEnv([Nested, Nested], autoreset_mode=mode))
    venv.reset()
    _, _, _, infos = step(venv, 0.25, 0.5)
    np.testing.assert_array_equal(Infos.of(infos).column("cost"), [0.25, 0.5])
    assert set(venv.columns) == {"cost", "margin"}


def test_what_steps_like_an_environment_is_one():
    class Duck:
        def __init__(self):
            self.line = Line()
            self.observation_space, self.action_space = self.line.observation_space, self.line.action_space

        def reset(self, **options):
            return self.line.reset(**options)

        def step(self, action):
            return self.line.step(action)

    venv = as_vec_env(Duck())
    venv.reset()
    np.testing.assert_array_equal(step(venv, 0.5)[0], [[0.5]])
