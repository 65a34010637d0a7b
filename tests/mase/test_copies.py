"""Deep copies: a copied agent goes on as the original would have, and neither touches the other."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import safexp
from safexp.envs.recording import Recorded
from safexp.envs.vector import as_vec_env
from safexp.mase.baseline import Baseline
from safexp.runs import snapshot
from safexp.shield.shield import Shield
from support.line import Line

SMALL = {"policy_kwargs": {"net_arch": [8]}}
ROLLOUT = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, **SMALL}
REPLAY = {"learning_starts": 20, "buffer_size": 1000, "batch_size": 16, **SMALL}


def planar(learner, options, kind="", **more):
    settings = {"quantifier": safexp.Unknown(), "constraint": safexp.Budget(1.5), **more}
    env = gym.make_vec(f"safexp/PlanarRobot{kind}-v0", num_envs=4)
    return safexp.MASE(env, learner=learner, learner_options=options, seed=0, epoch_steps=50, **settings)


def monitored():
    venv = VecMonitor(DummyVecEnv([Line, Line]))
    return safexp.MASE(venv, safexp.Budget(3.0), safexp.Unknown(), PPO, learner_options=ROLLOUT, seed=0)


def goal():
    env = gym.make_vec("safexp/PointGoalStatic-v0", num_envs=4)
    quantifier = safexp.SparseGP(num_inducing=8, first_steps=2)
    stop = safexp.LearnedReset()
    return safexp.MASE(
        env,
        safexp.Budget(20.0),
        quantifier,
        safexp.TRPO,
        learner_options={"n_steps": 32, **SMALL},
        seed=0,
        backup=stop,
    )


def bare():
    envs = Recorded(as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=4)), safexp.Budget(1.5))
    return Baseline(envs, PPO, learner_options=ROLLOUT, seed=0)


AGENTS = {
    "on-policy": lambda: planar(PPO, ROLLOUT),
    "state-dependent noise, and a logger that prints": lambda: planar(PPO, {**ROLLOUT, "use_sde": True, "verbose": 1}),
    "off-policy": lambda: planar(SAC, REPLAY, quantifier=safexp.ExactGP(1.0)),
    "discrete": lambda: planar(DQN, REPLAY, "Discrete"),
    "recurrent": lambda: planar(RecurrentPPO, {**ROLLOUT, "policy": "MlpLstmPolicy"}),
    "monitored": monitored,
    "MuJoCo": goal,
    "bare": bare,
}


def contents(agent):
    """Everything that training leaves behind."""
    weights = {name: part.numpy().copy() for name, part in agent.learner.policy.state_dict().items()}
    return list(agent.episodes), agent.envs.recorder.steps, weights


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_a_copy_goes_on_as_the_original_would_have_and_neither_touches_the_other(name):
    agent = AGENTS[name]()
    agent.learn(128)
    before, randomness = contents(agent), snapshot.take(snapshot.SHARED)
    twin = copy.deepcopy(agent)
    np.testing.assert_equal(contents(twin), before)
    twin.learn(256)
    np.testing.assert_equal(contents(agent), before)
    assert contents(twin)[1] > before[1]
    snapshot.restore(snapshot.SHARED, *randomness)
    agent.learn(256)
    np.testing.assert_equal(contents(agent), contents(twin))


def test_a_copied_agent_decides_with_its_own_shield():
    agent = planar(DQN, REPLAY, "Discrete").learn(50)
    twin = copy.deepcopy(agent)
    assert twin.guard.preferences.args == (twin.learner,)
    assert twin.learner.replay_buffer.history.guard is twin.guard
    assert twin.learner.env is twin.guard
    assert twin.shield is not agent.shield


def test_a_shield_is_copied_and_pickled():
    shield = Shield(safexp.ExactGP(1.0), gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,)))
    shield.fit(safexp.Log(np.zeros((3, 2)), np.linspace(-1, 1, 3)[:, None], np.zeros(3)))
    for twin in (copy.deepcopy(shield), pickle.loads(pickle.dumps(shield))):
        twin.quantifier.fit(safexp.quantifiers.Transitions(np.ones((1, 2)), np.ones((1, 1)), np.ones(1)))
        assert (shield.quantifier.size, twin.quantifier.size) == (3, 1)
        twin.filter(np.zeros(2), np.zeros(1), 0.5)
