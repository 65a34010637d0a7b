"""Coverage is counted from predictions and true costs, before the quantifier learns, whatever the quantifier does."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3 import PPO

import safexp
from safexp import Known, PerCost, Unknown
from safexp.quantifiers import Transitions
from safexp.records.coverage import FACTORS, MOST_ROWS, NEAR, Coverage, calibration, measure, total
from safexp.tasks import planar_robot


def data_of(costs):
    costs = np.asarray(costs, dtype=float)
    return Transitions(np.zeros((len(costs), 1)), np.zeros((len(costs), 1)), costs)


def says(mean, width):
    return Known(lambda states, actions: np.full(len(states), mean), width)


def test_the_counts_of_a_few_transitions():
    found = measure(says(0.5, 0.1), data_of([0.45, 0.55, 0.6, 0.61, 0.39, 0.0]), np.full(6, 0.6))
    assert found == Coverage(rows=6, covered=3, exceeded=1, vacuous=0, near=3, near_covered=2)


def test_a_width_that_says_nothing_covers_and_is_told_apart():
    found = measure(Unknown(), data_of([0.1, 0.9]), np.full(2, 5.0))
    assert found == Coverage(rows=2, covered=2, exceeded=0, vacuous=2, near=0, near_covered=0)


def test_a_mean_far_beyond_the_costs_is_clipped_as_they_are():
    low, high = (
        measure(says(-3.0, 0.1), data_of([0.0, 0.2]), np.ones(2)),
        measure(says(4.0, 0.1), data_of([1.0]), np.ones(1)),
    )
    assert (low.covered, low.exceeded, high.covered, high.exceeded) == (1, 1, 1, 0)


def test_what_fails_covers_nothing():
    class Fails(Unknown):
        def __init__(self, how):
            self.how = how

        def predict(self, states, actions):
            if self.how == "raises":
                raise FloatingPointError("singular")
            bad = np.full(actions.shape[:2], np.nan)
            return (bad, bad + 1) if self.how == "nan" else (bad[:, :0], bad[:, :0])

    for how in ("raises", "nan", "shape"):
        found = measure(Fails(how), data_of([0.5, 0.5]), np.full(2, 0.5))
        assert (found.covered, found.exceeded, found.near_covered) == (0, 2, 0)


def test_several_costs_must_all_be_covered():
    both = PerCost(says(0.5, 0.1), says(0.2, 0.1))
    costs = np.array([[0.5, 0.2], [0.5, 0.4], [0.2, 0.2]])
    found = measure(both, Transitions(np.zeros((3, 1)), np.zeros((3, 1)), costs), np.full((3, 2), 0.45))
    assert (found.covered, found.exceeded, found.near) == (1, 1, 2)


def test_long_epochs_are_sampled_evenly():
    costs = np.where(np.arange(50_000) % 2 == 0, 0.5, 0.9)
    found = measure(says(0.5, 0.1), data_of(np.repeat([0.5, 0.9], 25_000)), np.ones(50_000))
    assert found.rows == MOST_ROWS
    assert found.covered == pytest.approx(MOST_ROWS / 2, abs=2)
    assert measure(says(0.5, 0.1), data_of(costs[:7]), np.ones(7)).rows == 7
    assert total([found, found]).rows == 2 * MOST_ROWS
    assert total([]) == Coverage()


def test_an_agent_measures_before_it_learns():
    class Honest(Known):
        """Covers what it was taught, and nothing else."""

        taught = 0

        def update(self, data):
            self.taught += 1
            self.width = 1e-6

    import gymnasium as gym

    quantifier = Honest(lambda states, actions: planar_robot.cost_of(states, actions) - 0.01, 0.001)
    agent = safexp.MASE(
        gym.make_vec("safexp/PlanarRobot-v0", num_envs=4),
        safexp.Budget(50.0),
        quantifier,
        PPO,
        learner_options={"n_steps": 16, "batch_size": 32},
        seed=0,
    )
    quantifier.width = 0.011
    agent.learn(128)
    first, second = agent.coverage[:2]
    assert first.rows == second.rows == 64
    assert first.covered == 64, "it was right before it was taught"
    assert second.covered == 0, "and wrong from then on"


def test_a_width_of_one_says_nothing_and_a_distance_at_the_end_is_near():
    found = measure(says(0.0, 1.0), data_of([0.25, 0.75]), np.array([0.25 + NEAR, 0.75 + NEAR + 0.01]))
    assert found == Coverage(rows=2, covered=2, exceeded=0, vacuous=2, near=1, near_covered=1)
    assert measure(says(0.0, 0.999), data_of([0.25]), np.ones(1)).vacuous == 0


def test_of_several_costs_one_that_is_near_suffices_and_all_must_be_vacuous():
    both = PerCost(says(0.5, 0.1), says(0.5, 1.0))
    costs = np.array([[0.5, 0.5], [0.5, 0.5]])
    limits = np.array([[0.5, 0.0], [0.0, 0.0]])
    found = measure(both, Transitions(np.zeros((2, 1)), np.zeros((2, 1)), costs), limits)
    assert found == Coverage(rows=2, covered=2, exceeded=0, vacuous=0, near=1, near_covered=1)
    neither = PerCost(says(0.5, 1.0), says(0.5, 1.0))
    assert measure(neither, Transitions(np.zeros((2, 1)), np.zeros((2, 1)), costs), limits).vacuous == 2


def test_calibration_of_several_costs_counts_those_that_say_something():
    both = PerCost(says(0.5, 0.1), says(0.5, 1.0))
    found = calibration(both, Transitions(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[0.5, 0.0], [0.65, 0.5]])))
    assert found.rows == 2
    assert found.within[FACTORS.index(1.0)] == 1
    assert found.within[FACTORS.index(2.0)] == 2


def test_calibration_counts_what_lies_within_each_multiple_of_the_width():
    """At a mean of ½ and a width of 0.1, which multiple covers a cost is read off its distance."""
    distances = np.array([0.0, 0.02, 0.04, 0.07, 0.09, 0.14, 0.19, 0.3])
    found = calibration(says(0.5, 0.1), data_of(0.5 + distances * np.array([1, -1] * 4)))
    assert found.rows == 8
    expected = [int((distances <= factor * 0.1).sum()) for factor in FACTORS]
    assert found.within == tuple(expected) == (2, 3, 4, 5, 6, 7)
    assert tuple(sorted(FACTORS)) == FACTORS and 1.0 in FACTORS


def test_calibration_leaves_out_what_says_nothing():
    assert calibration(says(0.5, 1.0), data_of([0.5, 0.9])) == (0, (0,) * len(FACTORS))
    assert calibration(says(0.5, 0.999), data_of([0.5, 0.9])).rows == 2
    both = PerCost(says(0.5, 0.1), says(0.2, 0.2))
    costs = np.array([[0.5, 0.2], [0.5, 0.35], [0.54, 0.2]])
    found = calibration(both, Transitions(np.zeros((3, 1)), np.zeros((3, 1)), costs))
    assert (found.rows, found.within) == (3, (1, 2, 3, 3, 3, 3))


def test_the_first_and_the_last_transition_are_always_looked_at():
    for count in (1, 2, MOST_ROWS, MOST_ROWS + 1, 7 * MOST_ROWS):
        costs = np.full(count, 0.5)
        costs[[0, -1]] = 0.9
        found = measure(says(0.5, 0.1), data_of(costs), np.ones(count))
        assert found.rows == min(count, MOST_ROWS)
        assert found.exceeded == min(count, 2)
    assert MOST_ROWS >= 1000


def test_before_anything_is_looked_at_all_counts_are_zero():
    assert tuple(Coverage()) == (0,) * 6


def test_nothing_was_seen_in_an_epoch_without_steps():
    nothing = Transitions(np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(0))
    assert measure(Known(lambda states, actions: np.zeros(len(states))), nothing, np.zeros(0)) == Coverage()


def test_a_cost_at_the_end_of_its_interval_is_covered():
    assert measure(says(0.5, 0.25), data_of([0.75, 0.25]), np.full(2, 0.9)).covered == 2
