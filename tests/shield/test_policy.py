"""A controller with a shield: an answer whatever happens, the right account, and answers that threads do not change."""

from __future__ import annotations

import textwrap
import threading
import time

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import safexp
from safexp import (
    AllOf,
    Budget,
    Instantaneous,
    JointChance,
    Known,
    Margin,
    PerCost,
    Shield,
    ShieldedPolicy,
    StateVisits,
    Unknown,
)
from safexp.constraints import TOLERANCE
from safexp.shield import policy as deployment
from support.square import BRAKE, HERE, SQUARE, STATES, WILD, Raising


def radius_cost(states, actions):
    return np.linalg.norm(actions, axis=1) / 2


def around(policy, constraint=None, quantifier=None, **options):
    shield = Shield(quantifier or Known(radius_cost), STATES, SQUARE)
    made = ShieldedPolicy(policy, shield, constraint or Instantaneous(0.4), BRAKE, **options)
    made.reset(HERE)
    return made


def nonzero(policy):
    return {kind: count for kind, count in policy.counts.items() if count}


@pytest.mark.parametrize("deadline", [None, 10.0])
def test_proposals_pass_or_are_replaced_as_the_shield_says(deadline):
    proposals = iter([np.array([0.1, 0.2], dtype=np.float32), WILD])
    policy = around(lambda observation: next(proposals), deadline=deadline)
    first, second = policy.act(HERE), policy.act(HERE)
    np.testing.assert_array_equal(first.action, np.array([0.1, 0.2], dtype=np.float32))
    assert (first.outcome, second.outcome) == ("proposal", "replacement")
    assert np.linalg.norm(second.action) / 2 <= 0.4
    assert second.upper_bound == pytest.approx(np.linalg.norm(second.action) / 2)
    assert nonzero(policy) == {"proposal": 1, "replacement": 1}
    policy.close()


class Model:
    """As Stable-Baselines3's: not callable, but it predicts."""

    def predict(self, observation, deterministic=False):
        assert deterministic
        return observation.astype(np.float32), None


def test_the_modules_own_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Shield(Unknown(), STATES, SQUARE).save("agent.safexp")
    executed = []

    class Running:
        def __bool__(self):
            return len(executed) < 5

    def plant(action):
        executed.append(action)
        return HERE, 0.0

    example = textwrap.dedent("\n".join(line for line in deployment.__doc__.splitlines() if line.startswith("    ")))
    names = {"controller": lambda observation: WILD, "brake": BRAKE, "observation": HERE, "running": Running()}
    example = example.replace("deadline=0.005", "deadline=60")  # a busy machine may be late
    exec(example, {**vars(safexp), **names, "plant": plant})
    np.testing.assert_array_equal(executed, [WILD] * 5)


def test_a_model_predicts():
    answer = around(Model()).act(np.array([0.25, 0.0]))
    np.testing.assert_array_equal(answer.action, np.array([0.25, 0.0], dtype=np.float32))


def test_a_policy_may_ask_what_remains():
    seen = []
    policy = around(lambda observation, b: seen.append(b) or HERE, Budget(2.0), show_threshold=True)
    for cost in (0.5, 0.25):
        policy.act(HERE)
        policy.observe(cost)
    np.testing.assert_allclose(seen, [2.0, 1.5])


def test_steps_that_cost_more_than_remained_are_counted():
    policy = around(lambda observation: HERE, Budget(1.0))
    for cost in (0.75, 0.25, 0.0, 0.125, 0.0):
        policy.act(HERE)
        policy.observe(cost)
    assert policy.violations == 1


def fail(observation):
    raise KeyError("controller")


@pytest.mark.parametrize("deadline", [None, 10.0])
@pytest.mark.parametrize(
    ("options", "observation", "outcome"),
    [
        ({"policy": fail}, HERE, "policy error"),
        ({"policy": lambda observation: np.zeros(3)}, HERE, "policy error"),
        ({"policy": lambda observation: None}, HERE, "policy error"),
        ({"quantifier": Raising()}, HERE, "quantifier error"),
        ({"quantifier": Unknown()}, HERE, "stop"),
        ({}, np.array([0.0, np.nan]), "bad observation"),
        ({}, np.array([0.0, 1.5]), "bad observation"),
        ({}, np.zeros(3), "bad observation"),
        ({}, None, "bad observation"),
        ({}, {"speed": 1.0}, "bad observation"),
    ],
)
def test_whatever_goes_wrong_the_fallback_is_run_and_counted(options, observation, outcome, deadline, caplog):
    policy = around(**{"policy": lambda seen: HERE, **options}, deadline=deadline)
    for _ in range(3):
        answer = policy.act(observation)
        np.testing.assert_array_equal(answer.action, BRAKE)
        assert answer.outcome == outcome
    assert nonzero(policy) == {outcome: 3}
    told = [record for record in caplog.records if "fallback" in record.message and record.levelname == "WARNING"]
    assert len(told) == 1, "the log is not flooded"
    policy.close()


def test_a_shield_that_fails_is_told_from_a_controller_that_does(monkeypatch):
    policy = around(lambda observation: HERE)
    monkeypatch.setattr(policy.shield, "filter", fail)
    assert policy.act(HERE).outcome == "shield error"


def test_a_late_answer_is_replaced_in_time_and_thrown_away():
    gate = threading.Event()
    moves = iter([WILD / 8, WILD / 4])

    def slow_once(observation):
        move = next(moves)
        if move[0] == 0.125:
            assert gate.wait(30)
        return move

    policy = around(slow_once, deadline=0.05)
    begin = time.monotonic()
    late = [policy.act(HERE) for _ in range(2)]  # the second finds the thread still busy
    assert time.monotonic() - begin < 10, "it must not wait for the controller"
    assert [answer.outcome for answer in late] == ["late", "late"]
    np.testing.assert_array_equal(late[0].action, BRAKE)
    gate.set()
    policy.deadline = 10.0
    answer = policy.act(HERE)
    assert answer.outcome == "proposal"
    np.testing.assert_array_equal(answer.action, WILD / 4)  # not the late one's
    policy.close()


def test_the_thread_ends_with_its_policy():
    before = set(threading.enumerate())
    policy = around(lambda observation: HERE, deadline=10.0)
    policy.act(HERE)
    (thread,) = set(threading.enumerate()) - before
    del policy
    thread.join(30)
    assert not thread.is_alive()


COSTS = st.lists(st.one_of(st.none(), st.just(float("nan")), st.floats(-1.0, 4.0)), max_size=12)


@given(COSTS, st.sampled_from([1.0, 0.9]))
def test_the_account_is_the_constraints_own_with_unknown_costs_at_their_largest(costs, discount):
    budget = Budget(6.0, discount, cost_max=2.0)
    policy = around(lambda observation: HERE, budget)
    spent = 0.0
    for step, cost in enumerate(costs):
        policy.act(HERE)
        if cost is not None:  # a missing one is noticed by the next act
            policy.observe(cost)
        known = cost is not None and np.isfinite(cost) and cost >= 0
        spent += discount**step * (cost / 2.0 if known else 1.0)
    policy.act(HERE)
    assert policy.threshold == pytest.approx((3.0 - spent + TOLERANCE) / discount ** len(costs), abs=1e-9)
    unusual = sum(not (cost is not None and np.isfinite(cost) and 0 <= cost <= 2.0) for cost in costs)
    assert policy.bad_costs == unusual


def test_a_spent_budget_stops():
    policy = around(lambda observation: HERE, Budget(1.0), Unknown())
    assert policy.act(HERE).outcome == "proposal"
    policy.observe(0.5)
    assert policy.act(HERE).outcome == "stop"
    policy.reset(HERE)
    assert policy.act(HERE).outcome == "proposal"


def test_a_risk_is_spent_by_its_bound_and_a_fallback_spends_everything():
    quiet = JointChance(0.5, unsafe=lambda observations: np.zeros(len(observations), dtype=bool))
    policy = around(lambda observation: np.array([0.4, 0.0], dtype=np.float32), quiet)
    policy.act(HERE)
    policy.observe(0.0)
    assert policy.threshold == pytest.approx(0.3)
    policy.act(np.array([2.0, 0.0]))
    policy.observe(0.0)
    assert policy.threshold == pytest.approx(-0.7)


def test_several_costs_and_margins_are_accounted_for():
    both = around(lambda observation: HERE, AllOf(Budget(2.0), Budget(3.0)), PerCost(Unknown(), Unknown()))
    both.act(HERE)
    both.observe([0.5, np.nan])
    np.testing.assert_allclose(both.threshold, [1.5, 2.0])
    assert both.bad_costs == 1
    with pytest.raises(RuntimeError, match="there is no action to report on"):
        both.observe([0.0, 0.0])
    both.act(HERE)
    with pytest.raises(
        ValueError, match=r"0.5 has shape \(\), expected \(2,\): one number for each cost and each signal"
    ):
        both.observe(0.5)
    margin = around(lambda observation: HERE, Margin())
    margin.act(HERE)
    margin.observe(-0.2)
    assert margin.bad_costs == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fallback": np.zeros(3)}, ValueError, "is not an action of Box"),
        ({"fallback": np.array([0.0, 2.0])}, ValueError, "is not an action of Box"),
        ({"fallback": np.array([0.0, np.nan])}, ValueError, "is not an action of Box"),
        ({"deadline": 0.0}, ValueError, "deadline=0.0 must be a number of seconds above 0"),
        ({"policy": 3}, TypeError, "policy=3 is not a function"),
    ],
)
def test_wrong_settings_are_named(options, error, message):
    usual = {"policy": lambda observation: HERE, "fallback": BRAKE}
    with pytest.raises(error, match=message):
        ShieldedPolicy(shield=Shield(Unknown(), STATES, SQUARE), constraint=Budget(1.0), **(usual | options))


def test_a_first_state_that_cannot_be_read_is_charged_as_unsafe():
    visits = StateVisits(1.0, lambda observations: observations[:, 0] > 1)
    policy = around(lambda observation: HERE, visits, Unknown())
    assert policy.threshold == pytest.approx(1.0)
    policy.reset(np.array([np.nan, 0.0]))
    assert policy.threshold == pytest.approx(0.0, abs=1e-8)


def test_before_reset_nothing_is_known():
    policy = ShieldedPolicy(lambda seen: HERE, Shield(Unknown(), STATES, SQUARE), Budget(1.0), BRAKE)
    with pytest.raises(RuntimeError, match=r"call reset\(observation\) first"):
        policy.act(HERE)


def test_discrete_actions_have_a_fallback_too():
    shield = Shield(Known(lambda states, actions: actions.argmax(axis=1) / 2), STATES, spaces.Discrete(3))
    policy = ShieldedPolicy(lambda observation: 2, shield, Instantaneous(0.5), fallback=0)
    policy.reset(HERE)
    assert policy.act(HERE).outcome == "replacement"
    with pytest.raises(ValueError, match="fallback=3 is not an action"):
        ShieldedPolicy(lambda observation: 2, shield, Instantaneous(0.5), fallback=3)


def test_an_infinite_cost_spends_everything():
    policy = around(lambda observation: WILD, Budget(5.0), Unknown())
    policy.act(HERE)
    policy.observe(np.inf)
    assert policy.act(HERE).outcome == "stop"
    assert policy.bad_costs == 1


@pytest.mark.parametrize("proposal", [[np.nan, 0.0], [np.inf, 0.0]])
def test_a_proposal_that_is_no_number_is_the_controllers_error(proposal):
    policy = around(lambda observation: np.array(proposal), Budget(5.0), Unknown())
    answer = policy.act(HERE)
    assert answer.outcome == "policy error"
    np.testing.assert_array_equal(answer.action, BRAKE)


def test_an_observation_at_its_bound_is_good_in_any_precision():
    states = spaces.Box(-0.7, 0.7, (1,), np.float32)
    policy = ShieldedPolicy(lambda observation: WILD, Shield(Unknown(), states, SQUARE), Budget(5.0), BRAKE)
    policy.reset(np.array([0.7]))
    assert policy.act(np.array([0.7])).outcome == "proposal"
    assert policy.act(np.array([0.701])).outcome == "bad observation"
    assert policy.act(np.array([1e300])).outcome == "bad observation"


def test_what_braking_costs_is_kept_aside():
    policy = around(lambda observation: WILD, Budget(5.0), Unknown(), braking=3.0)
    outcomes = []
    for _ in range(3):
        outcomes.append(policy.act(HERE).outcome)
        policy.observe(1.0)
    assert outcomes == ["proposal", "proposal", "stop"]


@pytest.mark.parametrize(
    ("policy", "shown", "message"),
    [
        (
            lambda observation: WILD,
            True,
            r"cannot be called with \(observation, threshold\).*give show_threshold=False",
        ),
        (lambda observation, threshold: WILD, False, r"cannot be called with \(observation\).*show_threshold=True"),
        (Model(), True, r"cannot be called with \(observation, threshold\)"),
    ],
)
def test_a_policy_that_does_not_take_what_it_is_shown_is_refused_at_once(policy, shown, message):
    with pytest.raises(TypeError, match=message):
        around(policy, show_threshold=shown)


def test_a_policy_that_can_be_called_and_predicts_is_asked_to_predict():
    class Both(Model):
        def __call__(self, observation):
            raise AssertionError("this is the network, not the controller")

    assert around(Both()).act(HERE).outcome != "policy error"


def test_a_fallback_is_an_action_and_no_function():
    with pytest.raises(TypeError, match="is a function; it must be one action"):
        ShieldedPolicy(lambda observation: WILD, Shield(Unknown(), STATES, SQUARE), Budget(5.0), lambda state: BRAKE)
