import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from safexp.studies.stats import anytime_interval, exact_interval, upper_bound


def test_no_event_in_n_trials_has_the_closed_form() -> None:
    low, high = exact_interval(0, 100)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.025 ** (1 / 100))


def test_all_events_mirror_none() -> None:
    none, every = exact_interval(0, 30), exact_interval(30, 30)
    assert every == pytest.approx((1 - none[1], 1.0))


def test_without_trials_nothing_is_known() -> None:
    assert exact_interval(0, 0) == (0.0, 1.0)


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
