"""How a trained agent does when it no longer explores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from safexp import checkpoint
from safexp.baseline import Baseline
from safexp.episodes import Episode
from safexp.mase import MASE
from safexp.signals import Observations
from safexp.studies import folder as run_folder
from safexp.studies.build import make_constraint, make_envs, make_recorded
from safexp.studies.config import RunConfig
from safexp.vector import Infos, as_vec_env
from safexp.wrappers.guard import Guard
from safexp.wrappers.recorded import Recording

FRESH = 1_000_000
"""Added to a run's seed: episodes that it was not trained on."""

Watch = Callable[[Observations, Infos], None]
"""Is shown what the learner saw before a step, and the infos after it."""


@dataclass(frozen=True)
class Subject:
    """A trained policy on live environments, as it was trained: with its shield (`agent`) or its wrapper."""

    task: str
    method: str
    envs: Guard | Recording
    learner: BaseAlgorithm
    agent: MASE | None


def evaluate(folder: Path, episodes: int = 100) -> list[Episode]:
    """So many episodes of a finished run's agent, deterministic.

    Every environment plays one episode, so that short ones do not count more often than long ones.
    """
    subject = load_subject(folder, episodes)
    try:
        return first_episodes(subject, run_folder.read(folder).config.seed + FRESH)
    finally:
        subject.envs.close()


def load_subject(
    path: Path, num_envs: int, task: str | None = None, task_options: Mapping[str, Any] | None = None
) -> Subject:
    """The agent of a run folder, or of a file, on copies of its task or of another.

    Raises:
        ValueError: where there is no agent, no task, or a task with other observations or actions.
    """
    folder, file = (path, path / run_folder.AGENT) if path.is_dir() else (path.parent, path)
    config = None
    if path.is_dir() or (path.name == run_folder.AGENT and (folder / run_folder.CONFIG).is_file()):
        run = run_folder.read(folder)
        config = run.config
        if not file.exists():
            raise run_folder.RunFolderError(f"{folder} holds no agent: its run is {run.status}.")
    document, _ = checkpoint.read(file)
    if task is None and config is None:
        raise ValueError(f"{file} does not say on which task it was trained: give --task, or its run folder.")
    options = task_options or (config.task_options if config is not None and task in (None, config.task) else {})
    task = task or (config.task if config is not None else "")
    envs = make_envs(task, num_envs, options)
    if "shield" in document:
        agent = MASE.load(file, envs)
        return Subject(task, "mase", agent.envs, agent.learner, agent)
    return _baseline(file, config, task, as_vec_env(envs))


def _baseline(file: Path, config: RunConfig | None, task: str, venv: Any) -> Subject:
    if config is None:
        raise ValueError(f"{file} holds a policy without a constraint, which its run folder has: give that instead.")
    recorded, _ = make_recorded(config, venv, make_constraint(config), {})
    learner = Baseline.load(file)
    if learner.observation_space != recorded.observation_space or learner.action_space != recorded.action_space:
        raise ValueError(
            f"{file} was saved for {learner.observation_space} and {learner.action_space}, but {task} has "
            f"{recorded.observation_space} and {recorded.action_space}."
        )
    return Subject(task, config.method, recorded, learner, None)


def first_episodes(subject: Subject, seed: int, watch: Watch | None = None) -> list[Episode]:
    """The first episode of every environment after a reset with this seed; the same seed gives the same episodes."""
    envs = subject.envs
    envs.recorder.witness = found = _First(envs.num_envs)
    envs.seed(seed)
    observations = envs.reset()
    while len(found.episodes) < envs.num_envs:
        actions, _ = subject.learner.predict(observations, deterministic=True)
        following, _, _, infos = envs.step(actions)
        if watch is not None:
            watch(observations, infos)
        observations = following
    return [found.episodes[row] for row in range(envs.num_envs)]


class _First:
    """Keeps the first episode that begins and ends in each environment; those that a reset cuts off began before."""

    def __init__(self, num_envs: int) -> None:
        self.episodes: dict[int, Episode] = {}
        self._begun = np.zeros(num_envs, dtype=bool)

    def begin(self, environments: NDArray[np.bool_]) -> None:
        self._begun |= environments

    def step(self) -> None:
        """Nothing to keep."""

    def end(self, environment: int, episode: Episode) -> None:
        if self._begun[environment]:
            self.episodes.setdefault(environment, episode)
