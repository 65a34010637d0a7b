"""Asking little decides as asking everything does, whatever the quantifier says, and whatever it fails to say."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from safexp import AllOf, Budget, Instantaneous, Known, Penalty, PerCost, Shield, Unknown
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from safexp.shield.candidates import Glance
from safexp.tasks.planar_robot import PlanarRobotVector

STATES = spaces.Box(-1.0, 1.0, (2,), np.float64)
SQUARE = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Everything(Shield):
    """The shield that asks about all candidates at once."""

    def glance(self, question, last_safe=None):
        return Glance.of_all(self.outlook(question.observations, question.limits, last_safe=last_safe))


def random_cost(seed):
    """A cost that leaves some states no safe action, some a few, and some all."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(6, 5))
    phases = rng.uniform(0, 6, 5)

    def cost(states, actions):
        inputs = np.concatenate([states, actions], axis=1)
        return 0.5 + 0.5 * np.sin(inputs @ weights[-inputs.shape[1] :] * 1.5 + phases).mean(axis=1)

    return cost


def vouches(seed):
    """Promises something in about half of the states."""

    def action(states):
        some = np.sin(7 * states[:, :1] + seed) > 0
        return np.where(some, np.cos(states[:, :1] * [[1.0, 2.0]] + seed), np.nan)

    return action


def run(kind, seed, constraint, quantifier, safe_action, steps=40, num_envs=6):
    venv = as_vec_env(PlanarRobotVector(num_envs))
    shield = kind(quantifier, venv.observation_space, venv.action_space, num_candidates=32, safe_action=safe_action)
    guard = Guard(venv, constraint, shield, Penalty(1.0, largest=50.0))
    rng = np.random.default_rng(seed)
    guard.seed(seed)
    guard.reset()
    trace = []
    for _ in range(steps):
        _, rewards, dones, infos = guard.step(rng.uniform(-1, 1, (num_envs, 2)).astype(np.float32))
        trace.append((np.array([info["shield"]["action"] for info in infos]), rewards, dones, guard.last.stopped))
    return [np.stack(parts) for parts in zip(*trace, strict=True)], guard


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.3, 0.6), st.floats(0.0, 0.2), st.booleans())
def test_the_same_actions_stops_and_penalties(seed, limit, width, promised):
    cost = random_cost(seed)

    def wide(states, actions):
        return width * (1.5 + np.sin(3 * actions[:, 0] + states[:, 0]))

    safe_action = vouches(seed) if promised else None
    try:
        staged, guard = run(Shield, seed, Instantaneous(limit), Known(cost, wide), safe_action)
    except RuntimeError as error:  # a world in which nothing is safe is given up by both
        with pytest.raises(type(error)):
            run(Everything, seed, Instantaneous(limit), Known(cost, wide), safe_action)
        return
    whole, _ = run(Everything, seed, Instantaneous(limit), Known(cost, wide), safe_action)
    for one, other in zip(staged, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert guard.shield.failures == 0


def test_several_costs_and_budgets_decide_the_same():
    constraint = AllOf(Budget(3.0), Instantaneous(0.4))
    quantifier = PerCost(Known(random_cost(1), 0.05), Known(random_cost(2), 0.05))
    staged, guard = run(Shield, 3, constraint, quantifier, None, steps=100)
    whole, _ = run(Everything, 3, constraint, quantifier, None, steps=100)
    for one, other in zip(staged, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    stopped = staged[3]
    assert 0 < stopped.sum() < stopped.size
    assert guard.recorder.interventions > 0


class Moody(Unknown):
    """Answers with the truth, with nonsense, or not at all, by the hour."""

    def __init__(self, cost, moods):
        self.cost, self.moods, self.calls = Known(cost), moods, 0

    def predict(self, states, actions):
        mood = self.moods[self.calls % len(self.moods)]
        self.calls += 1
        mean, width = self.cost.predict(states, actions)
        if mood == "raises":
            raise FloatingPointError("singular")
        if mood == "nan":
            mean[:, ::2] = np.nan
        if mood == "negative":
            width[:] = -0.1
        if mood == "shape":
            mean = mean[:, :-1]
        return mean, width


@settings(max_examples=150)
@given(
    st.integers(0, 10**6),
    st.floats(0.2, 0.8),
    st.lists(st.sampled_from(["true", "raises", "nan", "negative", "shape"]), min_size=1, max_size=6),
    st.booleans(),
)
def test_what_a_failing_quantifier_lets_through_it_has_certified(seed, limit, moods, glanced):
    rng = np.random.default_rng(seed)
    cost = random_cost(seed)
    shield = Shield(Moody(cost, moods), STATES, SQUARE, num_candidates=16)
    states, thresholds = rng.uniform(-1, 1, (5, 2)), np.full(5, limit)
    question = shield.question(states, thresholds)
    offers = shield.glance(question) if glanced else None
    found = shield.decide(question, rng.uniform(-1, 1, (5, 2)).astype(np.float32), offers)
    run_rows = ~found.stopped
    assert np.all(cost(states, found.actions.astype(np.float64))[run_rows] <= limit + 1e-6)
    if set(moods) != {"true"} and shield.quantifier.calls >= len(moods):
        assert shield.failures > 0
    if "true" not in moods and "nan" not in moods:
        assert found.stopped.all()


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.2, 1.1), st.booleans(), st.booleans())
def test_one_state_at_a_time_is_decided_as_all_of_them_together(seed, limit, promised, two_costs):
    rng = np.random.default_rng(seed)
    one, other = Known(random_cost(seed), 0.05), Known(random_cost(seed + 1))
    safe_action = vouches(seed) if promised else None
    shield = Shield(
        PerCost(one, other) if two_costs else one, STATES, SQUARE, num_candidates=16, safe_action=safe_action
    )
    states, proposals = rng.uniform(-1, 1, (8, 2)), rng.uniform(-1, 1, (8, 2)).astype(np.float32)
    proposals[0], last_safe = np.nan, rng.uniform(-1, 1, (8, 2)).astype(np.float32)
    thresholds = np.full((8, 2), limit) if two_costs else np.full(8, limit)
    together = shield.filter_batch(states, proposals, thresholds, last_safe=last_safe)
    for k in range(8):
        alone = shield.filter(states[k], proposals[k], thresholds[k], last_safe=last_safe[k])
        assert (alone.intervened, alone.stopped) == (together.intervened[k], together.stopped[k])
        if not alone.stopped:
            np.testing.assert_array_equal(alone.action, together.actions[k])
        np.testing.assert_allclose(alone.upper_bound, together.upper_bounds[k], rtol=1e-12)
