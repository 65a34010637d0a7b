from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from safexp import MASE
from safexp.core.files import CheckpointError
from safexp.mase.baseline import Baseline
from safexp.runs import folder as run_folder
from safexp.runs.config import RunConfig
from safexp.runs.run import run


def tiny(out: Path, **settings: Any) -> RunConfig:
    options = {"n_steps": 64, "batch_size": 64, "n_epochs": 2}
    return RunConfig(**{"num_envs": 4, "steps": 1024, "learner_options": options, "out": out, **settings})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tiny(tmp_path_factory.mktemp("runs") / "first"))


def test_a_run_leaves_its_folder(finished: Path) -> None:
    found = run_folder.read(finished)
    assert found.status == "finished"
    assert [line["steps"] for line in found.metrics] == [256, 512, 768, 1024]
    assert found.metrics[-1]["episodes"] == len(found.episodes)
    assert found.metrics[-1]["violations"] == 0
    assert found.timing["steps"] == 1024
    assert found.command.startswith("safexp train --learner-options ")
    assert {path.name for path in finished.iterdir()} == {
        *("config.json", "episodes.csv", "metrics.jsonl", "trajectories.json", "timing.json", "agent.safexp"),
        *("checkpoint.safexp", "tensorboard"),
    }


def test_metrics_are_means_over_the_epoch_and_counts_from_the_start(finished: Path) -> None:
    found = run_folder.read(finished)
    before, line = found.metrics[-2:]
    latest = found.episodes[before["episodes"] :]
    assert line["mean_return"] == pytest.approx(np.mean([episode.true_return for episode in latest]))
    assert line["mean_penalised_return"] == pytest.approx(np.mean([episode.penalised_return for episode in latest]))
    assert line["max_cost"] == max(episode.cost for episode in latest)
    assert line["stops"] == sum(episode.stopped for episode in found.episodes) > 0


def test_the_same_description_gives_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    again = run(tiny(tmp_path / "again"))
    for name in ("metrics.jsonl", "episodes.csv"):
        assert (again / name).read_bytes() == (finished / name).read_bytes()


def test_another_seed_gives_another_run(finished: Path, tmp_path: Path) -> None:
    other = run(tiny(tmp_path / "other", seed=1, steps=256))
    assert (other / "episodes.csv").read_bytes() != (finished / "episodes.csv").read_bytes()


def test_the_agent_can_be_used(finished: Path) -> None:
    agent = MASE.load(finished / "agent.safexp")
    assert agent.predict(np.zeros(4), threshold=3.0).action.shape == (2,)


def test_tensorboard_gets_every_epoch_and_the_learners_losses(finished: Path) -> None:
    events = EventAccumulator(str(finished / "tensorboard")).Reload()
    assert {"epoch/violations", "epoch/mean_return", "train/loss"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("epoch/violations")] == [256, 512, 768, 1024]


def test_the_bare_learner_is_never_stopped(tmp_path: Path) -> None:
    found = run_folder.read(run(tiny(tmp_path / "bare", method="bare")))
    assert not any(episode.stopped or episode.interventions for episode in found.episodes)
    assert found.metrics[-1]["violations"] >= sum(episode.violated for episode in found.episodes) > 0


@pytest.mark.parametrize("method", ["trpo", "trpo-lagrangian", "cpo", "saute", "early-termination"])
def test_every_method_leaves_the_same_folder(finished: Path, tmp_path: Path, method: Any) -> None:
    found = run(tiny(tmp_path / method, method=method, learner_options={"n_steps": 64}, limit=2.0))
    assert {path.name for path in found.iterdir()} == {path.name for path in finished.iterdir()}
    record = run_folder.read(found)
    assert [line["steps"] for line in record.metrics] == [256, 512, 768, 1024]
    assert record.metrics[-1]["violations"] > 0
    stopped = [episode for episode in record.episodes if episode.stopped]
    assert all(episode.violated for episode in stopped)
    assert bool(stopped) == (method == "early-termination")
    learner = Baseline.load(found / "agent.safexp")
    assert learner.predict(np.zeros(learner.observation_space.shape, np.float32))[0].shape == (2,)
    with pytest.raises(CheckpointError, match=r"agent of another kind, without shield: load it with .*Baseline\.load"):
        MASE.load(found / "agent.safexp")
    with pytest.raises(
        CheckpointError, match=r"agent of another kind, without spaces: load it with safexp\.MASE\.load"
    ):
        Baseline.load(finished / "agent.safexp")


@pytest.mark.slow
def test_off_policy_learners_and_learned_costs(tmp_path: Path) -> None:
    config = tiny(
        tmp_path / "sac",
        learner="SAC",
        learner_options={"learning_starts": 64, "train_freq": 16},
        steps=1200,
        quantifier="exact-gp",
        constraint="instantaneous",
        limit=0.3,
        quantifier_options={"capacity": 100},
    )
    found = run_folder.read(run(config))
    assert [line["steps"] for line in found.metrics] == [1024, 1216]
    assert found.metrics[-1]["violations"] == 0


def test_nothing_is_written_for_a_description_that_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown learner"):
        run(tiny(tmp_path / "wrong", learner="PPOO"))
    assert not (tmp_path / "wrong").exists()


def test_an_existing_folder_is_left_alone(finished: Path) -> None:
    before = (finished / "episodes.csv").read_bytes()
    with pytest.raises(run_folder.RunFolderError, match="exists already"):
        run(tiny(finished, seed=5))
    assert (finished / "episodes.csv").read_bytes() == before


class Breaks(gym.Env[np.ndarray, np.ndarray]):
    """A task whose hundredth step raises what it is told to."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        if self.steps == 100:
            raise self.error("the motor is hot")
        return np.zeros(2, np.float32), 0.0, False, self.steps % 10 == 0, {"cost": 0.0}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_run_that_breaks_keeps_its_finished_epochs(tmp_path: Path, error: type[BaseException]) -> None:
    gym.register("Breaks-v0", entry_point=Breaks, kwargs={"error": error})
    expected = KeyboardInterrupt if error is KeyboardInterrupt else run_folder.RunFailedError
    try:
        with pytest.raises(expected, match="the motor is hot"):
            run(tiny(tmp_path / "broken", task="Breaks-v0"))
    finally:
        del gym.registry["Breaks-v0"]
    found = run_folder.read(tmp_path / "broken")
    assert len(found.metrics) == 1
    assert found.status == ("interrupted" if error is KeyboardInterrupt else "failed")
    traceback = tmp_path / "broken" / "error.txt"
    assert traceback.exists() == (error is ZeroDivisionError)
    assert (tmp_path / "broken" / "agent.safexp").exists() == (error is ZeroDivisionError)
