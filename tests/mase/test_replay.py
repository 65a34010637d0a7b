"""Algorithm 1, line 15: penalties are rewritten from what is stored, and twice equals once."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Instantaneous, Known, Penalty, Shield, Unknown
from safexp.envs.guard import Guard
from safexp.mase.replay import RewritingDictReplayBuffer, RewritingReplayBuffer
from safexp.runs import snapshot
from support.line import Line


def beyond(limit, width):
    """Costs 1 beyond the limit, 0 before."""
    return Known(lambda states, actions: np.where(states[:, 0] > limit, 1.0, 0.0), width)


def filled(
    quantifier, constraint=Instantaneous(0.5), steps=12, mapping=False, penalty=Penalty(1.0, largest=100.0), size=100
):
    """A buffer of a walk to the right in two environments."""
    venv = DummyVecEnv([lambda: Line(6, mapping=mapping)] * 1 + [lambda: Line(6, mapping=mapping)])
    guard = Guard(venv, constraint, Shield(quantifier, venv.observation_space, venv.action_space), penalty)
    kind = RewritingDictReplayBuffer if mapping else RewritingReplayBuffer
    buffer = kind(size, guard.observation_space, guard.action_space, n_envs=2, guard=guard)
    observations = guard.reset()
    for _ in range(steps):
        proposals = np.array([[0.5], [0.25]], dtype=np.float32)
        following, rewards, dones, infos = guard.step(proposals)
        stored = {k: v.copy() for k, v in following.items()} if mapping else following.copy()
        for i in np.flatnonzero(dones):
            for key in stored if mapping else [slice(None)]:
                final = infos[i]["terminal_observation"]
                if mapping:
                    stored[key][i] = final[key]
                else:
                    stored[i] = final
        buffer.add(observations, stored, proposals, rewards, dones, infos)
        observations = following
    return guard, buffer


def contents(buffer):
    return buffer.rewards.copy(), buffer.dones.copy()


def test_executed_actions_are_stored_scaled():
    venv = DummyVecEnv([Line])
    venv.action_space.low[:] = -3.0
    guard = Guard(venv, Budget(100.0), Shield(Unknown(), venv.observation_space, venv.action_space), Penalty())
    buffer = RewritingReplayBuffer(10, guard.observation_space, guard.action_space, guard=guard)
    observations = guard.reset()
    following, rewards, dones, infos = guard.step(np.array([[-1.0]], dtype=np.float32))
    buffer.add(observations, following, np.array([[0.123]]), rewards, dones, infos)
    assert buffer.actions[0, 0, 0] == 0.0


@pytest.mark.parametrize("mapping", [False, True])
def test_rewriting_with_an_unchanged_quantifier_changes_nothing(mapping):
    _, buffer = filled(beyond(1.0, 0.25), mapping=mapping)
    assert buffer.history.stopped.any()
    before = contents(buffer)
    buffer.rewrite()
    np.testing.assert_equal(contents(buffer), before)


@pytest.mark.parametrize("mapping", [False, True])
def test_a_sharper_quantifier_raises_the_penalties(mapping):
    guard, buffer = filled(beyond(1.0, 0.5), mapping=mapping)
    assert set(buffer.rewards[buffer.history.stopped]) == {-2.0}
    guard.shield.quantifier = beyond(1.0, 0.125)
    buffer.rewrite()
    assert set(buffer.rewards[buffer.history.stopped]) == {-8.0}
    assert np.all(buffer.dones[buffer.history.stopped] == 1.0)


def test_what_is_now_known_to_be_safe_goes_on_and_rewriting_twice_equals_once():
    guard, buffer = filled(beyond(1.0, 0.5))
    stopped = buffer.history.stopped.copy()
    guard.shield.quantifier = beyond(1.3, 0.0)
    buffer.rewrite()
    once = contents(buffer)
    places = buffer.next_observations[..., 0]
    free, held = stopped & (places <= 1.3), stopped & (places > 1.3)
    assert free.any()
    assert held.any()
    assert np.all(buffer.rewards[free] == 1.0)
    assert np.all(buffer.dones[free] == 0.0)
    assert np.all(buffer.rewards[held] == -100.0)
    buffer.rewrite()
    np.testing.assert_equal(contents(buffer), once)
    guard.shield.quantifier = beyond(1.0, 0.5)
    buffer.rewrite()
    assert set(buffer.rewards[stopped]) == {-2.0}


def test_the_threshold_of_the_next_step_decides():
    guard, buffer = filled(Unknown(), Budget(1.5))
    stopped = buffer.history.stopped
    assert stopped.any()
    np.testing.assert_allclose(
        buffer.history.thresholds[stopped], buffer.next_observations[stopped][:, 1] * 1.5, atol=1e-6
    )
    guard.shield.quantifier = Known(lambda states, actions: np.full(len(states), 0.6))
    buffer.rewrite()
    assert np.array_equal(buffer.dones[stopped] == 0.0, buffer.history.thresholds[stopped] >= 0.6)


def test_without_a_penalty_rewards_stay_raw():
    _, buffer = filled(beyond(1.0, 0.5), penalty=None)
    buffer.rewrite()
    assert set(buffer.rewards[buffer.history.stopped]) == {1.0}


def copied_buffer(buffer, size=100, **options):
    """A new buffer with a snapshot of this one."""
    guard, _ = filled(beyond(1.0, 0.5), steps=0, **options)
    kind = type(buffer)
    fresh = kind(size, guard.observation_space, guard.action_space, n_envs=2, guard=guard)
    snapshot.restore(fresh, *snapshot.take(buffer))
    return fresh


@pytest.mark.parametrize("steps", [1, 12, 37])
def test_a_snapshot_keeps_every_row_that_rewriting_needs(steps):
    _, buffer = filled(beyond(1.0, 0.5), steps=steps, size=60)
    fresh = copied_buffer(buffer, size=60)
    for name in ("stopped", "rewards", "thresholds", "executed"):
        np.testing.assert_array_equal(getattr(fresh.history, name), getattr(buffer.history, name))
    assert steps == 1 or fresh.history.stopped.any()
    for kept in (fresh, buffer):
        kept.history.guard.shield.quantifier = beyond(1.0, 0.125)
        kept.rewrite()
    np.testing.assert_equal(contents(fresh), contents(buffer))


def test_a_snapshot_of_a_young_buffer_is_small():
    _, buffer = filled(beyond(1.0, 0.5), steps=3, size=5000)
    _, arrays = snapshot.take(buffer.history)
    assert max(part.size for part in arrays.values()) < 1000


def test_all_stops_are_rewritten_however_many_there_are(monkeypatch):
    guard, buffer = filled(beyond(1.0, 0.5), steps=40)
    monkeypatch.setattr("safexp.mase.replay.CHUNK", 3)
    stopped = buffer.history.stopped
    assert stopped.sum() > 6
    guard.shield.quantifier = beyond(1.0, 0.125)
    buffer.rewrite()
    assert set(buffer.rewards[stopped]) == {-8.0}


def test_a_transition_that_is_overwritten_is_forgotten():
    guard, buffer = filled(beyond(1.0, 0.5), steps=12, size=8)
    assert buffer.history.stopped.shape == (4, 2)
    assert not buffer.history.stopped.all()
    guard.shield.quantifier = beyond(9.0, 0.0)
    buffer.rewrite()
    assert np.all(buffer.rewards == 1.0)


def test_the_newest_transition_can_be_stopped_afterwards():
    guard, buffer = filled(beyond(9.0, 0.0), steps=3)
    assert not buffer.history.stopped.any()
    buffer.stop_last(np.array([True, False]))
    expected = np.zeros_like(buffer.history.stopped)
    expected[2, 0] = True
    np.testing.assert_array_equal(buffer.history.stopped, expected)
    guard.shield.quantifier = beyond(-9.0, 0.5)
    buffer.rewrite()
    assert (buffer.rewards[2] == [-2.0, 1.0]).all()
    assert (buffer.dones[2] == [1.0, 0.0]).all()
    assert (buffer.rewards[:2] == 1.0).all()


def test_an_episode_that_had_ended_by_itself_is_not_stopped_afterwards():
    _, buffer = filled(beyond(9.0, 0.0), steps=6)
    assert buffer.dones[5].all()
    buffer.stop_last(np.array([True, True]))
    assert not buffer.history.stopped.any()


def test_discrete_actions_are_stored_as_they_were_executed():
    venv = DummyVecEnv([lambda: Line(6, discrete=True)])
    cheap = Known(lambda states, actions: np.where(actions[:, 1] == 1.0, 0.0, 1.0))
    guard = Guard(venv, Instantaneous(0.5), Shield(cheap, venv.observation_space, venv.action_space), Penalty())
    buffer = RewritingReplayBuffer(10, guard.observation_space, guard.action_space, guard=guard)
    observations = guard.reset()
    following, rewards, dones, infos = guard.step(np.array([2]))
    buffer.add(observations, following, np.array([[2]]), rewards, dones, infos)
    assert buffer.actions[0, 0, 0] == 1
    buffer.stop_last(np.array([True]))
    buffer.rewrite()
    assert buffer.dones[0, 0] == 0.0


def test_both_ends_of_a_box_are_stored_as_minus_one_and_one():
    venv = DummyVecEnv([Line])
    venv.action_space.low[:] = -3.0
    guard = Guard(venv, Budget(100.0, cost_max=3.0), Shield(Unknown(), venv.observation_space, venv.action_space), None)
    buffer = RewritingReplayBuffer(10, guard.observation_space, guard.action_space, guard=guard)
    observations = guard.reset()
    for move in (-3.0, 1.0, 0.0):
        following, rewards, dones, infos = guard.step(np.array([[move]], dtype=np.float32))
        buffer.add(observations, following, np.array([[0.123]]), rewards, dones, infos)
    np.testing.assert_allclose(buffer.actions[:3, 0, 0], [-1.0, 1.0, 0.5])


def test_an_empty_buffer_holds_nothing():
    _, buffer = filled(beyond(1.0, 0.1), steps=0)
    assert buffer.history.filled == 0


def test_the_action_that_led_to_a_stop_is_asked_about_again():
    guard, buffer = filled(beyond(1.0, 0.1))
    stops = buffer.history.stopped.copy()
    assert stops.any(axis=0).all()
    guard.shield.quantifier = Known(lambda states, actions: np.where(actions[:, 0] == 0.25, 0.0, 1.0))
    buffer.rewrite()
    assert buffer.dones[stops[:, 0], 0].all()
    assert not buffer.dones[stops[:, 1], 1].any()
