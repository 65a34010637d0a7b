from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safexp.records.statistics import interquartile_interval
from safexp.report.curves import (
    COST,
    MAX_COST,
    MAX_STEP_COST,
    RETURN,
    STEP_COST,
    VIOLATIONS,
    epochs,
    on_grid,
    over_runs,
    spread,
)
from safexp.report.groups import group_runs
from support.run_folders import MakeRun


def test_a_curve_is_the_mean_over_seeds_with_its_deviation(make_run: MakeRun) -> None:
    (group,) = group_runs([make_run(f"{seed}", seed=seed, paid=paid) for seed, paid in enumerate([1.0, 2.0, 6.0])])
    found = spread(group, RETURN)
    assert found.steps.tolist() == [1000, 2000, 3000, 4000, 5000, 6000]
    assert found.runs.tolist() == [3] * 6
    np.testing.assert_allclose(found.mean, 3.0)
    np.testing.assert_allclose(found.deviation, np.std([1.0, 2.0, 6.0]))
    assert (found.low < found.middle).all() and (found.middle < found.high).all()


def test_a_shorter_run_counts_as_far_as_it_got(make_run: MakeRun) -> None:
    runs = [make_run("long", seed=0, paid=1.0), make_run("short", seed=1, paid=3.0, episodes=40, status="")]
    found = spread(group_runs(runs)[0], RETURN)
    assert found.runs.tolist() == [2, 2, 1, 1, 1, 1]
    assert found.mean.tolist() == [2.0, 2.0, 1.0, 1.0, 1.0, 1.0]


def test_an_epoch_without_an_end_keeps_the_last_value(make_run: MakeRun) -> None:
    (group,) = group_runs([make_run("a", violate=30, gaps=(0, 2, 3))])
    found = spread(group, MAX_COST)
    assert found.steps.tolist() == [2000, 5000, 6000], "before the first value there is none"
    assert found.mean.tolist() == [4.0, 4.0, 1.0]
    (both,) = group_runs([group.runs[0], make_run("b", seed=1)])
    assert spread(both, COST).runs.tolist() == [1, 2, 2, 2, 2, 2]


def test_step_costs_are_those_of_the_episodes_that_ended_in_an_epoch(make_run: MakeRun) -> None:
    run = make_run("a", violate=30)
    run = replace(run, metrics=[line for line in run.metrics if line["steps"] not in (2000, 3000)])
    assert epochs(run, MAX_STEP_COST) == [(1000, 2.0), (4000, 2.0), (5000, 2.0), (6000, 0.5)]
    assert epochs(run, STEP_COST) == [(1000, 0.575), (4000, pytest.approx(0.55)), (5000, 0.575), (6000, 0.5)]
    late = replace(run, episodes=run.episodes[30:])
    assert epochs(late, MAX_STEP_COST)[0] == (4000, 2.0), "an epoch without an end has no value"
    assert epochs(replace(run, episodes=[]), STEP_COST) == []


def test_a_run_without_epochs_has_no_curve(make_run: MakeRun) -> None:
    (group,) = group_runs([make_run("a", episodes=0)])
    assert len(spread(group, RETURN).steps) == 0


def test_few_points_keep_means_maxima_and_counts(make_run: MakeRun) -> None:
    (group,) = group_runs([make_run("a", violate=30)])
    assert spread(group, MAX_COST, points=2).mean.tolist() == [4.0, 4.0]
    assert spread(group, VIOLATIONS, points=2).mean.tolist() == [1.0, 4.0]
    whole, few = spread(group, COST), spread(group, COST, points=3)
    assert few.mean[1:].tolist() == pytest.approx([whole.mean[1:3].mean(), whole.mean[3:].mean()])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=20, unique=True), st.integers(1, 8), st.booleans())
def test_a_grid_holds_every_value_once(steps: list[int], points: int, largest: bool) -> None:
    at = np.array(sorted(steps))
    values = np.random.default_rng(len(steps)).normal(size=len(at))
    grid = np.unique(at[np.linspace(0, len(at) - 1, points).round().astype(int)])
    grid = np.union1d(grid, at[-1:])
    found = on_grid(at, values, int(at[-1]), grid, largest)
    for index, step in enumerate(grid):
        before = grid[index - 1] if index else 0
        cell = values[(at > before) & (at <= step)]
        assert found[index] == pytest.approx(cell.max() if largest else cell.mean())


@given(arrays(np.bool_, (3, 5)))
def test_gaps_leave_the_statistics_of_those_that_are_there(present: np.ndarray) -> None:
    table = np.where(present, np.arange(15.0).reshape(3, 5) ** 1.5, np.nan)
    found = over_runs(np.arange(5), table)
    assert found.steps.tolist() == [step for step in range(5) if present[:, step].any()]
    for index, step in enumerate(found.steps):
        values = table[present[:, step], step]
        assert found.mean[index] == pytest.approx(values.mean())
        assert found.deviation[index] == pytest.approx(values.std())
        low, high = interquartile_interval([values]) if len(values) > 1 else (values[0], values[0])
        assert (found.low[index], found.high[index]) == pytest.approx((low, high))
