"""Stops after the violation, forgets at every episode's end, and shows what MASE's learner sees."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import AllOf, Budget, Instantaneous, Schedule, Shield, Unknown
from safexp.envs.early_termination import EarlyTermination
from safexp.envs.guard import Guard
from support.line import Line


def walk(envs, moves):
    return [envs.step(np.full((envs.num_envs, 1), move, dtype=np.float32)) for move in moves]


def line(constraint, num_envs=1, horizon=10, mapping=False, **options):
    venv = DummyVecEnv([lambda: Line(horizon, mapping=mapping)] * num_envs)
    envs = EarlyTermination(venv, constraint, **options)
    envs.reset()
    return envs


def test_the_episode_ends_with_the_step_that_breaks_the_budget():
    envs = line(Budget(1.5))
    first, (observation, reward, done, (info,)) = walk(envs, [1.0, 1.0])
    assert not first[2][0]
    assert done[0]
    assert not info["TimeLimit.truncated"]
    assert reward[0] == 1.0
    np.testing.assert_allclose(info["terminal_observation"], [2.0, 0.0])
    np.testing.assert_allclose(observation, [[0.0, 1.0]])
    (episode,) = envs.recorder.episodes
    assert (episode.cost, episode.violated, episode.stopped) == (2.0, True, True)
    assert (episode.true_return, episode.penalised_return) == (2.0, 2.0)


@pytest.mark.parametrize(("before", "after", "ends"), [(0.8, 0.2, False), (0.2, 0.8, True)])
def test_the_limit_that_was_shown_before_a_step_decides_and_not_a_later_one(before, after, ends):
    now = [before]
    envs = line(Schedule(lambda steps: np.full(len(steps), now[0])))
    now[0] = after
    assert bool(walk(envs, [0.5])[0][2][0]) == ends
    envs.reset()
    assert envs.recorder.episodes[0].violated == ends


def test_spending_the_budget_exactly_is_no_violation():
    envs = line(Budget(1.0))
    assert not any(step[2][0] for step in walk(envs, [0.5, 0.5, 0.0]))


def test_the_counter_is_cleared_at_time_outs_too():
    envs = line(Budget(1.5), horizon=2)
    steps = walk(envs, [0.7, 0.7] * 5)
    assert [bool(step[2][0]) for step in steps] == [False, True] * 5
    assert all(step[3][0]["TimeLimit.truncated"] for step in steps[1::2])
    assert not any(episode.violated or episode.stopped for episode in envs.recorder.episodes)


def test_a_violation_in_the_last_step_is_an_end_and_no_time_out():
    envs = line(Budget(1.5), horizon=2)
    _, (_, _, done, (info,)) = walk(envs, [1.0, 1.0])
    assert done[0] and not info["TimeLimit.truncated"]
    assert len(envs.venv.envs[0].executed) == 2
    assert walk(envs, [0.0])[0][3][0]["cost"] == 0.0


def test_each_environment_has_its_own_counter():
    envs = line(Budget(1.5), num_envs=2)
    for _ in range(2):
        observations, _, dones, _ = envs.step(np.array([[1.0], [0.5]], dtype=np.float32))
    assert dones.tolist() == [True, False]
    np.testing.assert_allclose(observations, [[0.0, 1.0], [1.0, 0.5 / 1.5]], rtol=1e-6)


@pytest.mark.parametrize("constraint", [Instantaneous(0.4), AllOf(Budget(9.0), Instantaneous(0.4))])
def test_other_constraints(constraint):
    envs = line(constraint)
    assert [bool(step[2][0]) for step in walk(envs, [0.3, 0.375, 0.5])] == [False, False, True]


def test_the_learner_sees_what_mase_s_sees_or_nothing():
    for mapping in (False, True):
        envs = line(Budget(3.0), mapping=mapping)
        venv = DummyVecEnv([lambda mapping=mapping: Line(mapping=mapping)])
        guard = Guard(venv, Budget(3.0), Shield(Unknown(), venv.observation_space, venv.action_space), None)
        guard.reset()
        assert envs.observation_space == guard.observation_space
        assert str(walk(envs, [0.5])[0][0]) == str(walk(guard, [0.5])[0][0])
    assert line(Budget(3.0), show_threshold=False).observation_space.shape == (1,)


def test_a_penalty_is_an_option_and_not_in_the_true_return():
    envs = line(Budget(0.5), penalty=3.0)
    ((_, reward, _, _),) = walk(envs, [1.0])
    assert reward[0] == -2.0
    (episode,) = envs.recorder.episodes
    assert (episode.true_return, episode.penalised_return) == (1.0, -2.0)
    with pytest.raises(ValueError, match=r"EarlyTermination\(penalty=-1\) must be finite and at least 0"):
        line(Budget(1.0), penalty=-1)
