"""Calibrated: the scale against its closed form, what is held out, the watch, and failing safe."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from safexp import Calibrated, Each, ExactGP, Known, Log, Shield, SparseGP, Unknown
from safexp.core import files
from safexp.quantifiers import Transitions
from safexp.quantifiers.calibrated import episode_maxima, excess_in_widths, least_scale

STATES = spaces.Box(-1.0, 1.0, (1,), np.float64)
ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float64)


def data_of(costs, episodes=None, states=None):
    costs = np.asarray(costs, dtype=float)
    states = np.zeros((len(costs), 1)) if states is None else states
    return Transitions(states, np.zeros((len(costs), 1)), costs, None, episodes)


def narrow(width=0.01):
    """Claims that every cost is ½, and is too sure of it."""
    return Known(lambda states, actions: np.full(len(states), 0.5), width, delta=0.05)


class Learner(Unknown):
    """Remembers the costs it was given, and says ½ ± 0.1."""

    delta = 0.05

    def __init__(self):
        self.seen = []

    def predict(self, states, actions):
        return np.full(actions.shape[:2], 0.5), np.full(actions.shape[:2], 0.1)

    def update(self, data):
        self.seen.append(data.costs)

    fit = update


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


def test_the_promise_of_the_scale_holds_as_often_as_it_says():
    rng = np.random.default_rng(0)
    broken = [1.0 - least_scale(rng.uniform(size=100), 0.05, 0.9) > 0.05 for _ in range(3000)]
    assert np.mean(broken) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 3000)
    assert np.mean(broken) > 0.02  # and it is not wasteful


def test_an_episode_counts_by_its_worst_step():
    scores = np.array([1.0, 5.0, 2.0, 0.5])
    np.testing.assert_array_equal(episode_maxima(scores, np.array([7, 3, 7, 3])), [5.0, 2.0])
    np.testing.assert_array_equal(episode_maxima(scores, None), scores)


def test_scores_of_widths_that_are_zero_or_no_widths():
    costs, mean = np.array([0.5, 0.5, 0.5, 0.5, 0.7]), np.array([0.5, 0.2, np.nan, 0.5, 0.5])
    width = np.array([0.0, 0.0, 1.0, -1.0, 0.1])
    np.testing.assert_allclose(excess_in_widths(costs, mean, width), [0.0, np.inf, np.inf, np.inf, 2.0])


def test_widths_grow_until_held_out_costs_are_covered():
    costs = 0.5 + 0.1 * np.random.default_rng(1).uniform(-1, 1, 2000)
    calibrated = Calibrated(narrow(), delta=0.05)
    calibrated.fit(data_of(costs))
    _, width = calibrated.predict(np.zeros((1, 1)), np.zeros((1, 1, 1)))
    fresh = 0.5 + 0.1 * np.random.default_rng(2).uniform(-1, 1, 20000)
    missed = np.mean(fresh > 0.5 + width[0, 0])
    assert 0.01 < missed <= 0.05
    generous = Calibrated(narrow(0.5))
    generous.fit(data_of(costs))
    assert generous.scale == 1.0
    allowed = Calibrated(narrow(0.5), least=0.0)
    allowed.fit(data_of(costs))
    assert allowed.scale < 0.2


def test_only_the_costly_class_decides():
    rng = np.random.default_rng(0)
    costs = np.where(rng.uniform(size=4000) < 0.5, rng.uniform(0.5, 0.8, 4000), 0.5)
    everything, costly = Calibrated(narrow(), delta=0.2), Calibrated(narrow(), delta=0.2, near=0.6)
    everything.fit(data_of(costs))
    costly.fit(data_of(costs))
    assert costly.scale > everything.scale


def test_what_is_held_out_is_never_learned_from_and_whole_episodes_are():
    learner = Learner()
    calibrated = Calibrated(learner, holdout=0.3)
    episodes = np.repeat(np.arange(500), 4)
    costs = episodes / 500 + 0.0001 * np.tile(np.arange(4), 500)
    calibrated.fit(data_of(costs, episodes))
    calibrated.update(data_of(costs, episodes + 500))
    seen = np.concatenate(learner.seen)
    learned, held = np.unique(np.floor(seen * 500 + 1e-6)), calibrated.held_out_episodes
    assert len(learned) + held / 2 == pytest.approx(500, abs=300 * 0.05)
    assert held == pytest.approx(300, abs=10)
    once = Calibrated(Learner())
    once.fit(data_of(costs, episodes))
    assert not np.isin(once.state()["costs"], np.concatenate(once.quantifier.seen)).any()


def test_an_episode_that_goes_on_stays_on_its_side():
    learner = Learner()
    calibrated = Calibrated(learner)
    calibrated.fit(data_of(np.full(200, 0.5), np.arange(200)))
    for _ in range(3):
        calibrated.update(data_of(np.arange(100) / 1000, np.arange(100)))
    assert len(learner.seen) == 4
    assert all(np.array_equal(learner.seen[1], part) for part in learner.seen[1:])


def test_too_little_to_say_anything_certifies_nothing_and_says_so(caplog):
    calibrated = Calibrated(narrow(0.4), delta=0.05, confidence=0.95, holdout=0.5)
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(60, 0.5), np.arange(60)))
    assert "30 held-out episodes have a cost of 0 or more, and delta=0.05 with confidence 0.95 takes 59" in caplog.text
    assert np.isinf(calibrated.predict(np.zeros((1, 1)), np.zeros((1, 3, 1)))[1]).all()
    assert Shield(calibrated, STATES, ACTIONS).filter(np.zeros(1), np.zeros(1), 0.99).stopped
    calibrated.update(data_of(np.full(60, 0.5), np.arange(100, 160)))
    assert calibrated.scale == 1.0
    assert Calibrated(narrow()).predict(np.zeros((1, 1)), np.zeros((1, 1, 1)))[1] == np.inf


@given(
    st.lists(st.tuples(st.integers(1, 30), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    st.floats(0.01, 0.3),
    st.floats(0.01, 2.0),
)
def test_the_share_of_misses_during_a_run_is_bounded_by_the_excess(epochs, delta, rate):
    calibrated = Calibrated(narrow(0.01), delta=delta, rate=rate, least=1.0)
    calibrated.fit(data_of(np.full(2000, 0.5)))
    seen = missed = 0
    for count, share in epochs:
        costs = np.where(np.arange(count) < share * count, 1.0, 0.5)
        missed += int((costs > 0.5 + 0.01 * calibrated.scale).sum())
        seen += count
        calibrated.update(data_of(costs, np.arange(count) + 10_000))
    assert missed - delta * seen <= calibrated.excess / rate + 1e-6


def test_a_shift_that_the_held_out_episodes_did_not_show_is_noticed_and_forgotten():
    calibrated = Calibrated(narrow(0.01), delta=0.1, rate=0.5, capacity=100)
    calibrated.fit(data_of(np.full(1000, 0.5)))
    assert calibrated.scale == 1.0
    unseen = 1 + np.flatnonzero((np.arange(1, 200) * (math.sqrt(5) - 1) / 2) % 1.0 >= 0.3)  # not held out
    for _ in range(4):
        calibrated.update(data_of(np.full(5, 0.9), unseen[:5]))
    assert calibrated.scale > 40
    for _ in range(200):
        calibrated.update(data_of(np.full(5, 0.5), unseen[:5]))
    assert calibrated.scale == 1.0


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
    assert stricter.held_out_episodes == loaded.held_out_episodes > 0


def test_each_of_several_costs_is_calibrated_by_itself():
    both = Each.of(Calibrated(narrow(), delta=0.1), 2)
    costs = np.stack([np.full(1000, 0.5), np.random.default_rng(0).uniform(0.5, 0.6, 1000)], axis=1)
    both.fit(Transitions(np.zeros((1000, 1)), np.zeros((1000, 1)), costs))
    first, second = both.parts
    assert first.scale == 1.0
    assert second.scale > 5.0
    with pytest.raises(ValueError, match=r"costs of shape \(3, 2\), expected \(n,\)"):
        first.update(data_of(np.zeros((3, 2))))


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
@pytest.mark.parametrize("after", [0, 1])
def test_a_quantifier_that_fails_inside_lets_nothing_through(how, after, caplog):
    calibrated = Calibrated(Failing(how, after))
    with caplog.at_level(logging.WARNING, "safexp"):
        calibrated.fit(data_of(np.full(1000, 0.5)))
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
        ({"holdout": 1.0}, r"holdout=1.0\) must lie in \(0, 1\)"),
        ({"near": math.nan}, r"near=nan\) must be finite"),
        ({"capacity": 58}, r"capacity=58\) is too small: delta=0.05 with confidence 0.95 takes 59"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Calibrated(Unknown(), **options)


def test_a_log_of_one_episode_leaves_nothing_to_learn_from():
    data = Transitions(np.zeros((9, 1)), np.zeros((9, 1)), np.zeros(9), episodes=np.zeros(9, dtype=np.int64))
    with pytest.raises(ValueError, match="holds out all episodes that it was given, and leaves none to learn from"):
        Calibrated(SparseGP()).fit(data)
