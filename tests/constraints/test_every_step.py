"""Limits on every step: thresholds by hand, and how they are judged."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import Instantaneous, Margin, Schedule
from safexp.constraints import TOLERANCE
from support.steps import OBSERVATIONS, step, thresholds


def test_instantaneous_threshold_never_moves():
    found = thresholds(Instantaneous(0.3), [[0.1, 0.2], [0.3, 0.0]])
    np.testing.assert_allclose(found, 0.3, atol=2 * TOLERANCE)


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


def test_margin_becomes_a_cost_with_threshold_one_half():
    constraint = Margin(scale=2.0)
    margins = constraint.read(step(margin=[-1.0, 3.0]))
    np.testing.assert_allclose(constraint.normalise(margins), [0.75, 0.0])
    np.testing.assert_allclose(constraint.true_cost(margins), [1.0, 0.0])
    assert constraint.violated(np.array(0.0), margins)
    assert not constraint.violated(np.array(0.0), np.array([0.0, 0.1]))


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


@pytest.mark.parametrize("scale", [0.5, 1.0, 40.0])
def test_a_margin_is_judged_as_the_cost_that_it_becomes(scale):
    constraint, before = Margin(scale), np.array(0.0)
    assert not constraint.violated(before, np.array([3.0, -1.5e-7]) * scale)
    assert constraint.violated(before, np.array([3.0, -2.5e-7]) * scale)
