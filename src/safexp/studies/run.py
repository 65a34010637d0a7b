"""One run, from its description to its folder."""

from __future__ import annotations

import time
import traceback
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from safexp.coverage import Coverage, total
from safexp.episodes import Recorder
from safexp.mase import MASE
from safexp.progress import ProgressBar
from safexp.studies import folder as run_folder
from safexp.studies.build import Agent, build
from safexp.studies.config import RunConfig
from safexp.studies.trajectories import Follower
from safexp.tasks.scene import scenes_of
from safexp.vector import BatchedVecEnv


def run(config: RunConfig, progress_bar: bool = False) -> Path:
    """Train what the description says and write its folder; the same description gives the same episodes.csv.

    Whatever is wrong with the description raises before anything is written. A run that fails or is interrupted keeps
    all epochs that it finished, and says in timing.json how it ended.

    Raises:
        ValueError: where the description cannot be built, or its folder exists.
        RunFailedError: where the task, the shield or the learner raised.
    """
    th.set_num_threads(1)  # the networks are small, and results must not depend on the machine's cores
    command = config.command()
    config = config.settled()
    folder = config.folder
    run_folder.refuse_existing(folder)
    agent = build(config)
    agent.envs.recorder.witness = follower = follow(agent)
    run_folder.create(folder, config, command)
    clock = Clock()
    shown = ProgressBar(config.steps, agent.envs.recorder, title=describe(config)) if progress_bar else nullcontext()
    logger = configure(str(folder / run_folder.TENSORBOARD), ["tensorboard"])
    agent.learner.set_logger(logger)
    try:
        with shown as bar:
            agent.learn(config.steps, [EpochWriter(agent, folder, follower), *([bar] if bar else [])])
        agent.save(folder / run_folder.AGENT)
    except KeyboardInterrupt:
        run_folder.write_json(folder / run_folder.TIMING, clock.read("interrupted", agent.envs.recorder.steps))
        raise
    except Exception as error:
        (folder / run_folder.ERROR).write_text(traceback.format_exc())
        run_folder.write_json(folder / run_folder.TIMING, clock.read("failed", agent.envs.recorder.steps))
        message = error.args[0] if isinstance(error, KeyError) and error.args else error  # its str() is quoted
        where = f"the traceback is in {folder / run_folder.ERROR}"
        raise run_folder.RunFailedError(f"the run failed: {type(error).__name__}: {message} ({where})") from error
    finally:
        logger.close()
        agent.envs.close()
    run_folder.write_json(folder / run_folder.TIMING, clock.read("finished", agent.envs.recorder.steps))
    return folder


def follow(agent: Agent) -> Follower | None:
    """A follower of an agent's robots, if their environments show them from above."""
    venv = agent.envs.venv
    assert isinstance(venv, BatchedVecEnv), "a run is built on a VectorEnv"
    scene = scenes_of(venv.envs)
    return Follower(venv.num_envs, scene, lambda: venv.columns.get("position")) if scene else None


def describe(config: RunConfig) -> str:
    """A settled description in a few words."""
    limit = "" if config.limit is None else f" ≤ {config.limit:g}"
    shield = f" · costs {config.quantifier}" if config.method == "mase" else ""
    return (
        f"{config.method} · {config.task} · {config.learner} · {config.constraint}{limit}{shield} · seed {config.seed}"
    )


def epoch_metrics(epoch: int, recorder: Recorder, since: int) -> dict[str, Any]:
    """A line of metrics.jsonl: means over the episodes that ended since the last one, and counts from the start."""
    episodes = recorder.episodes
    latest = episodes[since:]
    return {
        "epoch": epoch,
        "steps": recorder.steps,
        "episodes": len(episodes),
        "mean_return": _mean([episode.true_return for episode in latest]),
        "mean_penalised_return": _mean([episode.penalised_return for episode in latest]),
        "mean_length": _mean([episode.length for episode in latest]),
        "mean_cost": _mean([episode.cost for episode in latest]),
        "max_cost": max((episode.cost for episode in latest), default=None),
        "stop_rate": _mean([episode.stopped for episode in latest]),
        "violations": recorder.violations + recorder.unfinished_violations(),
        "stops": recorder.stops,
        "interventions": recorder.interventions,
        "takeovers": recorder.takeovers,
    }


def coverage_metrics(epochs: list[Coverage], delta: float) -> dict[str, Any]:
    """What a line says of the quantifier: how often it was right before it learned, and how often it may be wrong."""
    return {**{f"coverage_{name}": count for name, count in total(epochs)._asdict().items()}, "delta": delta}


class EpochWriter(BaseCallback):
    """Writes down every epoch when it is over: episodes, then a line of metrics, trajectories, TensorBoard's events."""

    def __init__(self, agent: Agent, folder: Path, follower: Follower | None) -> None:
        super().__init__()
        self.agent = agent
        self.folder = folder
        self.follower = follower
        self._epochs = agent.epochs
        self._episodes = 0
        self._covered = 0

    def _on_rollout_start(self) -> None:
        if self.agent.epochs > self._epochs:
            self._write()

    def _on_training_end(self) -> None:
        self._write()

    def _on_step(self) -> bool:
        return True

    def _write(self) -> None:
        recorder = self.agent.envs.recorder
        line = epoch_metrics(self.agent.epochs, recorder, self._episodes)
        if isinstance(self.agent, MASE):
            line |= coverage_metrics(self.agent.coverage[self._covered :], self.agent.quantifier.delta)
            self._covered = len(self.agent.coverage)
        run_folder.append_episodes(self.folder, recorder.episodes[self._episodes :])
        run_folder.append_metrics(self.folder, line)
        if self.follower and self.follower.trajectories.early:
            run_folder.write_trajectories(self.folder, self.follower.trajectories)
        for name, value in line.items():
            if value is not None and name not in ("epoch", "steps"):
                self.logger.record(f"epoch/{name}", value)
        self.logger.dump(self.num_timesteps)
        self._epochs = self.agent.epochs
        self._episodes = len(recorder.episodes)


class Clock:
    """When a run began and how long it has taken."""

    def __init__(self) -> None:
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        self._start = time.perf_counter()

    def read(self, status: str, steps: int) -> dict[str, Any]:
        """What timing.json says after this many steps."""
        seconds = time.perf_counter() - self._start
        return {
            "status": status,
            "started": self._date,
            "seconds": round(seconds, 3),
            "steps": steps,
            "steps_per_second": round(steps / seconds, 1),
        }


def _mean(values: list[Any]) -> float | None:
    return float(np.mean(values)) if values else None
