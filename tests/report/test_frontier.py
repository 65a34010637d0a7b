from __future__ import annotations

from dataclasses import replace

import pytest

from safexp.report.frontier import frontier_charts
from safexp.report.groups import group_runs
from safexp.report.plots import Chart, styles
from safexp.runs.folder import Run
from support.run_folders import MakeRun


def explored(run: Run, certified: list[int], margins: list[float | None]) -> Run:
    lines = [
        {"steps": 100 * (i + 1), "violations": 0, "proposals": 200, "proposals_certified": count, "smallest_margin": m}
        for i, (count, m) in enumerate(zip(certified, margins, strict=True))
    ]
    return replace(run, metrics=lines)


def drawn(runs: list[Run]) -> list[Chart]:
    groups = group_runs(runs)
    return frontier_charts(groups, styles(groups))


def test_certified_proposals_and_the_smallest_margin_share_a_chart(make_run: MakeRun) -> None:
    (chart,) = drawn([explored(make_run("a"), [20, 100, 180], [0.5, None, 0.1]), make_run("b", method="bare")])
    shares, margins = chart.figure.data
    assert list(shares.x) == [100, 200, 300]
    assert list(shares.y) == pytest.approx([0.1, 0.5, 0.9])
    assert (list(margins.x), list(margins.y)) == ([100, 300], [0.5, 0.1])
    assert margins.yaxis == "y2"
    assert "mase ends with 90.0% certified, and 0.1 as its smallest margin" in chart.summary


def test_seeds_are_pooled_and_the_smallest_margin_is_of_all(make_run: MakeRun) -> None:
    runs = [explored(make_run("a", seed=0), [100], [0.5]), explored(make_run("b", seed=1), [200], [0.2])]
    shares, margins = drawn(runs)[0].figure.data
    assert (list(shares.y), list(margins.y)) == ([0.75], [0.2])


def test_runs_that_did_not_count_are_not_drawn(make_run: MakeRun) -> None:
    assert drawn([make_run("a", method="bare")]) == []
