"""Training with a compiled shield inside the guard: the same steps as with the Python shield."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

from safexp import MASE, Budget, ExactGP, Instantaneous, SparseGP
from safexp.tasks import planar_robot
from support.c_loop import needs_compiler

pytestmark = needs_compiler


@pytest.mark.slow
def test_training_is_the_same_with_a_compiled_shield():
    def train(compiled: bool) -> MASE:
        agent = MASE(
            gym.make_vec("safexp/PlanarRobot-v0", num_envs=4),
            Instantaneous(0.3),
            SparseGP(num_inducing=32, first_steps=50),
            PPO,
            learner_options={"n_steps": 64, "batch_size": 64, "n_epochs": 2},
            seed_data=planar_robot.cautious_log(30, np.random.default_rng(0)),
            seed=0,
            trust="uncalibrated",
            compiled=compiled,
        )
        agent.learn(1024)
        return agent

    python, compiled = train(False), train(True)
    assert [row.true_return for row in python.episodes] == pytest.approx([row.true_return for row in compiled.episodes])
    assert [row.interventions for row in python.episodes] == [row.interventions for row in compiled.episodes]
    assert sum(row.interventions for row in compiled.episodes) > 10
    state = np.zeros((1, 4))
    action = np.zeros((1, 1, 2))
    shield = compiled.shield
    ours, theirs = (who.predict(state, action) for who in (shield.quantifier, shield.compiled))
    np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), rtol=1e-9)
    twin = copy.deepcopy(shield)
    assert twin.compiled.shield is twin
    np.testing.assert_array_equal(np.ravel(twin.compiled.predict(state, action)), np.ravel(theirs))


def test_a_quantifier_that_cannot_be_exported_is_refused_at_the_start():
    envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
    with pytest.raises(ValueError, match="ExactGP cannot be exported to C"):
        MASE(envs, Budget(3.0), ExactGP(), PPO, compiled=True, seed=0)
