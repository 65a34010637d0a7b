import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from safexp.records.statistics import (
    anytime_interval,
    exact_interval,
    improvement_interval,
    interquartile_interval,
    interquartile_mean,
    mean_and_deviation,
    probability_of_improvement,
    ratio_interval,
    upper_bound,
)

SCORES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6)


def test_no_event_in_n_trials_has_the_closed_form() -> None:
    low, high = exact_interval(0, 100)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.025 ** (1 / 100))


def test_all_events_mirror_none() -> None:
    none, every = exact_interval(0, 30), exact_interval(30, 30)
    assert every == pytest.approx((1 - none[1], 1.0))


def test_without_trials_nothing_is_known() -> None:
    assert exact_interval(0, 0) == (0.0, 1.0)


def test_mean_and_deviation_have_their_closed_form() -> None:
    mean, deviation = mean_and_deviation([1.0, 2.0, 3.0, 4.0])
    assert (mean, deviation) == pytest.approx((2.5, np.sqrt(1.25)))


def test_an_outlier_does_not_move_the_interquartile_mean() -> None:
    assert interquartile_mean([1.0, 2.0, 3.0, 4.0]) == 2.5
    assert interquartile_mean([1.0, 2.0, 3.0, 1e9]) == 2.5
    np.testing.assert_allclose(interquartile_mean([[1, 2, 3, 4], [5, 5, 5, 0]]), [2.5, 5.0])


@pytest.mark.slow
def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    batches = rng.normal(size=(300, 40))
    low, high = interquartile_interval([batches])
    assert 0.90 <= np.mean((low <= 0) & (high >= 0)) <= 0.99


def test_strata_are_resampled_by_themselves() -> None:
    low, high = interquartile_interval([[0.0, 0.0, 0.0, 0.0], [10.0, 10.0, 10.0, 10.0]])
    assert (low, high) == (5.0, 5.0), "resampled together, the shares of the tasks would vary"


def test_intervals_are_reproducible() -> None:
    scores = [np.arange(7.0)]
    assert interquartile_interval(scores, seed=3) == interquartile_interval(scores, seed=3)
    assert interquartile_interval(scores, seed=3)[0] < interquartile_mean(scores[0]) < 5.5


@given(SCORES, SCORES)
def test_improvement_is_the_share_of_pairs_won(ours: list[float], theirs: list[float]) -> None:
    won = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a in ours for b in theirs])
    assert probability_of_improvement([ours], [theirs]) == pytest.approx(won)
    assert probability_of_improvement([theirs], [ours]) == pytest.approx(1 - won)
    assert probability_of_improvement([ours, theirs], [theirs, ours]) == pytest.approx(0.5), "the mean over tasks"


def test_the_interval_of_improvement() -> None:
    assert improvement_interval([[2.0, 3.0]], [[0.0, 1.0]]) == (1.0, 1.0)
    low, high = improvement_interval([[1.0, 2.0, 3.0, 4.0]], [[1.5, 2.5, 3.5, 0.5]])
    assert 0 <= low < probability_of_improvement([[1.0, 2.0, 3.0, 4.0]], [[1.5, 2.5, 3.5, 0.5]]) < high <= 1


def test_what_cannot_be_computed_is_said() -> None:
    with pytest.raises(ValueError, match=r"strata of \[1\] scores: .* needs at least 2 scores"):
        interquartile_interval([[1.0]])
    with pytest.raises(ValueError, match="must be one or more finite numbers"):
        probability_of_improvement([[]], [[1.0]])
    with pytest.raises(ValueError, match="must be one or more finite numbers"):
        interquartile_interval([[1.0, float("nan")]])
    with pytest.raises(ValueError, match="3 samples: give the scores of both sides for every task"):
        probability_of_improvement([[1.0], [2.0]], [[1.0]])


def test_the_one_sided_bound_of_no_event_has_the_closed_form() -> None:
    assert upper_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300))
    assert upper_bound(0, 300) <= 0.01 < upper_bound(0, 298)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_anytime_interval_ends_where_the_wealth_reaches_its_limit(count: int, others: int) -> None:
    total = count + others
    low, high = (float(end) for end in anytime_interval(count, total))
    assert 0 <= low <= count / max(total, 1) <= high <= 1

    def wealth(p: float) -> float:
        """By numerical integration over q = sin²(t), under which Jeffreys' prior is uniform."""
        at_best = np.array([count, others]) @ np.log(
            np.maximum([count / max(total, 1), others / max(total, 1)], 1e-300)
        )
        power = lambda q: np.exp(count * np.log(q) + others * np.log1p(-q) - at_best)  # noqa: E731
        peak = np.arcsin(np.sqrt((count + 0.5) / (total + 1)))
        value, _ = quad(lambda t: power(np.sin(t) ** 2), 1e-9, np.pi / 2 - 1e-9, points=[peak], limit=400)
        return value / (np.pi / 2) / power(p)

    if low > 0:
        assert wealth(low) == pytest.approx(20, rel=1e-4)
    if high < 1:
        assert wealth(high) == pytest.approx(20, rel=1e-4)
    assert (low == 0) == (count == 0) and (high == 1) == (others == 0)


def test_the_anytime_interval_contains_the_exact_one_and_nothing_is_known_at_first() -> None:
    assert [float(end) for end in anytime_interval(0, 0)] == [0.0, 1.0]
    for count, total in [(0, 300), (3, 300), (150, 300), (300, 300)]:
        low, high = anytime_interval(count, total)
        assert low <= exact_interval(count, total)[0]
        assert high >= exact_interval(count, total)[1]


@pytest.mark.slow
@pytest.mark.parametrize("truth", [0.005, 0.05, 0.5])
def test_who_looks_at_every_step_is_misled_by_the_exact_interval_and_not_by_the_anytime_one(truth: float) -> None:
    """2,000 watchers who stop at the first interval that misses: at most 5 % of them may find one."""
    watchers, trials = 2000, 400
    n = np.arange(1, trials + 1)
    k = (np.random.default_rng(0).random((watchers, trials)) < truth).cumsum(axis=1)
    low, high = anytime_interval(np.arange(trials + 1)[:, None], n)  # by count and total: watchers share them
    ever = ((low[k, n - 1] > truth) | (high[k, n - 1] < truth)).any(axis=1)
    assert exact_interval(int(ever.sum()), watchers, 0.999)[0] <= 0.05
    if truth == 0.5:
        exact_low, exact_high = beta.ppf(0.025, k, n - k + 1), beta.ppf(0.975, k + 1, n - k)
        misled = ((exact_low > truth) | (exact_high < truth)).any(axis=1)
        assert misled.mean() > 0.1


def test_the_one_sided_bound_is_half_of_a_wider_two_sided_interval() -> None:
    assert upper_bound(3, 100) == pytest.approx(exact_interval(3, 100, confidence=0.9)[1])
    assert upper_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300))
    assert upper_bound(5, 5) == 1.0


def test_the_interval_of_a_ratio_holds_the_truth_and_knows_a_certain_one() -> None:
    assert ratio_interval([2.0, 2.0], [4.0, 4.0, 4.0]) == (0.5, 0.5)
    rng = np.random.default_rng(2)
    held = []
    for _ in range(200):
        low, high = ratio_interval(rng.normal(9.0, 1.0, 30), rng.normal(10.0, 1.0, 30))
        held.append(low <= 0.9 <= high)
    assert 0.88 <= np.mean(held) <= 0.99
    with pytest.raises(ValueError, match="at least 2 scores"):
        ratio_interval([1.0], [1.0, 2.0])
