"""Limits on measured signals: which sides there are, what they cost, and when they are violated."""

import numpy as np
import pytest

from safexp import AllOf, Budget, Margin, Within
from safexp.constraints import Account
from safexp.constraints.files import build_constraint, describe_constraint
from safexp.constraints.parse import parse_within
from safexp.core.costs import SignalError, Step


def step(following, **info):
    following = np.asarray(following, dtype=np.float64)
    return Step(np.zeros_like(following), np.zeros((len(following), 1)), following, lambda key: np.asarray(info[key]))


def test_a_limit_on_both_sides_is_two_costs_and_never_folded():
    constraint = Within(1, low=-100.0, high=100.0)
    signals = constraint.read(step([[0.0, 100.0], [0.0, -50.0], [0.0, -120.0]]))
    np.testing.assert_array_equal(signals, [[100, 100], [-50, -50], [-120, -120]])
    np.testing.assert_allclose(constraint.normalise(signals), [[0.5, 0.0], [0.0, 0.25], [0.0, 0.6]])
    np.testing.assert_allclose(constraint.threshold(constraint.start(np.zeros((2, 2)))), 0.5)


def test_one_side_has_the_shapes_of_any_other_constraint():
    constraint = Within("level", high=2.0)
    signals = constraint.read(step([[0.0], [0.0]], level=[1.0, 3.0]))
    np.testing.assert_allclose(constraint.normalise(signals), [0.25, 0.75])
    assert constraint.num_costs == 1
    assert constraint.violated(np.zeros(()), np.array([1.0, 2.1]))
    assert not constraint.violated(np.zeros(()), np.array([1.0, 2.0]))


def test_a_margin_is_the_special_case():
    constraint = Margin(8.0)
    assert constraint == Within("margin", low=0.0, scale=8.0)
    np.testing.assert_allclose(constraint.normalise(np.array([-1.0, 4.0])), [0.5625, 0.25])
    np.testing.assert_array_equal(constraint.true_cost(np.array([-1.0, 3.0])), [1.0, 0.0])


def test_signals_are_read_from_keys_entries_functions_and_the_info():
    observations = {"speed": np.array([[1.0], [2.0]]), "rest": np.zeros((2, 3))}
    vector_step = Step(observations, np.zeros((2, 1)), observations, lambda key: np.array([5.0, 6.0]))
    constraint = Within(("speed", lambda seen: seen["rest"].sum(axis=1), "heat"), high=10.0)
    np.testing.assert_array_equal(constraint.measured(vector_step), [[1, 0, 5], [2, 0, 6]])
    np.testing.assert_array_equal(constraint.now(observations)[:, :2], [[1, 0], [2, 0]])
    assert np.isnan(constraint.now(observations)[:, 2]).all()


def test_limits_of_each_signal():
    constraint = Within((0, 1), low=(-1.0, -2.0), high=3.0)
    np.testing.assert_array_equal(constraint.sides.which, [0, 1, 0, 1])
    np.testing.assert_array_equal(constraint.sides.reference, [3.0, 3.0, -1.0, -2.0])
    np.testing.assert_array_equal(constraint.sides.scale, [2.0, 2.5, 2.0, 2.5])


@pytest.mark.parametrize("high", [{0: 1.0, 2: 0.5}, lambda steps: np.where(steps < 2, 1.0, 0.5)])
def test_a_schedule_tightens_when_its_step_comes(high):
    constraint = Within(0, high=high, scale=1.0)
    account = Account(constraint, 1)
    account.open(np.ones(1, dtype=bool), np.zeros((1, 1)))
    thresholds = [account.thresholds.item()]
    for _ in range(3):
        account.charge(np.zeros(1), np.zeros(1))
        thresholds.append(account.thresholds.item())
    np.testing.assert_allclose(thresholds, [0.5, 0.5, 0.25, 0.25])
    assert not constraint.violated(np.zeros(()), np.array([0.9, 0.9, 0.4]))
    assert constraint.violated(np.zeros(()), np.array([0.9, 0.9, 0.6]))
    np.testing.assert_allclose(constraint.true_cost(np.array([1.2, 0.9, 0.6])), [0.2, 0.0, 0.1])


def test_a_schedule_is_judged_by_what_it_said_when_the_step_came():
    said = iter([1.0, 1.0])
    constraint = Within(0, high=lambda steps: np.full(len(steps), next(said)), scale=1.0)
    settled = constraint.settled(np.array([1.0, 0.5]))
    assert settled.violated(np.zeros(()), np.array([0.9, 0.6]))


def test_a_schedule_that_leaves_its_scale_is_refused():
    constraint = Within(0, high=lambda steps: 1.0 + 5.0 * steps, scale=1.0)
    with pytest.raises(ValueError, match="give a larger scale"):
        constraint.threshold(constraint.update(constraint.start(np.zeros((1, 1))), np.zeros(1), np.zeros(1)))


def test_all_of_puts_limits_side_by_side():
    constraint = AllOf(Within(0, low=-1.0, high=1.0), Budget(3.0))
    assert constraint.num_costs == 3
    signals = constraint.read(step([[0.5], [-2.0]], cost=[0.0, 1.0]))
    np.testing.assert_array_equal(signals, [[0.5, 0.5, 0.0], [-2.0, -2.0, 1.0]])
    np.testing.assert_allclose(constraint.normalise(signals), [[0.25, 0.75 - 0.5, 0.0], [0.0, 1.0, 1.0]], atol=1.0)
    np.testing.assert_allclose(constraint.normalise(signals)[:, :2], [[0.25, 0.0], [0.0, 1.0]])
    assert constraint.violated(np.zeros(3), signals)
    assert not constraint.violated(np.zeros(3), signals[:1])
    memory = constraint.update(constraint.start(np.zeros((2, 1))), constraint.normalise(signals), np.zeros((2, 3)))
    np.testing.assert_allclose(constraint.threshold(memory), [[0.5, 0.5, 3.0], [0.5, 0.5, 2.0]])


def test_an_unreadable_step_counts_as_a_violation():
    constraint = Within(0, low=-1.0, high=1.0)
    with pytest.raises(SignalError, match="observation\\[0\\] must be a finite number"):
        constraint.read(step([[np.nan]]))
    assert np.isnan(constraint.salvage(step([[np.nan]]))).all()
    assert constraint.violated(np.zeros(2), np.asarray(constraint.worst_signal)[None])


@pytest.mark.parametrize(
    "constraint",
    [
        Within("current", -100.0, 100.0),
        Within((0, "heat"), high=(1.0, 2.0)),
        Within(3, low={0: 1.0, 10: 2.0}),
        Margin(2.0),
    ],
)
def test_files_hold_it(constraint):
    import json

    found = build_constraint(json.loads(json.dumps(describe_constraint(constraint))))
    for mine, theirs in zip(constraint.sides, found.sides, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert found.sources == constraint.sources


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"signal": 0}, "limits nothing: give low, high, or both"),
        ({"signal": (), "high": 1.0}, "has no signal"),
        ({"signal": 0, "low": 2.0, "high": 1.0}, r"low=2, high=1\) allows no value of observation"),
        ({"signal": 0, "high": np.inf}, "must be finite"),
        ({"signal": 0, "high": [1.0, 2.0]}, "expected one limit, or one for each of the 1 signals"),
        ({"signal": 0, "high": {5: 1.0}}, "starting at step 0"),
        ({"signal": 0, "high": lambda steps: np.ones(len(steps))}, "give scale="),
        ({"signal": 0, "high": 1.0, "scale": 0.0}, r"scale=0.0\) must be finite and above 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Within(**settings)


def test_what_names_no_signal():
    with pytest.raises(TypeError, match="index of an entry of the observation"):
        Within(1.5, high=1.0)
    with pytest.raises(ValueError, match="observations have 2 entries"):
        Within(7, high=1.0).now(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="expected \\(3,\\): one number for each"):
        Within(lambda seen: seen, high=1.0).now(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("current:-100:100", Within("current", -100.0, 100.0)),
        ("temperature::335", Within("temperature", high=335.0)),
        ("clearance:0.05:", Within("clearance", low=0.05)),
        ("2:-1:1", Within(2, -1.0, 1.0)),
        (" level : 1e-3 : ", Within("level", low=0.001)),
        ("level:0:4,50=3,90=2", Within("level", low=0.0, high={0: 4.0, 50: 3.0, 90: 2.0})),
    ],
)
def test_limits_from_the_command_line(text, expected):
    assert parse_within(text) == expected


@pytest.mark.parametrize(
    "text", ["current", "current:1", "current:a:b", "current:1:2:3", ":0:1", "level::4,3", "level::4,x=3"]
)
def test_limits_from_the_command_line_that_are_none(text):
    with pytest.raises(ValueError, match=r"is not name:low:high, such as current:-100:100"):
        parse_within(text)


def test_a_margin_may_be_a_function_of_the_observations():
    constraint = Margin(2.0, key=lambda observations: 1.0 - np.abs(observations[:, 0]))
    np.testing.assert_allclose(constraint.now(np.array([[0.25], [-3.0]]))[:, 0], [0.75, -2.0])
    assert constraint.violated(np.zeros(()), np.array([0.5, -0.1]))
    assert not constraint.violated(np.zeros(()), np.array([0.5, 0.0]))


def test_distances_of_costs_in_the_units_of_the_signals():
    assert Within("current", -100.0, 100.0).in_units(0.1) == (20.0, 20.0)
    assert AllOf(Budget(3.0, cost_max=5.0), Within("level", high=4.0)).in_units(0.1) == pytest.approx((0.5, 0.8))


def test_the_clearance_of_an_episode_is_its_smallest_distance_to_a_limit():
    assert Within("heat", low=-1.0, high=4.0).clearance(np.array([[1.0, 1.0], [3.5, 3.5], [2.0, 2.0]])) == 0.5
    assert Within("heat", high=4.0).clearance(np.array([1.0, 4.5])) == -0.5
    assert Within("heat", high={0: 4.0, 1: 3.0}).clearance(np.array([2.5, 2.5])) == 0.5
    both = Within(("heat", "speed"), high=[10.0, 2.0])  # as shares of their scales, 10 and 2
    assert both.clearance(np.array([[9.0, 1.0], [5.0, 1.5]])) == pytest.approx(0.1)
    assert Within("heat", high=4.0).clearance(np.empty(0)) is None
    assert Budget(4.0).clearance(np.ones(3)) is None
