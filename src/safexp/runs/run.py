"""One run, from its settings to its folder."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

from safexp.envs.vector import BatchedVecEnv
from safexp.mase.agent import Agent
from safexp.mase.progress import ProgressBar
from safexp.records.episodes import Recorder, own_share
from safexp.runs import folder as run_folder
from safexp.runs import resume as resumption
from safexp.runs.build import build
from safexp.runs.config import RunConfig
from safexp.runs.stopwatch import Phases, Stopwatch
from safexp.runs.trackers import Start, tracking
from safexp.runs.trajectories import Follower
from safexp.tasks.scene import scenes_of


def run(config: RunConfig, progress_bar: bool = False, resume: bool = False, track: Start | None = None) -> Path:
    """Train an agent and write its run folder; the same settings give the same episodes.csv.

    Invalid settings raise before anything is written. A run that fails or is interrupted keeps all finished epochs, and
    records its status in timing.json. With `resume`, a run whose folder exists continues from its last checkpoint, with
    the same result as without the interruption; one that has finished is left alone, or extended if the settings have
    more steps. `track` also sends its metrics to a tracker.

    Args:
        config: the settings.
        progress_bar: show one.
        resume: continue a run whose folder exists.
        track: start of a tracker that receives the metrics.

    Raises:
        ValueError: if the agent cannot be built, its folder exists, or another process is working on it.
        RunFailedError: if the task, the shield or the learner raised.

    Example:
        >>> options = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}
        >>> config = safexp.RunConfig(steps=64, num_envs=4, learner_options=options, out=Path("runs/first"))
        >>> folder = safexp.run(config)
        >>> sorted(path.name for path in folder.iterdir())
        ['agent.safexp', 'config.json', 'episodes.csv', 'metrics.jsonl', 'tensorboard', 'timing.json']
    """
    th.set_num_threads(1)  # the networks are small, and results must not depend on the number of cores
    command = config.command()
    config = config.settled()
    folder = config.folder
    if not resume:
        run_folder.refuse_existing(folder)
    begun = (folder / run_folder.CONFIG).exists() or run_folder.status(folder) == "finished"
    there = run_folder.expect(folder, config) if begun else None
    if there and there.status == "finished" and there.config.steps == config.steps:
        return folder
    agent = build(config)
    if there and there.config.steps < config.steps:
        resumption.check_extension(there, agent.learner)
    with tracking(track, folder.name, config.to_json()) as trackers:
        folder.mkdir(parents=True, exist_ok=resume)
        with resumption.locked(folder):
            start = resumption.prepare(folder, config, command, agent.envs.recorder.judges_stops)
            train(agent, config, start, progress_bar, trackers)
    return folder


def train(
    agent: Agent,
    config: RunConfig,
    start: resumption.Checkpoint | None,
    progress_bar: bool,
    trackers: Sequence[KVWriter],
) -> None:
    """Train an agent from scratch or from a checkpoint, and record how it ended."""
    folder = config.folder
    recorder = agent.envs.recorder
    recorder.witness = follower = follow(agent)
    clock = Clock(start.seconds if start else 0.0)
    agent.measure(clock.stopwatch.span)
    writer = EpochWriter(agent, folder, follower)
    root = {"agent": agent, "follower": follower, "written": writer.written, "spent": clock.stopwatch.seconds}
    title, drills = describe(config), agent.drills
    shown = ProgressBar(config.steps, recorder, title, drills=drills) if progress_bar else nullcontext()
    logger = Logger(None, [Events(folder), *trackers])
    agent.learner.set_logger(logger)
    try:
        with shown as bar:
            checkpoints = resumption.Checkpoints(root, folder, clock, start)

            def write(last: bool) -> None:
                with clock.stopwatch.span("files"):
                    writer.write()
                    if not last:
                        checkpoints.epoch_over()

            agent.on_epoch(write)
            agent.learn(config.steps, [checkpoints, *([bar] if bar else []), Phases(clock.stopwatch)])
        agent.save(folder / run_folder.AGENT)
    except KeyboardInterrupt:
        with suppress(OSError):  # the disk may be full
            run_folder.write_json(folder / run_folder.TIMING, clock.read("interrupted", recorder.steps))
        raise
    except Exception as error:
        where = f"the traceback is in {folder / run_folder.ERROR}"
        with suppress(Exception):  # it may be what failed
            agent.save(folder / run_folder.AGENT)
            where += f", the agent in {run_folder.AGENT}"
        try:
            (folder / run_folder.ERROR).write_text(traceback.format_exc())
            run_folder.write_json(folder / run_folder.TIMING, clock.read("failed", recorder.steps))
        except OSError:
            where = f"{folder} has no room for the traceback; --resume continues from its last checkpoint"
        message = error.args[0] if isinstance(error, KeyError) and error.args else error  # its str() has quotes
        raise run_folder.RunFailedError(f"the run failed: {type(error).__name__}: {message} ({where})") from error
    finally:
        with suppress(OSError):  # only TensorBoard's last events
            logger.close()
        agent.envs.close()
    run_folder.write_json(folder / run_folder.TIMING, clock.read("finished", recorder.steps))
    (folder / run_folder.LOCK).unlink(missing_ok=True)


def follow(agent: Agent) -> Follower | None:
    """A follower of an agent's robots, if the environments have scenes from above."""
    venv = agent.envs.venv
    assert isinstance(venv, BatchedVecEnv), "a run is built on a VectorEnv"
    scene = scenes_of(venv.envs)
    return Follower(venv.num_envs, scene, lambda: venv.columns.get("position")) if scene else None


def describe(config: RunConfig) -> str:
    """Complete settings in one line."""
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
        "own_actions": own_share(latest),
        "stop_rate": _mean([episode.stopped for episode in latest]),
        "violations": recorder.violations,
        "stops": recorder.stops,
        "interventions": recorder.interventions,
        "takeovers": recorder.takeovers,
        "refused_starts": recorder.refused_starts,
        **(_after_stops(recorder) if recorder.judges_stops else {}),
    }


def _after_stops(recorder: Recorder) -> dict[str, int]:
    """Counts from the start, in the runs that judge their stops."""
    return {"after_stop_steps": recorder.after_stop_steps, "after_stop_violations": recorder.after_stop_violations}


@dataclass
class Written:
    """Number of episodes of a run that are in its files."""

    episodes: int = 0


class EpochWriter:
    """Writes the files of a finished epoch: episodes, then a line of metrics, trajectories, TensorBoard's events."""

    def __init__(self, agent: Agent, folder: Path, follower: Follower | None) -> None:
        self.agent = agent
        self.folder = folder
        self.follower = follower
        self.written = Written()

    def write(self) -> None:
        """Write everything since the last call."""
        recorder, written, logger = self.agent.envs.recorder, self.written, self.agent.learner.logger
        line = epoch_metrics(self.agent.epochs, recorder, written.episodes) | self.agent.metrics()
        run_folder.append_episodes(self.folder, recorder.episodes[written.episodes :], recorder.judges_stops)
        run_folder.append_metrics(self.folder, line)
        if self.follower and self.follower.trajectories.early:
            run_folder.write_trajectories(self.folder, self.follower.trajectories)
        for name, value in line.items():
            if value is not None and name not in ("epoch", "steps"):
                logger.record(f"epoch/{name}", value)
        logger.dump(self.agent.learner.num_timesteps)
        written.episodes = len(recorder.episodes)


class Events(TensorBoardOutputFormat):
    """TensorBoard's events of a run; those of epochs that a resumed run repeats are purged."""

    def __init__(self, folder: Path) -> None:
        steps = run_folder.last_line(folder).get("steps", 0)
        self.writer = SummaryWriter(str(folder / run_folder.TENSORBOARD), purge_step=steps + 1)
        self._is_closed = False


class Clock:
    """Start time and duration of a run, in total (including `before` it was interrupted) and by part."""

    def __init__(self, before: float = 0.0) -> None:
        self.stopwatch = Stopwatch()
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        self._start = time.perf_counter() - before

    def seconds(self) -> float:
        """Duration so far in seconds."""
        return time.perf_counter() - self._start

    def read(self, status: str, steps: int) -> dict[str, Any]:
        """Content of timing.json after this many steps."""
        seconds = self.seconds()
        return {
            "status": status,
            "started": self._date,
            "seconds": round(seconds, 3),
            "steps": steps,
            "steps_per_second": round(steps / seconds, 1),
            "seconds_in": {name: round(spent, 3) for name, spent in self.stopwatch.seconds.items()},
        }


def _mean(values: list[Any]) -> float | None:
    return float(np.mean(values)) if values else None
