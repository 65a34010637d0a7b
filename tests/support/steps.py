"""Steps of two environments, and the thresholds of a constraint on the way."""

from __future__ import annotations

import numpy as np

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
