"""The safe set, the nearest safe action, the verdict, and failing safe."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from gymnasium import spaces

from safexp import ExactGP, Known, Log, PerCost, Shield, Unknown
from safexp.quantifiers import Quantifier
from safexp.shield.candidates import candidate_actions

STATES = spaces.Box(-1.0, 1.0, (2,), np.float64)
SQUARE = spaces.Box(-1.0, 1.0, (2,), np.float32)
THREE = spaces.Discrete(3, start=5)


def radius_cost(states, actions):
    """Grows with the distance of the action from the origin: at most 1 within the square."""
    return np.linalg.norm(actions, axis=1) / 2


def choice_cost(states, actions):
    return np.array([0.1, 0.5, 0.9])[actions.argmax(axis=1)]


class Broken(Unknown):
    """A quantifier whose predictions are whatever the test says."""

    def __init__(self, mean=0.0, width=0.0, error=None):
        self.mean, self.wide, self.error, self.calls = mean, width, error, 0

    def predict(self, states, actions):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return np.full(actions.shape[:2], self.mean), np.full(actions.shape[:2], self.wide)


def shield_of(quantifier: Quantifier, actions: spaces.Space = SQUARE, **options) -> Shield:
    return Shield(quantifier, STATES, actions, **options)


def test_a_safe_proposal_passes_unchanged():
    action = np.array([0.3, -0.1], dtype=np.float32)
    decision = shield_of(Known(radius_cost)).filter(np.zeros(2), action, 0.3)
    np.testing.assert_array_equal(decision.action, action)
    assert not decision.intervened
    assert not decision.stopped
    assert decision.upper_bound == pytest.approx(np.linalg.norm(action) / 2)


def test_an_unsafe_proposal_is_replaced_by_an_action_between_it_and_the_nearest_safe_candidate():
    shield = shield_of(Known(radius_cost))
    proposal = np.array([1.0, 0.9], dtype=np.float32)
    decision = shield.filter(np.zeros(2), proposal, 0.4)
    assert decision.intervened
    candidates = candidate_actions(SQUARE, 64)
    safe = candidates[radius_cost(None, candidates) <= 0.4]
    start = safe[np.linalg.norm(safe - proposal, axis=1).argmin()]
    way, gone = proposal - start, decision.action - start
    share = (gone @ way) / (way @ way)
    np.testing.assert_allclose(gone, share * way, atol=1e-6)  # on the straight line
    longest = max(part for part in np.linspace(0, 1, 1001) if np.linalg.norm(start + part * way) / 2 <= 0.4)
    assert 0.75 * longest <= share <= longest + 1e-3
    assert decision.upper_bound == pytest.approx(np.linalg.norm(decision.action) / 2)
    assert decision.upper_bound <= 0.4


def test_the_last_safe_action_is_a_candidate():
    last, proposal = np.array([0.51, 0.52], dtype=np.float32), np.array([0.6, 0.6])
    shield = shield_of(Known(radius_cost))
    with_last, without = (shield.filter(np.zeros(2), proposal, 0.37, last_safe=one).action for one in (last, None))
    assert np.linalg.norm(with_last - proposal) < np.linalg.norm(last - proposal) < np.linalg.norm(without - proposal)
    assert np.linalg.det([with_last - last, proposal - last]) == pytest.approx(0.0, abs=1e-7)


def test_a_proposal_that_is_not_a_number_is_replaced_by_a_candidate():
    decision = shield_of(Known(radius_cost)).filter(np.zeros(2), np.full(2, np.nan), 0.4)
    assert decision.intervened
    assert (candidate_actions(SQUARE, 64) == decision.action).all(axis=1).any()


def test_nothing_is_safe_below_every_bound():
    decision = shield_of(Known(radius_cost, width=0.5)).filter(np.zeros(2), np.array([0.1, 0.1]), 0.3)
    assert decision.stopped
    assert not decision.intervened
    assert decision.action is None


def test_width_is_added_to_the_mean():
    shield = shield_of(Known(radius_cost, width=0.2))
    action = np.array([0.6, 0.0])
    assert shield.filter(np.zeros(2), action, 0.5 + 1e-6).intervened is False
    assert shield.filter(np.zeros(2), action, 0.5 - 1e-6).intervened is True


def test_discrete_actions_are_enumerated_and_the_safest_replaces():
    shield = shield_of(Known(choice_cost), THREE)
    assert shield.filter(np.zeros(2), 7, 0.95).action == 7
    decision = shield.filter(np.zeros(2), 7, 0.6)
    assert decision.action == 5
    assert decision.intervened
    assert shield.filter(np.zeros(2), 7, 0.05).stopped


def test_preferences_choose_among_safe_discrete_actions():
    shield = shield_of(Known(choice_cost), THREE)
    outcome = shield.filter_batch(
        np.zeros((2, 2)),
        np.array([7, 7]),
        np.array([0.6, 0.6]),
        preferences=lambda rows, _: np.array([[1.0, 2.0, 9.0], [2.0, 1.0, 9.0]])[rows],
    )
    np.testing.assert_array_equal(outcome.actions, [6, 5])


def test_a_threshold_of_one_asks_nobody():
    quantifier = Broken(error=AssertionError("asked"))
    shield = shield_of(quantifier)
    assert not shield.filter(np.zeros(2), np.zeros(2), 1.0).stopped
    assert quantifier.calls == 0
    assert shield_of(Unknown()).filter(np.zeros(2), np.zeros(2), 0.999).stopped


def test_only_the_rows_below_one_are_asked_about():
    asked = []

    def cost(states, actions):
        asked.append(states.copy())
        return np.zeros(len(states))

    states = np.array([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]])
    shield_of(Known(cost)).filter_batch(states, np.zeros((3, 2)), np.array([1.0, 0.5, 2.0]))
    np.testing.assert_array_equal(np.concatenate(asked), states[1:2])


@pytest.mark.parametrize(
    "quantifier",
    [
        Broken(mean=np.nan),
        Broken(mean=-np.inf),
        Broken(width=np.nan),
        Broken(width=-0.1),
        Broken(error=RuntimeError("singular matrix")),
        Broken(error=MemoryError()),
    ],
    ids=["nan mean", "infinite mean", "nan width", "negative width", "exception", "out of memory"],
)
def test_what_cannot_be_checked_is_not_safe(quantifier, caplog):
    shield = shield_of(quantifier)
    with caplog.at_level(logging.WARNING, "safexp"):
        assert shield.filter(np.zeros(2), np.zeros(2), 0.99).stopped
    assert shield.failures > 0
    assert "certified nothing" in caplog.text


def test_a_wrong_shape_is_not_safe():
    class Flat(Unknown):
        def predict(self, states, actions):
            return np.zeros(3), np.zeros(3)

    assert shield_of(Flat()).filter(np.zeros(2), np.zeros(2), 0.5).stopped


def test_an_infinite_width_is_legal_and_counts_as_no_failure():
    shield = shield_of(Unknown())
    assert shield.filter(np.zeros(2), np.zeros(2), 0.5).stopped
    assert shield.failures == 0


def test_a_proposal_that_is_not_a_number_is_replaced():
    for threshold in (0.5, 2.0):
        decision = shield_of(Known(radius_cost)).filter(np.zeros(2), np.array([np.nan, 0.0]), threshold)
        assert decision.intervened
        assert np.all(np.isfinite(decision.action))


def test_levels_round_bounds_down():
    uncertain = Known(lambda states, actions: np.full(len(states), 0.1), width=0.8)
    assert shield_of(uncertain).filter(np.zeros(2), np.zeros(2), 0.5).stopped
    assert not shield_of(uncertain, levels=(0, 1)).filter(np.zeros(2), np.zeros(2), 0.5).stopped
    certain = Known(lambda states, actions: np.ones(len(states)))
    assert shield_of(certain, levels=(0, 1)).filter(np.zeros(2), np.zeros(2), 0.5).stopped


def test_levels_need_bounds_on_the_realised_cost():
    with pytest.raises(ValueError, match="hold for the expected cost, not for the realised one"):
        shield_of(ExactGP(noise=0.1), levels=(0, 1))


def test_several_costs_must_all_be_within_their_thresholds():
    shield = shield_of(PerCost(Known(radius_cost), Known(lambda states, actions: (actions[:, 0] + 1) / 2)))
    action = np.array([0.5, 0.0])
    assert not shield.filter(np.zeros(2), action, [0.3, 0.8]).intervened
    decision = shield.filter(np.zeros(2), action, [0.3, 0.5])
    assert decision.intervened
    assert np.all(decision.upper_bound <= [0.3, 0.5])
    assert shield.filter(np.zeros(2), action, [0.3, -0.1]).stopped


def test_a_safe_action_that_the_user_vouches_for_is_always_there():
    brake = np.array([-1.0, 0.0])
    decision = shield_of(Unknown(), safe_action=brake).filter(np.zeros(2), np.zeros(2), 0.1)
    np.testing.assert_array_equal(decision.action, brake)
    assert decision.upper_bound == 0.0


def test_a_vouching_function_may_promise_nothing():
    def brake(states):
        return np.where(states[:, :1] > 0, [[-1.0, 0.0]], np.nan)

    shield = shield_of(Unknown(), safe_action=brake)
    outcome = shield.filter_batch(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros((2, 2)), np.array([0.1, 0.1]))
    np.testing.assert_array_equal(outcome.stopped, [False, True])


def test_candidates_hold_centre_corners_and_fill_the_box():
    space = spaces.Box(np.array([0.0, -2.0], dtype=np.float32), np.array([1.0, 2.0], dtype=np.float32))
    found = candidate_actions(space, 64)
    assert found.shape == (64, 2)
    for point in [[0.5, 0.0], [0.0, -2.0], [1.0, 2.0], [0.0, 2.0], [1.0, -2.0]]:
        assert (np.abs(found - point).max(axis=1) < 1e-6).any()
    assert found.min(axis=0) == pytest.approx([0, -2])
    assert candidate_actions(spaces.Box(-1, 1, (17,), np.float32), 64).shape == (64, 17)


def test_fit_learns_from_a_log_without_an_environment():
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (300, 2)).astype(np.float32)
    observations = np.zeros((300, 2))
    shield = shield_of(ExactGP(0.7, norm_bound=3.0, novelty=1e-5))
    assert shield.filter(np.zeros(2), np.zeros(2), 0.4).stopped
    shield.fit(Log(observations, actions, np.sum(actions.astype(float) ** 2, axis=1) / 2))
    assert not shield.filter(np.zeros(2), np.array([0.1, 0.1]), 0.4).intervened
    assert shield.filter(np.zeros(2), np.array([1.0, 1.0]), 0.4).intervened


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda shield: shield.filter(np.zeros(3), np.zeros(2), 0.5),
            r"observations have shape \(1, 3\), expected \(n, 2\)",
        ),
        (
            lambda shield: shield.filter(np.zeros(2), np.zeros(3), 0.5),
            r"actions have shape \(1, 3\), expected \(n, 2\)",
        ),
        (lambda shield: shield.filter(np.zeros(2), np.zeros(2), np.nan), "a threshold is NaN"),
        (lambda shield: shield.filter(np.array([0.0, np.nan]), np.zeros(2), 0.5), "holds a NaN or an infinity"),
        (
            lambda shield: shield.filter_batch(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(3)),
            r"thresholds have shape \(3,\), expected \(2,\)",
        ),
        (
            lambda shield: shield.fit(Log(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(3))),
            "logged transitions have different lengths",
        ),
        (
            lambda shield: shield.fit(Log(np.zeros((1, 2)), np.zeros((1, 2)), np.array([2.0]))),
            r"logged costs must lie in \[0, 1\]",
        ),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(shield_of(Known(radius_cost)))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "has no finite bounds"),
        (spaces.Text(3), "is not supported; use a bounded float Box, Discrete, MultiDiscrete or MultiBinary"),
    ],
)
def test_action_spaces_that_cannot_be_searched_are_refused(space, message):
    with pytest.raises(ValueError, match=message):
        shield_of(Unknown(), space)


def test_a_vouched_discrete_action_is_that_action():
    shield = Shield(Unknown(), STATES, THREE, safe_action=6)
    states, thresholds = np.zeros((1, 2)), np.array([0.5])
    preferred = shield.filter_batch(
        states, np.array([5]), thresholds, preferences=lambda *_: np.array([[1.0, 2.0, 3.0]])
    )
    assert preferred.actions[0] == 6
    assert not shield.filter_batch(states, np.array([6]), thresholds).intervened[0]
    np.testing.assert_array_equal(shield.outlook(states, thresholds).safe, [[False, True, False]])


def test_a_proposal_is_certified_as_it_will_be_run():
    seen = []

    def cost(states, actions):
        seen.append(actions)
        return np.zeros(len(states))

    decision = shield_of(Known(cost)).filter(np.zeros(2), np.array([0.1, 0.2]), 0.5)
    np.testing.assert_array_equal(seen[0][0], decision.action.astype(np.float64))


def test_where_nothing_is_vouched_for_nothing_is_invented():
    away = spaces.Box(1.0, 2.0, (1,), np.float64)
    shield = Shield(
        Known(lambda s, a: np.clip(a[:, 0] - 0.5, 0, 1)),
        STATES,
        away,
        safe_action=lambda o: np.full((len(o), 1), np.nan),
    )
    assert shield.filter(np.zeros(2), np.array([1.5]), 0.2).stopped


def test_candidates_stay_inside_a_box_of_any_bounds():
    rng = np.random.default_rng(0)
    for _ in range(200):
        low = rng.normal(size=2)
        space = spaces.Box(low, low + rng.uniform(size=2), dtype=np.float64)
        assert all(space.contains(action) for action in candidate_actions(space, 16))


def test_a_bound_that_misses_its_level_by_rounding_means_that_level():
    single = Known(lambda s, a: np.full(len(a), 0.7, np.float32))
    assert shield_of(single, levels=(0, 0.3, 0.7)).filter(np.zeros(2), np.zeros(2), 0.5).stopped
    with pytest.raises(ValueError, match=r"one or more costs in \[0, 1\]"):
        shield_of(single, levels=())


def test_a_loaded_shield_reads_the_parts_of_an_observation_in_the_same_order(tmp_path):
    from safexp.core import files

    box = spaces.Box(-1.0, 1.0, (1,), np.float64)
    shield = Shield(ExactGP(0.5), spaces.Dict([("z", box), ("a", box)]), SQUARE)
    rng = np.random.default_rng(0)
    states = {"z": rng.uniform(-1, 1, (50, 1)), "a": rng.uniform(-1, 1, (50, 1))}
    shield.fit(Log(states, np.zeros((50, 2)), (states["z"][:, 0] > 0).astype(float)))
    document, arrays = shield.describe()
    files.write(tmp_path / "s", {"shield": document}, arrays)
    state = {"z": np.array([0.5]), "a": np.array([-0.5])}
    loaded = Shield.load(tmp_path / "s").filter(state, np.zeros(2), 0.9)
    assert loaded.upper_bound == shield.filter(state, np.zeros(2), 0.9).upper_bound


@pytest.mark.parametrize("scores", [[0.0, -np.inf, -np.inf], [np.nan, np.nan, np.nan], [np.inf, np.nan, 0.0]])
def test_preferences_without_end_choose_nothing_unsafe(scores):
    shield = shield_of(Known(lambda states, actions: 1.0 * (actions.argmax(axis=1) == 0)), THREE)
    decision = shield.filter(np.zeros(2), 5, 0.0, preferences=lambda *_: np.array([scores]))
    assert decision.intervened
    assert decision.action in (6, 7)


def test_the_last_safe_action_is_certified_as_it_will_be_run():
    def only_there(states, actions):
        return 1.0 * (np.abs(actions - 2.0).max(axis=1) > 1e-12)

    assert shield_of(Known(only_there)).filter(np.zeros(2), np.ones(2), 0.5, last_safe=np.full(2, 2.0)).stopped

    def at_most(states, actions):
        return 1.0 * (actions.max(axis=1) > 0.1)

    last = np.full(2, 0.1)  # which is more in single precision
    decision = shield_of(Known(at_most), num_candidates=1).filter(np.ones(2), np.ones(2), 0.5, last_safe=last)
    assert (decision.action <= 0.1).all()


def test_an_action_that_cannot_be_run_is_not_vouched_for():
    with pytest.raises(ValueError, match=r"safe_action \[5. 0.\] is not an action of Box"):
        shield_of(Unknown(), safe_action=[5.0, 0.0])
    shield = shield_of(Unknown(), safe_action=lambda states: np.where(states > 0, 5.0, np.nan))
    assert shield.filter(-np.ones(2), np.zeros(2), 0.5).stopped
    with pytest.raises(ValueError, match="is not an action of Box"):
        shield.filter(np.ones(2), np.zeros(2), 0.5)


def test_what_is_no_number_is_not_certified():
    certified = shield_of(Unknown()).certified(np.zeros(2), np.array([[np.nan, 0.0], [0.0, 0.0]]), 1.0)
    assert certified.tolist() == [False, True]


def test_more_candidates_than_a_file_may_ask_for_are_refused():
    with pytest.raises(ValueError, match="num_candidates=20000 must be at most 10,000"):
        shield_of(Unknown(), num_candidates=20_000)


def test_a_discrete_proposal_is_vouched_for_only_if_it_is_the_one():
    shield = shield_of(Known(choice_cost), THREE, safe_action=7)
    for action, vouched in ((5, False), (7, True)):
        decision = shield.filter(np.zeros(2), action, 0.3)
        assert (decision.action, decision.intervened, decision.vouched) == (action, False, vouched)
    decisions = shield.filter_batch(np.zeros((2, 2)), np.array([5, 7]), np.full(2, 0.3))
    np.testing.assert_array_equal(decisions.vouched, [False, True])


def test_what_a_model_certified_in_place_of_a_proposal_is_not_vouched_for():
    decision = shield_of(Known(choice_cost), THREE).filter(
        np.zeros(2), 7, 0.6, preferences=lambda *_: np.array([[0, 1, 2]])
    )
    assert (decision.action, decision.intervened, decision.vouched) == (6, True, False)


def test_a_safe_proposal_takes_one_question():
    quantifier = Broken(mean=0.2)
    assert not shield_of(quantifier).filter(np.zeros(2), np.zeros(2), 0.5).intervened
    assert quantifier.calls == 1
