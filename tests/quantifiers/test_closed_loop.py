"""Paths of linear machines in one product equal those step by step, wherever the backup saturates or is not linear."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.quantifiers.closed_loop import ClosedLoop, linear_gains, through_backup
from safexp.quantifiers.replays import Course

A = np.array([[1.0, 0.0], [0.1, 0.95]])
B, C = np.array([[0.005, 0.1]]), np.array([0.001, -0.002])
GAINS = np.array([[-0.6], [-1.2], [0.05]])


def step(states, actions):
    return states @ A + actions @ B + C


def course(low=-1.0, high=1.0, hold=0, bend=0.0):
    calls = []

    def act(states):
        calls.append(len(states))
        return np.clip(states @ GAINS[:2] + GAINS[2] + bend * states[:, :1] ** 2, low, high)

    found = Course(act, lambda path: path[..., :1], 15, np.array([low]), np.array([high]), hold)
    return found, calls


def asked(rng, n=40):
    return rng.normal(size=(n, 2)) * [0.5, 0.3], rng.uniform(-1, 1, (n, 1))


@pytest.mark.parametrize("hold", [0, 4])
@pytest.mark.parametrize(("limit", "bend"), [(5.0, 0.0), (0.3, 0.0), (1e-3, 0.0), (5.0, 0.2)])
def test_a_path_equals_the_one_step_by_step(limit, bend, hold):
    backup, _ = course(-limit, limit, hold, bend)
    loop = ClosedLoop((A, B, C), GAINS, backup)
    states, actions = asked(np.random.default_rng(0))
    fast = through_backup(step, backup, loop, states, actions)
    slow = through_backup(step, backup, None, states, actions)
    np.testing.assert_allclose(fast.states, slow.states, rtol=0, atol=1e-13)
    np.testing.assert_allclose(fast.actions, slow.actions, rtol=0, atol=1e-12)


def test_a_linear_backup_is_asked_once_and_a_saturated_one_step_by_step_for_those_rows_alone():
    states, actions = asked(np.random.default_rng(1))
    backup, calls = course(-5.0, 5.0)
    through_backup(step, backup, ClosedLoop((A, B, C), GAINS, backup), states, actions)
    assert calls == [15 * 40]
    backup, calls = course(-0.3, 0.3)
    through_backup(step, backup, ClosedLoop((A, B, C), GAINS, backup), states, actions)
    assert len(calls) == 1 + 15 and 0 < calls[1] < 40


def test_wrong_gains_cost_time_and_change_nothing():
    backup, calls = course(-5.0, 5.0)
    states, actions = asked(np.random.default_rng(2))
    fast = through_backup(step, backup, ClosedLoop((A, B, C), 1.5 * GAINS, backup), states, actions)
    assert len(calls) == 1 + 15
    slow = through_backup(step, backup, None, states, actions)
    np.testing.assert_array_equal(fast.states, slow.states)


def test_a_path_that_diverges_is_left_to_the_steps():
    wild = (300.0 * np.eye(2), B, C)
    backup, _ = course()
    loop = ClosedLoop(wild, GAINS, backup._replace(horizon=200))

    def far(states, actions):
        return states @ wild[0] + actions @ B + C

    states, actions = asked(np.random.default_rng(3))
    found = through_backup(far, backup._replace(horizon=200), loop, states, actions)
    slow = through_backup(far, backup._replace(horizon=200), None, states, actions)
    np.testing.assert_array_equal(found.states, slow.states)
    assert not np.isfinite(found.states[-1]).any()


def test_gains_are_found_beside_saturation_and_not_where_the_backup_is_curved():
    states = np.random.default_rng(4).normal(size=(900, 2)) * [0.5, 0.3]
    saturating, _ = course(-0.7, 0.7)
    np.testing.assert_allclose(linear_gains(saturating.act, states), GAINS, atol=1e-10)
    curved, _ = course(bend=0.1)
    assert linear_gains(curved.act, states) is None
    assert linear_gains(lambda some: np.tanh(some[:, :1]), states) is None
    assert linear_gains(lambda some: np.full((len(some), 1), np.nan), states) is None


def test_large_states_go_step_by_step():
    backup, _ = course()
    assert ClosedLoop.small((A, B, C), backup)
    assert not ClosedLoop.small((np.eye(200), np.zeros((1, 200)), np.zeros(200)), backup)
