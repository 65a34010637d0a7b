"""Where a stop takes over and where it hands back, to the last unit, and what it needs of a budget."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import AllOf, Budget
from safexp.backups.recovery import Fallback, Reset, short_of
from support.line import Line

HERE = np.zeros((3, 1))


def stop_of(needed, **options):
    return Fallback(lambda seen: np.zeros((len(seen), 1)), lambda seen: np.full(len(seen), needed), **options)


def check(stop, *limits):
    venv = DummyVecEnv([Line])
    constraint = Budget(limits[0]) if len(limits) == 1 else AllOf(*map(Budget, limits))
    stop.check(constraint, venv)


@pytest.mark.parametrize("driving", [False, True])
def test_it_takes_over_just_where_the_way_out_and_the_reserve_are_no_longer_covered(driving):
    stop = stop_of(2.0, reserve=3.0, spare=4.0)
    least = 1 + 2.0 + 3.0 + (4.0 if driving else 0.0)
    remaining = np.array([least + 0.5, least, least - 0.5])
    np.testing.assert_array_equal(stop.takes_over(HERE, remaining, np.full(3, driving)), [False, False, True])


@pytest.mark.parametrize("needed", [0.0, -1.0])
def test_where_the_way_out_costs_nothing_it_never_drives(needed):
    assert not stop_of(needed).takes_over(HERE, np.zeros(3), np.ones(3, dtype=bool)).any()


def test_a_way_out_that_is_no_number_is_not_covered():
    assert stop_of(np.nan).takes_over(HERE, np.full(3, 100.0), np.zeros(3, dtype=bool)).all()


def test_of_several_budgets_each_must_cover_its_own_way_out():
    needed = np.array([[1.0, 0.0], [1.0, 5.0], [0.0, 0.0]])
    remaining = np.array([[3.0, -9.0], [3.0, 5.0], [0.0, 0.0]])
    np.testing.assert_array_equal(short_of(needed, remaining, np.ones(3)), [False, True, False])
    one_bound = Fallback(lambda seen: HERE, lambda seen: np.ones(3), reserve=1.0)
    nobody = np.zeros(3, dtype=bool)
    np.testing.assert_array_equal(
        one_bound.takes_over(HERE, np.array([[3.0, 3.0], [3.0, 2.5], [2.5, 3.0]]), nobody), [False, True, True]
    )


def test_a_bound_of_another_shape_is_named():
    stop = Fallback(lambda seen: HERE, lambda seen: np.zeros(2))
    with pytest.raises(ValueError, match=r"way_out returned shape \(2,\), expected \(3,\)"):
        stop.takes_over(HERE, np.full(3, 9.0), np.zeros(3, dtype=bool))


@pytest.mark.parametrize(("braking", "reserve"), [(0.0, 2.0), (2.0, 0.0), (2.0, 3.0)])
def test_a_fallback_needs_a_budget_beyond_braking_and_reserve(braking, reserve):
    stop = stop_of(1.0, braking=braking, reserve=reserve)
    kept = 1 + braking + reserve
    with pytest.raises(
        ValueError, match=rf"begins at {kept:g} times the largest cost of a step, and {kept:g} are kept"
    ):
        check(stop, kept)
    check(stop, kept + 0.01)
    with pytest.raises(ValueError, match="leaves no"):
        check(stop, 50.0, kept)


def test_braking_needs_a_budget_of_its_own():
    with pytest.raises(ValueError, match=r"braking=2 leaves nothing of Budget.*must be 3 or more"):
        check(Reset(braking=2.0), 2.99)
    check(Reset(braking=2.0), 3.0)
    check(Reset(), 0.5)
    with pytest.raises(ValueError, match="leaves nothing of AllOf"):
        check(Reset(braking=2.0), 9.0, 2.99)


@pytest.mark.parametrize("name", ["braking", "penalty"])
@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_what_a_stop_costs_is_finite_and_not_negative(name, value):
    for make in (Reset, lambda **options: stop_of(1.0, **options)):
        with pytest.raises(ValueError, match=rf"{name}={value}\) must be finite and at least 0"):
            make(**{name: value})
    assert getattr(Reset(**{name: 0.0}), name) == 0.0


@pytest.mark.parametrize("options", [{"reserve": -1.0}, {"spare": -1.0}, {"reserve": np.inf}, {"spare": np.nan}])
def test_what_is_kept_is_finite_and_not_negative(options):
    with pytest.raises(ValueError, match=r"Fallback\(reserve=.*must be finite and at least 0"):
        stop_of(1.0, **options)
    stop_of(1.0, reserve=0.0, spare=0.0)


def test_a_reset_never_drives():
    reset = Reset()
    assert not reset.takes_over(HERE, np.zeros(3), np.ones(3, dtype=bool)).any()
    with pytest.raises(RuntimeError, match="never takes over"):
        reset.act(HERE)
    assert (reset.metrics(), reset.state(), reset.learning) == ({}, {}, True)


def test_the_defaults_are_those_of_the_documentation():
    stop = Fallback(lambda seen: HERE, lambda seen: np.zeros(3))
    assert (stop.reserve, stop.spare, stop.braking, stop.penalty) == (5.0, 2.0, 0.0, 0.0)
    assert (Reset().braking, Reset().penalty) == (0.0, 0.0)


def test_a_fallback_that_cannot_brake_says_so_first():
    with pytest.raises(ValueError, match="braking=2 leaves nothing of Budget"):
        check(stop_of(1.0, braking=2.0, reserve=1.0), 2.5)
