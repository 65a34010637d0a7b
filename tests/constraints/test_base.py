"""Settings, signals and logged costs of every constraint, and the errors of bad ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from safexp import AllOf, Budget, Instantaneous, JointChance, Margin, Schedule, StateVisits
from support.steps import step, unsafe


def test_a_cost_function_sees_the_whole_step():
    seen = []

    def cost(observations, actions, next_observations):
        seen.append((observations, actions, next_observations))
        return np.abs(next_observations[:, 0] - observations[:, 0]) / 10

    found = Budget(1.0, cost=cost).read(step(np.array([[1.0], [0.0]])))
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
        (lambda: Margin(scale=-1.0), r"Within\(scale=-1.0\)"),
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
        (Margin(), {"margin": [0.0, np.inf]}, "environment 1 gave .*inf.*finite number"),
        (Budget(1.0, cost=lambda *_: np.zeros(3)), {}, r"returned shape \(3,\), expected \(2,\)"),
        (StateVisits(1.0, unsafe=lambda _: np.zeros(2)), {}, "returned float64 of shape .* expected bool"),
    ],
)
def test_bad_signals_are_named(constraint, columns, message):
    with pytest.raises(ValueError, match=message):
        constraint.read(step(**columns))


def test_a_cost_that_single_precision_rounded_up_is_the_largest():
    costs = Budget(5.0, cost_max=0.1).read(step(cost=np.float32([0.1, 0.05])))
    assert costs.max() == 0.1


def test_a_cost_must_be_one_number():
    with pytest.raises(ValueError, match=r"info\['cost'\] has the shape \(1,\) at a step, expected a single number"):
        Budget(3.0).read(step(cost=np.zeros((2, 1))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget("3"), r"Budget\(limit='3'\) must be a number"),
        (lambda: Budget(None), r"Budget\(limit=None\) must be a number"),
        (lambda: Budget(3, "x"), r"Budget\(discount='x'\) must be a number"),
        (lambda: Budget(3, cost=5), r"Budget\(cost=5\) must be a key of the environment's info or a function"),
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
    with pytest.raises(TypeError, match=r"cost=3\) must be a key of the environment's info or a function"):
        make(cost=3)
    for cost_max in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"cost_max=.* must be finite and above 0"):
            make(cost_max=cost_max)
    with pytest.raises(TypeError, match=r"cost_max='1'.* must be a number"):
        make(cost_max="1")
