"""What is kept of the study's runs, and read again."""

from __future__ import annotations

import pytest

from safexp.runs import folder as run_folder
from safexp.studies.safety_gym import results
from safexp.studies.safety_gym.results import horizons, read_results, summary_line, write_results


def test_what_is_written_is_read_again(tmp_path, make_result):
    first, second = make_result(seed=1000), make_result("car", "trpo", 1001, final_return=None, deterministic=None)
    write_results(tmp_path, [first])
    write_results(tmp_path, [second])
    found = read_results(tmp_path)
    assert found == {"point-mase-1000": first, "car-trpo-1001": second}
    assert found["point-mase-1000"].run(4).config.task == "safexp/PointGoalStatic-v0"
    write_results(tmp_path, [make_result(seed=1000, final_return=1.25)])
    assert read_results(tmp_path)["point-mase-1000"].lines[4].final_return == 1.25
    assert len(read_results(tmp_path)) == 2


def test_numbers_are_rounded_and_counts_are_not(tmp_path, make_result):
    result = make_result(final_return=2.123456789, episodes=123_456_789)
    result.metrics[0] |= {"mean_return": 2.123456789, "steps": 123_456_789}
    write_results(tmp_path, [result])
    (found,) = read_results(tmp_path).values()
    assert (found.metrics[0]["mean_return"], found.metrics[0]["steps"]) == (2.123, 123_456_789)
    assert (found.lines[4].final_return, found.lines[4].episodes) == (2.12346, 123_456_789)


def test_a_file_that_is_too_large_is_refused(tmp_path, make_result, monkeypatch):
    monkeypatch.setattr(results, "LARGEST", 100)
    with pytest.raises(ValueError, match=r"point-mase-1000.csv would have 179 bytes, more than the 100"):
        write_results(tmp_path, [make_result()])


@pytest.mark.slow
def test_a_run_of_the_papers_length_fits(study_runs):
    run = run_folder.read(study_runs / "point-mase-1000")
    text = results.metrics_text([*run.metrics] * 500)
    assert len(text) < 0.75 * results.LARGEST


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("summary.csv", ",4,40,", ",4,many,", r"line 2 of .*summary.csv is damaged"),
        ("summary.csv", ",4,40,", ",4,40,1,", "another number of values"),
        ("summary.csv", "hundred_stopped", "hundred", "KeyError: 'hundred_stopped'"),
        ("epochs/point-mase-1000.csv", "20000", "nan", r"line 3 of .*csv is damaged .*not finite"),
        ("epochs/point-mase-1000.csv", "steps", "step", "KeyError: 'steps'"),
    ],
)
def test_damage_is_named(tmp_path, make_result, name, old, new, message):
    write_results(tmp_path, [make_result()])
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        read_results(tmp_path)


def test_missing_files_are_named(tmp_path, make_result):
    with pytest.raises(ValueError, match=r"has no summary.csv: it holds no results. `safexp reproduce"):
        read_results(tmp_path)
    write_results(tmp_path, [make_result()])
    (tmp_path / "epochs" / "point-mase-1000.csv").unlink()
    with pytest.raises(ValueError, match=r"is not there, though summary.csv beside it has its run"):
        read_results(tmp_path)


def test_a_long_run_has_a_line_wherever_the_paper_reports():
    assert [horizons(epochs) for epochs in (100, 500, 700, 1000, 1200)] == [
        *([100], [500], [500, 700], [500, 1000], [500, 1000, 1200])
    ]


@pytest.mark.slow
def test_a_line_is_what_the_episodes_say(study_runs):
    run = run_folder.read(study_runs / "point-trpo-1000")
    line = summary_line(run, "point", "trpo", epochs=2, commit="abc", deterministic=None)
    assert line.episodes == len(run.episodes) == run.metrics[-1]["episodes"]
    assert line.violated == run.metrics[-1]["violations"] > 0
    assert line.violated - line.unfinished == sum(episode.violated for episode in run.episodes)
    assert line.above == sum(episode.cost > 2 for episode in run.episodes)
    assert line.final_return == pytest.approx(sum(e.true_return for e in run.episodes) / len(run.episodes))
    assert line.config.to_json() == run.config.to_json()
    early = summary_line(run, "point", "trpo", epochs=1, commit="abc", deterministic=None)
    assert early.episodes == run.metrics[0]["episodes"] < line.episodes
    assert early.config.steps == 10_000
    assert (early.seconds, line.seconds) == (None, run.timing["seconds"])
