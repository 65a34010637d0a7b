"""The measurement itself, with quantifiers of which one knows how often they must miss."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.bench import coverage
from safexp.quantifiers import SparseGP
from safexp.quantifiers.base import Transitions

EPISODES, LENGTH = 40, 5


class Blind:
    """Predicts a margin of 0 ± 1, whatever the state."""

    def predict_target(self, states, actions):
        return np.zeros(actions.shape[:2]), np.ones(actions.shape[:2])


def fresh(missed: int) -> Transitions:
    """Episodes that all cost something at their last step; so many of them more than the interval allows."""
    margins = np.tile([0.5, 0.5, 0.5, 3.0, -0.5], (EPISODES, 1))
    margins[:missed, -1] = -1.5
    costs = (margins < 0).astype(float)
    steps = EPISODES * LENGTH
    numbers = np.repeat(np.arange(EPISODES), LENGTH)
    return Transitions(np.zeros((steps, 1)), np.zeros((steps, 1)), costs.ravel(), margins.ravel(), numbers)


@pytest.mark.parametrize(("missed", "refuted"), [(0, False), (2, False), (6, True), (40, True)])
def test_misses_are_counted_by_episodes_and_tested(missed, refuted):
    row = coverage.judged(Blind(), 1.0, fresh(missed))
    assert (row["costly_episodes"], row["missed"]) == (EPISODES, missed)
    assert (row["p"] < 0.05) == refuted
    assert coverage.judged(Blind(), 2.0, fresh(missed))["missed"] == 0
    assert row["certified"] == row["false_safe"] == 0.0


def test_a_row_for_each_quantifier_and_its_calibrated_self(monkeypatch):
    quick = {"quick": lambda: SparseGP("margin", num_inducing=16, capacity=200, first_steps=20)}
    monkeypatch.setattr(coverage, "QUANTIFIERS", quick)
    monkeypatch.setattr(coverage, "TASKS", {"safexp/PointGoalStatic-v0": coverage.Driving({}, 0.5, 100)})
    plain, calibrated = coverage.measure(episodes=60, fresh=20)
    assert (plain["calibrated"], calibrated["calibrated"]) == (False, True)
    assert plain.keys() == calibrated.keys()
    assert plain["costly_episodes"] == calibrated["costly_episodes"] > 0
    assert calibrated["scale"] is None, "so few episodes calibrate nothing"
    assert calibrated["missed"] == calibrated["certified"] == 0
