import contextlib
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from safexp import Schedule
from safexp.runs.build import build, make_constraint
from safexp.runs.config import RunConfig
from safexp.runs.folder import read
from safexp.studies import instantaneous
from safexp.studies.instantaneous import InstantaneousStudy


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> InstantaneousStudy:
    return InstantaneousStudy(("point-schedule",), ("TRPO",), (0,), steps=2000, out=tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def table(study: InstantaneousStudy) -> list[dict[str, object]]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert instantaneous.main(study, json_output=True) == 0
    return list(json.loads(printed.getvalue()))


@pytest.mark.slow
def test_a_row_tells_of_safety_return_and_coverage(table: list[dict[str, object]], study: InstantaneousStudy) -> None:
    (row,) = table
    assert (row["case"], row["learner"], row["runs"], row["violations"]) == ("point-schedule", "TRPO", 1, 0)
    found = read(study.out / "point-schedule-TRPO-0")
    assert row["episodes"] == len(found.episodes)
    assert 1.0 < float(str(row["controller's"])) < 2.9


@pytest.mark.slow
def test_the_run_records_its_coverage(table: list[dict[str, object]], study: InstantaneousStudy) -> None:
    assert table
    found = read(study.out / "point-schedule-TRPO-0")
    (line,) = found.metrics
    assert line["coverage_rows"] == 2000
    assert line["delta"] == 0.05
    assert found.summary.coverage.covered == line["coverage_covered"] > 1800


@pytest.mark.slow
def test_a_finished_run_is_not_made_again_and_another_is_not_taken_for_it(
    table: list[dict[str, object]], study: InstantaneousStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    (config,) = study.runs("point-schedule", "TRPO")
    before = (config.folder / "episodes.csv").stat().st_mtime_ns
    assert instantaneous.main(study, json_output=True) == 0
    assert json.loads(capsys.readouterr().out) == table
    assert (config.folder / "episodes.csv").stat().st_mtime_ns == before
    assert instantaneous.main(replace(study, steps=100)) == 1
    assert "more than the requested 100" in capsys.readouterr().err.replace("\n", " ")


def test_every_case_can_be_described() -> None:
    study = InstantaneousStudy(seeds=(0,))
    for case in study.cases:
        for learner in study.learners:
            (config,) = study.runs(case, learner)
            assert config.calibrate
            assert f"--seed {config.seed}" in replace(config, seed=7).command().replace("--seed 7", "--seed 0")


def test_a_schedule_of_phases() -> None:
    config = RunConfig(constraint="schedule", schedule={"3": 0.1, "0": 0.5}, quantifier="known")
    constraint = make_constraint(config)
    assert isinstance(constraint, Schedule)
    np.testing.assert_allclose(constraint.limits_at(np.arange(6)), [0.5] * 3 + [0.1] * 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constraint": "schedule"}, "do not go together"),
        ({"schedule": {"0": 0.5}}, "do not go together"),
        ({"constraint": "schedule", "schedule": {"1": 0.5}}, "must begin at step 0"),
        ({"constraint": "schedule", "schedule": {"a": 0.5}}, "must map steps to limits"),
        ({"constraint": "schedule", "schedule": {"0": 0.5}, "limit": 1.0}, "a schedule has its own limits"),
    ],
)
def test_a_wrong_schedule_is_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunConfig(quantifier="known", **settings)


def test_options_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"does not take task_options=\{'colour': 'red'\}"):
        build(RunConfig(task="safexp/PointGoalStatic-v0", task_options={"colour": "red"}).settled())
    with pytest.raises(ValueError, match="need --calibrate"):
        build(RunConfig(calibration_options={"near": 0.1}).settled())
