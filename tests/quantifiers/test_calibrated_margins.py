"""Calibrated around a model of the margin, the watch during a run, what is kept, and the ends of its settings."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp import Calibrated, SparseGP, Unknown
from safexp.quantifiers import Transitions
from safexp.quantifiers.calibrated import least_scale, stretches_needed
from safexp.quantifiers.fitted import FittedQuantifier

ONE = np.zeros((1, 1)), np.zeros((1, 1, 1))


class Promises(FittedQuantifier):
    """Predicts a margin of 1 ± 0.1 everywhere, and tells what it knew when it was asked."""

    delta = 0.05
    knows = True

    def __init__(self):
        super().__init__("margin", 1.0)
        self._support.add(np.array([[-1.0, -1.0], [1.0, 1.0]]))
        self.learned = 0

    def _predicted(self, states, actions):
        return np.ones(actions.shape[:2]), np.full(actions.shape[:2], 0.1)

    def update(self, data):
        self.learned += len(data.costs)

    fit = update


class PromisesCosts(Unknown):
    """Predicts a cost of ½ ± 0.1, and of what it has learned already exactly that."""

    delta = 0.05

    def __init__(self):
        self.known = 0.5

    def predict(self, states, actions):
        return np.full(actions.shape[:2], self.known), np.full(actions.shape[:2], 0.1)

    def update(self, data):
        pass

    fit = update


class Follows(PromisesCosts):
    """Predicts the cost that it saw last."""

    def update(self, data):
        self.known = float(data.costs[-1])


def data_of(costs, margins=None, episodes=None):
    costs = np.asarray(costs, dtype=float)
    episodes = np.arange(len(costs)) if episodes is None else episodes
    return Transitions(np.zeros((len(costs), 1)), np.zeros((len(costs), 1)), costs, margins, episodes)


# Margins


def test_a_model_of_margins_is_measured_on_margins_and_not_on_costs():
    calibrated = Calibrated(Promises())
    calibrated.fit(data_of(np.zeros(100), np.full(100, 0.7)))
    assert calibrated.scale == pytest.approx(3.0), "the margin fell short by three widths, though nothing cost"
    assert [part.item() for part in calibrated.predict(*ONE)] == [0.0, 0.0]
    calibrated.fit(data_of(np.zeros(100), np.full(100, -0.2)))
    assert calibrated.scale == pytest.approx(12.0)
    assert [part.item() for part in calibrated.predict(*ONE)] == [0.5, 0.5]


def test_only_a_margin_that_is_too_small_is_a_miss():
    calibrated = Calibrated(Promises())
    calibrated.fit(data_of(np.zeros(100), np.full(100, 9.0)))
    assert calibrated.scale == 1.0
    calibrated.update(data_of(np.zeros(50), np.full(50, 9.0)))
    assert calibrated.excess == 0.0
    calibrated.update(data_of(np.zeros(50), np.full(50, 0.8)))
    assert calibrated.excess > 0.0


def test_small_margins_are_bold():
    calibrated = Calibrated(Promises(), least=0.0)
    margins = np.linspace(0.9, 0.5, 100)
    calibrated.fit(data_of(np.zeros(100), margins))
    np.testing.assert_allclose(calibrated.scores[32:], (1.0 - margins[32:]) / 0.1)


def test_without_margins_a_model_of_margins_says_what_is_missing():
    with pytest.raises(ValueError, match="transitions without margins"):
        Calibrated(SparseGP("margin")).fit(data_of(np.zeros(100)))


def test_a_model_of_costs_is_measured_on_costs_though_there_are_margins():
    calibrated = Calibrated(PromisesCosts())
    calibrated.fit(data_of(np.full(100, 0.7), np.full(100, -50.0)))
    assert calibrated.scale == pytest.approx(2.0)
    np.testing.assert_allclose([part.item() for part in calibrated.predict(*ONE)], [0.5, 0.2])


# The watch


def test_what_is_watched_moves_the_scale_by_its_formula():
    calibrated = Calibrated(PromisesCosts(), delta=0.1, rate=0.3)
    calibrated.fit(data_of(np.full(100, 0.5)))
    calibrated.update(data_of([1.0, 1.0, 0.5, 0.5]))
    assert calibrated.excess == pytest.approx(0.3 * (2 - 0.1 * 4))
    calibrated.update(data_of([0.5]))
    assert calibrated.excess == pytest.approx(0.3 * (2 - 0.1 * 5))
    latest = calibrated.scores[-stretches_needed(0.1, 0.95) :]
    assert calibrated.scale == pytest.approx(latest.max() * math.exp(calibrated.excess))


def test_a_stretch_that_the_model_has_just_learned_was_missed_all_the_same():
    calibrated = Calibrated(Follows(), rate=1.0)
    calibrated.fit(data_of(np.full(100, 0.5)))
    calibrated.update(data_of(np.full(5, 0.9)))
    assert calibrated.quantifier.known == 0.9
    np.testing.assert_allclose(calibrated.scores[-5:], 4.0)
    assert calibrated.excess == pytest.approx(5 * 0.95)


def test_a_shift_that_the_log_did_not_show_is_noticed_and_forgotten():
    calibrated = Calibrated(PromisesCosts(), delta=0.1, rate=0.5, capacity=100)
    calibrated.fit(data_of(np.full(1000, 0.5)))
    assert calibrated.scale == 1.0
    for _ in range(4):
        calibrated.update(data_of(np.full(5, 0.9)))
    assert calibrated.scale > 4.0, "the new scores alone would have said that"
    for _ in range(200):
        calibrated.update(data_of(np.full(5, 0.5)))
    assert (calibrated.scale, calibrated.excess) == (1.0, 0.0)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    st.floats(0.01, 0.3),
    st.floats(0.01, 2.0),
)
def test_the_share_of_misses_during_a_run_is_bounded_by_the_excess(epochs, delta, rate):
    capacity = max(100, stretches_needed(delta, 0.95))
    calibrated = Calibrated(PromisesCosts(), delta=delta, rate=rate, capacity=capacity)
    calibrated.fit(data_of(np.full(2 * capacity, 0.5)))
    seen = missed = 0
    for count, share in epochs:
        costs = np.where(np.arange(count) < share * count, 1.0, 0.5)
        missed += int((costs > 0.5 + 0.1 * calibrated.scale).sum())
        seen += count
        calibrated.update(data_of(costs))
    assert missed - delta * seen <= calibrated.excess / rate + 1e-6


def test_a_rate_of_zero_does_not_watch():
    calibrated = Calibrated(PromisesCosts(), rate=0.0)
    calibrated.fit(data_of(np.full(100, 0.5)))
    calibrated.update(data_of(np.ones(3)))
    assert calibrated.excess == 0.0


def test_a_run_of_misses_without_end_overflows_nothing():
    calibrated = Calibrated(PromisesCosts(), rate=1000.0)
    calibrated.fit(data_of(np.full(100, 0.5)))
    for _ in range(3):
        calibrated.update(data_of(np.full(100, 0.9)))
    assert calibrated.scale > 1e100
    assert np.isfinite(calibrated.excess)


def test_while_nothing_is_certified_nothing_is_watched():
    calibrated = Calibrated(PromisesCosts(), rate=1.0)
    calibrated.excess = 1.0
    calibrated.update(data_of(np.full(10, 0.9)))
    assert math.isinf(calibrated.scale)
    assert calibrated.excess == 1.0


def test_a_run_without_a_log_calibrates_itself():
    calibrated = Calibrated(PromisesCosts())
    for _ in range(6):
        calibrated.update(data_of(np.full(10, 0.6)))
    assert calibrated.scale == pytest.approx(1.0)
    assert calibrated.reached == 0.95


def test_an_update_without_transitions_changes_nothing():
    one, other = Calibrated(PromisesCosts(), rate=1.0), Calibrated(PromisesCosts(), rate=1.0)
    for calibrated in (one, other):
        calibrated.fit(data_of(np.full(100, 0.5)))
    for _ in range(3):
        one.update(data_of([]))
    for calibrated in (one, other):
        calibrated.update(data_of(np.full(50, 0.9)))
    for name, part in other.state().items():
        np.testing.assert_array_equal(one.state()[name], part)


# What is kept


def test_a_loaded_one_goes_on_as_if_it_had_never_stopped():
    saved = Calibrated(PromisesCosts(), rate=0.5)
    saved.fit(data_of(np.full(600, 0.55), episodes=np.repeat(np.arange(300), 2)))
    saved.update(data_of(np.full(60, 0.9)))
    loaded = Calibrated(PromisesCosts(), rate=0.5)
    loaded.restore(saved.state())
    assert (loaded.scale, loaded.excess) == (saved.scale, saved.excess)
    assert loaded.excess > 0
    for calibrated in (saved, loaded):
        calibrated.update(data_of(np.full(40, 0.6)))
    for name, part in saved.state().items():
        np.testing.assert_array_equal(loaded.state()[name], part)


def test_one_that_has_scored_nothing_yet_is_loaded_as_such():
    loaded = Calibrated(PromisesCosts())
    loaded.fit(data_of(np.full(100, 0.5)))
    loaded.restore(Calibrated(PromisesCosts()).state())
    assert len(loaded.scores) == 0
    assert math.isinf(loaded.scale)


def test_a_fit_forgets_scores_and_misses():
    calibrated = Calibrated(PromisesCosts(), rate=1.0)
    calibrated.fit(data_of(np.full(100, 0.99)))
    calibrated.update(data_of(np.full(10, 1.0)))
    assert calibrated.excess > 0
    calibrated.fit(data_of(np.full(100, 0.5)))
    fresh = Calibrated(PromisesCosts(), rate=1.0)
    fresh.fit(data_of(np.full(100, 0.5)))
    for name, part in fresh.state().items():
        np.testing.assert_array_equal(calibrated.state()[name], part)


def test_the_latest_scores_are_kept_up_to_the_capacity():
    calibrated = Calibrated(PromisesCosts(), capacity=100, rate=0.0)
    calibrated.fit(data_of(np.full(1000, 0.99)))
    assert len(calibrated.scores) == 100
    calibrated.update(data_of(np.full(1000, 0.55)))
    assert len(calibrated.scores) == 100
    assert calibrated.scale == 1.0, "what was costly is forgotten"


def test_a_warning_is_given_once_and_again_after_a_fit(caplog):
    calibrated = Calibrated(PromisesCosts())
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(10, 0.5)))
        calibrated.update(data_of(np.full(2, 0.5)))
        assert caplog.text.count("nothing is certified") == 1
        calibrated.fit(data_of(np.full(10, 0.5)))
    assert caplog.text.count("nothing is certified") == 2


def test_what_may_be_missed_in_total_is_shared_with_the_model_inside():
    class Split(PromisesCosts):
        def with_delta(self, delta):
            part = Split()
            part.delta = delta
            return part

    calibrated = Calibrated(Split(), delta=0.2, rungs=4, rate=0.3, least=0.5, capacity=99)
    part = calibrated.with_delta(0.1)
    assert part.quantifier.delta == pytest.approx(0.025)
    assert part.settings() == calibrated.settings() | {"delta": 0.1}
    assert calibrated.settings() == {
        "delta": 0.2,
        "confidence": 0.95,
        "rungs": 4,
        "rate": 0.3,
        "least": 0.5,
        "capacity": 99,
    }
    assert calibrated.with_delta(0.02).capacity == stretches_needed(0.02, 0.95) == 149


# Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta", 1.0),
        ("delta", math.nan),
        ("confidence", 0.0),
        ("confidence", 1.0),
        ("rungs", 0),
        ("rate", -1.0),
        ("rate", math.nan),
        ("least", -1.0),
        ("least", math.inf),
    ],
)
def test_settings_outside_their_range_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"Calibrated\({name}="):
        Calibrated(Unknown(), **{name: value})


def test_settings_at_their_ends_are_taken():
    calibrated = Calibrated(Unknown(), rungs=1, rate=0.0, least=0.0, capacity=59)
    assert (calibrated.rungs, calibrated.rate, calibrated.least, calibrated.capacity) == (1, 0.0, 0.0, 59)


def test_how_many_stretches_a_statement_takes():
    for delta, confidence in ((0.05, 0.95), (0.1, 0.9), (0.3, 0.5)):
        needed = stretches_needed(delta, confidence)
        assert (1 - delta) ** needed <= 1 - confidence < (1 - delta) ** (needed - 1)
        assert math.isfinite(least_scale(np.zeros(needed), delta, confidence))
        assert math.isinf(least_scale(np.zeros(needed - 1), delta, confidence))
    assert math.isinf(least_scale(np.zeros(0), 0.05, 0.95))


def test_the_defaults_are_those_of_the_documentation():
    expected = {"delta": 0.05, "confidence": 0.95, "rungs": 5, "rate": 0.05, "least": 1.0, "capacity": 500}
    assert Calibrated(Unknown()).settings() == expected


def test_before_anything_is_scored_every_width_is_infinite():
    class Sure(PromisesCosts):
        def predict(self, states, actions):
            return np.full(actions.shape[:2], 0.5), np.zeros(actions.shape[:2])

    mean, width = Calibrated(Sure()).predict(*ONE)
    assert (mean.tolist(), width.tolist()) == ([[0.5]], [[math.inf]])
