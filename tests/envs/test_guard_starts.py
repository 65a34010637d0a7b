"""First states, resets, and steps that break: where episodes begin and begin again."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from safexp import Budget, Instantaneous, Known, Penalty, Shield, StateVisits, Unknown
from safexp.envs.guard import MAX_STARTS, Guard
from safexp.envs.refusals import NothingSafeError
from safexp.envs.vector import as_vec_env
from safexp.tasks.planar_robot import PlanarRobotVector
from support.line import Line, guard_of, line_cost, walk


def test_an_unsafe_first_state_is_charged_and_stopped():
    constraint = StateVisits(0.0, unsafe=lambda observations: observations[:, 0] > 5)
    with pytest.raises(NothingSafeError):
        guard_of(constraint, Known(line_cost), env=lambda: Line(start=9.0)).reset()


def test_a_cold_start_fails_at_once_and_says_what_to_give():
    with pytest.raises(NothingSafeError, match=r"seed_data=.*safe_action=.*constraint or quantifier"):
        guard_of(Instantaneous(0.5), Known(lambda states, actions: np.ones(len(states)))).reset()
    with pytest.raises(NothingSafeError, match=r"less remains.*a budget of at least cost_max, safe_action=.*knows"):
        guard_of(Budget(0.5), Unknown()).reset()
    with pytest.raises(NothingSafeError, match=r"The quantifier failed: ValueError: .*cost returned shape \(1, 1\)"):
        guard_of(Instantaneous(0.5), Known(lambda states, actions: actions[:1])).reset()


def test_a_safe_action_gets_a_cold_start_going():
    guard = guard_of(Instantaneous(0.5), Unknown(), safe_action=np.zeros(1))
    guard.reset()
    steps = walk(guard, [0.9] * 3)
    assert all(info["shield"]["action"][0] == 0.0 for *_, (info,) in steps)
    assert not any(done for _, _, (done,), _ in steps)


def test_a_later_start_that_offers_nothing_is_stopped_counted_and_said(caplog):
    class SecondStartIsBad(Line):
        starts = 0

        def reset(self, **options):
            self.starts += 1
            self.start = 9.0 if self.starts == 2 else 0.0
            return super().reset(**options)

    knows = Known(lambda states, actions: np.where(states[:, 0] > 5, 1.0, 0.0))
    guard = guard_of(Instantaneous(0.5), knows, env=lambda: SecondStartIsBad(2))
    guard.reset()
    with caplog.at_level(logging.WARNING, "safexp"):
        observation, _, (done,), _ = walk(guard, [0.0, 0.0])[1]
    assert done
    np.testing.assert_array_equal(observation, [[0.0]])
    assert [(e.length, e.stopped) for e in guard.recorder.episodes] == [(2, False)]
    assert guard.recorder.refused_starts == 1
    assert "no action can be certified in some first states" in caplog.text


def test_a_world_whose_starts_all_turn_bad_is_given_up():
    knows = Known(lambda states, actions: np.where(states[:, 0] > 5, 1.0, 0.0))
    env = Line(1)
    guard = guard_of(Instantaneous(0.5), knows, env=lambda: env)
    guard.reset()
    env.start = 9.0
    with pytest.raises(NothingSafeError, match="100 first states in a row"):
        walk(guard, [0.0])


def test_a_first_state_that_is_certified_at_the_last_try_is_taken():
    class Improves(Line):
        resets = 0

        def reset(self, **options):
            self.resets += 1
            self.start = 9.0 if 1 < self.resets <= 1 + MAX_STARTS else 0.0
            return super().reset(**options)

    knows = Known(lambda states, actions: np.where(states[:, 0] > 5, 1.0, 0.0))
    guard = guard_of(Instantaneous(0.5), knows, env=lambda: Improves(1))
    guard.reset()
    walk(guard, [0.0])
    assert guard.venv.envs[0].resets == 2 + MAX_STARTS


def test_recheck_stops_what_a_changed_quantifier_no_longer_certifies():
    quantifier = Known(lambda states, actions: np.zeros(len(states)))
    guard = guard_of(Instantaneous(0.5), quantifier, num_envs=2)
    guard.reset()
    guard.step(np.array([[1.0], [0.0]], dtype=np.float32))
    quantifier.cost = lambda states, actions: np.where(states[:, 0] > 0.5, 1.0, 0.0)
    np.testing.assert_array_equal(guard.recheck(), [True, False])
    np.testing.assert_array_equal(guard.observations, [[0.0], [0.0]])
    assert [e.stopped for e in guard.recorder.episodes] == [True]


def test_vector_environments_of_gymnasium_are_stopped_one_by_one():
    venv = as_vec_env(PlanarRobotVector(8))
    guard = Guard(venv, Budget(1.2), Shield(Unknown(), venv.observation_space, venv.action_space), Penalty())
    guard.seed(3)
    guard.reset()
    for _ in range(100):
        observations, _, dones, infos = guard.step(np.tile(np.array([1.0, -0.2], dtype=np.float32), (8, 1)))
        for i in np.flatnonzero(dones):
            assert infos[i]["terminal_observation"].shape == (5,)
            assert observations[i, 0] < -0.7
    assert any(episode.stopped for episode in guard.recorder.episodes)
    assert not any(episode.violated for episode in guard.recorder.episodes)


def test_a_step_that_broke_must_be_followed_by_a_reset():
    class Breaks(Line):
        def info(self, move):
            if self.steps == 2:
                raise KeyboardInterrupt
            return super().info(move)

    guard = guard_of(Budget(3.0), Unknown(), env=Breaks)
    guard.reset()
    with pytest.raises(KeyboardInterrupt):
        walk(guard, [1.0, 1.0])
    with pytest.raises(RuntimeError, match="call reset"):
        walk(guard, [1.0])
    np.testing.assert_allclose(guard.reset(), [[0.0, 1.0]])


def test_a_reset_forgets_no_violation():
    guard = guard_of(Budget(1.5), Unknown(), shielding=False)
    guard.reset()
    walk(guard, [1.0, 1.0])
    assert guard.recorder.violations == 1
    guard.reset()
    assert guard.recorder.violations == 1
