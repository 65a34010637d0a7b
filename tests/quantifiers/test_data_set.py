"""What is kept of a run: bounded, and what matters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp.quantifiers import Transitions
from safexp.quantifiers.data_set import DataSet


def steps(count, seed=0, costly=0.1, margins=True):
    rng = np.random.default_rng(seed)
    margin = rng.normal(size=count)
    return Transitions(
        rng.normal(size=(count, 3)),
        rng.normal(size=(count, 1)),
        (rng.random(count) < costly).astype(float),
        margin if margins else None,
    )


@given(st.lists(st.integers(0, 90), min_size=1, max_size=6), st.booleans(), st.floats(0, 1))
def test_bounded_whole_and_of_what_was_given(sizes, margins, costly):
    data = DataSet(64, seed=0)
    given_rows = set()
    for index, size in enumerate(sizes):
        batch = steps(size, index, costly, margins)
        given_rows |= {tuple(row) for row in np.column_stack([batch.states, batch.actions, batch.costs])}
        data.add(batch)
        assert len(data) == min(64, sum(sizes[: index + 1]))
    rows = [tuple(row) for row in np.column_stack([data.rows.states, data.rows.actions, data.rows.costs])]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= given_rows


def test_costly_steps_stay_for_ever():
    data = DataSet(400, seed=0)
    first = steps(50, costly=1.0, margins=False)
    data.add(first)
    for seed in range(1, 20):
        data.add(steps(500, seed, costly=0.0, margins=False))
    assert data.rows.costs.sum() == 50


def test_steps_nearest_the_limit_stay():
    data = DataSet(400, seed=0)
    every = [steps(500, seed, costly=0.0) for seed in range(10)]
    for batch in every:
        data.add(batch)
    nearest = np.sort(np.abs(np.concatenate([batch.margins for batch in every])))[:100]
    np.testing.assert_array_equal(np.sort(np.abs(data.rows.margins))[:100], nearest)


def test_margins_may_be_missing_from_some():
    data = DataSet(40, seed=0)
    data.add(steps(100, margins=False, costly=0.0))
    data.add(steps(6, seed=1, costly=0.0))
    assert np.isfinite(data.rows.margins).sum() == 6
    assert len(data) == 40


def test_the_rest_is_an_even_sample_and_the_latest_update():
    data = DataSet(400, seed=0)
    for index in range(20):
        data.add(Transitions(np.full((400, 1), float(index)), np.zeros((400, 1)), np.zeros(400)))
    counts = np.bincount(data.rows.states[:, 0].astype(int), minlength=20)
    assert counts[19] >= 100
    # 300 places are shared by 20 updates: 15 each, with a deviation below 4.
    assert counts[:19].min() >= 3
    assert counts[:19].max() <= 31


def test_the_same_updates_keep_the_same_rows_also_after_a_break():
    one, other = DataSet(64, seed=3), DataSet(64, seed=3)
    for seed in range(4):
        one.add(steps(50, seed))
        resumed = DataSet(64, seed=3)
        resumed.restore(other.state())
        resumed.add(steps(50, seed))
        other = resumed
    for mine, theirs in zip(one.rows, other.rows, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": np.zeros((5, 2))}, r"costs have shape \(5, 2\), expected \(n,\).*PerCost"),
        ({"actions": np.zeros((4, 1))}, r"transitions have shapes .*'actions': \(4, 1\)"),
        ({"states": np.full((5, 3), np.nan)}, "transition 0 has states .*nan.*must be finite"),
        ({"margins": np.array([0, 0, np.inf, 0, 0])}, "transition 2 has margins inf"),
        ({"states": np.zeros((5, 2))}, "states have 2 entries, but the quantifier has learned from 3"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(change, message):
    data = DataSet(64, seed=0)
    data.add(steps(5))
    with pytest.raises(ValueError, match=message):
        data.add(steps(5)._replace(**change))
    assert len(data) == 5


def test_capacity():
    with pytest.raises(ValueError, match="capacity=3 must be at least 4"):
        DataSet(3, seed=0)
    large, small = DataSet(64, seed=0), DataSet(32, seed=0)
    large.add(steps(50))
    with pytest.raises(ValueError, match="50 saved transitions do not fit: give capacity=50"):
        small.restore(large.state())


def test_changes_are_not_chosen_by_their_sign():
    rng = np.random.default_rng(0)
    kept = {costly: DataSet(2000, seed=0, costly=costly) for costly in (True, False)}
    for _ in range(200):
        data = Transitions(rng.standard_normal((100, 1)), np.zeros((100, 1)), rng.standard_normal(100))
        for one in kept.values():
            one.add(data)
    assert kept[True].rows.costs.mean() > 0.1, "costly steps are wanted"
    assert abs(kept[False].rows.costs.mean()) < 0.07, "three standard errors"
