"""Evaluation of a trained agent without exploration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.core import files
from safexp.core.arrays import Array, Observations
from safexp.envs.infos import Info
from safexp.envs.recording import Recording
from safexp.mase.agent import Agent
from safexp.mase.mase import MASE
from safexp.records.episodes import Episode
from safexp.runs.actor import Actor
from safexp.runs.agents import is_complete, locate
from safexp.runs.build import make_envs
from safexp.runs.load import load_with_settings

FRESH = 1_000_000
"""Added to a run's seed for episodes that it was not trained on."""

Watch = Callable[[Observations, Array, Sequence[Info]], None]
"""Called with the learner's observations and the measured signals (n, S) before a step, and the infos after it."""


@dataclass(frozen=True)
class Subject:
    """A trained agent on live environments, with its shield or wrapper as in training."""

    task: str
    method: str
    agent: Agent

    @property
    def envs(self) -> Recording:
        """Its environments."""
        return self.agent.envs


def evaluate(folder: Path, episodes: int = 100) -> list[Episode]:
    """Play episodes of a finished run's agent, deterministically.

    Every environment plays one episode, so that short episodes are not over-represented.
    """
    config, agent = load_with_settings(folder, episodes)
    try:
        return first_episodes(Subject(config.task, config.method, agent), config.seed + FRESH)
    finally:
        agent.envs.close()


def load_subject(
    path: Path, num_envs: int, task: str | None = None, task_options: Mapping[str, Any] | None = None
) -> Subject:
    """Load the agent of a run folder or a file, or one by name, on copies of its task or of another.

    Raises:
        ValueError: if there is no agent, no task, or the task has other observations or actions.
    """
    path = locate(path)
    if is_complete(path):
        config, agent = load_with_settings(path, num_envs, task=task, task_options=task_options)
        return Subject(task or config.task, config.method, agent)
    if task is None:
        raise ValueError(f"{path} does not record the task it was trained on: give --task, or its run folder.")
    if "shield" not in files.read(path)[0]:
        raise ValueError(f"{path} holds a policy without its constraint: give its run folder instead.")
    agent = MASE.load(path, make_envs(task, num_envs, task_options or {}))
    agent.evaluate()
    return Subject(task, "mase", agent)


def first_episodes(subject: Subject, seed: int, watch: Watch | None = None) -> list[Episode]:
    """The first episode of every environment after a reset with this seed; the same seed gives the same episodes."""
    found = play_first(subject, seed, watch)
    return [found.episodes[row] for row in range(subject.envs.num_envs)]


def play_first(subject: Subject, seed: int, watch: Watch | None = None) -> FirstEpisodes:
    """Play the episodes of `first_episodes`."""
    envs = subject.envs
    envs.recorder.witness = found = FirstEpisodes(envs.num_envs, envs.recorder.clearance)
    envs.seed(seed)
    observations, actor = envs.reset(), Actor(subject.agent, deterministic=True)
    while len(found.episodes) < envs.num_envs:
        measured = envs.measured
        acted = actor.step(observations)
        if watch is not None:
            watch(observations, measured, acted.infos)
        observations = acted.following
    return found


class FirstEpisodes:
    """Keeps the first episode that begins and ends in each environment; one that a reset truncates began earlier.

    Args:
        num_envs: number of environments.
        clearance: smallest distance to a limit in the episode of an environment, kept with it.
    """

    def __init__(self, num_envs: int, clearance: Callable[[int], float | None] = lambda environment: None) -> None:
        self.episodes: dict[int, Episode] = {}
        self.clearances: dict[int, float | None] = {}
        self._clearance = clearance
        self._begun = np.zeros(num_envs, dtype=bool)

    def begin(self, environments: NDArray[np.bool_]) -> None:
        self._begun |= environments

    def step(self) -> None:
        """Nothing to keep."""

    def end(self, environment: int, episode: Episode) -> None:
        if self._begun[environment] and environment not in self.episodes:
            self.episodes[environment], self.clearances[environment] = episode, self._clearance(environment)
