import json
from dataclasses import replace

import numpy as np

from safexp.report.coverage import coverage_charts
from safexp.report.plots import CURVES, WINDOW, charts, rolling_max, rolling_mean, sample
from safexp.studies.folder import Run

from .conftest import MakeRun


def test_rolling_statistics_match_their_definition() -> None:
    values = np.random.default_rng(0).normal(size=3 * WINDOW)
    windows = [values[max(i + 1 - WINDOW, 0) : i + 1] for i in range(len(values))]
    np.testing.assert_allclose(rolling_mean(values), [window.mean() for window in windows])
    np.testing.assert_array_equal(rolling_max(values), [window.max() for window in windows])


def test_a_sample_ends_with_the_last_episode() -> None:
    assert sample(1).tolist() == [0]
    assert sample(5).tolist() == [4]
    assert sample(20).tolist() == list(range(9, 20))
    assert sample(100_000)[[0, -1]].tolist() == [9, 99_999]
    assert len(sample(100_000)) == 250


def test_every_run_has_a_curve_in_every_chart(make_run: MakeRun) -> None:
    runs = [make_run("bare", violate=2, method="bare"), make_run("mase")]
    drawn = charts(runs, ["bare", "mase"])
    assert [chart.title for chart in drawn] == [curve.title for curve in CURVES]
    for chart in drawn:
        names = [trace["name"] for trace in json.loads(chart.figure.to_json())["data"]]
        assert names == ["bare", "mase", *(["limit 3"] if "cost" in chart.title else [])]
    violations = drawn[4]
    assert violations.figure.data[0].y[-1] == 60
    assert "bare ends at 60; mase ends at 0" in violations.summary


def test_curves_differ_without_colour(make_run: MakeRun) -> None:
    runs = [make_run(name) for name in "abc"]
    traces = charts(runs, list("abc"))[0].figure.data
    assert len({trace.line.dash for trace in traces}) == len({trace.marker.symbol for trace in traces}) == 3


def test_only_a_plain_budget_is_a_line_in_the_chart_of_summed_costs(make_run: MakeRun) -> None:
    runs = [make_run("a", discount=0.9), make_run("b", constraint="instantaneous", limit=0.3, quantifier="known")]
    assert [trace.name for trace in charts(runs, ["a", "b"])[2].figure.data] == ["a", "b"]


def test_a_run_without_an_episode_is_said_to_have_none(make_run: MakeRun) -> None:
    chart = charts([make_run("a", episodes=0)], ["a"])[0]
    assert len(chart.figure.data) == 0
    assert "a has no finished episode" in chart.summary


def covered(run: Run, shares: list[float], vacuous: bool = False) -> Run:
    lines = [
        {
            "steps": 100 * (i + 1),
            "violations": 0,
            "delta": 0.05,
            "coverage_rows": 200,
            "coverage_covered": round(200 * share),
            "coverage_exceeded": 0,
            "coverage_vacuous": 200 if vacuous else 0,
            "coverage_near": 10 * i,
            "coverage_near_covered": 5 * i,
        }
        for i, share in enumerate(shares)
    ]
    return replace(run, metrics=lines)


def test_coverage_is_drawn_beside_what_was_promised(make_run: MakeRun) -> None:
    run = covered(make_run("a"), [0.5, 0.9, 1.0])
    everything, near = coverage_charts([run, make_run("b")], ["a", "b"])
    curve, promise = everything.figure.data
    assert list(curve.y) == [0.5, 0.9, 1.0]
    assert list(curve.x) == [100, 200, 300]
    assert list(promise.y) == [0.95, 0.95]
    assert "a has 80.0% of 600" in everything.summary
    assert list(near.figure.data[0].x) == [200, 300], "an epoch without any near the threshold has no point"
    assert list(near.figure.data[0].y) == [0.5, 0.5]


def test_a_quantifier_that_says_nothing_is_not_drawn(make_run: MakeRun) -> None:
    assert coverage_charts([covered(make_run("a"), [1.0], vacuous=True), make_run("b")], ["a", "b"]) == []
