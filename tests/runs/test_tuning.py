"""Tuning with Optuna: the highest return among settings without a violation."""

from __future__ import annotations

import json

import pytest

from safexp.cli import main
from safexp.runs.config import RunConfig
from safexp.runs.tuned import preset, preset_names
from safexp.runs.tuning import TUNED, changed, check_space, new_study, tune

SMALL = {"num_envs": 4, "steps": 320, "learner_options": {"n_steps": 80, "batch_size": 80, "n_epochs": 1}}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "there is nothing to tune"),
        ({"colour": [1]}, "'colour' is not a setting of a run"),
        ({"seed": [1]}, "'seed' is not a setting of a run"),
        ({"penalty": 3}, "penalty=3 must be a list of choices, or a range"),
        ({"penalty": {"low": 1}}, "must be a list of choices, or a range"),
        ({"penalty": []}, "must be a list of choices, or a range"),
    ],
)
def test_what_cannot_be_tuned_is_named(space, message):
    with pytest.raises(ValueError, match=message):
        check_space(space)


def test_nested_settings_are_changed_one_by_one():
    config = RunConfig(learner_options={"gamma": 0.9, "n_steps": 8})
    found = changed(config, {"learner_options.gamma": 0.5, "learner_options.ent_coef": 0.1, "penalty": 3.0})
    assert dict(found.learner_options) == {"gamma": 0.5, "n_steps": 8, "ent_coef": 0.1}
    assert found.penalty == 3.0


@pytest.mark.slow
def test_settings_that_violate_are_never_the_best(tmp_path):
    """The bare learner violates a budget of 0; MASE does not, whatever its return."""
    pytest.importorskip("optuna", reason="needs the extra 'optuna'")
    config = RunConfig(**SMALL, limit=1.0)
    study = new_study(0)
    for method in ("bare", "mase"):
        study.enqueue_trial({"method": json.dumps(method)})
    told = []
    found = tune(
        config, {"method": ["mase", "bare"]}, trials=2, seeds=1, workers=1, study=study, out=tmp_path, tell=told.append
    )
    bare, mase = found.trials
    assert (bare.settings, mase.settings) == ({"method": "bare"}, {"method": "mase"})
    assert bare.violations > 0 == mase.violations
    assert found.best == mase
    assert [one.number for one in told] == [0, 1]
    assert json.loads((tmp_path / TUNED).read_text())["found"]["number"] == 1
    assert RunConfig(**preset(str(tmp_path / TUNED))).limit == 1.0
    assert len(tune(config, {"method": ["mase"]}, trials=2, study=study, out=tmp_path).trials) == 2, "it is done"


@pytest.mark.slow
def test_a_run_that_fails_does_not_end_the_study(tmp_path):
    pytest.importorskip("optuna", reason="needs the extra 'optuna'")
    space = {"task_options": [{"colour": "red"}]}
    found = tune(RunConfig(**SMALL), space, trials=1, seeds=1, workers=1, out=tmp_path)
    assert found.best is None
    assert found.trials[0].mean_return is None
    assert "does not take task_options" in found.trials[0].problem
    with pytest.raises(ValueError, match="holds no settings: no trial was without a violation"):
        preset(str(tmp_path / TUNED))


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_settings_of_a_run(name):
    assert RunConfig(**preset(name)).settled().task.startswith("safexp/")


def test_presets_are_the_defaults_of_a_command(capsys, tmp_path):
    settings = {"task": "safexp/PlanarRobotDiscrete-v0", "penalty": 0.5}
    (tmp_path / "mine.json").write_text(json.dumps({"settings": settings}))
    with pytest.raises(SystemExit):
        main(["train", "--preset", str(tmp_path / "mine.json"), "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default: safexp/PlanarRobotDiscrete-v0)" in shown
    assert "(default: 0.5)" in shown
    assert main(["train", "--preset", "nothing"]) == 2
    assert "there is no preset 'nothing': use" in capsys.readouterr().err
