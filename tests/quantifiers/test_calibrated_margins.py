"""Calibrated around a model of the margin, what a file keeps of it, and the ends of its settings."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest

from safexp import Calibrated, Unknown
from safexp.quantifiers import Transitions
from safexp.quantifiers.calibrated import episode_maxima, episodes_needed, excess_in_widths, joined, least_scale


class Promises(Unknown):
    """Predicts a margin, or a cost, of 1 ± 0.1 everywhere."""

    delta = 0.05
    target = "margin"

    def predict_target(self, states, actions):
        return np.ones(actions.shape[:2]), np.full(actions.shape[:2], 0.1)

    def predict(self, states, actions):
        raise AssertionError("asked about costs, which it does not model")

    def fit(self, data):
        pass

    update = fit


class PromisesCosts(Promises):
    """Predicts a cost of ½ ± 0.1 everywhere."""

    target = "cost"

    def predict_target(self, states, actions):
        return np.full(actions.shape[:2], 0.5), np.full(actions.shape[:2], 0.1)


def data_of(costs, margins=None, episodes=None):
    costs = np.asarray(costs, dtype=float)
    return Transitions(np.zeros((len(costs), 1)), np.zeros((len(costs), 1)), costs, margins, episodes)


ONE = np.zeros((1, 1)), np.zeros((1, 1, 1))


def test_a_model_of_margins_is_measured_on_margins_and_not_on_costs():
    calibrated = Calibrated(Promises())
    calibrated.fit(data_of(np.zeros(1000), np.full(1000, 0.7)))
    assert calibrated.scale == pytest.approx(3.0), "the margin fell short by three widths, though nothing cost"
    assert [part.item() for part in calibrated.predict(*ONE)] == [0.0, 0.0]
    calibrated.fit(data_of(np.zeros(1000), np.full(1000, -0.2)))
    assert calibrated.scale == pytest.approx(12.0)
    assert [part.item() for part in calibrated.predict(*ONE)] == [0.5, 0.5]


def test_only_a_margin_that_is_too_small_is_a_miss():
    calibrated = Calibrated(Promises())
    calibrated.fit(data_of(np.zeros(1000), np.full(1000, 9.0)))
    assert calibrated.scale == 1.0
    calibrated.update(data_of(np.zeros(50), np.full(50, 9.0)))
    assert calibrated.excess == 0.0
    calibrated.update(data_of(np.zeros(50), np.full(50, 0.8)))
    assert calibrated.excess > 0.0


def test_without_margins_a_model_of_margins_certifies_nothing(caplog):
    calibrated = Calibrated(Promises())
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.zeros(1000)))
    assert math.isinf(calibrated.scale)
    assert "transitions without margins" in caplog.text
    assert "no width would have covered 300 of 300 held-out episodes" in caplog.text


def test_a_model_that_knows_targets_may_still_model_the_cost():
    calibrated = Calibrated(PromisesCosts())
    calibrated.fit(data_of(np.full(1000, 0.7), np.full(1000, -50.0)))
    assert calibrated.scale == pytest.approx(2.0)
    np.testing.assert_allclose([part.item() for part in calibrated.predict(*ONE)], [0.5, 0.2])


def test_a_loaded_one_goes_on_as_if_it_had_never_stopped():
    saved = Calibrated(PromisesCosts(), rate=0.5)
    episodes = np.repeat(np.arange(300), 2)
    saved.fit(data_of(np.full(600, 0.55), np.zeros(600), episodes))
    saved.update(data_of(np.full(600, 0.9), np.zeros(600), episodes))
    loaded = Calibrated(PromisesCosts(), rate=0.5)
    loaded.restore(saved.state())
    assert (loaded.scale, loaded.excess) == (saved.scale, saved.excess)
    assert loaded.excess > 0
    before = loaded.held_out_episodes
    for calibrated in (saved, loaded):
        calibrated.update(data_of(np.full(40, 0.6), np.zeros(40), np.arange(40)))
    new = loaded.held_out_episodes - before
    assert new == pytest.approx(0.3 * 40, abs=2), "no new episode may be taken for one that was there before"
    for name, part in saved.state().items():
        np.testing.assert_array_equal(loaded.state()[name], part)


def test_one_that_holds_out_nothing_yet_is_loaded_as_such():
    loaded = Calibrated(PromisesCosts())
    loaded.fit(data_of(np.full(1000, 0.5)))
    loaded.restore(Calibrated(PromisesCosts()).state())
    assert loaded.held_out_episodes == 0
    assert math.isinf(loaded.scale)


def test_episodes_without_numbers_never_meet():
    calibrated = Calibrated(PromisesCosts(), holdout=0.5)
    calibrated.fit(data_of(np.full(200, 0.5)))
    held = calibrated.held_out_episodes
    assert held == pytest.approx(100, abs=2)
    calibrated.update(data_of(np.full(100, 0.5)))
    assert calibrated.held_out_episodes == pytest.approx(150, abs=3)


def test_a_fit_forgets_what_was_held_out_and_missed():
    calibrated = Calibrated(PromisesCosts(), rate=1.0)
    calibrated.fit(data_of(np.full(1000, 0.99)))
    calibrated.update(data_of(np.full(10, 1.0)))
    assert calibrated.excess > 0
    calibrated.fit(data_of(np.full(1000, 0.5)))
    fresh = Calibrated(PromisesCosts(), rate=1.0)
    fresh.fit(data_of(np.full(1000, 0.5)))
    for name, part in fresh.state().items():
        np.testing.assert_array_equal(calibrated.state()[name], part)


def test_the_latest_episodes_are_kept_up_to_the_capacity():
    calibrated = Calibrated(PromisesCosts(), capacity=100, rate=0.0)
    calibrated.fit(data_of(np.full(1000, 0.99)))
    assert calibrated.held_out_episodes == 100
    calibrated.update(data_of(np.full(1000, 0.55)))
    assert calibrated.held_out_episodes == 100
    assert calibrated.scale == 1.0, "what was costly is forgotten"


def test_costs_below_near_are_neither_held_out_nor_watched():
    calibrated = Calibrated(PromisesCosts(), near=0.8, rate=1.0)
    calibrated.fit(data_of(np.tile([0.79, 0.8], 1000), episodes=np.arange(2000)))
    assert calibrated.held_out_episodes == pytest.approx(300, abs=3)
    scale = calibrated.scale
    calibrated.update(data_of(np.full(100, 0.79)))
    assert (calibrated.scale, calibrated.excess) == (scale, 0.0)


def test_a_rate_of_zero_does_not_watch():
    calibrated = Calibrated(PromisesCosts(), rate=0.0)
    calibrated.fit(data_of(np.full(1000, 0.5)))
    calibrated.update(data_of(np.ones(3), episodes=np.array([1, 3, 4])))
    assert calibrated.excess == 0.0


def test_what_is_watched_moves_the_scale_by_its_formula():
    calibrated = Calibrated(PromisesCosts(), delta=0.1, rate=0.3)
    calibrated.fit(data_of(np.full(1000, 0.5)))
    missed = np.array([1, 3, 4, 6])  # on the side that is learned from
    calibrated.update(data_of(np.array([1.0, 1.0, 0.5, 0.5]), episodes=missed))
    assert calibrated.excess == pytest.approx(0.3 * (2 - 0.1 * 4))
    assert calibrated.scale == pytest.approx(math.exp(calibrated.excess))
    calibrated.update(data_of(np.array([0.5]), episodes=missed[:1]))
    assert calibrated.excess == pytest.approx(0.3 * (2 - 0.1 * 5))


def test_a_run_of_misses_without_end_overflows_nothing():
    calibrated = Calibrated(PromisesCosts(), rate=1000.0)
    calibrated.fit(data_of(np.full(1000, 0.5)))
    for _ in range(3):
        calibrated.update(data_of(np.full(100, 0.9)))
    assert calibrated.scale > 1e100
    assert np.isfinite(calibrated.excess)


def test_a_warning_is_given_once_and_again_after_it_recovered(caplog):
    calibrated = Calibrated(PromisesCosts(), holdout=0.5)
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(10, 0.5)))
        calibrated.update(data_of(np.full(10, 0.5)))
        assert caplog.text.count("certifies nothing") == 1
        calibrated.update(data_of(np.full(400, 0.5)))
        calibrated.fit(data_of(np.full(10, 0.5)))
    assert caplog.text.count("certifies nothing") == 2


def test_what_may_be_missed_in_total_is_shared_with_the_model_inside():
    class Split(PromisesCosts):
        def with_delta(self, delta):
            part = Split()
            part.delta = delta
            return part

    calibrated = Calibrated(Split(), delta=0.2, near=0.1, holdout=0.4, rate=0.3, least=0.5, capacity=99)
    part = calibrated.with_delta(0.1)
    assert part.quantifier.delta == pytest.approx(0.025)
    assert part.settings() == calibrated.settings() | {"delta": 0.1}
    assert calibrated.settings() == {
        "delta": 0.2,
        "near": 0.1,
        "confidence": 0.95,
        "holdout": 0.4,
        "rate": 0.3,
        "least": 0.5,
        "capacity": 99,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta", 1.0),
        ("delta", math.nan),
        ("confidence", 0.0),
        ("confidence", 1.0),
        ("holdout", 0.0),
        ("holdout", -0.3),
        ("near", -0.1),
        ("near", math.inf),
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
    calibrated = Calibrated(Unknown(), near=0.0, rate=0.0, least=0.0, capacity=59)
    assert (calibrated.near, calibrated.rate, calibrated.least, calibrated.capacity) == (0.0, 0.0, 0.0, 59)


def test_how_many_episodes_a_statement_takes():
    for delta, confidence in ((0.05, 0.95), (0.1, 0.9), (0.3, 0.5)):
        needed = episodes_needed(delta, confidence)
        assert (1 - delta) ** needed <= 1 - confidence < (1 - delta) ** (needed - 1)
        assert math.isfinite(least_scale(np.zeros(needed), delta, confidence))
        assert math.isinf(least_scale(np.zeros(needed - 1), delta, confidence))
    assert math.isinf(least_scale(np.zeros(0), 0.05, 0.95))


def test_a_width_of_zero_forgives_rounding_and_nothing_else():
    mean, width = np.full(3, 0.5), np.zeros(3)
    scores = excess_in_widths(np.array([0.5 + 1e-12, 0.5 + 1e-6, 0.2]), mean, width)
    np.testing.assert_array_equal(scores, [0.0, np.inf, 0.0])


def test_what_only_one_of_two_parts_tells_is_left_out():
    some, others = data_of(np.zeros(2), np.ones(2)), data_of(np.ones(3))
    both = joined(some, others)
    assert (both.margins, both.episodes) == (None, None)
    np.testing.assert_array_equal(both.costs, [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(joined(some, some).margins, np.ones(4))


def test_an_update_without_transitions_changes_nothing():
    one, other = Calibrated(PromisesCosts(), rate=1.0), Calibrated(PromisesCosts(), rate=1.0)
    for calibrated in (one, other):
        calibrated.fit(data_of(np.full(1000, 0.5), episodes=np.arange(1000)))
    for _ in range(3):
        one.update(data_of([], episodes=np.zeros(0, dtype=np.int64)))
    for calibrated in (one, other):
        calibrated.update(data_of(np.full(50, 0.9), episodes=np.arange(50)))
    for name, part in other.state().items():
        np.testing.assert_array_equal(one.state()[name], part)


def test_the_defaults_are_those_of_the_documentation():
    expected = {"delta": 0.05, "near": 0.0, "confidence": 0.95, "holdout": 0.3, "rate": 0.2, "least": 1.0}
    assert Calibrated(Unknown()).settings() == {**expected, "capacity": 500}


def test_several_costs_are_refused_before_anything_is_learned():
    several = data_of(np.zeros((9, 2)))
    calibrated = Calibrated(PromisesCosts())
    for learn in (calibrated.fit, calibrated.update):
        with pytest.raises(ValueError, match=r"Calibrated was given costs of shape \(9, 2\), expected \(n,\)"):
            learn(several)


def test_no_scores_have_no_worst():
    assert episode_maxima(np.zeros(0), np.zeros(0, dtype=np.int64)).shape == (0,)


def test_before_anything_is_held_out_every_width_is_infinite():
    class Sure(PromisesCosts):
        def predict(self, states, actions):
            return np.full(actions.shape[:2], 0.5), np.zeros(actions.shape[:2])

        predict_target = predict

    mean, width = Calibrated(Sure()).predict(*ONE)
    assert (mean.tolist(), width.tolist()) == ([[0.5]], [[math.inf]])


def test_while_nothing_is_certified_nothing_is_watched():
    calibrated = Calibrated(PromisesCosts(), rate=1.0)
    calibrated.excess = 1.0
    calibrated.update(data_of(np.full(10, 0.9)))
    assert math.isinf(calibrated.scale)
    assert calibrated.excess == 1.0


def test_what_certifies_is_not_warned_of(caplog):
    with caplog.at_level(logging.WARNING, "safexp"):
        Calibrated(PromisesCosts()).fit(data_of(np.full(1000, 0.5)))
    assert not caplog.records


def test_a_warning_tells_how_many_episodes_there_are(caplog):
    with caplog.at_level(logging.WARNING, "safexp"):
        Calibrated(PromisesCosts(), near=0.8).fit(data_of(np.full(100, 0.5)))
    assert "certifies nothing: 0 held-out episodes have a cost of 0.8 or more" in caplog.text
