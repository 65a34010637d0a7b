import json

import numpy as np

from safexp.report.plots import CURVES, WINDOW, charts, rolling_max, rolling_mean, sample

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
