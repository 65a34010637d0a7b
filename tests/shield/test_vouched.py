"""A safe action is believed until it breaks its promise, and what it really costs is counted."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import MASE, ExactGP, Instantaneous, Penalty, Shield, ShieldedPolicy, Unknown
from safexp.envs.guard import Guard
from safexp.shield.vouched import Vouched
from support.line import Line

LIMIT = 0.3


class Slope(Line):
    """A line on which everything costs more than is allowed from 2 on, whatever is done."""

    def info(self, move):
        return super().info(move) | {"cost": 0.9 if abs(self.place) >= 2 else 0.1}


def guard_of(verify=True, env=Slope):
    venv = DummyVecEnv([env])
    shield = Shield(
        Unknown(), venv.observation_space, venv.action_space, safe_action=np.full(1, 0.5), verify_safe_action=verify
    )
    return Guard(venv, Instantaneous(LIMIT), shield, Penalty())


def drive(guard, steps):
    """Propose what is not certified, so that the safe action is run instead."""
    return [guard.step(np.zeros((1, 1), dtype=np.float32)) for _ in range(steps)]


def test_what_vouched_actions_cost_is_counted_and_a_broken_promise_is_said_at_once(caplog):
    guard = guard_of()
    guard.reset()
    with caplog.at_level(logging.WARNING, "safexp"):
        steps = drive(guard, 4)
    assert all(step[3][0]["shield"]["vouched"] for step in steps)
    assert guard.shield.vouched.metrics() == {"vouched": 4, "vouched_cost": pytest.approx(1.2), "vouched_broken": 1}
    (message,) = [record.message for record in caplog.records]
    assert message.startswith("the safe action broke its promise: it cost [0.9] where [0.3] was allowed")
    assert steps[-1][2][0]  # nothing is believed there any more: the episode is stopped


def test_a_safe_action_is_no_longer_believed_near_where_it_broke_its_promise_and_only_there():
    guard = guard_of()
    guard.reset()
    drive(guard, 4)
    broken_before = guard.shield.vouched.broken
    drive(guard, 20)
    assert guard.shield.vouched.broken == broken_before == 1
    assert guard.recorder.violations == 1
    assert all(episode.length == 3 for episode in guard.recorder.episodes[1:])  # to 1.5 it is believed, and right


def test_believing_for_ever_is_an_option():
    guard = guard_of(verify=False)
    guard.reset()
    drive(guard, 20)
    assert guard.shield.vouched.broken == 2 * 7  # two episodes of ten steps


def test_broken_promises_are_kept_in_files(tmp_path):
    guard = guard_of()
    guard.reset()
    drive(guard, 4)
    guard.shield.save(tmp_path / "shield.safexp")
    shield = Shield.load(tmp_path / "shield.safexp")
    assert shield.vouched.metrics() == guard.shield.vouched.metrics()
    assert shield.filter(np.array([1.6]), np.zeros(1), LIMIT).stopped
    decision = shield.filter(np.array([0.4]), np.zeros(1), LIMIT)
    assert (decision.vouched, decision.action.tolist()) == (True, [0.5])


def test_an_agent_loads_with_the_outcomes_of_its_safe_action(tmp_path):
    agent = MASE(
        Slope(),
        Instantaneous(LIMIT),
        Unknown(),
        PPO,
        learner_options={"n_steps": 16, "batch_size": 8},
        safe_action=np.full(1, 0.5),
        seed=0,
    )
    agent.learn(16)
    assert agent.shield.vouched.broken == 1
    agent.save(tmp_path / "agent.safexp")
    loaded = MASE.load(tmp_path / "agent.safexp")
    assert loaded.shield.vouched.metrics() == agent.shield.vouched.metrics()
    assert loaded.shield.vouched.verify


def test_a_deployed_safe_action_is_watched_too():
    space = Line()
    shield = Shield(Unknown(), space.observation_space, space.action_space, safe_action=np.full(1, 0.5))
    policy = ShieldedPolicy(lambda seen: np.zeros(1), shield, Instantaneous(LIMIT), fallback=np.full(1, -1.0))
    policy.reset(np.zeros(1))
    assert policy.act(np.zeros(1)).outcome == "replacement"
    policy.observe(0.9)
    assert policy.act(np.zeros(1)).outcome == "stop"
    assert shield.vouched.metrics() == {"vouched": 1, "vouched_cost": 0.9, "vouched_broken": 1}


def test_what_a_model_certifies_is_not_vouched_for():
    space = Line()
    shield = Shield(ExactGP(), space.observation_space, space.action_space, safe_action=np.zeros(1))
    assert not shield.filter(np.zeros(1), np.zeros(1), 1.0).vouched


BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)
BRAKE = np.full(1, 0.5)


def vouched(verify=True):
    return Vouched(BOX, BRAKE, verify)


def believed(one, *states):
    """In which of these states (ds,) the action is still vouched for."""
    points = np.array(states, dtype=float)
    return (~np.isnan(one.actions(points, points)).any(axis=1)).tolist()


def test_a_promise_is_kept_at_its_threshold_and_broken_beyond_it():
    one = vouched()
    one.note(np.zeros((2, 1)), np.array([0.5, 0.25]), np.array([0.5, 0.5]))
    assert one.metrics() == {"vouched": 2, "vouched_cost": 0.75, "vouched_broken": 0}
    one.note(np.zeros((1, 1)), np.array([0.75]), np.array([0.5]))
    assert one.metrics() == {"vouched": 3, "vouched_cost": 1.5, "vouched_broken": 1}


def test_one_of_several_costs_breaks_a_promise():
    one = vouched()
    one.note(np.zeros((3, 1)), np.array([[0.1, 0.1], [0.1, 0.6], [0.6, 0.6]]), np.array([[0.5, 0.5]] * 3))
    assert one.metrics() == {"vouched": 3, "vouched_cost": pytest.approx(2.1), "vouched_broken": 2}


def test_what_is_vouched_for_is_forgotten_where_the_nearest_outcome_is_a_broken_one():
    one = vouched()
    assert believed(one, [0.0], [5.0]) == [True, True]
    one.note(np.array([[0.0], [4.0]]), np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    assert believed(one, [-9.0], [0.0], [1.9], [2.0], [2.1], [4.0], [99.0]) == [True] * 3 + [False] * 4
    one.note(np.array([[5.0]]), np.array([0.0]), np.array([0.5]))
    assert believed(one, [4.4], [4.6]) == [False, True]


def test_with_broken_promises_alone_nothing_is_believed():
    one = vouched()
    one.note(np.zeros((1, 1)), np.array([1.0]), np.array([0.5]))
    assert believed(one, [0.0], [1000.0]) == [False, False]


def test_nearness_is_in_units_of_the_spread_of_each_axis():
    one = vouched()
    states = np.array([[0.0, 0.0, 7.0], [1.0, 1000.0, 7.0]])
    one.note(states, np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    # The second axis spreads a thousand times as far; the third does not at all.
    assert believed(one, [0.9, 300.0, 7.0], [0.1, 600.0, 7.0], [0.1, 950.0, 7.0]) == [False, True, False]


def test_outcomes_are_kept_as_they_were_and_the_latest_of_them(monkeypatch):
    monkeypatch.setattr("safexp.shield.vouched.KEPT", 2)
    one = vouched()
    state = np.array([[0.0]])
    one.note(state, np.array([1.0]), np.array([0.5]))
    state += 100.0
    assert one.state()["broken"].tolist() == [[0.0]]
    for place in (1.0, 2.0, 3.0):
        one.note(np.array([[place]]), np.array([0.0]), np.array([0.5]))
    assert one.state()["kept"].tolist() == [[2.0], [3.0]]
    assert one.state()["broken"].tolist() == [[0.0]]
    assert one.metrics()["vouched"] == 4


def test_a_thousand_outcomes_are_kept():
    one = vouched()
    places = np.arange(1500.0)
    one.note(places[:, None], np.zeros(1500), np.full(1500, 0.5))
    assert one.state()["kept"][:, 0].tolist() == places[500:].tolist()
    assert one.metrics()["vouched"] == 1500


def test_outcomes_come_back_from_a_file_and_nothing_from_none():
    one, other = vouched(), vouched()
    assert list(one.state()) == ["counts"]
    one.note(np.array([[0.0], [4.0]]), np.array([0.25, 1.0]), np.array([0.5, 0.5]))
    other.restore(one.state())
    assert other.metrics() == one.metrics()
    assert isinstance(other.metrics()["vouched"], int)
    assert believed(other, [0.0], [4.0]) == [True, False]
    other.restore({})
    assert other.metrics() == one.metrics()
    other.restore(vouched().state())
    assert other.metrics() == {"vouched": 0, "vouched_cost": 0.0, "vouched_broken": 0}
    assert believed(other, [4.0]) == [True]


@pytest.mark.parametrize("verify", [True, False])
def test_the_worst_broken_promise_is_said_and_only_the_first_one_aloud(verify, caplog):
    one = vouched(verify)
    with caplog.at_level(logging.DEBUG, "safexp"):
        one.note(np.zeros((2, 1)), np.array([0.1, 0.2]), np.array([0.5, 0.5]))
        assert not caplog.records
        one.note(np.zeros((3, 1)), np.array([0.75, 1.0, 0.1]), np.array([0.5, 0.25, 0.5]))
        one.note(np.zeros((2, 1)), np.array([[0.1, 0.9], [0.6, 0.6]]), np.array([[0.5, 0.5]] * 2))
    first, second = caplog.records
    assert (first.levelno, second.levelno) == (logging.WARNING, logging.DEBUG)
    assert "it cost [1.] where [0.25] was allowed" in first.message
    assert "it cost [0.1 0.9] where [0.5 0.5] was allowed" in second.message
    assert ("no longer trusted" in first.message) == verify
    assert believed(one, [0.0]) == [not verify]


def test_an_action_outside_its_space_is_refused_before_it_is_needed():
    with pytest.raises(ValueError, match="is not an action of"):
        Vouched(BOX, np.full(1, 2.0))
    assert Vouched(BOX, lambda observations: np.full((len(observations), 1), 2.0)).verify
