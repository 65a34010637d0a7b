"""Several constraints at once."""

from __future__ import annotations

import numpy as np

from safexp import AllOf, Budget, Instantaneous, JointChance
from support.steps import step, unsafe


def test_all_of_has_an_axis_for_each_cost():
    constraint = AllOf(Budget(2.0), Instantaneous(0.5, cost="speed"), JointChance(0.3, unsafe))
    signals = constraint.read(step(np.zeros((2, 1)), cost=[1.0, 0.5], speed=[0.1, 0.2]))
    np.testing.assert_allclose(signals, [[1.0, 0.1, 0.0], [0.5, 0.2, 0.0]])
    state = constraint.start(np.zeros((2, 1)))
    state = constraint.update(state, constraint.normalise(signals), np.full((2, 3), 0.1))
    np.testing.assert_allclose(constraint.threshold(state), [[1.0, 0.5, 0.2], [1.5, 0.5, 0.2]], atol=1e-8)
    assert constraint.violated(np.zeros(3), np.array([[0.0, 0.6, 0.0]]))
    assert not constraint.violated(np.zeros(3), np.array([[1.0, 0.5, 0.0], [1.0, 0.5, 0.0]]))
