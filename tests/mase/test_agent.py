"""What every agent can do, with a shield and without."""

from __future__ import annotations

import copy
import math

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN, PPO

import safexp
from safexp.runs.stopwatch import Stopwatch

ROLLOUT = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}


def mase(**more):
    env = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
    return safexp.MASE(env, safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=ROLLOUT, seed=0, **more)


def baseline(kind=safexp.Recorded):
    envs = kind(safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)), safexp.Budget(3.0))
    return safexp.Baseline(envs, PPO, learner_options=ROLLOUT, seed=0)


@pytest.mark.parametrize("make", [mase, baseline])
def test_watchers_are_told_in_their_order_after_the_agent_has_learned(make):
    agent, told = make(), []
    if agent.quantifier is not None:
        agent.quantifier.update = lambda data: told.append(("learned", len(data.costs)))
    agent.on_epoch(lambda last: told.append((agent.epochs, agent.learner.num_timesteps, last)))
    agent.on_epoch(lambda last: told.append("second"))
    agent.learn(128)
    learned = [] if agent.quantifier is None else [("learned", 64)]
    # The last rollout is an epoch that ends with the training.
    assert told == [*learned, (1, 64, False), "second", *learned, (2, 128, True), "second"]


def test_an_epoch_of_an_off_policy_learner_is_as_long_as_it_was_made():
    env, told = gym.make_vec("safexp/PlanarRobotDiscrete-v0", num_envs=1), []
    options = {"train_freq": 4, "learning_starts": 10, "policy_kwargs": {"net_arch": [8]}}
    agent = safexp.MASE(env, safexp.Budget(3.0), safexp.Unknown(), DQN, learner_options=options, seed=0, epoch_steps=20)
    agent.on_epoch(lambda last: told.append((agent.learner.num_timesteps, last)))
    agent.learn(50)
    assert told == [(20, False), (40, False), (52, True)]  # a rollout is four steps


@pytest.mark.parametrize("make", [mase, baseline])
def test_who_watches_an_agent_does_not_watch_its_copy(make):
    agent, told = make(), []
    agent.on_epoch(lambda last: told.append(last))
    agent.measure(Stopwatch().span)
    copy.deepcopy(agent).learn(64)
    assert told == []


def test_metrics_are_those_of_the_last_epoch():
    agent = mase()
    agent.learn(128)
    told = agent.metrics()
    assert told["coverage_rows"] == 64
    assert told["delta"] == 0.0
    assert (told["proposals"], told["proposals_certified"]) == (64, 64)  # a budget of 3 is not spent in 32 steps
    assert 0.0 <= told["smallest_margin"] <= 3.0
    assert sum(epoch.rows for epoch in agent.coverage) == 128
    assert baseline().metrics() == {}


def test_without_its_shield_every_proposal_is_executed_and_nothing_is_stopped():
    agent = mase(backup=safexp.Reset())
    assert agent.shielded
    agent.evaluate(shielded=False)
    assert not agent.shielded and not agent.guard.backup.learning
    agent.envs.seed(0)
    agent.envs.reset()
    rng = np.random.default_rng(0)
    for _ in range(60):
        agent.envs.step(rng.uniform(-1, 1, (2, 2)).astype(np.float32))
    assert agent.envs.recorder.stops == agent.envs.recorder.interventions == 0


def test_a_shield_that_is_put_back_looks_at_the_current_states():
    agent = mase()
    agent.evaluate(shielded=False)
    agent.envs.seed(0)
    agent.envs.reset()
    spent = 0.0
    for _ in range(500):  # until less than the largest cost remains
        agent.envs.step(np.ones((2, 2), dtype=np.float32))
        spent = max(spent, 3.0 - float(np.min(agent.envs.account.thresholds)))
        if spent > 2.0:
            break
    assert spent > 2.0
    agent.evaluate(shielded=True)
    with pytest.raises(safexp.NothingSafeError, match="nothing was executed"):
        agent.envs.step(np.ones((2, 2), dtype=np.float32))


@pytest.mark.parametrize("kind", [safexp.Recorded, safexp.EarlyTermination, safexp.Saute])
def test_a_baseline_acts_on_what_its_learner_sees(kind):
    agent = baseline(kind)
    agent.evaluate()
    assert not agent.shielded and agent.shield is None and agent.inputs is None and agent.envs.harvest() is None
    seen = agent.observed(agent.envs.reset())
    decision = agent.predict(seen[0], episode_start=True)
    action, _ = agent.propose(seen[0])
    np.testing.assert_array_equal(decision.action, action)
    assert (decision.intervened, decision.stopped, decision.upper_bound) == (False, False, math.inf)
    assert agent.envs.action_space.contains(action)
