"""The paper's claim that exploring Q by optimism explores the cost as well, and a case where it does not."""

from __future__ import annotations

import numpy as np

from safexp.studies.finite.glm_mase import GLMMASE, GLMMASESettings
from safexp.studies.finite.linear_mdp import LinearCMDP

POOR, TEACHER, BEST = range(3)


def bandit() -> LinearCMDP:
    """One state and one step. The poor action is the safe seed; the best one is safe, but not known to be.

    The teacher is certified from the start and tells the cost's weight along the first axis, all that keeps the best
    action from being certified. It pays nothing, and its small feature leaves little to be optimistic about.
    """
    features = np.array([[[0.0, 0.5], [0.1, 0.0], [0.6, 0.8]]])
    return LinearCMDP(
        features,
        measures=np.ones((2, 1)),
        reward_weights=np.array([0.0, 1.0]),
        cost_weights=np.array([0.6, 0.1]),
        thresholds=np.array([0.55]),
    )


def actions_taken(*, forced: bool) -> np.ndarray:
    settings = GLMMASESettings(forced_exploration=forced, margin=0.1)
    learner = GLMMASE(bandit(), settings, np.random.default_rng(0))
    return np.concatenate([learner.episode().actions for _ in range(800)])


def test_optimism_in_the_value_leaves_the_cost_unexplored() -> None:
    assert np.all(actions_taken(forced=False) == POOR)


def test_taking_the_least_known_certified_action_now_and_then_finds_the_optimum() -> None:
    actions = actions_taken(forced=True)
    assert np.all(actions[-200:] == BEST)
    assert np.count_nonzero(actions == TEACHER) < 100
