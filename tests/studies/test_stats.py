import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp.studies.stats import (
    exact_interval,
    improvement_interval,
    interquartile_interval,
    interquartile_mean,
    mean_and_deviation,
    probability_of_improvement,
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
