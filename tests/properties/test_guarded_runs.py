"""What must hold for any constraint, quantifier and proposals: hypothesis looks for a counter-example."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Instantaneous, Known, Penalty, Schedule, Shield, Unknown
from safexp.constraints import TOLERANCE
from safexp.envs.guard import Guard
from support.line import Line, line_cost

limits = st.floats(0.0, 3.0)
discounts = st.sampled_from([1.0, 0.99, 0.9, 0.5])
constraints = st.one_of(
    st.builds(Instantaneous, limits),
    st.builds(Budget, limits, discounts),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12).map(Schedule),
)
widths = st.floats(0.0, 0.5)
moves = st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=40)


def guarded(constraint, quantifier, horizon=10):
    venv = DummyVecEnv([lambda: Line(horizon), lambda: Line(horizon + 3)])
    shield = Shield(quantifier, venv.observation_space, venv.action_space, num_candidates=8, safe_action=np.zeros(1))
    return Guard(venv, constraint, shield, Penalty())


@settings(max_examples=150)
@given(constraints, widths, moves)
def test_an_executed_action_is_safe_and_no_constraint_is_ever_broken(constraint, width, proposals):
    guard = guarded(constraint, Known(line_cost, width))
    guard.reset()
    for move in proposals:
        thresholds = guard.account.thresholds.copy()
        _, _, _, infos = guard.step(np.full((2, 1), move, dtype=np.float32))
        for threshold, info in zip(thresholds, infos, strict=True):
            assert abs(float(info["shield"]["action"][0])) <= max(threshold, 0.0) + TOLERANCE
    guard.recorder.end(np.ones(2, dtype=bool), np.zeros(2, dtype=bool))
    assert not any(episode.violated for episode in guard.recorder.episodes)


@settings(max_examples=150)
@given(st.floats(1.0, 5.0), discounts, moves)
def test_a_budget_is_never_overspent_without_any_model(limit, discount, proposals):
    venv = DummyVecEnv([lambda: Line(25)])
    guard = Guard(
        venv, Budget(limit, discount), Shield(Unknown(), venv.observation_space, venv.action_space), Penalty()
    )
    guard.reset()
    spent, weight = 0.0, 1.0
    for move in proposals:
        _, _, (done,), (info,) = guard.step(np.array([[move]], dtype=np.float32))
        spent += weight * info["cost"]
        weight *= discount
        assert spent <= limit + 2 * TOLERANCE
        if done:
            spent, weight = 0.0, 1.0


@settings(max_examples=100)
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), widths, st.floats(-1.0, 1.0))
def test_a_decision_is_monotone_in_the_threshold(low, high, width, move):
    low, high = sorted((low, high))
    venv = DummyVecEnv([Line])
    shield = Shield(Known(line_cost, width), venv.observation_space, venv.action_space)
    strict = shield.filter(np.zeros(1), np.array([move]), low)
    lenient = shield.filter(np.zeros(1), np.array([move]), high)
    assert lenient.stopped <= strict.stopped
    if not (strict.stopped or strict.intervened):
        assert not lenient.intervened


@settings(max_examples=60)
@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 30))
def test_more_data_never_widens_a_noiseless_gp(seed, first, second):
    from safexp import ExactGP
    from safexp.quantifiers import Transitions

    rng = np.random.default_rng(seed)

    def data(count):
        return Transitions(rng.uniform(size=(count, 1)), rng.uniform(size=(count, 1)), rng.uniform(size=count))

    gp = ExactGP(0.5)
    gp.update(data(first))
    states, actions = rng.uniform(size=(20, 1)), rng.uniform(size=(20, 3, 1))
    _, before = gp.predict(states, actions)
    gp.update(data(second))
    _, after = gp.predict(states, actions)
    assert np.all(after <= before + 1e-9)
