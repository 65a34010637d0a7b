"""Calibrated: the scale against its closed form, what every rung holds out, files, and failing safe."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from safexp import Calibrated, ChangeModel, ExactGP, Known, Log, PerCost, Shield, SparseGP, Unknown, Within
from safexp.core import files
from safexp.quantifiers import Transitions
from safexp.quantifiers.base import error_in_widths, stretches_of
from safexp.quantifiers.boldness import by_boldness, ladder, stretch_maxima
from safexp.quantifiers.calibrated import least_scale, transition_scores
from safexp.shield.certificates import certificate_for
from safexp.shield.transitions import transitions_of

STATES = spaces.Box(-1.0, 1.0, (1,), np.float64)
ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float64)
ONE = np.zeros((1, 1)), np.zeros((1, 1, 1))


def data_of(costs, episodes=None, states=None):
    """Transitions with these costs, each an episode of its own unless told otherwise."""
    costs = np.asarray(costs, dtype=float)
    states = np.zeros((len(costs), 1)) if states is None else states
    episodes = np.arange(len(costs)) if episodes is None else episodes
    return Transitions(states, np.zeros((len(costs), 1)), costs, None, episodes)


def narrow(width=0.01):
    """Claims that every cost is ½, and is too sure of it."""
    return Known(lambda states, actions: np.full(len(states), 0.5), width, delta=0.05)


class Learner(Unknown):
    """Says ½ ± 0.1, and tells everybody what each copy of it was given."""

    delta = 0.05

    def __init__(self):
        self.given = []

    def predict(self, states, actions):
        return np.full(actions.shape[:2], 0.5), np.full(actions.shape[:2], 0.1)

    def update(self, data):
        self.given.append(data.costs)

    fit = update

    def __deepcopy__(self, memo):
        return self


# The scale


@given(st.integers(1, 400), st.floats(0.01, 0.3), st.floats(0.5, 0.99), st.integers(0, 100))
def test_the_scale_is_the_smallest_with_a_clopper_pearson_bound_of_delta(n, delta, confidence, seed):
    scores = np.random.default_rng(seed).permutation(np.arange(n, dtype=float))
    scale = least_scale(scores, delta, confidence)

    def upper(misses):
        return beta.ppf(confidence, misses + 1, n - misses) if misses < n else 1.0

    if math.isinf(scale):
        assert upper(0) > delta
    else:
        misses = int((scores > scale).sum())
        assert upper(misses) <= delta + 1e-9
        assert upper(misses + 1) > delta - 1e-9


@given(st.lists(st.floats(0.0, 9.0), min_size=1, max_size=120), st.floats(0.02, 0.4), st.floats(0.5, 0.99))
def test_the_scale_is_found_by_trying_every_score(scores, delta, confidence):
    found = [
        score
        for larger, score in enumerate(sorted(scores, reverse=True))
        if binom.cdf(larger, len(scores), delta) <= 1 - confidence
    ]
    assert least_scale(np.array(scores), delta, confidence) == min(found, default=math.inf)


def test_the_promise_of_the_scale_holds_as_often_as_it_says():
    rng = np.random.default_rng(0)
    broken = [1.0 - least_scale(rng.uniform(size=100), 0.05, 0.9) > 0.05 for _ in range(3000)]
    assert np.mean(broken) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 3000)
    assert np.mean(broken) > 0.02  # and it is not wasteful


def test_stretches_of_a_known_distribution_are_covered_as_promised():
    """Ten steps with normal errors: a stretch is missed with a probability that is known for every scale."""
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(300):
        costs = 0.5 + 0.05 * rng.standard_normal(1500)
        calibrated = Calibrated(narrow(0.05), delta=0.1, confidence=0.9)
        calibrated.fit(data_of(costs, np.repeat(np.arange(150), 10)))
        from_normal = 1.0 - (1.0 - 0.5 * math.erfc(calibrated.scale / math.sqrt(2))) ** 10
        missed.append(from_normal)
    assert np.mean(np.array(missed) > 0.1) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 300)
    assert np.mean(missed) > 0.003, "here the boldest err most, so the scale is the largest of 150 scores: 1/150"


def test_widths_grow_until_bolder_stretches_are_covered():
    rng = np.random.default_rng(1)
    costs = 0.5 + 0.1 * rng.uniform(-1, 1, 2000)
    calibrated = Calibrated(narrow(), delta=0.05)
    calibrated.fit(data_of(costs))
    width = calibrated.predict(*ONE)[1].item()
    fresh = 0.5 + 0.1 * np.random.default_rng(2).uniform(-1, 1, 20000)
    assert np.mean(fresh > 0.5 + width) <= 0.05
    generous = Calibrated(narrow(0.5))
    generous.fit(data_of(costs))
    assert generous.scale == 1.0
    allowed = Calibrated(narrow(0.5), least=0.0)
    allowed.fit(data_of(costs))
    assert allowed.scale == pytest.approx(0.2, rel=0.02)


# Stretches and rungs


def test_a_stretch_counts_by_its_worst_step():
    scores = np.array([1.0, 5.0, 2.0, 0.5])
    np.testing.assert_array_equal(stretch_maxima(scores, np.array([7, 3, 7, 3])), [5.0, 2.0])
    assert stretch_maxima(np.zeros(0), np.zeros(0, dtype=np.int64)).shape == (0,)


def test_without_episodes_a_hundred_steps_are_a_stretch():
    told = data_of(np.zeros(250), np.repeat([4, 9], 125))
    np.testing.assert_array_equal(np.bincount(stretches_of(told)), [125, 125])
    np.testing.assert_array_equal(np.bincount(stretches_of(told._replace(episodes=None))), [100, 100, 50])


@given(st.integers(0, 300), st.integers(1, 8))
def test_every_rung_holds_out_the_boldest_fifth_of_what_is_left_and_of_the_rest_every_second_one(count, rungs):
    found = ladder(np.arange(count), rungs)
    top, climbed = count, 0
    while climbed < rungs and top > 1:
        learned, held_out = found.pop()
        np.testing.assert_array_equal(np.append(learned, held_out), np.arange(top))
        assert len(held_out) == math.ceil(top / 5)
        top, climbed = len(learned), climbed + 1
    expected = [np.arange(1, top, 2), np.arange(0, top, 2)] if climbed else []
    expected = [held_out for held_out in expected if len(held_out)]
    assert len(found) == len(expected)
    for (learned, held_out), wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(held_out, wanted)
        np.testing.assert_array_equal(learned, np.setdiff1d(np.arange(count), wanted))


def test_the_boldest_came_nearest_to_the_limit_and_of_equals_have_the_strangest_inputs():
    costs, states = np.array([0.2, 0.9, 0.2, 0.2, 0.1, 0.1]), np.array([[0.0], [0.0], [9.0], [0.0], [0.0], [0.0]])
    episodes = np.array([0, 0, 1, 2, 3, 3])
    order = by_boldness(Unknown(), data_of(costs, episodes, states), stretches_of(data_of(costs, episodes)))
    assert order.tolist() == [3, 2, 1, 0]


def test_signals_far_from_their_limit_are_told_apart_though_their_costs_are_all_zero():
    signals = np.array([[9.0], [8.0], [30.0], [12.0]])
    data = data_of(np.zeros(4), states=np.tile(signals, 2))._replace(signals=signals)
    model = ChangeModel(SparseGP()).bound_to(Within("distance", low=1.0).sides, (0,))
    assert by_boldness(model, data, stretches_of(data)).tolist() == [2, 3, 0, 1]


def test_models_are_asked_about_bolder_stretches_than_they_have_seen():
    learner = Learner()
    costs = np.random.default_rng(0).permutation(100) / 100.0
    calibrated = Calibrated(learner, least=0.0)
    calibrated.fit(data_of(np.repeat(costs, 2), np.repeat(np.arange(100), 2)))
    *rest, everything = learner.given
    halves, rungs = rest[:2], rest[2:]
    assert [len(rung) // 2 for rung in rungs] == [32, 40, 51, 64, 80]
    for rung in rungs:
        assert rung.max() == pytest.approx(len(rung) / 2 / 100 - 0.01)
    assert [len(half) // 2 for half in halves] == [84, 84], "of the most timid 32 every second is held out"
    assert len(everything) == 200
    np.testing.assert_allclose(calibrated.scores[32:], (np.arange(32, 100) / 100 - 0.5) / 0.1, atol=1e-9)
    np.testing.assert_allclose(np.sort(calibrated.scores[:32]), (np.arange(32) / 100 - 0.5) / 0.1, atol=1e-9)


def test_of_many_stretches_the_scores_of_the_boldest_are_kept():
    calibrated = Calibrated(Learner(), capacity=60, least=0.0)
    calibrated.fit(data_of(np.arange(1000) / 1000))
    assert len(calibrated.scores) == 60
    assert calibrated.scores.min() == pytest.approx((0.94 - 0.5) / 0.1)


def test_bold_stretches_are_covered_though_timid_ones_are_many():
    calibrated = Calibrated(Learner())
    calibrated.fit(data_of(np.append(np.full(900, 0.4), np.linspace(0.45, 0.8, 30))))
    assert calibrated.scale == pytest.approx(3.0), "of all stretches only three in a hundred are bolder than 1 width"


def test_timid_stretches_are_covered_though_bold_ones_are_easy():
    """Costs tell how bold a stretch is, and every second timid one is far off for another reason."""

    class Odd(Learner):
        def error(self, observed, mean):
            return np.where(observed < 0.2, 0.7, 0.0)

    calibrated = Calibrated(Odd())
    calibrated.fit(data_of(np.append(np.full(60, 0.1), np.linspace(0.3, 0.5, 200))))
    assert calibrated.scale == pytest.approx(7.0)


# How sure it is


def test_sixty_cautious_stretches_give_a_finite_scale_and_its_confidence(caplog):
    calibrated = Calibrated(narrow(0.01))
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.linspace(0.4, 0.52, 60)))
    assert calibrated.scale == pytest.approx(2.0)
    assert calibrated.reached == 0.95
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.linspace(0.4, 0.53, 41)))
    assert calibrated.scale == pytest.approx(3.0)
    assert calibrated.reached == pytest.approx(1 - 0.95**41)
    assert "has 41 stretches, and 59 are needed for delta=0.05 with confidence 0.95" in caplog.text
    assert "holds with confidence 88%;" in caplog.text


def test_enough_stretches_reach_the_confidence_without_a_word(caplog):
    calibrated = Calibrated(narrow())
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(100, 0.5)))
    assert calibrated.reached == calibrated.confidence == 0.95
    assert not caplog.records


def test_below_even_odds_nothing_is_certified(caplog):
    calibrated = Calibrated(narrow(0.4))
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(13, 0.5)))
    assert len(calibrated.scores) == 13
    assert calibrated.reached == pytest.approx(1 - 0.95**13)
    assert "so nothing is certified" in caplog.text
    assert np.isinf(calibrated.predict(np.zeros((1, 1)), np.zeros((1, 3, 1)))[1]).all()
    assert Shield(calibrated, STATES, ACTIONS).filter(np.zeros(1), np.zeros(1), 0.99).stopped
    calibrated.update(data_of([0.5]))
    assert calibrated.scale == 1.0


def test_a_log_of_one_episode_leaves_nothing_to_measure_and_certifies_nothing():
    calibrated = Calibrated(narrow(0.4))
    calibrated.fit(data_of(np.full(9, 0.5), np.zeros(9, dtype=np.int64)))
    assert len(calibrated.scores) == 0
    assert math.isinf(calibrated.scale)


# Logs, files, parts


def test_a_log_of_signals_needs_no_costs():
    rng = np.random.default_rng(0)
    x, a = rng.uniform(-1, 1, (400, 1)), rng.uniform(-1, 1, (400, 1))
    after = (x + 0.1 * a + 0.02 * rng.standard_normal((400, 1))).clip(-1, 1)
    log = Log(x, a, episodes=np.arange(400) // 4, next_observations=after)
    constraint = Within(0, -2.0, 2.0)
    wanted = Calibrated(SparseGP(num_inducing=16, first_steps=20))
    calibrated = certificate_for(constraint, wanted, STATES)
    calibrated.fit(transitions_of(log, constraint, STATES, ACTIONS))
    assert 1.0 <= calibrated.scale < 10.0
    mean, width = calibrated.predict(np.array([[0.5, 0.5]]), np.zeros((1, 1, 1)))
    np.testing.assert_allclose(mean[0, 0], [0.125, -0.125], atol=0.01)
    assert (mean + width <= 0.2).all()


def test_a_file_holds_all_of_it(tmp_path):
    rng = np.random.default_rng(0)
    log = Log(
        rng.uniform(-1, 1, (600, 1)),
        rng.uniform(-1, 1, (600, 1)),
        rng.uniform(0.4, 0.6, 600),
        episodes=np.repeat(np.arange(200), 3),
    )
    shield = Shield(Calibrated(ExactGP(0.5, capacity=50), delta=0.1), STATES, ACTIONS)
    shield.fit(log)
    shield.quantifier.update(data_of([0.9] * 5, np.arange(5)))
    document, arrays = shield.describe()
    files.write(tmp_path / "file", {"shield": document}, arrays)
    loaded = Shield.load(tmp_path / "file").quantifier
    assert isinstance(loaded, Calibrated)
    assert isinstance(loaded.quantifier, ExactGP)
    assert (loaded.scale, loaded.excess) == (shield.quantifier.scale, shield.quantifier.excess)
    question = rng.uniform(-1, 1, (4, 1)), rng.uniform(-1, 1, (4, 3, 1))
    for one, other in zip(loaded.predict(*question), shield.quantifier.predict(*question), strict=True):
        np.testing.assert_array_equal(one, other)
    stricter = loaded.with_delta(0.05)
    assert (stricter.delta, stricter.quantifier.delta) == pytest.approx((0.05, 0.025))
    assert np.isfinite(stricter.scale)
    assert stricter.scale >= loaded.scale
    np.testing.assert_array_equal(stricter.scores, loaded.scores)


def test_each_of_several_costs_is_calibrated_by_itself():
    both = PerCost.of(Calibrated(narrow(), delta=0.1), 2)
    costs = np.stack([np.full(1000, 0.5), np.random.default_rng(0).uniform(0.5, 0.6, 1000)], axis=1)
    both.fit(data_of(np.zeros(1000))._replace(costs=costs))
    first, second = both.parts
    assert first.scale == 1.0
    assert second.scale > 5.0
    for learn in (first.fit, first.update):
        with pytest.raises(ValueError, match=r"costs of shape \(3, 2\), expected \(n,\)"):
            learn(data_of(np.zeros(3))._replace(costs=np.zeros((3, 2))))


# Failing safe


def test_scores_of_widths_that_are_zero_or_no_widths():
    error = np.array([0.0, 0.3, np.nan, 0.0, 0.2, 1e-12, 1e-6, -0.3, 0.4])
    width = np.array([0.0, 0.0, 1.0, -1.0, 0.1, 0.0, 0.0, 0.0, np.inf])
    expected = [0.0, np.inf, np.inf, np.inf, 2.0, 0.0, np.inf, 0.0, 0.0]
    np.testing.assert_allclose(error_in_widths(error, width), expected)


def test_scores_do_not_depend_on_how_many_are_asked_for_at_once():
    costs = np.random.default_rng(0).uniform(size=3456)
    np.testing.assert_allclose(transition_scores(narrow(0.1), data_of(costs)), (costs - 0.5) / 0.1)
    assert transition_scores(narrow(), data_of([])).shape == (0,)


class Failing(Learner):
    """Fails from some call on, in one way or another."""

    def __init__(self, how, after=0):
        super().__init__()
        self.how, self.after, self.calls = how, after, 0

    def predict(self, states, actions):
        self.calls += 1
        mean, width = super().predict(states, actions)
        if self.calls <= self.after:
            return mean, width
        if self.how == "raises":
            raise FloatingPointError("singular matrix")
        if self.how == "dimension" and actions.shape[2] != 7:
            raise ValueError("learned actions (n, m, 7)")
        return {"nan": (mean * np.nan, width), "negative": (mean, -width), "shape": (mean[:, :0], width)}[self.how]


@pytest.mark.parametrize("how", ["raises", "dimension", "nan", "negative", "shape"])
@pytest.mark.parametrize("after", [0, 7])
def test_a_quantifier_that_fails_inside_lets_nothing_through(how, after, caplog):
    calibrated = Calibrated(Failing(how, after))
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(200, 0.5)))
        shield = Shield(calibrated, STATES, ACTIONS)
        assert shield.filter(np.zeros(1), np.zeros(1), 0.99).stopped
        offers = shield.glance(shield.question(np.zeros((2, 1)), np.array([0.99, 0.99])))
    assert not offers.viable.any()
    assert "certifies nothing" in caplog.text or "certified nothing" in caplog.text
    assert math.isinf(calibrated.scale) == (after == 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, r"delta=0.0\) must lie in \(0, 1\)"),
        ({"rungs": 0}, r"rungs=0\) must be at least 1"),
        ({"capacity": 58}, r"capacity=58\) is too small: delta=0.05 with confidence 0.95 needs 59"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Calibrated(Unknown(), **options)
