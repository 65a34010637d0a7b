"""A finished run that goes on to more steps ends like one that was longer from the start."""

from __future__ import annotations

import pytest
from stable_baselines3.common.utils import FloatSchedule, LinearSchedule

from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.build import build
from safexp.runs.config import RunConfig
from safexp.runs.run import run
from support.runs import interrupted_after, reproducible

POINT = {"task": "safexp/PointGoalStatic-v0", "limit": 2.0, "num_envs": 4, "learner": "TRPO"}
EPOCHS = {"learner_options": {"n_steps": 8}}
"""32 steps each."""
SAC = {"learner": "SAC", "method_options": {"epoch_steps": 100}}
SAC_OPTIONS = {"learning_starts": 50, "batch_size": 16}

RUNS = {
    "20 to 40 epochs": ({**EPOCHS}, 640, 1280),
    "in the middle of an epoch": ({**EPOCHS}, 600, 1000),
    "without a shield": ({**EPOCHS, "method": "cpo", "learner": "CPO"}, 160, 320),
    "a learned quantifier": (
        {"quantifier": "sparse-gp", "quantifier_options": {"num_inducing": 16, "first_steps": 5}, **EPOCHS},
        *(160, 320),
    ),
    "learning from the shield": (
        {"task": "safexp/PlanarRobot-v0", "quantifier": "exact-gp", "constraint": "instantaneous", "limit": 0.3}
        | {"imitation": 0.01, "warm_start": True, "learner_options": {"n_steps": 32}},
        *(256, 512),
    ),
    "PPO": ({"learner": "PPO", "learner_options": {"n_steps": 32, "batch_size": 32, "use_sde": True}}, 384, 768),
    "off-policy": ({**SAC, "learner_options": SAC_OPTIONS}, 300, 600),
    "off-policy, in the middle of an epoch": ({**SAC, "learner_options": SAC_OPTIONS}, 340, 660),
    "off-policy with noise of its own": (
        {**SAC, "learner_options": {**SAC_OPTIONS, "use_sde": True, "train_freq": 8}},
        *(300, 600),
    ),
}


def described(settings, steps, out):
    return RunConfig(**{**POINT, **settings}, steps=steps, out=out)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_extended_run_ends_like_one_that_was_longer_from_the_start(tmp_path, name):
    settings, short, long = RUNS[name]
    whole = run(described(settings, long, tmp_path / "whole"))
    folder = run(described(settings, short, tmp_path / "parts"))
    assert run_folder.read(folder).metrics[-1]["steps"] < long
    run(described(settings, long, folder), resume=True)
    assert reproducible(folder) == reproducible(whole)
    assert run_folder.read(folder).config.to_json() == run_folder.read(whole).config.to_json()
    assert f"--steps {long}" in run_folder.read(folder).command
    assert run_folder.read(folder).status == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("settings", [EPOCHS, {**SAC, "learner_options": SAC_OPTIONS}], ids=["on-policy", "off-policy"])
def test_an_extension_can_be_interrupted_and_extended_again(tmp_path, monkeypatch, settings):
    monkeypatch.setattr(resume, "SHARE", 1e9)
    whole = run(described(settings, 900, tmp_path / "whole"))
    folder = run(described(settings, 300, tmp_path / "parts"))
    done = len(run_folder.read(folder).metrics)
    with interrupted_after(done + 1):
        run(described(settings, 600, folder), resume=True)
    assert run_folder.read(folder).status == "interrupted"
    assert run_folder.read(folder).config.steps == 600
    assert not (folder / run_folder.AGENT).exists()  # the one of 300 steps is not the agent of this run
    run(described(settings, 900, folder), resume=True)
    assert reproducible(folder) == reproducible(whole)


def test_only_the_last_epoch_is_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "SHARE", 1e-9)  # one checkpoint after the first epoch, one before the last
    folder = run(described(EPOCHS, 320, tmp_path / "run"))
    before = run_folder.read(folder).metrics
    monkeypatch.setattr(run_folder, "append_metrics", lambda folder, line: lines.append(line))
    lines: list[dict[str, object]] = []
    run(described(EPOCHS, 384, folder), resume=True)
    assert [line["epoch"] for line in lines] == [10, 11, 12]
    assert lines[0] == before[-1]


def test_an_extension_writes_as_few_checkpoints_as_any_run(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "SHARE", 1e-9)
    usual, epochs = resume.Checkpoints.save, []

    def save(self):
        epochs.append(self.root["agent"].epochs)
        usual(self)

    monkeypatch.setattr(resume.Checkpoints, "save", save)
    folder = run(described(EPOCHS, 320, tmp_path / "run"))
    run(described(EPOCHS, 640, folder), resume=True)
    assert epochs == [1, 9, 10, 19]


def test_a_learner_that_depends_on_the_number_of_steps_is_refused(tmp_path):
    grid = {"task": "safexp/GridWorld-v0", "learner": "DQN", "learner_options": {"learning_starts": 50}}
    settings = {**grid, "method_options": {"epoch_steps": 100}}
    folder = run(described(settings, 300, tmp_path / "run"))
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(
        run_folder.RunFolderError, match=r"exploration_schedule of DQN.* 300 steps are not the beginning"
    ):
        run(described(settings, 600, folder), resume=True)
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_schedules_are_found(tmp_path):
    learner = build(described(EPOCHS, 640, tmp_path).settled()).learner
    assert resume.schedules(learner) == []
    learner.lr_schedule = FloatSchedule(LinearSchedule(1e-3, 0.0, 0.5))
    assert resume.schedules(learner) == ["lr_schedule"]


def test_a_finished_run_without_a_checkpoint_is_refused(tmp_path):
    folder = run(described(EPOCHS, 96, tmp_path / "run"))
    (folder / run_folder.CHECKPOINT).unlink()
    with pytest.raises(run_folder.RunFolderError, match=r"has finished and has no checkpoint.safexp to extend it"):
        run(described(EPOCHS, 320, folder), resume=True)
    assert run_folder.read(folder).status == "finished"


def test_fewer_steps_are_refused(tmp_path):
    folder = run(described(EPOCHS, 1024, tmp_path / "run"))
    with pytest.raises(run_folder.RunFolderError, match=r"a run of 1,024 steps, more than the requested 640"):
        run(described(EPOCHS, 640, folder), resume=True)


def test_an_interrupted_run_without_a_checkpoint_starts_over_with_more_steps(tmp_path):
    whole = run(described(EPOCHS, 320, tmp_path / "whole"))
    config = described(EPOCHS, 160, tmp_path / "run")
    with interrupted_after(2):
        run(config)
    (config.folder / run_folder.CHECKPOINT).unlink()
    run(described(EPOCHS, 320, config.folder), resume=True)
    assert reproducible(config.folder) == reproducible(whole)
