from dataclasses import replace

import pytest

from safexp.report.summary import interval_text, labels, number, percent, summarise
from safexp.studies.folder import Run
from safexp.studies.stats import exact_interval

from .conftest import MakeRun


def test_the_numbers_of_a_run(make_run: MakeRun) -> None:
    summary = summarise(make_run("a", violate=10))
    assert (summary.episodes, summary.violations, summary.unfinished_violations) == (120, 12, 0)
    assert summary.interval == exact_interval(12, 120)
    assert summary.final_return == 2.0
    assert summary.final_stops == 0.0, "the stops were before the last hundred episodes"
    assert (summary.stops, summary.interventions, summary.steps) == (20, 240, 6000)
    assert summary.steps_per_second == 1234.5


def test_a_violation_in_an_episode_that_had_not_ended_counts(make_run: MakeRun) -> None:
    run = make_run("a", violate=10)
    unfinished = replace(run, metrics=[{"steps": 6000, "violations": 14}])
    summary = summarise(unfinished)
    assert (summary.violations, summary.unfinished_violations) == (14, 2)
    assert summary.interval == exact_interval(12, 120), "the interval is of finished episodes"


def test_a_run_without_an_episode(make_run: MakeRun) -> None:
    summary = summarise(make_run("a", episodes=0, status=""))
    assert summary.final_return is summary.final_stops is summary.steps_per_second is None
    assert interval_text(summary) == number(None) == percent(None) == "-"


def test_runs_are_called_by_their_folder_unless_two_have_the_same(make_run: MakeRun) -> None:
    runs: list[Run] = [make_run("x/mase"), make_run("y/mase"), make_run("bare")]
    assert labels(runs) == [str(runs[0].path), str(runs[1].path), "bare"]


@pytest.mark.parametrize(("count", "text"), [(0, "0 to 3.03 %"), (120, "97 to 100 %")])
def test_an_interval_shows_the_digits_that_matter(make_run: MakeRun, count: int, text: str) -> None:
    assert interval_text(summarise(make_run("a", violate=1 if count else 0))) == text
