"""What runs come to over seeds, and which of them are missing."""

from __future__ import annotations

import pytest

from safexp.records.statistics import exact_interval, upper_bound
from safexp.studies.safety_gym.comparison import compare, select
from safexp.studies.safety_gym.study import SafetyGymStudy

STUDY = SafetyGymStudy(tasks=("point", "car"), methods=("trpo", "mase"), seeds=2, epochs=4)


def named(*results):
    return {result.name: result for result in results}


def test_a_row_is_what_its_seeds_come_to(make_result):
    results = named(
        make_result(method="trpo", seed=1000, final_return=3.0, violated=11, above=9),
        make_result(method="trpo", seed=1001, final_return=5.0, violated=13, unfinished=2, above=10),
        make_result(seed=1000, final_return=1.0, stops=(3, 0, 1, 0)),
        make_result(seed=1001, final_return=2.0, stops=(2, 2, 2, 2), final_cost=1.5, final_max_cost=18.0),
    )
    trpo, mase = compare(select(STUDY, results, 4)[0], 4)
    assert (trpo.task, trpo.method, trpo.seeds, trpo.episodes, trpo.epochs) == ("point", "trpo", 2, 80, 4)
    assert (trpo.violated, trpo.above) == (24, 19)
    assert (trpo.interval_low, trpo.interval_high) == exact_interval(22, 80)
    assert (trpo.returns, trpo.deviation, trpo.share) == (4.0, 1.0, 1.0)
    assert mase.share == pytest.approx(1.5 / 4.0)
    assert 1.0 / 5.0 <= mase.share_low < mase.share < mase.share_high <= 2.0 / 3.0
    assert (mase.cost, mase.max_cost, mase.deterministic) == (1.0, 20.0, 2.5)
    assert (mase.stops, mase.late_stops) == (12, 1.5)
    assert (mase.stopped, mase.at_most) == (2 / 80, upper_bound(2, 80))
    assert mase.last_hundred == 1 / 40
    assert (mase.stopped_epochs, mase.late_stopped_epochs) == (3.0, 3.0)


def test_one_seed_has_no_interval_and_no_reference_no_share(make_result):
    results = named(make_result(), make_result("car", final_return=None), make_result("car", "trpo"))
    point, _, car = compare(select(STUDY, results, 4)[0], 4)
    assert (point.share, point.share_low, point.returns) == (None, None, 2.0)
    assert (car.share, car.share_high, car.returns) == (None, None, None)


def test_what_is_missing_is_said_by_task_method_and_seed(make_result):
    results = named(
        make_result(),
        make_result(seed=1001, epochs=3),
        make_result("car", seed=1000, budget=25.0),
        make_result("car", seed=1001, lines=(2,)),
        make_result("car", "trpo", 1001),
    )
    selection, missing = select(STUDY, results, 4)
    assert {key: [result.name for result in runs] for key, runs in selection.items()} == {
        ("point", "mase"): ["point-mase-1000"],
        ("car", "trpo"): ["car-trpo-1001"],
    }
    assert missing == [
        "point trpo: all seeds missing",
        "point mase: 1001 with 3 of 4 epochs",
        "car trpo: 1000 missing",
        "car mase: 1000 with a budget of 25, not 20; 1001 without a summary after 4 of 4 epochs",
    ]


def test_a_longer_run_counts_as_far_as_is_asked(make_result):
    results = named(make_result(lines=(2, 4)))
    (row,) = compare(select(STUDY, results, 2)[0], 2)
    assert (row.stops, row.episodes, row.stopped_epochs) == (3, 20, 1.0)
    assert results["point-mase-1000"].run(2).metrics[-1]["steps"] == 20_000
