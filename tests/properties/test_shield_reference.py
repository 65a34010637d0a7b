"""The shield against a search that asks about every action one by one, and what its files keep."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from safexp import ExactGP, Known, Log, PerCost, Shield, Unknown
from safexp.core.files import CheckpointError
from safexp.shield.candidates import candidate_actions

STATES = spaces.Box(-1.0, 1.0, (2,), np.float64)
WIDE = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 8.0], np.float32))
THREE = spaces.Discrete(3, start=5)
COUNT = 12


def wave(seed):
    weights = np.random.default_rng(seed).normal(size=(5, 2))

    def cost(states, actions):
        inputs = np.concatenate([states, actions], axis=1)
        return 0.5 + 0.5 * np.sin(inputs @ weights[: inputs.shape[1], 0] * 2)

    return cost


def width_of(seed):
    def width(states, actions):
        return 0.1 * (1.0 + np.cos(states[:, 0] * 3 + actions[:, 0] + seed))

    return width


class Reference:
    """Upper bounds and widths of single actions, straight from the definition."""

    def __init__(self, seeds):
        self.costs, self.widths = [wave(seed) for seed in seeds], [width_of(seed) for seed in seeds]

    def bounds(self, state, action):
        one = state[None], action[None]
        return np.array(
            [min(1.0, cost(*one)[0] + width(*one)[0]) for cost, width in zip(self.costs, self.widths, strict=True)]
        )

    def safe(self, state, action, limits):
        if (limits >= 1).all():
            return True
        return bool((self.bounds(state, action) <= limits).all())

    @property
    def quantifier(self):
        parts = [Known(cost, width) for cost, width in zip(self.costs, self.widths, strict=True)]
        return parts[0] if len(parts) == 1 else PerCost(*parts)


numbers = st.integers(0, 10**6)


@settings(max_examples=25)
@given(numbers, st.sampled_from([1, 2]), st.booleans(), st.booleans())
def test_decisions_in_a_box_are_those_of_a_search_over_all_candidates(seed, num_costs, promised, with_last):
    rng = np.random.default_rng(seed)
    reference = Reference([seed, seed + 1][:num_costs])
    n = 6
    states = rng.uniform(-1, 1, (n, 2))
    proposals = rng.uniform([-1.0, 0.0], [1.0, 8.0], (n, 2)).astype(np.float32)
    limits = np.where(rng.random((n, num_costs)) < 0.2, 1.0, rng.uniform(0.0, 0.9, (n, num_costs)))
    last = rng.uniform([-1.0, 0.0], [1.0, 8.0], (n, 2)).astype(np.float32)
    last[0] = np.nan
    vouched = np.where(states[:, :1] > 0.3, [[0.25, 4.5]], np.nan)
    shield = Shield(
        reference.quantifier,
        STATES,
        WIDE,
        num_candidates=COUNT,
        safe_action=(lambda seen: np.where(seen[:, :1] > 0.3, [[0.25, 4.5]], np.nan)) if promised else None,
    )
    thresholds = limits[:, 0] if num_costs == 1 else limits
    decisions = shield.filter_batch(states, proposals, thresholds, last_safe=last if with_last else None)
    outlook = shield.outlook(states, thresholds, last_safe=last if with_last else None)
    glance = shield.glance(shield.question(states, thresholds), last if with_last else None)
    np.testing.assert_array_equal(glance.viable, outlook.viable)
    for i in range(n):
        state, limit = states[i], limits[i]
        known = dict.fromkeys(map(tuple, candidate_actions(WIDE, COUNT)))
        if with_last and i:
            known[tuple(last[i].astype(float))] = None
        pool = {action: reference.safe(state, np.array(action), limit) for action in known}
        if promised and np.isfinite(vouched[i]).all():
            pool[tuple(vouched[i])] = True
        safe = np.array([action for action, good in pool.items() if good])
        assert outlook.viable[i] == (len(safe) > 0)
        proposal = proposals[i].astype(float)
        one = shield.filter(state, proposals[i], thresholds[i], last_safe=last[i] if with_last else None)
        assert (one.intervened, one.stopped) == (decisions.intervened[i], decisions.stopped[i])
        np.testing.assert_array_equal(one.upper_bound, decisions.upper_bounds[i])
        if reference.safe(state, proposal, limit):
            assert not decisions.intervened[i] and not decisions.stopped[i]
            np.testing.assert_array_equal(decisions.actions[i], proposals[i])
        elif len(safe) == 0:
            assert decisions.stopped[i] and not decisions.intervened[i]
            assert one.action is None
            np.testing.assert_allclose(decisions.upper_bounds[i], reference.bounds(state, proposal)[: num_costs or 1])
        else:
            assert decisions.intervened[i] and not decisions.stopped[i]
            distances = np.linalg.norm((safe - proposal) / [2.0, 8.0], axis=1)
            chosen = decisions.actions[i].astype(float)
            assert np.linalg.norm((chosen - proposal) / [2.0, 8.0]) <= distances.min() + 1e-6
            assert tuple(chosen) in pool or reference.safe(state, chosen, limit)
            nearest = safe[distances.argmin()]
            ways = nearest + (proposal - nearest) * 0.75 ** np.arange(1, 17)[:, None]
            further = [way for way in ways if reference.safe(state, way.astype(np.float32).astype(float), limit)]
            if further and np.partition(np.append(distances, 9), 1)[1] > distances.min() + 1e-6:  # no tie
                np.testing.assert_allclose(chosen, further[0], atol=1e-5)
            assert (np.atleast_1d(decisions.upper_bounds[i]) <= limit).all()
    certified = shield.certified(states[1], proposals, thresholds[1])
    assert certified.tolist() == [reference.safe(states[1], action.astype(float), limits[1]) for action in proposals]


@settings(max_examples=60)
@given(numbers, st.sampled_from([1, 2]), st.booleans(), st.booleans())
def test_decisions_among_choices_are_those_of_a_search_over_all(seed, num_costs, promised, preferring):
    rng = np.random.default_rng(seed)
    reference = Reference([seed, seed + 1][:num_costs])
    n = 6
    states, proposals = rng.uniform(-1, 1, (n, 2)), rng.integers(5, 8, n)
    limits = np.where(rng.random((n, num_costs)) < 0.2, 1.0, rng.uniform(0.0, 0.9, (n, num_costs)))
    scores = rng.normal(size=(n, 3))
    shield = Shield(reference.quantifier, STATES, THREE, safe_action=6 if promised else None)
    thresholds = limits[:, 0] if num_costs == 1 else limits
    decisions = shield.filter_batch(
        states, proposals, thresholds, preferences=(lambda rows, _: scores[rows]) if preferring else None
    )
    for i in range(n):
        safe = [reference.safe(states[i], np.eye(3)[k], limits[i]) or (promised and k == 1) for k in range(3)]
        bounds = np.array([reference.bounds(states[i], np.eye(3)[k]).max() for k in range(3)])
        bounds[(limits[i] >= 1).all() * np.ones(3, dtype=bool)] = 1.0
        if promised:
            bounds[1] = 0.0
        chosen = int(proposals[i]) - 5
        if safe[chosen]:
            assert decisions.actions[i] == proposals[i]
            assert not decisions.intervened[i]
        elif not any(safe):
            assert decisions.stopped[i]
        else:
            worth = -scores[i] if preferring else bounds
            best = min((k for k in range(3) if safe[k]), key=lambda k: worth[k])
            assert decisions.intervened[i]
            assert decisions.actions[i] == 5 + best


def test_a_bare_axis_of_a_box_divides_by_nothing():
    flat = spaces.Box(np.array([0.0, 1.0], np.float32), np.array([1.0, 1.0], np.float32))
    shield = Shield(Known(lambda states, actions: actions[:, 0]), STATES, flat)
    decision = shield.filter(np.zeros(2), np.array([0.9, 1.0], np.float32), 0.5)
    assert decision.intervened
    assert 0.3 < decision.action[0] <= 0.5


def test_a_proposal_that_is_no_number_is_replaced_by_the_safest():
    shield = Shield(Known(lambda states, actions: np.abs(actions[:, 0] + 1) / 2), STATES, WIDE)
    decision = shield.filter(np.zeros(2), np.array([np.nan, np.nan]), 0.9)
    assert decision.intervened
    assert decision.upper_bound == 0.0


def test_failures_are_counted_and_the_first_one_is_said(caplog):
    class Fails(Unknown):
        def predict(self, states, actions):
            raise ArithmeticError("singular")

    shield = Shield(Fails(), STATES, WIDE)
    assert (shield.failures, shield.last_failure) == (0, "")
    with caplog.at_level(logging.DEBUG, "safexp"):
        for _ in range(3):
            shield.certified(np.zeros(2), np.zeros((1, 2)), 0.5)
    assert (shield.failures, shield.last_failure) == (3, "ArithmeticError: singular")
    said = [record.levelname for record in caplog.records if "certified nothing" in record.message]
    assert said == ["WARNING", "DEBUG", "DEBUG"]


def test_threads_lose_no_failure():
    class Fails(Unknown):
        def predict(self, states, actions):
            raise ArithmeticError

    shield = Shield(Fails(), STATES, WIDE)
    logging.getLogger("safexp").setLevel(logging.ERROR)
    try:
        threads = [
            threading.Thread(target=lambda: [shield.filter(np.zeros(2), np.zeros(2), 0.5) for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        logging.getLogger("safexp").setLevel(logging.NOTSET)
    alone = Shield(Fails(), STATES, WIDE)
    alone.filter(np.zeros(2), np.zeros(2), 0.5)
    assert shield.failures == 80 * alone.failures


@pytest.mark.parametrize("levels", [(-0.1, 1.0), (0.0, 1.1), ()])
def test_levels_are_costs(levels):
    with pytest.raises(ValueError, match=r"must be one or more costs in \[0, 1\]"):
        Shield(Unknown(), STATES, WIDE, levels=levels)
    assert Shield(Unknown(), STATES, WIDE, levels=(1, 0)).levels[0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("thresholds", [np.zeros(3), np.zeros((2, 1, 1)), 0.5])
def test_thresholds_are_one_for_each_state(thresholds):
    shield = Shield(Unknown(), STATES, WIDE)
    with pytest.raises(ValueError, match="thresholds have shape"):
        shield.filter_batch(np.zeros((2, 2)), np.zeros((2, 2)), thresholds)
    with pytest.raises(ValueError, match="3 actions for 2 states"):
        shield.filter_batch(np.zeros((2, 2)), np.zeros((3, 2)), np.ones(2))
    with pytest.raises(ValueError, match="a threshold is NaN"):
        shield.outlook(np.zeros((2, 2)), np.array([0.5, np.nan]))


def learned(**options):
    shield = Shield(ExactGP(0.5), STATES, WIDE, **options)
    rng = np.random.default_rng(0)
    actions = rng.uniform([-1.0, 0.0], [1.0, 8.0], (40, 2)).astype(np.float32)
    shield.fit(Log(rng.uniform(-1, 1, (40, 2)), actions, rng.uniform(0, 1, 40)))
    return shield


def brake(observations):
    return np.tile([-1.0, 0.0], (len(observations), 1))


@pytest.mark.parametrize("given_again", [None, np.array([1.0, 0.0]), brake])
@pytest.mark.parametrize("saved", [None, np.array([-1.0, 0.5]), brake])
def test_a_file_keeps_the_safe_action_unless_it_is_a_function(saved, given_again, tmp_path):
    shield = learned(safe_action=saved, num_candidates=7)
    shield.save(tmp_path / "shield.safexp")
    if saved is brake and given_again is None:
        with pytest.raises(CheckpointError, match="safe_action=<the same function>"):
            Shield.load(tmp_path / "shield.safexp")
        return
    loaded = Shield.load(tmp_path / "shield.safexp", safe_action=given_again)
    expected = saved if given_again is None else given_again
    if expected is None:
        assert loaded.vouched is None
    elif expected is brake:
        assert loaded.vouched.action is brake
    else:
        np.testing.assert_array_equal(loaded.vouched.action, expected)
    assert (loaded.num_candidates, loaded.levels) == (7, None)
    state = np.zeros(2)
    bounds = [one.filter(state, np.zeros(2), 0.99).upper_bound for one in (shield, loaded)]
    assert given_again is not None or bounds[0] == bounds[1]


def test_a_file_keeps_the_levels_and_several_costs(tmp_path):
    shield = Shield(PerCost(ExactGP(0.5), ExactGP(0.7)), STATES, WIDE, levels=[(1, 0), None])
    shield.save(tmp_path / "shield.safexp")
    loaded = Shield.load(tmp_path / "shield.safexp")
    assert [own if own is None else own.tolist() for own in loaded.levels] == [[0.0, 1.0], None]
    assert [part.lengthscale.item() for part in loaded.quantifier.parts] == [0.5, 0.7]
    again = Shield.load(tmp_path / "shield.safexp", quantifier=ExactGP(0.3))
    assert [part.lengthscale.item() for part in again.quantifier.parts] == [0.3, 0.3]
    several = PerCost(ExactGP(0.1), ExactGP(0.2))
    assert Shield.load(tmp_path / "shield.safexp", quantifier=several).quantifier is several


def test_what_is_no_log_is_named():
    with pytest.raises(TypeError, match=r"got a ndarray, expected Log\(observations, actions, costs\)"):
        learned().fit(np.zeros(3))
