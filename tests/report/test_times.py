from dataclasses import replace

import pytest

from safexp.report.groups import group_runs
from safexp.report.times import PARTS, group_seconds, seconds_in, time_charts
from support.run_folders import SPENT, MakeRun


def test_what_was_not_timed_is_other(make_run: MakeRun) -> None:
    spent = seconds_in(make_run("a"))
    assert spent == {**SPENT, "other": 0.5}
    assert sum(spent.values()) == 8.0


def test_runs_are_weighed_by_their_steps(make_run: MakeRun) -> None:
    long, short = make_run("a", seed=0), make_run("b", seed=1, episodes=40)
    (group,) = group_runs([long, short])
    assert group_seconds(group)["physics"] == pytest.approx(100_000 * (2.0 + 2.0) / (6000 + 2000))
    (alone,) = group_runs([long])
    assert group_seconds(alone)["update"] == pytest.approx(100_000 * 3.0 / 6000)


def test_bars_differ_without_colour_and_are_told(make_run: MakeRun) -> None:
    untimed = replace(make_run("old", method="bare"), timing={"status": "finished", "seconds": 8.0, "steps": 6000})
    (chart,) = time_charts(group_runs([make_run("a"), untimed]))
    assert [trace.name for trace in chart.figure.data] == list(PARTS)
    assert all(len(trace.x) == 1 for trace in chart.figure.data), "a run that was not timed has no bar"
    looks = {(trace.marker.pattern.shape, trace.marker.color) for trace in chart.figure.data}
    assert len(looks) == len(PARTS)
    assert "mase needs 133.3 s, most of it for update" in chart.summary


def test_without_times_there_is_no_chart(make_run: MakeRun) -> None:
    assert time_charts(group_runs([make_run("a", status="")])) == []
