from dataclasses import replace

import numpy as np
import pytest

from safexp.records.statistics import exact_interval
from safexp.report.groups import group_runs
from safexp.report.summary import (
    after_stops_text,
    free_stops_text,
    interval_text,
    interventions_text,
    labels,
    number,
    percent,
    reference_for,
    reference_name,
    summarise_group,
)
from safexp.runs.folder import Run
from support.run_folders import MakeRun


def test_the_numbers_of_a_run(make_run: MakeRun) -> None:
    summary = make_run("a", violate=10).summary
    assert (summary.episodes, summary.violations, summary.unfinished_violations) == (120, 12, 0)
    assert summary.interval == exact_interval(12, 120)
    assert (summary.final_return, summary.max_cost, summary.max_step_cost) == (2.0, 4.0, 2.0)
    assert summary.final_stops == 0.0, "the stops were before the last hundred episodes"
    assert (summary.stops, summary.interventions, summary.steps) == (20, 240, 6000)
    assert summary.steps_per_second == 1234.5


def test_steps_that_another_controller_drove_are_told_beside_interventions(make_run: MakeRun) -> None:
    run = make_run("a")
    assert interventions_text(run.summary) == "240"
    driven = replace(run, episodes=[episode._replace(takeovers=3) for episode in run.episodes])
    assert interventions_text(driven.summary) == "240\n+ 360\ntaken over"
    (group,) = group_runs([driven, make_run("b", seed=1)])
    assert interventions_text(summarise_group(group)) == "480\n+ 360\ntaken over"


def test_missed_drills_are_told_beside_interventions_if_any_was_judged(make_run: MakeRun) -> None:
    run = make_run("a")
    drilled = replace(run, metrics=[*run.metrics[:-1], {**run.metrics[-1], "drills": 12, "drills_missed": 3}])
    assert interventions_text(drilled.summary) == "240\n(3 of 12\ndrills missed)"
    (group,) = group_runs([drilled, make_run("b", seed=1)])
    assert interventions_text(summarise_group(group)) == "480\n(3 of 12\ndrills missed)"
    none = replace(run, metrics=[*run.metrics[:-1], {**run.metrics[-1], "drills": 0, "drills_missed": 0}])
    assert interventions_text(none.summary) == "240"


def test_a_violation_in_an_episode_that_had_not_ended_counts(make_run: MakeRun) -> None:
    run = make_run("a", violate=10)
    unfinished = replace(run, metrics=[{"steps": 6000, "violations": 14}])
    summary = unfinished.summary
    assert (summary.violations, summary.unfinished_violations) == (14, 2)
    assert summary.interval == exact_interval(12, 120), "the interval is of finished episodes"
    (group,) = group_runs([unfinished, make_run("b", seed=1)])
    whole = summarise_group(group)
    assert (whole.violations, whole.unfinished_violations, whole.interval) == (14, 2, exact_interval(12, 240))


def test_a_run_without_an_episode(make_run: MakeRun) -> None:
    run = make_run("a", episodes=0, status="")
    summary = run.summary
    assert summary.final_return is summary.final_stops is summary.steps_per_second is summary.max_cost is None
    assert summary.max_step_cost is None
    assert interval_text(summary) == number(None) == percent(None) == "-"
    whole = summarise_group(group_runs([run])[0])
    assert whole.final_return is whole.middle is whole.better is whole.final_stops is whole.max_cost is None


def test_the_numbers_of_a_group(make_run: MakeRun) -> None:
    runs = [make_run(f"{seed}", seed=seed, paid=float(seed), violate=12 * (seed == 2)) for seed in range(4)]
    others = [make_run(f"bare{seed}", seed=seed, paid=1.5, method="bare") for seed in range(2)]
    ours, theirs = group_runs([*runs, *others])
    summary = summarise_group(ours, theirs)
    assert (summary.runs, summary.episodes, summary.violations, summary.stops) == (4, 480, 10, 80)
    assert (summary.max_cost, summary.max_step_cost) == (4.0, 2.0)
    assert summary.interval == exact_interval(10, 480)
    assert (summary.final_return, summary.deviation, summary.middle) == (1.5, pytest.approx(np.sqrt(1.25)), 1.5)
    assert summary.middle_interval is not None and summary.middle_interval[0] < 1.5 < summary.middle_interval[1]
    assert summary.better == 0.5
    assert summary.better_interval is not None and summary.better_interval[0] < 0.5 < summary.better_interval[1]


def test_a_run_that_was_killed_counts_in_violations_but_not_in_the_final_return(make_run: MakeRun) -> None:
    runs = [make_run("a", seed=0, paid=3.0), make_run("b", seed=1, paid=0.0, violate=1, episodes=20, status="")]
    summary = summarise_group(group_runs(runs)[0])
    assert (summary.runs, summary.unfinished, summary.final_return, summary.deviation) == (2, 1, 3.0, None)
    assert (summary.violations, summary.episodes, summary.final_stops) == (20, 140, 0.0)


def test_all_are_compared_with_one_method(make_run: MakeRun) -> None:
    other = "safexp/PlanarRobotDiscrete-v0"
    runs = [make_run("a"), make_run("b", method="bare"), make_run("c", method="bare", task=other)]
    here, bare, there = groups = group_runs(runs)
    assert reference_name(groups) == "bare", "the one that most tasks have"
    assert reference_name(groups, "mase") == "mase"
    assert reference_for(here, groups, "bare") is bare
    assert reference_for(bare, groups, "bare") is None
    assert reference_for(there, groups, "mase") is None
    with pytest.raises(ValueError, match="--reference ppo: there is no such method; expected one of mase, bare"):
        reference_name(groups, "ppo")


def test_runs_are_called_by_their_folder_unless_two_have_the_same(make_run: MakeRun) -> None:
    runs: list[Run] = [make_run("x/mase"), make_run("y/mase"), make_run("bare")]
    assert labels(runs) == [str(runs[0].path), str(runs[1].path), "bare"]


@pytest.mark.parametrize(("count", "text"), [(0, "0 to 3.03 %"), (120, "97 to 100 %")])
def test_an_interval_shows_the_digits_that_matter(make_run: MakeRun, count: int, text: str) -> None:
    assert interval_text(make_run("a", violate=1 if count else 0).summary) == text


def test_what_happened_after_stops_is_counted_apart(make_run: MakeRun) -> None:
    judged, free = make_run("a", violate=10, after_stops=3), make_run("b", seed=1)
    assert (judged.summary.violations, judged.summary.after_stop_violations) == (12, 3)
    assert judged.summary.after_stop_steps == 7 * 120
    assert free.summary.after_stop_violations is None
    assert free.summary.stops_taken_to_be_free
    assert not judged.summary.stops_taken_to_be_free
    (group,) = group_runs([judged, free])
    summary = summarise_group(group)
    assert (summary.after_stop_violations, summary.free_stops) == (3, 20)
    assert after_stops_text(summary) == after_stops_text(judged.summary) == "3 of 20 stops"
    assert after_stops_text(free.summary) == "-"
    assert free_stops_text([judged]) == ""
    assert free_stops_text([free]).startswith("20 stops were taken to be free")
