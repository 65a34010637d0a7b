"""Environments that are recorded and otherwise left alone, and what early termination adds to them."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import AllOf, Budget, Instantaneous, StateVisits
from safexp.envs.early_termination import EarlyTermination
from safexp.envs.recording import Recorded
from safexp.envs.vector import as_vec_env
from support.line import Line


class Scribbler(Line):
    """Writes into the action that it is given."""

    def step(self, action):
        outcome = super().step(action)
        action[:] = 99.0
        return outcome


def moves(*values):
    return np.array([[value] for value in values], dtype=np.float32)


def test_everything_passes_as_it_is_and_is_counted():
    venv, bare = (DummyVecEnv([lambda h=h: Line(h) for h in (2, 3)]) for _ in range(2))
    envs = Recorded(venv, Budget(1.0))
    assert envs.observation_space == bare.observation_space
    np.testing.assert_array_equal(envs.reset(), bare.reset())
    for step in range(6):
        found, expected = (some.step(moves(0.75, 0.125 * step)) for some in (envs, bare))
        for one, other in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(found[3], expected[3], strict=True):
            assert one["TimeLimit.truncated"] == other["TimeLimit.truncated"]
            np.testing.assert_equal(one.get("terminal_observation"), other.get("terminal_observation"))
    assert found[1].dtype == np.float32
    rows = [(e.length, e.true_return, e.penalised_return, e.cost, e.violated) for e in envs.recorder.episodes]
    assert rows == [
        (2, 2.0, 2.0, 1.5, True),
        (3, 3.0, 3.0, 0.375, False),
        (2, 2.0, 2.0, 1.5, True),
        (2, 2.0, 2.0, 1.5, True),
        (3, 3.0, 3.0, 1.5, True),
    ]
    assert not any(e.stopped or e.interventions or e.takeovers for e in envs.recorder.episodes)
    assert envs.recorder.steps == 12


def test_a_reset_ends_the_episodes_that_are_running():
    envs = Recorded(DummyVecEnv([Line]), Budget(0.5))
    envs.reset()
    assert envs.recorder.episodes == []
    envs.step(moves(1.0))
    envs.reset()
    (episode,) = envs.recorder.episodes
    assert (episode.length, episode.violated, episode.stopped) == (1, True, False)


def test_the_cost_is_that_of_the_action_that_was_given_whatever_the_environment_does_to_it():
    seen = []

    def cost(observations, actions, next_observations):
        seen.append((observations.copy(), actions.copy(), next_observations.copy()))
        return np.abs(actions[:, 0])

    envs = Recorded(DummyVecEnv([lambda: Scribbler(2)]), Budget(9.0, cost=cost))
    envs.reset()
    given = moves(0.5)
    envs.step(given)
    assert given[0, 0] == 0.5
    envs.step(given)
    (episode,) = envs.recorder.episodes
    assert episode.cost == 1.0
    observations, _, following = seen[1]
    assert (observations[0, 0], following[0, 0]) == (0.5, 1.0), "of the last step the true end, not the next start"


@pytest.mark.parametrize("vector", [False, True])
def test_only_what_was_stopped_and_has_not_ended_by_itself_is_reset(vector):
    make = [lambda h=h: Line(h) for h in (9, 9, 2)]
    envs = EarlyTermination(as_vec_env(SyncVectorEnv(make) if vector else DummyVecEnv(make)), Budget(1.5))
    envs.reset()
    envs.step(moves(1.0, 0.5, 1.0))
    observations, _, dones, infos = envs.step(moves(1.0, 0.5, 1.0))
    np.testing.assert_array_equal(dones, [True, False, True])
    np.testing.assert_allclose(observations, [[0.0, 1.0], [1.0, 1 / 3], [0.0, 1.0]], rtol=1e-6)
    np.testing.assert_allclose(infos[0]["terminal_observation"], [2.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(infos[2]["terminal_observation"], [2.0, 0.0], atol=1e-6)
    observations, _, dones, _ = envs.step(moves(0.5, 0.5, 0.5))
    np.testing.assert_allclose(observations, [[0.5, 2 / 3], [1.5, 0.0], [0.5, 2 / 3]], rtol=1e-6, atol=1e-6)
    assert not dones.any()


def test_one_of_several_costs_beyond_its_threshold_ends_the_episode():
    constraint = AllOf(Instantaneous(0.4), Budget(9.0))
    envs = EarlyTermination(DummyVecEnv([Line, Line]), constraint, penalty=2.0)
    envs.reset()
    _, rewards, dones, _ = envs.step(moves(0.5, 0.375))
    np.testing.assert_array_equal(dones, [True, False])
    np.testing.assert_array_equal(rewards, [-1.0, 1.0])


def test_a_first_state_is_charged_to_its_own_episode_alone():
    def unsafe(observations):
        return observations[:, 0] >= 0.9

    venv = DummyVecEnv([lambda: Line(9, start=1.0), Line])
    envs = EarlyTermination(venv, StateVisits(1.0, unsafe))
    np.testing.assert_allclose(envs.reset()[:, 1], [0.0, 1.0], atol=1e-6)
    _, _, dones, _ = envs.step(moves(0.0, 1.0))
    np.testing.assert_array_equal(dones, [True, False])
    _, _, dones, _ = envs.step(moves(-0.5, 0.0))
    np.testing.assert_array_equal(dones, [False, True])


@pytest.mark.parametrize("penalty", [-0.1, np.nan, np.inf])
def test_a_penalty_is_finite_and_not_negative(penalty):
    with pytest.raises(ValueError, match=rf"penalty={penalty}\) must be finite and at least 0"):
        EarlyTermination(DummyVecEnv([Line]), Budget(1.0), penalty=penalty)


def test_the_threshold_is_shown_where_asked_for():
    for constraint, shown, width in (
        (Budget(1.0), None, 2),
        (Budget(1.0), False, 1),
        (Instantaneous(1.0), None, 1),
        (Instantaneous(1.0), True, 2),
    ):
        envs = EarlyTermination(DummyVecEnv([Line]), constraint, show_threshold=shown)
        assert envs.observation_space.shape == envs.reset().shape[1:] == (width,)


def test_a_witness_is_told_of_beginnings_where_there_are_some():
    class Told:
        def __init__(self):
            self.events = []

        def begin(self, environments):
            self.events.append(environments.tolist())

        def step(self):
            self.events.append("step")

        def end(self, environment, episode):
            self.events.append(environment)

    envs = Recorded(DummyVecEnv([lambda: Line(2), lambda: Line(9)]), Budget(9.0))
    envs.recorder.witness = told = Told()
    envs.reset()
    for _ in range(3):
        envs.step(moves(0.0, 0.0))
    assert told.events == [[True, True], "step", "step", 0, [True, False], "step"]


@pytest.mark.parametrize("constraint", [Instantaneous(0.3), Budget(0.3)])
def test_a_cost_that_just_meets_its_threshold_does_not_end_the_episode(constraint):
    class Exact(Line):
        def info(self, move):
            return {"cost": constraint.threshold(constraint.start(np.zeros((1, 1))))[0]}

    envs = EarlyTermination(DummyVecEnv([Exact]), constraint)
    envs.reset()
    assert not envs.step(moves(0.0))[2][0]


def test_before_a_step_nothing_has_been_left():
    envs = Recorded(DummyVecEnv([Line]), Budget(2.0))
    np.testing.assert_array_equal(envs.remaining, [-np.inf])
    envs.reset()
    envs.step(moves(0.5))
    np.testing.assert_allclose(envs.remaining, [1.5])
