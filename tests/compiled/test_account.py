"""The account of an episode in C: thresholds, impossible costs and failures as in ShieldedPolicy."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import (
    AllOf,
    Budget,
    Instantaneous,
    JointChance,
    Known,
    Linear,
    PerCost,
    Schedule,
    Shield,
    ShieldedPolicy,
    Unknown,
    Within,
)
from support.c_loop import CLoop, needs_compiler

OBSERVATIONS = spaces.Box(-2.0, 2.0, (3,))
ACTIONS = spaces.Box(-1.0, 1.0, (2,))
COST = Known(Linear([0.3, 0.1, -0.2], [0.4, 0.1], 0.4), 0.02)
SIGNALS = Known(Linear([[1.0, 0.0], [0.0, 1.0], [0.1, 0.0]], [[0.4, 0.0], [0.0, 0.4]]), 0.02)
OUTCOMES = ["proposal", "replacement", "backup", "stop", "bad observation", "policy error"]
FALLBACK = np.array([-1.0, 0.5])

CASES = {
    "budget": (Budget(3.0, 0.95), COST, 1, 1),
    "budget in other units": (Budget(30.0, cost_max=10.0), COST, 1, 10),
    "limit": (Instantaneous(0.5), COST, 1, 1),
    "schedule": (Schedule([0.9, 0.6, 0.6, 0.3, 0.8]), COST, 1, 1),
    "signals": (Within((0, "heat"), low=-1.0, high=1.0), SIGNALS, 2, 2),
    "signals by phase": (Within((0, "heat"), high={0: 1.0, 4: 0.7, 9: 0.9}, scale=1.5), SIGNALS, 2, 2),
    "several": (AllOf(Budget(2.0), Within("heat", high=0.8)), None, 2, 1),
    "unknown": (Budget(4.0), Unknown(), 1, 1),
}


def shield_of(constraint, quantifier):
    if quantifier is None:
        heat = Known(Linear([[0.0], [1.0], [0.0]], [[0.0], [0.4]]), 0.02)
        quantifier = PerCost(COST, heat)
    return Shield(quantifier, OBSERVATIONS, ACTIONS, constraint=constraint)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_episodes_are_those_of_shielded_policy(name, tmp_path):
    constraint, quantifier, readings, unit = CASES[name]
    braking = 0.1 if name.startswith("budget") else 0.0
    rng = np.random.default_rng(3)
    shield = shield_of(constraint, quantifier)
    loop = CLoop(shield, tmp_path, FALLBACK, braking=braking)
    proposals = []
    policy = ShieldedPolicy(lambda o: proposals[-1], shield, constraint, FALLBACK, braking=braking)
    seen = set()
    for _ in range(12):
        first = rng.uniform(-0.5, 0.5, 3).astype(np.float32)
        measured = rng.uniform(-0.5, 0.5, shield.quantifier.num_signals) if constraint.sources else None
        policy.reset(first, measured)
        loop.reset(first, measured)
        for step in range(20):
            observation = rng.uniform(-1.0, 1.0, 3).astype(np.float32)
            kind = rng.integers(12)
            if kind == 0:
                observation[rng.integers(3)] = rng.choice([np.nan, np.inf, 2.5])
            proposals.append(rng.uniform(-1.5, 1.5, 2))
            if kind == 1:
                proposals[-1][0] = np.nan
            ours = policy.act(observation)
            outcome, action = loop.act(observation, proposals[-1])
            assert OUTCOMES[outcome] == ours.outcome, (step, policy.threshold)
            np.testing.assert_array_equal(action, np.asarray(ours.action, np.float64))
            seen.add(ours.outcome)
            told = unit * rng.uniform(0, 0.4, readings)
            told[rng.random(readings) < 0.05] = rng.choice([np.nan, -1.0, 2.0 * unit])
            if rng.random() < 0.9:
                policy.observe(told if readings > 1 else told[0])
                loop.observe(told)
    assert {"proposal", "bad observation", "policy error"} <= seen
    assert seen & {"stop", "replacement"}


@needs_compiler
def test_nothing_is_allowed_before_an_episode_begins(tmp_path):
    loop = CLoop(shield_of(Instantaneous(0.9), COST), tmp_path, FALLBACK)
    outcome, action = loop.act(np.zeros(3), np.zeros(2))
    assert OUTCOMES[outcome] == "stop"
    np.testing.assert_array_equal(action, FALLBACK)


@needs_compiler
def test_a_signal_outside_of_the_observation_must_be_told(tmp_path):
    loop = CLoop(shield_of(Within((0, "heat"), high=1.0), SIGNALS), tmp_path, FALLBACK)
    assert loop.reset(np.zeros(3)) == 0
    assert OUTCOMES[loop.act(np.zeros(3), np.zeros(2))[0]] == "bad observation"
    assert loop.reset(np.zeros(3), np.zeros(2)) == 1
    assert OUTCOMES[loop.act(np.zeros(3), np.zeros(2))[0]] == "proposal"


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        (JointChance(0.1, lambda o: o[:, 0] > 1), "JointChance.*cannot be exported to C: only Within, Budget, "),
        (Schedule(lambda steps: np.full(len(steps), 0.5)), "Schedule.limits=<function>. cannot be exported to C"),
    ],
)
def test_constraints_with_functions_cannot_be_exported(constraint, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        shield_of(constraint, COST).export_c(tmp_path / "shield.c")
