"""Thresholds by hand, states per environment, and the errors of bad settings and bad signals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from safexp import AllOf, Budget, Instantaneous, JointChance, Margin, Schedule, StateVisits
from safexp.constraints import TOLERANCE
from safexp.core.costs import Step

OBSERVATIONS = np.array([[0.0], [2.0]])


def unsafe(observations):
    return observations[:, 0] > 1


def step(next_observations=OBSERVATIONS, **columns):
    actions = np.zeros((len(OBSERVATIONS), 1))
    return Step(OBSERVATIONS, actions, next_observations, lambda key: np.array(columns[key]))


def thresholds(constraint, costs, bounds=None, observations=OBSERVATIONS):
    """The thresholds before each of these costs (T, n) and after the last."""
    state = constraint.start(observations)
    found = [constraint.threshold(state)]
    for row, cost in enumerate(np.asarray(costs, dtype=float)):
        state = constraint.update(state, cost, cost if bounds is None else np.asarray(bounds[row], dtype=float))
        found.append(constraint.threshold(state))
    return np.array(found)


def test_instantaneous_threshold_never_moves():
    found = thresholds(Instantaneous(0.3), [[0.1, 0.2], [0.3, 0.0]])
    np.testing.assert_allclose(found, 0.3, atol=2 * TOLERANCE)


def test_budget_is_what_remains():
    found = thresholds(Budget(2.0), [[0.5, 1.0], [0.25, 1.0]])
    np.testing.assert_allclose(found, [[2.0, 2.0], [1.5, 1.0], [1.25, 0.0]], atol=2 * TOLERANCE)


def test_discounted_budget_follows_the_eta_recursion():
    discount, costs = 0.9, np.array([0.5, 0.2, 0.9, 0.0, 0.3])
    eta = [2.0]
    for cost in costs:
        eta.append((eta[-1] - cost) / discount)
    found = thresholds(Budget(2.0, discount), np.stack([costs, costs], axis=1))
    np.testing.assert_allclose(found[:, 0], eta, rtol=1e-8)


def test_schedule_is_read_step_by_step_and_its_end_holds():
    np.testing.assert_allclose(
        thresholds(Schedule([0.1, 0.5]), np.zeros((3, 2)))[:, 0], [0.1, 0.5, 0.5, 0.5], atol=1e-8
    )
    asked = []

    def limits(steps):
        asked.append(steps.max())
        return 1.0 / (1.0 + steps)

    np.testing.assert_allclose(thresholds(Schedule(limits), np.zeros((2, 2)))[:, 1], [1.0, 0.5, 1 / 3], atol=1e-8)
    assert asked == [0, 1, 2]


def test_state_visits_charge_the_action_that_leads_there_and_the_first_state():
    constraint = StateVisits(2.0, unsafe=unsafe, discount=0.5)
    np.testing.assert_array_equal(constraint.first_signal(OBSERVATIONS), [0.0, 1.0])
    np.testing.assert_array_equal(constraint.signal(step(np.array([[3.0], [0.0]]))), [1.0, 0.0])
    # The first state has weight 1, the state that the first action leads to has weight γ.
    np.testing.assert_allclose(constraint.threshold(constraint.start(OBSERVATIONS)), [4.0, 2.0], atol=1e-8)
    assert not constraint.violated(np.array(1.0), np.array([1.0, 1.0]))
    assert StateVisits(1.7, unsafe, 0.5).violated(np.array(1.0), np.array([1.0, 1.0]))


def test_joint_chance_spends_the_bound_and_not_what_happened():
    found = thresholds(JointChance(0.3, unsafe), costs=[[1.0, 0.0]], bounds=[[0.1, 0.2]])
    np.testing.assert_allclose(found, [[0.3, -0.7], [0.2, -0.9]], atol=1e-8)


def test_margin_becomes_a_cost_with_threshold_one_half():
    constraint = Margin(scale=2.0)
    margins = constraint.signal(step(margin=[-1.0, 3.0]))
    np.testing.assert_allclose(constraint.normalise(margins), [0.75, 0.0])
    np.testing.assert_allclose(constraint.true_cost(margins), [1.0, 0.0])
    assert constraint.violated(np.array(0.0), margins)
    assert not constraint.violated(np.array(0.0), np.array([0.0, 0.1]))


def test_cost_max_scales_physical_units():
    constraint = Budget(20.0, cost_max=5.0)
    costs = constraint.normalise(constraint.signal(step(cost=[5.0, 1.0])))
    np.testing.assert_allclose(costs, [1.0, 0.2])
    np.testing.assert_allclose(thresholds(constraint, [costs])[1], [3.0, 3.8], atol=1e-8)
    assert not constraint.violated(np.array(0.0), np.array([5.0] * 4))
    assert constraint.violated(np.array(0.0), np.array([5.0] * 4 + [0.1]))


def test_all_of_has_an_axis_for_each_cost():
    constraint = AllOf(Budget(2.0), Instantaneous(0.5, cost="speed"), JointChance(0.3, unsafe))
    signals = constraint.signal(step(np.zeros((2, 1)), cost=[1.0, 0.5], speed=[0.1, 0.2]))
    np.testing.assert_allclose(signals, [[1.0, 0.1, 0.0], [0.5, 0.2, 0.0]])
    state = constraint.start(np.zeros((2, 1)))
    state = constraint.update(state, constraint.normalise(signals), np.full((2, 3), 0.1))
    np.testing.assert_allclose(constraint.threshold(state), [[1.0, 0.5, 0.2], [1.5, 0.5, 0.2]], atol=1e-8)
    assert constraint.violated(np.zeros(3), np.array([[0.0, 0.6, 0.0]]))
    assert not constraint.violated(np.zeros(3), np.array([[1.0, 0.5, 0.0], [1.0, 0.5, 0.0]]))


def test_a_cost_function_sees_the_whole_step():
    seen = []

    def cost(observations, actions, next_observations):
        seen.append((observations, actions, next_observations))
        return np.abs(next_observations[:, 0] - observations[:, 0]) / 10

    found = Budget(1.0, cost=cost).signal(step(np.array([[1.0], [0.0]])))
    np.testing.assert_allclose(found, [0.1, 0.2])
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget(-1.0), r"Budget\(limit=-1.0\) must be finite and at least 0"),
        (lambda: Budget(float("nan")), "must be finite"),
        (lambda: Budget(1.0, discount=1.2), r"Budget\(discount=1.2\) must lie in \(0, 1\]"),
        (lambda: Budget(1.0, cost_max=0.0), r"Budget\(cost_max=0.0\) must be finite and above 0"),
        (lambda: Instantaneous(-0.1), r"Instantaneous\(limit=-0.1\)"),
        (lambda: Schedule([-1.0]), "needs finite limits of at least 0"),
        (lambda: Schedule([]), "needs finite limits of at least 0 of shape"),
        (lambda: Schedule([[0.1]]), "needs finite limits of at least 0 of shape"),
        (lambda: StateVisits(1.0, unsafe=3), "must be a function of the observations"),
        (lambda: JointChance(1.5, unsafe), "not a probability"),
        (lambda: Margin(scale=-1.0), r"Margin\(scale=-1.0\)"),
        (lambda: AllOf(), "one or more simple constraints"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("constraint", "columns", "message"),
    [
        (
            Budget(1.0),
            {"cost": [0.2, 1.5]},
            r"environment 1 gave .*1.5.*: info\['cost'\] must lie in \[0, 1\]; .*cost_max",
        ),
        (Budget(1.0), {"cost": [np.nan, 0.5]}, r"environment 0 gave nan"),
        (Budget(1.0), {"cost": [-0.1, 0.5]}, "environment 0 gave .*-0.1"),
        (Margin(), {"margin": [0.0, np.inf]}, "environment 1 gave .*inf.*finite signed distance"),
        (Budget(1.0, cost=lambda *_: np.zeros(3)), {}, r"returned shape \(3,\), expected \(2,\)"),
        (StateVisits(1.0, unsafe=lambda _: np.zeros(2)), {}, "returned float64 of shape .* expected bool"),
    ],
)
def test_bad_signals_are_named(constraint, columns, message):
    with pytest.raises(ValueError, match=message):
        constraint.signal(step(**columns))


def test_the_limit_of_a_step_is_asked_for_once_and_holds():
    now = [0.5]
    constraint = Schedule(lambda steps: np.full(len(steps), now[0]), cost_max=2.0)
    state = constraint.start(OBSERVATIONS)
    now[0] = 1.0
    np.testing.assert_allclose(constraint.threshold(state), 0.25, atol=1e-8)
    np.testing.assert_allclose(constraint.threshold(constraint.update(state, np.zeros(2), np.ones(2))), 0.5, atol=1e-8)


def test_a_schedule_function_of_the_wrong_shape_is_named():
    constraint = Schedule(lambda steps: np.zeros(5))
    with pytest.raises(ValueError, match="one finite limit for each of the steps"):
        constraint.threshold(constraint.start(OBSERVATIONS))


def test_a_budget_of_zero_allows_costs_of_zero_only():
    constraint = Budget(0.0)
    (threshold, _) = constraint.threshold(constraint.start(OBSERVATIONS))
    assert 0.0 <= threshold <= TOLERANCE
    assert not constraint.violated(np.array(0.0), np.zeros(5))
    assert constraint.violated(np.array(0.0), np.array([0.0, 1e-6]))


def test_a_risk_of_one_constrains_nothing():
    assert np.all(thresholds(JointChance(1.0, unsafe), np.ones((3, 2))) >= 1)


def test_logged_margins_are_what_a_margin_reads():
    margins, costs = np.array([0.5, -0.5]), np.array([0.0, 1.0])
    np.testing.assert_array_equal(Margin().logged(costs, margins), margins)
    np.testing.assert_array_equal(Margin().logged(margins, None), margins)
    np.testing.assert_array_equal(Margin(key="gap").logged(costs, margins), margins)  # costs were made of them
    np.testing.assert_array_equal(Margin(key="gap").logged(np.array([0.2, 0.3]), margins), [0.2, 0.3])
    np.testing.assert_array_equal(Budget(3.0).logged(costs, margins), costs)
    both = AllOf(Budget(3.0), Margin()).logged(np.stack([costs, costs], axis=1), margins)
    np.testing.assert_array_equal(both, np.stack([costs, margins], axis=1))


@pytest.mark.parametrize(
    ("constraint", "shape", "message"),
    [
        (Budget(3.0), (4, 1), r"logged costs have shape \(4, 1\), expected \(n,\) for Budget"),
        (AllOf(Budget(3.0), Margin()), (4,), r"logged costs have shape \(4,\), expected \(n, 2\) for AllOf"),
        (AllOf(Budget(3.0), Margin()), (4, 3), r"shape \(4, 3\), expected \(n, 2\)"),
    ],
)
def test_logged_costs_of_another_shape_are_refused(constraint, shape, message):
    with pytest.raises(ValueError, match=message):
        constraint.logged(np.zeros(shape), None)


def test_a_cost_that_single_precision_rounded_up_is_the_largest():
    costs = Budget(5.0, cost_max=0.1).signal(step(cost=np.float32([0.1, 0.05])))
    assert costs.max() == 0.1


def test_a_cost_must_be_one_number():
    with pytest.raises(ValueError, match=r"info\['cost'\] has the shape \(1,\) at a step, expected a single number"):
        Budget(3.0).signal(step(cost=np.zeros((2, 1))))


def test_a_strongly_discounted_budget_does_not_overflow():
    constraint = Budget(20.0, discount=0.5)
    state = constraint.start(OBSERVATIONS)
    for _ in range(2000):
        state = constraint.update(state, np.ones(len(state)), np.ones(len(state)))
    assert (constraint.threshold(state) > 1).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget("3"), r"Budget\(limit='3'\) must be a number"),
        (lambda: Budget(None), r"Budget\(limit=None\) must be a number"),
        (lambda: Budget(3, "x"), r"Budget\(discount='x'\) must be a number"),
        (lambda: Budget(3, cost=5), r"Budget\(cost=5\) must be a key of the environment's info, or a function"),
        (lambda: Schedule({0: 0.5}), r"Schedule\(limits={0: 0.5}\) must be an array with one limit for every step"),
    ],
)
def test_settings_of_the_wrong_kind_are_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    "make", [partial(Budget, 1.0), partial(Instantaneous, 0.5), partial(Schedule, [0.5])], ids=["sum", "step", "steps"]
)
def test_every_constraint_on_a_cost_checks_where_it_comes_from_and_how_large_it_is(make):
    with pytest.raises(TypeError, match=r"cost=3\) must be a key of the environment's info, or a function"):
        make(cost=3)
    for cost_max in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"cost_max=.* must be finite and above 0"):
            make(cost_max=cost_max)
    with pytest.raises(TypeError, match=r"cost_max='1'.* must be a number"):
        make(cost_max="1")


@pytest.mark.parametrize("scale", [0.5, 1.0, 40.0])
def test_a_margin_is_judged_as_the_cost_that_it_becomes(scale):
    constraint, before = Margin(scale), np.array(0.0)
    assert not constraint.violated(before, np.array([3.0, -1.5e-7]) * scale)
    assert constraint.violated(before, np.array([3.0, -2.5e-7]) * scale)
