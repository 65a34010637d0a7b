"""Policies and backups in C."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Backup, Budget, Known, Layer, Linear, LinearFeedback, Network, Rollout, Shield, Unknown, Within
from support.c_loop import CLoop, needs_compiler

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-2.0, 1.0, (2,))
RNG = np.random.default_rng(0)


def layers(inputs, outputs, activation="tanh"):
    first = Layer(RNG.normal(size=(inputs, 20)), RNG.normal(size=20), activation, 0.3)
    return [first, Layer(RNG.normal(size=(20, outputs)), RNG.normal(size=outputs))]


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "squashed"),
    [("", False), ("tanh", True), ("relu", False), ("sigmoid", True), ("elu", False), ("leaky_relu", True)],
)
def test_the_policy_in_c_acts_as_in_numpy(activation, squashed, tmp_path):
    policy = Network(
        layers(4, 2, activation), low=ACTIONS.low, high=ACTIONS.high, squashed=squashed, largest_thresholds=[3.0]
    )
    loop = CLoop(Shield(Unknown(), BOX, ACTIONS, constraint=Budget(3.0)), tmp_path, np.zeros(2), policy=policy)
    loop.reset(np.zeros(3))
    for _ in range(20):
        seen = RNG.uniform(-1, 1, 3).astype(np.float32)
        np.testing.assert_allclose(loop.policy(seen), policy(seen[None], [[3.0]])[0], rtol=1e-12, atol=1e-12)


@needs_compiler
def test_a_discrete_policy_chooses_the_largest_output(tmp_path):
    policy = Network(layers(3, 4), start=2)
    shield = Shield(Unknown(), BOX, spaces.Discrete(4, start=2), constraint=Budget(3.0))
    loop = CLoop(shield, tmp_path, np.full(1, 2.0), policy=policy)
    chosen = [(loop.policy(seen)[0], policy(seen[None])[0]) for seen in RNG.uniform(-1, 1, (30, 3))]
    assert all(ours == theirs for ours, theirs in chosen)
    assert len(set(chosen)) > 1


def test_a_policy_of_another_size_is_refused(tmp_path):
    shield = Shield(Unknown(), BOX, ACTIONS, constraint=Budget(3.0))
    with pytest.raises(ValueError, match=r"the policy maps 5 inputs to 2 outputs, expected \(3, 2\)"):
        shield.export_c(tmp_path / "shield.c", policy=Network(layers(5, 2), low=ACTIONS.low, high=ACTIONS.high))


@pytest.mark.parametrize(
    ("controller", "reason"),
    [
        (
            lambda observations: np.zeros((len(observations), 2)),
            "it is a Python function. Backup.safexp.LinearFeedback",
        ),
        (LinearFeedback(np.zeros((2, 4))), r"the backup has gains \(2, 4\), expected \(2, 3\)"),
    ],
)
def test_a_backup_that_is_a_function_cannot_be_exported(controller, reason, tmp_path):
    class Steady(Backup):
        def act(self, observations):
            return np.zeros((len(observations), 2))

    known = Known(Linear([[1.0], [0.0], [0.0]], [[0.1], [0.0]]))
    shield = Shield(known, BOX, ACTIONS, constraint=Within(0, high=1.0), backup=Steady(controller, 5))
    with pytest.raises(ValueError, match=reason):
        shield.export_c(tmp_path / "shield.c")


def test_rollout_needs_signals_that_are_entries(tmp_path):
    brake = LinearFeedback([[0.0, -1.0]], low=-1.0, high=1.0)
    shield = Shield(
        Rollout(degree=1),
        spaces.Box(-9.0, 9.0, (2,), np.float64),
        spaces.Box(-1.0, 1.0, (1,)),
        constraint=Within(lambda observations: observations[:, 0], high=1.0),
        backup=Backup(brake, 3),
    )
    from safexp import Log

    states, actions = RNG.uniform(-1, 1, (200, 2)), RNG.uniform(-1, 1, (200, 1))
    shield.fit(Log(states, actions, next_observations=states + 0.1 * actions, episodes=np.arange(200) // 20))
    with pytest.raises(ValueError, match="is a Python function of the observation, so Rollout cannot be exported"):
        shield.export_c(tmp_path / "shield.c")
