"""A safe action is believed until it breaks its promise, and what it really costs is counted."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from conftest import Line
from safexp import MASE, ExactGP, Instantaneous, Penalty, Shield, ShieldedPolicy, Unknown
from safexp.envs.guard import Guard

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
        {"n_steps": 16, "batch_size": 8},
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
