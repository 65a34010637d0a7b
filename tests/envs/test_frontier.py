"""How far exploration got is counted from decisions and true signals, epoch by epoch."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import AllOf, Budget, Instantaneous, Known, Within
from support.line import guard_of, line_cost


def test_replaced_proposals_are_not_certified():
    guard = guard_of(Instantaneous(0.5), Known(line_cost), num_envs=2)
    guard.reset()
    guard.step(np.array([[0.2], [1.0]], dtype=np.float32))
    guard.step(np.array([[-0.4], [0.3]], dtype=np.float32))
    found = guard.frontier.take()
    assert (found["proposals"], found["proposals_certified"]) == (4, 3)
    assert 0.0 <= found["smallest_margin"] <= 0.1  # of the replacement or of -0.4
    assert guard.frontier.take() == {"proposals": 0, "proposals_certified": 0, "smallest_margin": None}


def test_what_the_user_vouches_for_is_not_certified():
    guard = guard_of(Instantaneous(0.5), Known(line_cost, width=10.0), safe_action=np.zeros(1, dtype=np.float32))
    guard.reset()
    guard.step(np.array([[0.2]], dtype=np.float32))
    found = guard.frontier.take()
    assert (found["proposals"], found["proposals_certified"], found["smallest_margin"]) == (1, 0, pytest.approx(0.5))


def test_without_a_shield_nothing_is_proposed_to_it():
    guard = guard_of(Instantaneous(0.5), Known(line_cost), shielding=False)
    guard.reset()
    guard.step(np.array([[0.9]], dtype=np.float32))
    found = guard.frontier.take()
    assert found["proposals"] == 0
    assert found["smallest_margin"] == pytest.approx(-0.4)


ROWS = np.array([[3.0], [-9.0]])


@pytest.mark.parametrize(
    ("constraint", "measured", "expected"),
    [
        (Within("x", low=-10.0, high=10.0), ROWS, [7.0, 1.0]),
        (Within("x", low=-8.0), ROWS, [11.0, -1.0]),
        (Within(("x", "y"), low=(-10.0, 0.0), high=(10.0, 4.0)), np.array([[3.0, 1.0], [0.0, 2.0]]), [0.5, 1.0]),
    ],
)
def test_margins_of_signals_are_in_their_units_or_of_several_in_scales(constraint, measured, expected):
    thresholds = np.repeat(constraint.threshold(constraint.start(measured[:1])), 2, axis=0)
    costs = constraint.normalise(constraint.by_side(measured))
    np.testing.assert_allclose(constraint.margins(costs, thresholds, measured), expected, atol=1e-6)


def test_margins_follow_a_schedule():
    constraint = Within("x", high={0: 10.0, 1: 4.0})
    state = constraint.start(ROWS[:1])
    later = constraint.update(state, np.zeros(1), np.zeros(1))
    assert constraint.margins(np.zeros(1), constraint.threshold(state), ROWS[:1]) == pytest.approx([7.0])
    assert constraint.margins(np.zeros(1), constraint.threshold(later), ROWS[:1]) == pytest.approx([1.0])


def test_margins_of_costs_are_what_remains():
    none = np.zeros((2, 0))
    costs, left = np.array([0.1, 0.25]), np.array([0.5, 0.5])
    np.testing.assert_allclose(Budget(5.0, cost_max=10.0).margins(costs, left, none), [4.0, 2.5])
    both = AllOf(Budget(5.0), Instantaneous(0.5))
    assert both.margins(np.array([[1.0, 0.4]]), np.array([[5.0, 0.5]]), none[:1]) == pytest.approx([0.1])
