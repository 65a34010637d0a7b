"""What every constraint promises to the guard, to the learner and to the judge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import AllOf, Budget, Instantaneous, JointChance, Margin, Penalty, Schedule, Shield, StateVisits, Unknown
from safexp.constraints import TOLERANCE
from safexp.core.costs import Step
from safexp.envs.guard import Guard
from support.line import Line

HERE = np.zeros((3, 1))


def unsafe(observations):
    return observations[:, 0] > 1


def guarded(constraint):
    venv = DummyVecEnv([Line])
    return Guard(venv, constraint, Shield(Unknown(), venv.observation_space, venv.action_space), Penalty())


@pytest.mark.parametrize(
    ("constraint", "shown"),
    [
        (Budget(3.0), True),
        (StateVisits(3.0, unsafe), True),
        (JointChance(1.0, unsafe), True),
        (Schedule([1.0]), True),
        (Instantaneous(1.0), False),
        (Margin(), False),
        (AllOf(Instantaneous(1.0), StateVisits(3.0, unsafe)), True),
        (AllOf(Instantaneous(1.0), Instantaneous(1.0)), False),
    ],
)
def test_the_learner_sees_what_remains_where_the_past_decides(constraint, shown):
    assert constraint.in_observation is shown
    extra = np.size(constraint.largest_threshold) if shown else 0
    assert guarded(constraint).observation_space.shape == (1 + extra,)


@pytest.mark.parametrize("limit", [0.0, 0.5, 1.0, 7.0])
@pytest.mark.parametrize("make", [Budget, lambda limit: StateVisits(limit, unsafe)])
def test_what_remains_is_shown_as_a_share_of_the_limit_and_a_limit_of_zero_as_nothing(make, limit):
    constraint = make(limit)
    assert constraint.largest_threshold == max(limit, 1.0)
    start = constraint.threshold(constraint.start(HERE))
    np.testing.assert_allclose(start, limit, atol=2 * TOLERANCE)
    seen = guarded(constraint).shown(HERE, start)
    assert np.isfinite(seen).all()
    np.testing.assert_allclose(seen[:, 1], min(limit, 1.0), atol=1e-6)


@pytest.mark.parametrize("limit", [0.5, 4.0])
def test_a_budget_in_physical_units_is_shown_as_a_share_too(limit):
    constraint = Budget(limit, cost_max=2.0)
    assert constraint.largest_threshold == max(limit / 2.0, 1.0)
    assert AllOf(constraint, Margin()).largest_threshold.tolist() == [max(limit / 2.0, 1.0), 1.0]


@pytest.mark.parametrize("make", [lambda d: Budget(2.0, d), lambda d: StateVisits(2.0, unsafe, d)])
@pytest.mark.parametrize("discount", [0.0, -0.5, 1.0001, np.nan, np.inf])
def test_a_discount_lies_above_zero_and_at_most_at_one(make, discount):
    with pytest.raises(ValueError, match=rf"discount={discount}\) must lie in \(0, 1\]"):
        make(discount)


@pytest.mark.parametrize("make", [lambda d: Budget(2.0, d), lambda d: StateVisits(2.0, unsafe, d)])
def test_only_a_discounted_limit_grows(make):
    assert not make(1.0).grows
    assert make(0.5).grows
    assert AllOf(make(0.5), Instantaneous(0.5)).grows
    assert AllOf(Instantaneous(0.5), make(0.5)).grows
    assert not AllOf(make(1.0), Instantaneous(0.5)).grows
    discounted = make(0.5)
    after = discounted.update(discounted.start(HERE), np.zeros(3), np.zeros(3))
    assert (discounted.threshold(after) > discounted.largest_threshold).all()


def test_what_several_constraints_are_together():
    limit, budget, chance = Instantaneous(0.5), Budget(2.0), JointChance(0.3, unsafe)
    assert AllOf(limit, limit).on_every_step
    assert not AllOf(limit, budget).on_every_step
    assert AllOf(limit, chance).on_realised_cost
    assert not AllOf(chance, chance).on_realised_cost
    assert AllOf(budget, limit, chance).memory == 3
    for constraint, every_step in ((Margin(), True), (Schedule([1.0]), True), (limit, True), (budget, False)):
        assert constraint.on_every_step is every_step
        assert constraint.on_realised_cost
    assert (chance.on_realised_cost, chance.on_every_step) == (False, False)
    with pytest.raises(ValueError, match="one or more simple constraints"):
        AllOf(AllOf(limit), budget)
    with pytest.raises(ValueError, match="one or more simple constraints"):
        AllOf(limit, 3)


COSTS = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def played(constraint, costs, bounds=None):
    """Run one episode while its costs keep the thresholds; returns the costs that were run and the last state."""
    state, run = constraint.start(np.zeros((1, 1))), []
    for k, cost in enumerate(costs):
        if cost > constraint.threshold(state)[0]:
            break
        run.append(cost)
        bound = np.array([cost if bounds is None else bounds[k]])
        state = constraint.update(state, np.array([cost]), bound)
    return np.array(run), state


@given(COSTS, st.floats(0, 5), st.sampled_from([1.0, 0.9, 0.5]))
def test_costs_within_their_thresholds_are_never_judged_a_violation_and_one_beyond_is(costs, limit, discount):
    constraint = Budget(limit, discount)
    run, state = played(constraint, costs)
    assert not constraint.violated(np.array(0.0), run)
    beyond = constraint.threshold(state)[0] + 1e-6 / state[0, 1]  # by more than the judge's tolerance, discounted
    assert constraint.violated(np.array(0.0), np.append(run, beyond))


@given(COSTS, st.floats(0.0, 1.0), st.floats(0.5, 3.0))
def test_a_limit_on_every_step_judges_each_by_itself(costs, limit, cost_max):
    constraint = Instantaneous(limit, cost_max=cost_max)
    signals = np.array(costs)
    assume(not ((signals > limit) & (signals < limit + 1e-6)).any())  # where rounding decides
    within = constraint.normalise(signals) <= constraint.threshold(np.zeros((len(costs), 0)))
    assert constraint.violated(np.array(0.0), signals) == (not within.all())
    steps = Schedule(np.full(3, limit), cost_max=cost_max)
    assert steps.violated(np.array(0.0), signals) == (not within.all())


def test_a_schedule_judges_each_step_by_its_own_limit():
    constraint = Schedule([0.1, 0.5, 0.3])
    assert not constraint.violated(np.array(0.0), np.array([0.1, 0.5, 0.3, 0.3]))
    for step, cost in ((0, 0.2), (1, 0.6), (2, 0.4), (3, 0.4)):
        costs = np.zeros(4)
        costs[step] = cost
        assert constraint.violated(np.array(0.0), costs)


def test_a_chance_is_broken_by_one_visit_wherever_it_happens():
    constraint = JointChance(0.5, unsafe)
    assert not constraint.violated(np.array(0.0), np.zeros(3))
    assert constraint.violated(np.array(1.0), np.zeros(3))
    assert constraint.violated(np.array(0.0), np.array([0.0, 0.0, 1.0]))
    assert JointChance(0.0, unsafe).threshold(np.zeros((1, 1)))[0] <= TOLERANCE
    with pytest.raises(ValueError, match=r"risk=-0.1"):
        JointChance(-0.1, unsafe)


def test_visits_count_the_first_state_like_any_other():
    constraint = StateVisits(1.0, unsafe)
    assert not constraint.violated(np.array(1.0), np.array([0.0]))
    assert constraint.violated(np.array(1.0), np.array([1.0]))
    assert constraint.violated(np.array(0.0), np.array([1.0, 1.0]))
    start = constraint.start(np.array([[0.0], [2.0]]))
    np.testing.assert_allclose(constraint.threshold(start), [1.0, 0.0], atol=2 * TOLERANCE)


@given(st.floats(-3, 3), st.floats(0.1, 5.0))
def test_a_margin_is_safe_exactly_where_it_is_not_negative(margin, scale):
    constraint = Margin(scale)
    cost = constraint.normalise(np.array([margin]))
    assert 0.0 <= cost[0] <= 1.0
    if abs(margin) > 1e-6 * scale:
        assert (cost[0] <= constraint.threshold(np.zeros((1, 0)))[0]) == (margin > 0)
        assert constraint.violated(np.array(0.0), np.array([margin])) == (margin < 0)
    assert constraint.true_cost(np.array([margin]))[0] == max(-margin, 0.0)


def test_tolerances_are_for_rounding_alone():
    assert 0 < TOLERANCE <= 1e-8
    for constraint in (Budget(0.5), Instantaneous(0.5), Schedule([0.5])):
        assert not constraint.violated(np.array(0.0), np.array([0.5]))
        assert not constraint.violated(np.array(0.0), np.array([0.5 + TOLERANCE / 2]))
        assert constraint.violated(np.array(0.0), np.array([0.5 + 2e-7]))
    assert Margin().violated(np.array(0.0), np.array([-4e-7]))


@pytest.mark.parametrize("key", ["cost", "speed"])
def test_a_cost_is_read_from_its_own_key(key):
    step = Step(HERE, HERE, HERE, lambda asked: np.full(3, {"cost": 0.1, "speed": 0.2}[asked]))
    for constraint in (Budget(1.0, cost=key), Instantaneous(1.0, cost=key), Schedule([1.0], cost=key)):
        np.testing.assert_array_equal(constraint.read(step), {"cost": 0.1, "speed": 0.2}[key])


@pytest.mark.parametrize("value", [True, "1", None, [1.0]])
def test_a_limit_is_a_number_and_no_flag(value):
    for make in (Budget, Instantaneous, lambda limit: StateVisits(limit, unsafe)):
        with pytest.raises(TypeError, match="must be a number"):
            make(value)


def test_numbers_of_numpy_are_numbers():
    assert Budget(np.float32(2.0)).largest_threshold == 2.0
    assert Budget(np.int64(2)).largest_threshold == 2.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Instantaneous(np.inf),
        lambda: Instantaneous(0.5, cost_max=np.inf),
        lambda: Instantaneous(0.5, cost_max=-1.0),
        lambda: Budget(1.0, cost_max=np.nan),
        lambda: Budget(np.inf),
        lambda: StateVisits(-1.0, unsafe),
        lambda: Margin(0.0),
        lambda: Margin(np.inf),
        lambda: Schedule([0.5], cost_max=0.0),
        lambda: Schedule([0.5, np.inf]),
        lambda: Schedule([0.5, np.nan]),
        lambda: JointChance(np.nan, unsafe),
        lambda: JointChance(0.5, "unsafe"),
    ],
)
def test_settings_that_limit_nothing_are_refused(make):
    with pytest.raises(ValueError, match=r"must be|needs"):
        make()


@pytest.mark.parametrize("limits", [lambda steps: np.full(len(steps), np.nan), lambda steps: 0.5])
def test_a_schedule_function_must_give_a_limit_for_each_step(limits):
    with pytest.raises(ValueError, match="one finite limit for each of the steps"):
        Schedule(limits).start(np.zeros((2, 1)))


@pytest.mark.parametrize("constraint", [Budget(0.3), Instantaneous(0.3), Schedule([0.3])])
def test_a_cost_that_just_meets_its_threshold_is_no_violation(constraint):
    largest = constraint.threshold(constraint.start(HERE))[:1]
    assert not constraint.violated(np.array(0.0), largest)


def test_several_costs_are_columns():
    constraint = AllOf(Budget(3.0, cost_max=2.0), Margin(2.0), Instantaneous(0.5))
    signals = np.array([[1.0, -1.0, 0.25], [2.0, 3.0, 0.5]])
    np.testing.assert_allclose(constraint.true_cost(signals), [[1.0, 1.0, 0.25], [2.0, 0.0, 0.5]])
    np.testing.assert_allclose(constraint.normalise(signals), [[0.5, 0.75, 0.25], [1.0, 0.0, 0.5]])
    assert constraint.first_signal(HERE).shape == (3, 3)
    assert constraint.start(HERE).shape == (3, constraint.memory)
    assert constraint.threshold(constraint.start(HERE)).shape == (3, 3)
