"""A deployed shield under limits on measured signals: read from the observation, or told by the machine."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from safexp import AllOf, Budget, FeatureRegression, Known, Log, PerCost, Shield, ShieldedPolicy, Unknown, Within

STATES = spaces.Box(-10.0, 10.0, (2,), np.float64)
PUSH = spaces.Box(-1.0, 1.0, (1,), np.float32)
HERE = np.array([0.0, 5.0])
REST = np.zeros(1, dtype=np.float32)
FULL = np.ones(1, dtype=np.float32)


def moved(states, actions):
    """The observation's first entry is the position, which an action moves."""
    return states[:, 0] + actions[:, 0]


def known(constraint, **options):
    """A shield that knows how the position moves, around a controller that pushes as hard as it can."""
    shield = Shield(Known(moved), STATES, PUSH, constraint=constraint)
    return ShieldedPolicy(lambda observation: FULL, shield, constraint, REST, **options)


def learned(constraint):
    """A shield that has learned how a load moves which is in no observation: by 0.3 of the action."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (400, 1)).astype(np.float32)
    load = np.cumsum(0.3 * actions[:, 0])
    shield = Shield(FeatureRegression(), STATES, PUSH, constraint=constraint)
    shield.fit(Log(np.tile(HERE, (400, 1)) + 0.1 * rng.standard_normal((400, 2)), actions, signals={"load": load}))
    return ShieldedPolicy(lambda observation: FULL, shield, constraint, REST)


@pytest.mark.parametrize("deadline", [None, 10.0])
def test_signals_in_the_observation_need_not_be_told(deadline):
    policy = known(Within(0, low=-2.0, high=2.0), deadline=deadline)
    policy.reset(HERE)
    position, positions = 0.0, []
    for _ in range(6):
        position += float(policy.act(np.array([position, 5.0])).action[0])
        positions.append(position)
    assert max(positions) == pytest.approx(2.0, abs=0.05)  # candidates are 0.03 apart
    assert policy.counts["replacement"] >= 3
    assert policy.bad_costs == 0
    policy.close()


def test_signals_that_the_machine_tells():
    policy = learned(Within("load", low=-1.0, high=1.0))
    load, loads = 0.0, []
    policy.reset(HERE, measured=load)
    for _ in range(12):
        load += 0.3 * float(policy.act(HERE).action[0])
        policy.observe(load)
        loads.append(load)
    assert 0.7 < max(loads) <= 1.0
    assert policy.counts["proposal"] >= 2
    assert policy.counts["bad observation"] == policy.bad_costs == 0


def test_steps_beyond_a_limit_are_counted_and_each_episode_warns_once(caplog):
    policy = learned(Within("load", low=-1.0, high=1.0))
    for _ in range(2):
        policy.reset(HERE, measured=0.0)
        for told in (0.5, 1.2, 1.1, None, 1.0, -1.3):
            policy.act(HERE)
            policy.observe(told)
    assert policy.violations == 6
    assert policy.bad_costs == 2
    warned = [record.message for record in caplog.records if "is violated" in record.message]
    assert len(warned) == 2
    assert warned[0].startswith("the constraint is violated: 1.2 was measured under Within(signal='load'")


def test_steps_beyond_a_limit_are_counted_from_the_observation_whatever_was_certified():
    policy = known(Within(0, low=-2.0, high=2.0))
    policy.reset(HERE)
    for position in (0.0, 0.5, 2.5, 2.0, -2.1):  # the machine does not move as the shield believes
        policy.act(np.array([position, 5.0]))
    assert policy.violations == 2


def test_without_a_signal_the_fallback_is_run_until_it_is_there_again(caplog):
    policy = learned(Within("load", low=-1.0, high=1.0))
    policy.reset(HERE, measured=0.0)
    outcomes = []
    for told in (0.1, None, np.nan, 0.2):
        outcomes.append(policy.act(HERE).outcome)
        policy.observe(told)
    outcomes.append(policy.act(HERE).outcome)
    assert outcomes == ["proposal", "proposal", "bad observation", "bad observation", "proposal"]
    assert policy.bad_costs == 2
    assert "the signal load is not known: tell it to observe(...)" in caplog.text


def test_an_unobserved_step_leaves_a_told_signal_unknown():
    policy = learned(Within("load", low=-1.0, high=1.0))
    policy.reset(HERE, measured=[0.0])
    policy.act(HERE)
    assert policy.act(HERE).outcome == "bad observation"


@pytest.mark.parametrize("measured", [None, [0.0, 0.0]])
def test_a_first_signal_must_be_told(measured):
    policy = learned(Within("load", low=-1.0, high=1.0))
    with pytest.raises(ValueError, match=r"give reset\(observation, measured=<load as they are now>\)"):
        policy.reset(HERE, measured=measured)


def test_a_signal_whose_function_raises_is_not_known():
    def position(observations):
        if (observations[:, 1] < 0).any():
            raise ZeroDivisionError("sensor")
        return observations[:, 0]

    policy = known(Within(position, low=-2.0, high=2.0))
    policy.reset(HERE)
    assert policy.act(HERE).outcome == "proposal"
    assert policy.act(np.array([0.0, -1.0])).outcome == "bad observation"
    assert policy.act(HERE).outcome == "proposal"


def test_costs_and_signals_are_told_together():
    constraint = AllOf(Budget(2.0), Within(0, low=-2.0, high=2.0))
    shield = Shield(PerCost(Unknown(), Known(moved)), STATES, PUSH, constraint=constraint)
    policy = ShieldedPolicy(lambda observation: FULL, shield, constraint, REST)
    policy.reset(HERE)
    policy.act(HERE)
    policy.observe([0.5, 1.0])
    np.testing.assert_allclose(policy.threshold, [1.5, 0.5, 0.5])
    policy.act(HERE)
    with pytest.raises(ValueError, match=r"\(3,\), expected \(2,\): one number for each cost and each signal"):
        policy.observe([0.5, 1.0, 1.0])
    policy.observe(None)
    np.testing.assert_allclose(policy.threshold, [0.5, 0.5, 0.5])


def test_a_schedule_of_limits_follows_the_steps():
    policy = known(Within(0, high={0: 2.0, 2: 1.0}))
    policy.reset(HERE)
    actions = [float(policy.act(np.array([0.9, 5.0])).action[0]) for _ in range(3)]
    assert actions[:2] == [1.0, 1.0]
    assert actions[2] <= 0.1


def test_limits_that_differ_from_the_shields_are_refused():
    shield = Shield(Known(moved), STATES, PUSH, constraint=Within(0, high=2.0))
    with pytest.raises(ValueError, match="give the same constraint to both"):
        ShieldedPolicy(lambda observation: FULL, shield, Within(0, high=1.0), REST)
    ShieldedPolicy(lambda observation: FULL, shield, Within(0, high=2.0), REST).close()


def test_a_signal_that_is_only_in_the_info_must_be_given_to_the_shield():
    limits = Within(("load", 0), low=-1.0, high=1.0)
    shield = Shield(Known(lambda states, actions: states[:, :2]), STATES, PUSH, constraint=limits)
    with pytest.raises(
        ValueError, match=r"the signal load is not in the observation.*measured=\[load, observation\[0\]\]"
    ):
        shield.filter(HERE, FULL)
    with pytest.raises(ValueError, match="the signal load is not in the observation"):
        shield.certified(HERE, FULL[None], np.full(4, 0.5))
    assert not shield.filter(HERE, FULL, measured=[0.0, 0.0]).stopped or shield.failures == 0
