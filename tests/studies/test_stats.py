import pytest

from safexp.studies.stats import exact_interval


def test_no_event_in_n_trials_has_the_closed_form() -> None:
    low, high = exact_interval(0, 100)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.025 ** (1 / 100))


def test_all_events_mirror_none() -> None:
    none, every = exact_interval(0, 30), exact_interval(30, 30)
    assert every == pytest.approx((1 - none[1], 1.0))


def test_without_trials_nothing_is_known() -> None:
    assert exact_interval(0, 0) == (0.0, 1.0)
