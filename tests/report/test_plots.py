import html
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from safexp.report.coverage import coverage_charts
from safexp.report.curves import CURVES, RETURN, STOPS, spread
from safexp.report.groups import group_runs
from safexp.report.plots import LEGEND_LINE, Chart, charts, draw, styles
from safexp.runs.folder import Run
from support.run_folders import MakeRun


def drawn(runs: list[Run]) -> list[Chart]:
    groups = group_runs(runs)
    return charts(groups, styles(groups))


def test_every_group_has_a_curve_in_every_chart(make_run: MakeRun) -> None:
    found = drawn([make_run("bare", violate=2, method="bare"), make_run("mase")])
    assert [chart.title for chart in found] == [curve.title for curve in CURVES if curve.of != "step cost"]
    for chart in found:
        names = [trace["name"] for trace in json.loads(chart.figure.to_json())["data"]]
        assert names == ["bare", "mase", *(["limit 3"] if "cost" in chart.title else [])]
    violations = found[4]
    assert violations.figure.data[0].y[-1] == 60
    assert "bare ends at 60; mase ends at 0" in violations.summary


def test_several_seeds_are_one_curve_with_a_band_of_both_kinds(make_run: MakeRun) -> None:
    runs = [make_run(f"{seed}", seed=seed, paid=paid) for seed, paid in enumerate([1.0, 2.0, 6.0])]
    groups = group_runs(runs)
    band, line = draw(RETURN, groups, styles(groups)).figure.data
    found = spread(groups[0], RETURN)
    assert list(line.y) == line.meta["mean"] == found.mean.tolist()
    assert line.meta["middle"] == found.middle.tolist()
    assert np.allclose(band.y[:6], 3 + np.std([1, 2, 6])) and np.allclose(band.y[6:], 3 - np.std([1, 2, 6]))
    assert band.meta["middle"] == [*found.high.tolist(), *found.low[::-1].tolist()]
    assert band.x == (*line.x, *line.x[::-1])
    assert band.legendgroup == line.legendgroup == "mase", "hidden together"


def test_curves_differ_without_colour(make_run: MakeRun) -> None:
    traces = drawn([make_run(name, limit=limit) for name, limit in [("a", 1.0), ("b", 2.0), ("c", 4.0)]])[0].figure.data
    assert len({trace.line.dash for trace in traces}) == len({trace.marker.symbol for trace in traces}) == 3


def test_a_method_looks_the_same_on_every_task(make_run: MakeRun) -> None:
    other = "safexp/PlanarRobotDiscrete-v0"
    groups = group_runs([make_run("a"), make_run("b", method="bare"), make_run("c", method="bare", task=other)])
    here, there = draw(STOPS, groups[:2], styles(groups)), draw(STOPS, groups[2:], styles(groups))
    assert here.figure.data[1].line == there.figure.data[0].line


def test_a_discounted_budget_is_no_line_in_the_chart_of_plain_sums(make_run: MakeRun) -> None:
    charts = {chart.title: chart for chart in drawn([make_run("a", discount=0.9)])}
    assert [trace.name for trace in charts["Average episode cost"].figure.data] == ["mase"]


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({"constraint": "instantaneous", "limit": 0.3}, ["limit 0.3"]),
        ({"constraint": "margin"}, ["limit 0"]),
        ({"constraint": "schedule", "schedule": {"0": 0.5, "9": 0.2}}, []),
    ],
)
def test_a_limit_of_every_step_is_drawn_with_step_costs(
    make_run: MakeRun, settings: dict[str, Any], lines: list[str]
) -> None:
    charts = {chart.title: chart for chart in drawn([make_run("a", quantifier="known", violate=30, **settings)])}
    assert "Average episode cost" not in charts and "Maximum episode cost" not in charts
    for title, values in {
        "Average largest step cost": [0.575, 0.575, 0.5, 0.575, 0.575, 0.5],
        "Maximum step cost": [2.0, 2.0, 0.5, 2.0, 2.0, 0.5],
    }.items():
        curve, *others = charts[title].figure.data
        assert list(curve.y) == pytest.approx(values)
        assert [trace.name for trace in others] == lines


def test_a_group_is_drawn_in_the_charts_of_the_cost_that_it_limits(make_run: MakeRun) -> None:
    runs = [make_run("a", method="bare"), make_run("b", constraint="instantaneous", limit=0.3, quantifier="known")]
    names = {chart.title: [trace.name for trace in chart.figure.data] for chart in drawn(runs)}
    assert names["Maximum episode cost"] == ["bare", "limit 3"]
    assert names["Maximum step cost"] == ["mase", "limit 0.3"]
    assert names["Violations so far"] == ["bare", "mase"]


def test_long_names_are_wrapped_in_legends(make_run: MakeRun) -> None:
    runs = [make_run(str(k), learner_options={f"a setting <{k}> with a rather long name": k}) for k in range(2)]
    one, _ = (trace.name for trace in drawn(runs)[0].figure.data)
    lines = one.split("<br>")
    assert len(lines) > 1 and "&lt;0&gt;" in one
    assert all(len(html.unescape(line)) <= LEGEND_LINE for line in lines)


def test_a_group_without_an_episode_is_said_to_have_none(make_run: MakeRun) -> None:
    for chart in drawn([make_run("a", episodes=0)]):
        assert len(chart.figure.data) == 0
        assert "mase has no finished episode" in chart.summary


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


def covering(runs: list[Run]) -> list[Chart]:
    groups = group_runs(runs)
    return coverage_charts(groups, styles(groups))


def test_coverage_is_drawn_beside_what_was_promised(make_run: MakeRun) -> None:
    everything, near = covering([covered(make_run("a"), [0.5, 0.9, 1.0]), make_run("b", method="bare")])
    curve, promise = everything.figure.data
    assert list(curve.y) == [0.5, 0.9, 1.0]
    assert list(curve.x) == [100, 200, 300]
    assert list(promise.y) == [0.95, 0.95]
    assert "mase has 80.0% of 600" in everything.summary
    assert list(near.figure.data[0].x) == [200, 300], "an epoch without any near the threshold has no point"
    assert list(near.figure.data[0].y) == [0.5, 0.5]


def test_coverage_near_the_threshold_is_left_out_where_nothing_is_near(make_run: MakeRun) -> None:
    assert [chart.title for chart in covering([covered(make_run("a"), [0.5])])] == ["Coverage"]


def test_coverage_of_several_seeds_is_of_all_their_transitions(make_run: MakeRun) -> None:
    runs = [covered(make_run("a", seed=0), [0.5, 0.9]), covered(make_run("b", seed=1), [0.7, 0.9, 1.0])]
    assert list(covering(runs)[0].figure.data[0].y) == [0.6, 0.9, 1.0]


def test_near_is_given_in_the_units_of_the_constraint(make_run: MakeRun) -> None:
    run = covered(make_run("a"), [0.5, 0.9])
    assert "within 0.1 of their threshold (0.1 of the cost)" in covering([run])[1].caption
    limits = {"constraint": "within", "limit": None, "within": ("current:-100:100", "heat::50")}
    config = replace(run.config, **limits, quantifier="sparse-gp")
    assert "(20 of current, 10 of heat)" in covering([replace(run, config=config)])[1].caption


def test_a_quantifier_that_says_nothing_is_not_drawn(make_run: MakeRun) -> None:
    assert covering([covered(make_run("a"), [1.0], vacuous=True), make_run("b", method="bare")]) == []
