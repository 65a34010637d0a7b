"""A run that was interrupted ends as if nothing had happened, whatever it is made of; two never share a folder."""

from __future__ import annotations

import json
import multiprocessing
import time

import gymnasium as gym
import numpy as np
import pytest

from safexp.core.files import CheckpointError
from safexp.runs import folder as run_folder
from safexp.runs import resume
from safexp.runs.config import RunConfig
from safexp.runs.run import run
from support.runs import hold_lock, interrupted_after, reproducible

ROLLOUT = {"learner_options": {"n_steps": 32}}
POINT = {"task": "safexp/PointGoalStatic-v0", "limit": 2.0, "num_envs": 4, "steps": 512, "learner": "TRPO", **ROLLOUT}
RUNS = {
    "mase": {},
    "state-dependent noise": {"learner": "PPO", "learner_options": {"n_steps": 32, "batch_size": 32, "use_sde": True}},
    "cpo": {"method": "cpo", "learner": "CPO"},
    "lagrangian": {"method": "trpo-lagrangian", "learner": "TRPOLagrangian"},
    "saute": {"method": "saute"},
    "early termination": {"method": "early-termination"},
    "car": {"task": "safexp/CarGoal1-v0", "steps": 384},
    "judged stops": {"task": "safexp/PlanarRobot-v0", "limit": 1.2}
    | {"backup_options": {"after": "safexp.tasks.planar_robot:detour", "steps": 5}},
    "sac": {"learner": "SAC", "learner_options": {"learning_starts": 100, "batch_size": 16}, "steps": 400}
    | {"method_options": {"epoch_steps": 100}},
    "dqn": {"task": "safexp/GridWorld-v0", "learner": "DQN", "learner_options": {"learning_starts": 50}}
    | {"method_options": {"epoch_steps": 100}},
    "sparse": {"quantifier": "sparse-gp", "quantifier_options": {"num_inducing": 16, "first_steps": 5}}
    | {"calibrate": True, "steps": 384},
    "learning from the shield": {
        "task": "safexp/PlanarRobot-v0",
        "quantifier": "exact-gp",
        "constraint": "instantaneous",
    }
    | {"limit": 0.3, "imitation": 0.01, "warm_start": True}
    | {"learner_options": {"n_steps": 32, "policy_kwargs": {"log_std_init": 0.0}}},  # wide, so that some are replaced
    "exact": {"task": "safexp/PlanarRobot-v0", "quantifier": "exact-gp", "limit": 2.0},
    "deep": {"quantifier": "deep-gp", "quantifier_options": {"num_inducing": 8, "first_steps": 5}, "steps": 384},
    "features": {"quantifier": "features", "quantifier_options": {"num_features": 16}, "steps": 384},
    "seeds that spawn": {"task": "Spawning-v0", "learner": "PPO", "learner_options": {"n_steps": 32, "batch_size": 64}},
    "robot of Gymnasium": {"task": "safexp/HalfCheetahVelocity-v0", "limit": 50.0, "steps": 384},
}


class Spawning(gym.Env):
    """Each episode has a generator of its own, spawned from the environment's seed."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self):
        self.seeds = np.random.SeedSequence(7)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.seeds = np.random.SeedSequence(seed)
        self.random = np.random.Generator(np.random.Philox(self.seeds.spawn(1)[0]))
        self.left = 10
        return self.observe(), {}

    def step(self, action):
        self.left -= 1
        return self.observe(), self.random.random(), False, self.left == 0, {"cost": self.random.random() / 4}

    def observe(self):
        return self.random.normal(size=1).astype(np.float32).clip(-9.0, 9.0)


@pytest.fixture(autouse=True)
def checkpoint_every_epoch(monkeypatch):
    monkeypatch.setattr(resume, "SHARE", 1e9)
    monkeypatch.setitem(gym.registry, "Spawning-v0", gym.envs.registration.EnvSpec("Spawning-v0", Spawning))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_run_ends_as_if_nothing_had_happened(tmp_path, name):
    settings = {**POINT, **RUNS[name]}
    whole = run(RunConfig(**settings, out=tmp_path / "whole"))
    config = RunConfig(**settings, out=tmp_path / "parts")
    for epochs in (1, 2):
        with interrupted_after(epochs):
            run(config, resume=True)
        assert run_folder.read(config.folder).status == "interrupted"
        assert len(run_folder.read(config.folder).metrics) == epochs
        assert (config.folder / run_folder.CHECKPOINT).exists()  # or it starts over, and all this shows nothing
    run(config, resume=True)
    assert reproducible(config.folder) == reproducible(whole)
    metrics = run_folder.read(whole).metrics
    assert len(metrics) >= 3
    assert any(line.get("imitation_kl") for line in metrics) == ("imitation" in settings)


@pytest.fixture
def interrupted(tmp_path):
    """A run that was interrupted after two epochs."""
    config = RunConfig(**POINT, out=tmp_path / "run")
    with interrupted_after(2):
        run(config)
    return config


def test_what_was_written_after_the_checkpoint_is_written_again(interrupted, tmp_path):
    whole = run(RunConfig(**POINT, out=tmp_path / "whole"))
    for name in (run_folder.EPISODES, run_folder.METRICS):
        with (interrupted.folder / name).open("a") as file:
            file.write("half a li")
    run(interrupted, resume=True)
    assert reproducible(interrupted.folder) == reproducible(whole)


def test_without_a_checkpoint_it_starts_over(interrupted, tmp_path):
    whole = run(RunConfig(**POINT, out=tmp_path / "whole"))
    (interrupted.folder / run_folder.CHECKPOINT).unlink()
    run(interrupted, resume=True)
    assert reproducible(interrupted.folder) == reproducible(whole)


def test_a_run_that_never_wrote_anything_starts(tmp_path):
    config = RunConfig(**POINT, out=tmp_path / "run")
    config.folder.mkdir()
    (config.folder / ".config.json.0123").touch()
    assert run_folder.read(run(config, resume=True)).status == "finished"


def test_a_finished_run_is_left_alone(tmp_path):
    config = RunConfig(**POINT, out=tmp_path / "run")
    run(config)
    before = {path: path.stat().st_mtime_ns for path in config.folder.iterdir()}
    run(config, resume=True)
    assert before == {path: path.stat().st_mtime_ns for path in config.folder.iterdir()}
    with pytest.raises(run_folder.RunFolderError, match="other settings"):
        run(RunConfig(**{**POINT, "seed": 5}, out=config.folder), resume=True)


def test_existing_folders_are_refused_unless_they_can_go_on(interrupted, tmp_path):
    with pytest.raises(run_folder.RunFolderError, match="exists already: continue it with --resume"):
        run(interrupted)
    with pytest.raises(run_folder.RunFolderError, match="other settings"):
        run(RunConfig(**{**POINT, "seed": 5}, out=interrupted.folder), resume=True)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    with pytest.raises(run_folder.RunFolderError, match=r"holds thesis.tex but no run"):
        run(RunConfig(**POINT, out=foreign), resume=True)


def test_other_versions_are_refused(interrupted):
    path = interrupted.folder / run_folder.CONFIG
    document = json.loads(path.read_text())
    document["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(document))
    with pytest.raises(run_folder.RunFolderError, match=r"torch 1.0 → "):
        run(interrupted, resume=True)


def test_a_damaged_checkpoint_is_named(interrupted):
    path = interrupted.folder / run_folder.CHECKPOINT
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="corrupt"):
        run(interrupted, resume=True)


def test_a_file_shorter_than_its_checkpoint_is_named(interrupted):
    (interrupted.folder / run_folder.EPISODES).write_text("")
    with pytest.raises(run_folder.RunFolderError, match=r"episodes.csv is shorter"):
        run(interrupted, resume=True)


@pytest.mark.slow
def test_two_processes_cannot_work_on_one_folder(interrupted):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold_lock, args=(interrupted.folder, ready, done))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(run_folder.RunFolderError, match="another process is working on"):
            run(interrupted, resume=True)
    finally:
        done.set()
        other.join()
    assert run_folder.read(run(interrupted, resume=True)).status == "finished"


def test_a_run_that_cannot_be_captured_goes_on_without_checkpoints(tmp_path, monkeypatch, caplog):
    def fail(root):
        raise CheckpointError("its remote is a Connection, whose state cannot be read.")

    monkeypatch.setattr(resume.snapshot, "take", fail)
    folder = run(RunConfig(**POINT, out=tmp_path / "run"))
    assert run_folder.read(folder).status == "finished"
    assert [record.message for record in caplog.records if "no checkpoints" in record.message] == [
        "this run has no checkpoints and would start over if interrupted: its remote is a Connection, whose state "
        "cannot be read."
    ]


def test_time_is_added_up(interrupted):
    point = resume.read(interrupted.folder)
    assert 0 < point.seconds <= run_folder.read(interrupted.folder).timing["seconds"]
    run(interrupted, resume=True)
    timing = run_folder.read(interrupted.folder).timing
    assert timing["seconds"] > point.seconds
    assert timing["steps"] == POINT["steps"]
    assert np.isfinite(timing["steps_per_second"])


def test_steps_per_second_count_neither_the_steps_of_before_nor_the_time_between(interrupted, monkeypatch):
    class Service:
        def __init__(self):
            self.speeds = []

        def log(self, values, step):
            self.speeds += [values["time/fps"]] if "time/fps" in values else []

        def finish(self, succeeded):
            pass

    service, now = Service(), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 3_600_000_000_000)  # resumed an hour later
    began = time.perf_counter()
    run(interrupted, resume=True, track=lambda name, settings: service)
    steps = POINT["steps"] - 2 * POINT["num_envs"] * POINT["learner_options"]["n_steps"]
    assert service.speeds
    assert service.speeds[-1] >= int(steps / (time.perf_counter() - began)) > 0
